"""Any differentiable loss: the user's function of one row, traced by JAX."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from masgrad.data.arrays import as_rows
from masgrad.errors import InputError, InputTypeError
from masgrad.models.autodiff import AutodiffModel
from masgrad.types import Array, Rows


@dataclass(frozen=True)
class CustomLoss(AutodiffModel):
    """A loss `fn(theta, z) -> scalar`, JAX-traceable, with z one row of any pytree.

    Example:
        >>> import jax.numpy as jnp, numpy as np, masgrad as mg
        >>> mean = mg.CustomLoss(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), dim=2)
        >>> mean.gradients(np.zeros(2), np.ones((1, 2)))
        array([[-1., -1.]])
    """

    fn: Callable[[Array, Rows], Array]
    size: int

    def __init__(self, fn: Callable[[Array, Rows], Array], dim: int):
        if not callable(fn):
            raise InputTypeError(f"CustomLoss needs a function of (theta, z), got {fn!r}")
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise InputError(f"CustomLoss(dim={dim!r}): a whole number of at least 1 is needed")
        self._set(fn=fn, size=int(dim))

    def rows(self, data: Rows) -> Rows:
        rows = as_rows(data)
        self._check_scalar(rows)
        return rows

    def dim(self, rows: Rows) -> int:
        return self.size

    def loss(self, theta: Array, z: Rows) -> Array:
        return self.fn(theta, z)

    def _check_scalar(self, rows: Rows) -> None:
        """Check by tracing the loss on one row, without computing it, that it is a scalar."""
        z = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
        theta = jax.ShapeDtypeStruct((self.size,), np.float64)
        try:
            out = jax.eval_shape(self.fn, theta, z)
        except Exception as error:
            raise InputError(
                f"the custom loss cannot be traced by JAX at theta of shape ({self.size},): "
                f"{type(error).__name__}: {error}; write it with jax.numpy, for one row"
            ) from error
        shape = getattr(out, "shape", None)
        if shape != () or not np.issubdtype(out.dtype, np.floating):
            given = f"{out.dtype} of shape {shape}" if shape is not None else type(out).__name__
            raise InputError(
                f"the custom loss returns {given}; a real scalar for one row is needed "
                "(sum or mean over its own axes inside the function)"
            )

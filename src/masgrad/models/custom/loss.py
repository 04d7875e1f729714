"""Any differentiable loss: the user's function of one row, traced by JAX."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.data.arrays import as_rows, count_rows, pad
from masgrad.data.tables.paths import is_frame
from masgrad.errors import InputError, InputTypeError
from masgrad.models.autodiff import AutodiffModel, block_length
from masgrad.models.custom.columns import columns_asked, table_columns
from masgrad.models.custom.layout import Layout, shape_of
from masgrad.models.custom.tracing import check_array, check_indices, check_scalar, traced
from masgrad.types import Array, Rows

Function = Callable[[Any, Any], Any]
"""A function of the parameters and one row."""


@dataclass(frozen=True)
class CustomLoss(AutodiffModel):
    """A loss `fn(theta, z) -> scalar`, JAX-traceable, with z one row of any pytree.

    Rows of a data frame, of a dataset or of files are dictionaries of the columns that the function
    asks for: z["x"].

    Args:
        fn: the loss of one row.
        dim: the number of parameters; theta is a vector.
        params: parameters of any other form, instead of `dim`: a pytree of arrays, such as a
            dictionary, which is where a fit begins. `fn` is given such a pytree. As a vector, theta
            has the order of `jax.tree.flatten`: keys of dictionaries sorted, arrays row by row.
        names: of the parameters, one for each; by default those of `params`, such as "w[0,1]".
        predict: a function of (theta, z), as `fn` is, that gives the mean response or several
            numbers: what `Result.predict` computes.

    Example:
        >>> import jax.numpy as jnp, numpy as np, masgrad as mg
        >>> mean = mg.CustomLoss(lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2), dim=2)
        >>> mean.gradients(np.zeros(2), np.ones((1, 2)))
        array([[-1., -1.]])
        >>> line = lambda p, z: p["level"] + p["slope"] * z["x"]
        >>> loss = mg.CustomLoss(
        ...     lambda p, z: (z["y"] - line(p, z)) ** 2, params={"level": 0.0, "slope": 0.0},
        ...     predict=line)
        >>> r = mg.fit(loss, {"x": np.arange(4.0), "y": np.array([0.0, 1.0, 1.0, 2.0])})
        >>> r.params.round(1).to_dict(), r.predict({"x": np.array([5.0])}).round(1)
        ({'level': 0.1, 'slope': 0.6}, array([3.1]))
    """

    takes_any_rows: ClassVar[bool] = True

    fn: Function
    size: int
    layout: Layout | None = None
    names: tuple[str, ...] = ()
    predictor: Function | None = None
    begin: tuple[float, ...] = field(default=(), compare=False)

    def __init__(
        self,
        fn: Function,
        dim: int | None = None,
        *,
        params: Any = None,
        names: Sequence[str] | None = None,
        predict: Function | None = None,
    ):
        if not callable(fn):
            raise InputTypeError(f"CustomLoss needs a function of (theta, z), got {fn!r}")
        if predict is not None and not callable(predict):
            raise InputTypeError(f"predict={predict!r:.60}; a function of (theta, z) is needed")
        layout = None if params is None else Layout.of(params)
        size = _size(dim, layout)
        own = layout.labels if layout is not None else ()
        self._set(
            fn=fn,
            size=size,
            layout=layout,
            names=own if names is None else _checked_names(names, size),
            predictor=predict,
            begin=() if layout is None else tuple(layout.vector(params).tolist()),
        )

    def rows(self, data: Rows) -> Rows:
        rows = as_rows(table_columns(data, self.columns) if is_frame(data) else data)
        check_scalar(traced("the custom loss", self.loss, self.size, rows))
        check_indices("the custom loss", self.loss, self.size, rows)
        return rows

    def columns(self, names: Sequence[str]) -> Sequence[str] | None:
        return columns_asked(self.loss, self.size, names)

    def dim(self, rows: Rows) -> int:
        return self.size

    def loss(self, theta: Array, z: Rows) -> Array:
        return self.fn(self.tree(theta), z)

    # Parameters.

    def tree(self, theta: Array) -> Any:
        """The parameters as `fn` takes them: theta itself, or the pytree of `params`."""
        return theta if self.layout is None else self.layout.tree(theta)

    def vector(self, theta: Any) -> Any:
        """Parameters as a vector (p,), from a pytree such as `params`; arrays as they are."""
        if self.layout is None or shape_of(theta)[-1:] == (self.size,):
            return theta
        return self.layout.vector(theta)

    def names_of(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return self.names or (columns if len(columns) == self.size else ())

    def initial_theta(self, rows: Rows) -> np.ndarray:
        return np.array(self.begin) if self.begin else super().initial_theta(rows)

    # Predictions.

    def predictions(
        self, theta: np.ndarray, rows: Rows, slopes: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Predictions of a block, (n, ...), and on request their derivatives, (n, k, p)."""
        check_array(traced("predict", self.prediction, self.size, rows))
        padded, n = pad(rows, block_length(rows)), count_rows(rows)
        values = np.asarray(_predictions(self, theta, padded), np.float64)[:n]
        return values, np.asarray(_slopes(self, theta, padded))[:n] if slopes else None

    def columns_to_predict(self, names: Sequence[str]) -> Sequence[str] | None:
        """The columns that a prediction needs of a table with these; None for all numbers."""
        return columns_asked(self.prediction, self.size, names)

    def prediction(self, theta: Array, z: Rows) -> Array:
        """What is predicted for one row: a number or an array."""
        assert self.predictor is not None
        return self.predictor(self.tree(theta), z)


@eqx.filter_jit
def _predictions(model: CustomLoss, theta: Array, rows: Rows) -> Array:
    return jax.vmap(model.prediction, (None, 0))(theta, rows)


@eqx.filter_jit
def _slopes(model: CustomLoss, theta: Array, rows: Rows) -> Array:
    def vector(t, z):
        return jnp.ravel(model.prediction(t, z))

    return jax.vmap(jax.jacrev(vector), (None, 0))(theta, rows)


def _size(dim: Any, layout: Layout | None) -> int:
    """The number of parameters."""
    if dim is None and layout is not None:
        return layout.size
    if not isinstance(dim, int | np.integer) or dim < 1:
        hint = "" if dim is not None else ", or params=, a pytree of arrays"
        raise InputError(f"CustomLoss(dim={dim!r}): a whole number of at least 1 is needed{hint}")
    if layout is not None and layout.size != dim:
        raise InputError(f"dim={dim}, and params holds {layout.size} numbers; leave dim out")
    return int(dim)


def _checked_names(names: Any, size: int) -> tuple[str, ...]:
    """Names of the parameters, one for each."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise InputTypeError(f"names={names!r:.60}; a list of texts is needed, one a parameter")
    found = tuple(names)
    if len(found) != size:
        raise InputError(f"names has {len(found)} entries, and there are {size} parameters")
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise InputError(f"two parameters are called {twice[0]!r}; rename one of them")
    return found

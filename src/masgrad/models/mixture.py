"""A mixture of Gaussians on the line with known weights and known variance."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from masgrad.data.arrays import as_rows
from masgrad.errors import InputError, InputTypeError
from masgrad.models.autodiff import AutodiffModel
from masgrad.models.model import Sums
from masgrad.models.triangle import from_triangle
from masgrad.types import Array, Rows, Vectors


@dataclass(frozen=True)
class GaussianMixture(AutodiffModel):
    """Loss -log(sum_i q_i phi_sigma(z - theta_i)); data (N,), theta = the means (components,).

    With equal weights the loss has at least `components`! optima, one per permutation. Unequal ones
    tell the components apart: permuted means are then no optimum, though one is often near. Results
    are local in either case.

    Paper: Gaussian mixture - negative log-likelihood with known weights, uniform unless given

    Args:
        components: number of means.
        sigma: their common standard deviation.
        weights: q, positive with sum 1, in the order of theta; by default all equal.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> model = mg.GaussianMixture(2, sigma=1.0, weights=[0.2, 0.8])
        >>> z = np.array([-3.0, 3.0, 3.0, 3.0, 3.0])
        >>> bool(model.risk([-3.0, 3.0], z) < model.risk([3.0, -3.0], z))
        True
    """

    several_optima: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = True

    components: int
    sigma: float
    weights: tuple[float, ...] | None = None

    def __init__(self, components: int, sigma: float, weights: Array | None = None):
        if int(components) != components or components < 1 or not sigma > 0:
            raise InputError(
                f"GaussianMixture({components}, {sigma}): needs components >= 1 and sigma > 0"
            )
        q = None if weights is None else _checked_weights(weights, int(components))
        self._set(components=int(components), sigma=float(sigma), weights=q)

    def rows(self, data: Rows) -> Rows:
        z = as_rows(data, ("data",))
        if z.ndim != 1:
            raise InputError(f"data has shape {z.shape}; a mixture on the line needs (N,)")
        return np.asarray(z, np.float64)

    def random_theta(self, rows: Rows, rng: np.random.Generator) -> np.ndarray:
        """Means at rows of the data, in order; in any order, if the weights tell them apart."""
        drawn = rng.choice(rows, self.components, replace=len(rows) < self.components)
        return np.sort(drawn) if self.weights is None else drawn

    def units(self, rows: Rows) -> np.ndarray | None:
        """The components, unless their weights tell them apart."""
        return np.arange(self.components)[:, None] if self.weights is None else None

    def dim(self, rows: Rows) -> int:
        return self.components

    @property
    def _log_ratios(self) -> np.ndarray:
        """log(components q): 0 for equal weights."""
        q = self.weights
        return np.zeros(self.components) if q is None else np.log(self.components * np.array(q))

    def loss(self, theta: Array, z: Array) -> Array:
        log_kernel = self._log_ratios - 0.5 * ((z - theta) / self.sigma) ** 2
        constant = jnp.log(self.components * self.sigma * jnp.sqrt(2 * jnp.pi))
        return constant - logsumexp(log_kernel)

    def shared_sums(self, theta: Vectors, features: Rows, weight: Array, outer: bool) -> Sums:
        """Sums computed one component at a time, which XLA vectorises over chains."""
        away = [t - features[:, None] for t in theta]
        ratios = zip(self._log_ratios, away, strict=True)
        log_kernels = [r - 0.5 * (a / self.sigma) ** 2 for r, a in ratios]
        top = functools.reduce(jnp.maximum, log_kernels)
        kernels = [jnp.exp(k - top) for k in log_kernels]
        scale = weight[:, None] / (sum(kernels) * self.sigma**2)
        G = [k * scale * a for k, a in zip(kernels, away, strict=True)]
        gradient = jnp.stack([g.sum(0) for g in G])
        if not outer:
            return Sums(gradient, None)
        pairs = zip(*np.triu_indices(len(G)), strict=True)
        triangle = jnp.stack([(G[i] * G[j]).sum(0) for i, j in pairs])
        return Sums(gradient, from_triangle(triangle, len(G)))


def _checked_weights(weights: Array, components: int) -> tuple[float, ...]:
    """The weights as numbers that sum to 1."""
    try:
        q = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"weights={weights!r:.60}; {components} numbers are needed") from None
    if q.shape != (components,) or not (q > 0).all() or not abs(q.sum() - 1) < 1e-6:
        raise InputError(
            f"weights={weights!r:.60}: one positive number for each of {components} components is "
            "needed, with sum 1"
        )
    return tuple((q / q.sum()).tolist())

"""A mixture of Gaussians on the line with known equal weights and known variance."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from masgrad.data.arrays import as_rows
from masgrad.errors import InputError
from masgrad.models.autodiff import AutodiffModel
from masgrad.models.model import Sums
from masgrad.models.triangle import from_triangle
from masgrad.types import Array, Rows, Vectors


@dataclass(frozen=True)
class GaussianMixture(AutodiffModel):
    """Loss -log(mean_i phi_sigma(z - theta_i)); data (N,), theta = the means (components,).

    The loss has at least `components`! optima, one per permutation: results are local.

    Paper: Gaussian mixture - negative log-likelihood with known uniform weights
    """

    several_optima: ClassVar[bool] = True
    is_likelihood: ClassVar[bool] = True

    components: int
    sigma: float

    def __init__(self, components: int, sigma: float):
        if int(components) != components or components < 1 or not sigma > 0:
            raise InputError(
                f"GaussianMixture({components}, {sigma}): needs components >= 1 and sigma > 0"
            )
        self._set(components=int(components), sigma=float(sigma))

    def rows(self, data: Rows) -> Rows:
        z = as_rows(data, ("data",))
        if z.ndim != 1:
            raise InputError(f"data has shape {z.shape}; a mixture on the line needs (N,)")
        return np.asarray(z, np.float64)

    def random_theta(self, rows: Rows, rng: np.random.Generator) -> np.ndarray:
        """Means at rows of the data, in order."""
        return np.sort(rng.choice(rows, self.components, replace=len(rows) < self.components))

    def units(self, rows: Rows) -> np.ndarray:
        """The components."""
        return np.arange(self.components)[:, None]

    def dim(self, rows: Rows) -> int:
        return self.components

    def loss(self, theta: Array, z: Array) -> Array:
        log_kernel = -0.5 * ((z - theta) / self.sigma) ** 2
        constant = jnp.log(self.components * self.sigma * jnp.sqrt(2 * jnp.pi))
        return constant - logsumexp(log_kernel)

    def shared_sums(self, theta: Vectors, features: Rows, weight: Array, outer: bool) -> Sums:
        """Sums computed one component at a time, which XLA vectorises over chains."""
        away = [t - features[:, None] for t in theta]
        log_kernels = [-0.5 * (a / self.sigma) ** 2 for a in away]
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

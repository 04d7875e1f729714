"""A mixture of Gaussians on the line with known equal weights and known variance."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from masgrad.data.arrays import as_rows
from masgrad.errors import InputError
from masgrad.models.model import Model
from masgrad.types import Array, Rows


class GaussianMixture(Model):
    """Loss -log(mean_i phi_sigma(z - theta_i)); data (N,), theta = the means (components,).

    The landscape has at least `components`! optima, one a permutation: statements are local.

    Paper: Gaussian mixture - negative log-likelihood with known uniform weights
    """

    components: int = eqx.field(static=True)
    sigma: Array

    def __init__(self, components: int, sigma: float):
        if int(components) != components or components < 1 or not sigma > 0:
            raise InputError(
                f"GaussianMixture({components}, {sigma}): needs components >= 1 and sigma > 0"
            )
        self.components, self.sigma = int(components), np.asarray(sigma, np.float64)

    def rows(self, data: Rows) -> Rows:
        z = as_rows(data, ("data",))
        if z.ndim != 1:
            raise InputError(f"data has shape {z.shape}; a mixture on the line needs (N,)")
        return np.asarray(z, np.float64)

    def dim(self, rows: Rows) -> int:
        return self.components

    def loss(self, theta: Array, z: Array) -> Array:
        log_kernel = -0.5 * ((z - theta) / self.sigma) ** 2
        constant = jnp.log(self.components * self.sigma * jnp.sqrt(2 * jnp.pi))
        return constant - logsumexp(log_kernel)

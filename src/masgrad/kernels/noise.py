"""The noise slot: what a step adds to its end besides the gradient's own randomness.

    Noise       nothing                                      every process but one
    Isotropic   sqrt(2 eta / beta) z, z ~ N(0, I)            SGLD, with a beta of its own

The rows of a batch are drawn with the step's key, the noise with a key folded from it, so that SGD
and SGLD with the same seed draw the same batches.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from masgrad.types import Array, Vectors

OWN_STREAM = 2**32 - 1
"""Folded into a step's key; chunks of a batch fold in small numbers."""


class Noise(eqx.Module):
    """The noise slot of a kernel, here empty."""

    def __call__(self, key: Array, theta: Vectors, eta: Array) -> Vectors:
        """theta with the noise of a step of size eta added."""
        del key, eta
        return theta

    def variance(self, eta: Array | float) -> Array | float:
        """Of each coordinate of the noise of a step of size eta."""
        del eta
        return 0.0

    @property
    def note(self) -> str:
        """A remark for the trace and the laws."""
        return ""


class Isotropic(Noise):
    """Gaussian noise of variance 2 eta / beta in every coordinate.

    Paper: SGLD - isotropic noise at the level sqrt(2 eta / beta), added to each step of SGD
    """

    beta: Array

    def __call__(self, key: Array, theta: Vectors, eta: Array) -> Vectors:
        z = jax.random.normal(jax.random.fold_in(key, OWN_STREAM), theta.shape)
        return theta + jnp.sqrt(self.variance(eta)) * z

    def variance(self, eta: Array | float) -> Array | float:
        return 2.0 * eta / self.beta

    @property
    def note(self) -> str:
        return f"Gaussian noise at beta = {float(self.beta):g} added"

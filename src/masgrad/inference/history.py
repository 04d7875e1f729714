"""AdaGrad as its law sees it: the history grows by the mean of g^2, noise included.

    g = b + V z,    theta' = theta - eta g / (G + g^2)^1/2,    G' = G + g^2 + Sigma_ii / n

z = 0 along the deterministic path, where G would grow by b^2 alone; but E g^2 = b^2 + Sigma_ii / n,
and after many steps the second part is the larger. Without it the step hardly shrinks and the law
becomes several times too wide.

The first step is eta sign(g), a function without a derivative where g may have either sign: the
first gradient has to be well above its noise.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from masgrad.covariance.moments import Moments
from masgrad.errors import InputError
from masgrad.kernels.adjustment import Adjusted, InverseHistory
from masgrad.kernels.field import Estimate
from masgrad.kernels.gradient import Point
from masgrad.types import Array

LEAST_SIGNAL = 4.0
"""Smallest first gradient in standard errors: its sign is then wrong with probability 3e-5."""


class ExpectedHistory(InverseHistory):
    """AdaGrad's adjustment, whose history also gets the variance of the gradient, noise x Sigma."""

    noise: Array

    needs_population = True

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        step = super().update(memory, point, drawn)
        variance = self.noise * jnp.einsum("iik->ik", point.population.cov)
        return Adjusted(step.direction, step.memory + variance)


def check_first_gradient(at_start: Moments, n: int) -> None:
    """Refuse a start where the sign of AdaGrad's first gradient is not certain."""
    error = np.sqrt(np.diag(at_start.cov) / n)
    size = np.abs(at_start.mean)
    signal = np.where(error > 0, size / np.where(error > 0, error, 1.0), np.inf)
    if signal.min() >= LEAST_SIGNAL:
        return
    j = int(signal.argmin())
    rows = int(np.ceil((LEAST_SIGNAL * np.sqrt(at_start.cov[j, j]) / max(size[j], 1e-300)) ** 2))
    more = f"batch_size={rows}" if 0 < rows < 1e9 else "another start"
    raise InputError(
        f"AdaGrad's first step is eta sign(g), and at theta0 the gradient of coordinate {j} is "
        f"{signal[j]:.2g} standard errors of a batch of {n} rows from 0: its sign is a matter of "
        f"chance, and the law no Gaussian; use {more}, or look at mg.run"
    )

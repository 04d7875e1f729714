"""The update linearised at an optimum: theta' - theta* = (I - eta A H)(theta - theta*) + noise.

b(theta*) = 0, so the change of A with theta does not enter. The spectral radius of I - eta A H
tells whether a step is short enough, and the same matrices give the stationary law.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.covariance.moments import Moments
from masgrad.kernels.kernel import Kernel
from masgrad.models.families.family import Family
from masgrad.models.glm import GLM
from masgrad.types import Rows


@dataclass(frozen=True)
class Linearised:
    """drift = A H and noise = A Sigma A' at one point."""

    drift: np.ndarray
    noise: np.ndarray

    def radius(self, eta: float) -> float:
        """Spectral radius of I - eta A H: below 1 the update contracts."""
        return float(np.abs(1.0 - eta * np.linalg.eigvals(self.drift)).max())

    def longest_step(self) -> float:
        """The eta at which the spectral radius reaches 1; 0 if no step contracts.

        Directions in which A H vanishes neither contract nor grow, and do not count.
        """
        values = np.linalg.eigvals(self.drift)
        values = values[np.abs(values) > 1e-9 * np.abs(values).max()]
        return float(max(0.0, (2.0 * values.real / np.abs(values) ** 2).min()))


def linearise(kernel: Kernel, moments: Moments) -> Linearised:
    """A H and A Sigma A' of a kernel for these population moments."""
    A = kernel.adjustment.matrix(moments)
    return Linearised(A @ moments.hessian, A @ moments.cov @ A.T)


def minimise(model: GLM, rows: Rows, steps: int = 30) -> np.ndarray | None:
    """The empirical optimum by damped Newton steps; None if they do not converge.

    Close enough for an eigenvalue of A H: it stops at a Newton decrement of 1e-8, if the last step
    moved no prediction by more than 0.01. On separable rows the decrement falls but steps do not.
    """
    X, y, family = model.design(rows), rows[1], model.family
    theta, N = np.zeros(X.shape[1]), len(y)
    t = X @ theta
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            b = X.T @ family.slope(t, y) / N
            H = X.T @ (family.curvature(t, y)[:, None] * X) / N
            try:
                newton = np.linalg.solve(H, b)
            except np.linalg.LinAlgError:
                return None
            change = X @ newton
            shrink = _damping(family, t, change, y)
            theta, t = theta - shrink * newton, t - shrink * change
            if b @ newton < 1e-8 and np.abs(change).max() < 0.01 * (1 + np.abs(t).max()):
                return theta
    return None


def _damping(family: Family, t: np.ndarray, change: np.ndarray, y: np.ndarray) -> float:
    """The largest of 1, 1/2, 1/4, ... for which the risk does not increase."""
    risk = family.loss(t, y).mean()
    for shrink in 0.5 ** np.arange(30):
        if family.loss(t - shrink * change, y).mean() <= risk:
            return float(shrink)
    return 0.0

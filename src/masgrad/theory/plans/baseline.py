"""SGD's baseline on a non-convex landscape: the step min(1/gamma, 1/sqrt(t)) and what it reaches.

With one gradient of variance s^2 = tr Sigma a step (s^2 / n with a batch of n) and L gamma-smooth,

    sum_t eta_t (1 - gamma eta_t / 2) E|b(theta_t)|^2 <= gap + (gamma s^2 / 2) sum_t eta_t^2

so that the smallest E|b|^2 of T steps is of order log(T) / sqrt(T): epsilon takes eps^-4 steps, up
to a squared logarithm, which the paper leaves out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from masgrad.checks import as_size, check_count
from masgrad.errors import InputError
from masgrad.types import Array

MOST_STEPS = 2 * 10**7
"""Steps beyond which a plan is refused: its sums are written out."""


@dataclass(frozen=True)
class SGDPlan:
    """Steps of SGD with a shrinking step until a gradient of norm epsilon is met.

    Args:
        steps: T.
        batch_size: n.
        epsilon: wanted norm of the gradient.
        gamma, gap, variance: the constants it was made from.
    """

    steps: int
    batch_size: int
    epsilon: float
    gamma: float
    gap: float
    variance: float

    @property
    def samples(self) -> int:
        """Rows drawn in all, n T."""
        return self.batch_size * self.steps

    @property
    def order(self) -> float:
        """eps^-4, the order of T without its logarithm."""
        return self.epsilon**-4

    def gradient(self, t: Array) -> np.ndarray:
        """The bound on the least root mean square of the gradient over t steps."""
        t = np.asarray(t, int)
        squared = _squared_bounds(self.gamma, self.gap, self.variance / self.batch_size, t.max())
        return np.sqrt(squared[t - 1])


def sgd_step(gamma: float) -> Callable[[Array], Array]:
    """The schedule min(1/gamma, 1/sqrt(t)), t counted from 1, for `mg.sgd`.

    Paper: SGD's baseline - the step size min(1/gamma, 1/sqrt(t)) of classic SGD

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.sgd(mg.theory.sgd_step(gamma=2.0))
        >>> [round(float(kernel.step_at(t)), 3) for t in (0, 3, 15)]  # steps 1, 4 and 16
        [0.5, 0.5, 0.25]
    """
    gamma = as_size("gamma", gamma)
    return lambda t: jnp.minimum(1 / gamma, 1 / jnp.sqrt(t + 1.0))


def plan_sgd_nonconvex(
    gamma: float, gap: float, epsilon: float, variance: float, batch_size: int = 1
) -> SGDPlan:
    """Steps in which SGD with `sgd_step(gamma)` meets a gradient whose rms norm is epsilon.

    Paper: SGD's baseline - eps^-4 steps, up to a logarithm, for an eps-stationary point

    It stands beside `plan_nonconvex`, whose n T is of order eps^-4 delta^-2: delta^-2 is the price
    of a law that is known. Here gamma is the largest eigenvalue of H alone.

    Args:
        gamma: largest eigenvalue of H over the region.
        gap: L(theta_0) - min L.
        epsilon: wanted root mean square of |b|.
        variance: largest tr Sigma over the region, at most p max ||V||^2.
        batch_size: n.

    Example:
        >>> import masgrad as mg
        >>> plans = [mg.theory.plan_sgd_nonconvex(1.0, 1.0, e, variance=1.0) for e in (0.4, 0.2)]
        >>> [plan.steps for plan in plans]  # 25 times as many: 16, and the logarithm
        [214, 5286]
    """
    gamma, gap = as_size("gamma", gamma), as_size("gap", gap, zero=True)
    epsilon, variance = as_size("epsilon", epsilon), as_size("variance", variance, zero=True)
    n, most = check_count("batch_size", batch_size), 1024
    while most <= MOST_STEPS:
        enough = _squared_bounds(gamma, gap, variance / n, most) <= epsilon**2
        if enough.any():
            steps = int(np.argmax(enough)) + 1
            return SGDPlan(steps, n, epsilon, gamma, gap, variance)
        most *= 4
    raise InputError(
        f"epsilon={epsilon:g} would take more than {MOST_STEPS:.0e} steps; ask for less, or give a "
        "larger batch_size"
    )


def _squared_bounds(gamma: float, gap: float, variance: float, steps: int) -> np.ndarray:
    """The bound on min E|b|^2 after 1, 2, ..., `steps` steps."""
    eta = np.minimum(1 / gamma, 1 / np.sqrt(np.arange(1, steps + 1)))
    noise = gamma * variance / 2 * np.cumsum(eta**2)
    return (gap + noise) / np.cumsum(eta * (1 - gamma * eta / 2))

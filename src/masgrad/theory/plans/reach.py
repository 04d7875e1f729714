"""Rows to an accuracy: the least n T with which a constant step reaches an expected risk.

    E L(theta_T) - min L = L(m_T) - min L + tr(H C_T) / (2n)

m_T is the deterministic path and C_T / n the covariance around it, linearised along that path: to
leading order in eta / n, where rows enter through n alone. At each eta and T this gives the n that
is needed. Near the optimum halving eta halves n and doubles T, so that n T hardly changes on the
way from the longest stable step to a batch of one row; it has the condition number of the method:

    SGD       n T ~ sigma^2 tr(H)     / lambda_min(H)     log(1/eps) / eps
    MasGrad   n T ~ sigma^2 tr(H^1/2) / lambda_min(H^1/2) log(1/eps) / eps
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from masgrad.chains import door
from masgrad.checks import as_size
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.derivative import advance_law
from masgrad.kernels.field import Field
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.moment_function import moment_function
from masgrad.kernels.stability import linearise
from masgrad.models.model import Model
from masgrad.theory.plans.survey import risk_of
from masgrad.theory.processes.smoothness import memoryless_field
from masgrad.types import Array, Rows, float64

LONGEST_SHARE = 0.5
"""The first step tried, as a share of the longest that is stable at the optimum."""
DIFFERENCES = 1e-8
"""Relative error of the covariance, whose derivatives are finite differences."""
MOST_STEPS = 200_000
"""Steps after which a step size is given up."""
SPACING = 1.02
"""Ratio of the step numbers at which the risk is looked at."""
LEAST_GAIN = 0.02
"""Share of rows that half a step size has to save for the next half to be tried."""


@dataclass(frozen=True)
class Setting:
    """A constant step eta, a batch size n and the number of steps T with which it gets there."""

    step_size: float
    batch_size: int
    steps: int

    @property
    def rows(self) -> int:
        """n T."""
        return self.batch_size * self.steps


@dataclass(frozen=True)
class Reach:
    """The rows that a method needs for an accuracy.

    Args:
        epsilon: wanted E L(theta_T) - min L.
        tried: the best setting for each step size, which is halved as long as that saves 2 %.
    """

    epsilon: float
    tried: tuple[Setting, ...]

    @property
    def best(self) -> Setting:
        """The setting with the fewest rows."""
        return min(self.tried, key=lambda setting: setting.rows)

    @property
    def rows(self) -> int:
        """n T of the best setting."""
        return self.best.rows


@float64
def rows_to_reach(
    method: Callable[[float], Kernel],
    model: Model,
    data: Rows | LeastSquaresMoments,
    theta0: Array,
    optimum: Array,
    epsilon: float,
) -> Reach:
    """Rows n T after which a method's expected risk is epsilon above its minimum, at its best.

    Paper: sample complexity - the rows that MasGrad and SGD need, each at its own best n and eta

    Steps are constant, the last iterate counts, and V is known: rows that estimate it are not
    counted. What is left out is of order eta / n beside 1, and the accuracy sets eta / n: chains
    run as planned (condition number 100, noise 1) had 0.97 to 1.03 times epsilon = 0.01, but at
    epsilon = 0.1 1.07 times (SGD) and 1.16 times (MasGrad).

    Args:
        method: a kernel for a step size, such as `mg.masgrad` or `mg.sgd`.
        model: the loss.
        data: rows to draw from with replacement, or for `Linear()` `LeastSquaresMoments`.
        theta0: the start, (p,).
        optimum: the minimiser of the mean loss, (p,); `survey(...).optimum`.
        epsilon: wanted accuracy of the risk, below that of the start.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.array([[-1.0], [1.0]]) / np.sqrt(2)  # b = theta, Sigma = 1: one AR(1)
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 1)
        >>> found = mg.theory.rows_to_reach(mg.sgd, model, z, [1.0], [0.0], epsilon=0.01)
        >>> found.best  # one step to the mean of 50 rows
        Setting(step_size=1.0, batch_size=50, steps=1)
    """
    if isinstance(data, Simulator):
        raise InputTypeError("a simulator's risk is not known; draw rows: data.sample(key, n)")
    field = memoryless_field(method(1.0), model, data)
    rows = door.sample_rows(model, data)
    start, best = model.theta(theta0, rows), model.theta(optimum, rows)
    epsilon = as_size("epsilon", epsilon)
    lowest = risk_of(model, data, best)
    gap = lambda theta: risk_of(model, data, theta) - lowest  # noqa: E731
    if not epsilon < gap(start):
        raise InputError(
            f"epsilon={epsilon:g}: the start is within {gap(start):.3g} of the minimum already"
        )
    m = moment_function(model, data)(best)
    eta = LONGEST_SHARE * linearise(method(1.0), m).longest_step()
    goal = _Goal(field, gap, m.hessian, epsilon)
    tried = tuple(_halving(method, goal, start, eta))
    if not tried:
        raise InputError(
            f"epsilon={epsilon:g} is not reached within {MOST_STEPS} steps of size {eta:.3g}; ask "
            "for less, or start closer"
        )
    return Reach(epsilon, tried)


@dataclass(frozen=True)
class _Goal:
    """What a path is judged by: its gap of the risk, H at the optimum, and epsilon."""

    field: Field
    gap: Callable[[np.ndarray], float]
    hessian: np.ndarray
    epsilon: float

    def batch_size(self, theta: np.ndarray, cov: np.ndarray) -> int | None:
        """n with which theta + N(0, cov / n) has the wanted risk; None if none is enough."""
        left = self.epsilon - self.gap(theta)
        if left <= 0:
            return None
        n = np.trace(self.hessian @ cov) / (2 * left)
        return max(1, math.ceil(n * (1 - DIFFERENCES)))


def _halving(
    method: Callable[[float], Kernel], goal: _Goal, start: np.ndarray, eta: float
) -> Iterator[Setting]:
    """Settings for eta, eta / 2, ... while that saves rows, and a batch has more than one."""
    fewest = math.inf
    while eta > 0 and (found := _fewest_rows(method(eta), goal, start, eta)):
        yield found
        if found.batch_size == 1 or found.rows > (1 - LEAST_GAIN) * fewest:
            return
        fewest, eta = found.rows, eta / 2


def _fewest_rows(kernel: Kernel, goal: _Goal, start: np.ndarray, eta: float) -> Setting | None:
    """The setting with the fewest rows for one step size."""
    best, done, p = None, 0, len(start)
    state, S = kernel.init(jnp.asarray(start[:, None])), jnp.zeros((p, p))
    while done < (MOST_STEPS if best is None else 2 * best.steps):
        count = max(1, int((SPACING - 1) * done))
        state, S = advance_law(kernel, goal.field, state, S, np.asarray(count), np.asarray(1.0))
        done += count
        n = goal.batch_size(np.asarray(state.theta[:, 0]), np.asarray(S))
        if n is not None and (best is None or n * done < best.rows):
            best = Setting(eta, n, done)
    return best

"""The inverse questions: what do the rows at hand allow, and how many rows does an answer need?"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.stats import norm

from masgrad.chains.door import sample_rows
from masgrad.checks import as_number, as_size, check_count
from masgrad.covariance.moments import Moments
from masgrad.errors import InputError, StationarityWarning
from masgrad.kernels.moment_function import SIMULATED_ROWS, moment_function
from masgrad.models.model import Model, check_model
from masgrad.theory.plans.planning import (
    ConvexPlan,
    NonConvexPlan,
    Plan,
    plan_convex,
    plan_nonconvex,
)
from masgrad.types import Array, Rows, float64

AnyPlan = TypeVar("AnyPlan", bound=Plan)


def convex_within(
    rows: int, alpha: float, gamma: float, gap: float, dim: int, v_max: float
) -> ConvexPlan:
    """The most accurate plan of the strongly convex theorem that draws at most `rows` rows.

    Example:
        >>> import masgrad as mg
        >>> plan = mg.theory.convex_within(100_000, 0.5, 2.0, gap=1.0, dim=4, v_max=1.5)
        >>> plan.samples <= 100_000, round(plan.epsilon, 4)
        (True, 0.0105)
    """
    return _within(rows, gap, lambda e: plan_convex(alpha, gamma, gap, e, dim, v_max))


def nonconvex_within(
    rows: int, gamma: float, gap: float, delta: float, dim: int, v_max: float
) -> NonConvexPlan:
    """The most accurate plan of the non-convex theorem that draws at most `rows` rows.

    `steps` and `batch_size` are the corrected proof's, as in `plan_nonconvex`.

    Example:
        >>> import masgrad as mg
        >>> plan = mg.theory.nonconvex_within(100_000, 2.0, gap=1.0, delta=0.5, dim=4, v_max=2.0)
        >>> plan.samples <= 100_000, round(plan.epsilon, 2)
        (True, 0.28)
    """
    return _within(rows, gap, lambda e: plan_nonconvex(gamma, gap, e, delta, dim, v_max))


def _within(rows: int, gap: float, plan: Callable[[float], AnyPlan]) -> AnyPlan:
    """Bisection on log epsilon: the rows of a plan fall as epsilon grows."""
    rows, gap = check_count("rows", rows), as_size("gap", gap, zero=True)
    if gap == 0:
        raise InputError("gap=0: there is nothing to gain; start away from the optimum")
    low, high = math.log(gap) - 80.0, math.log(gap)
    while plan(math.exp(high)).samples > rows:
        high += 1.0
        if high > math.log(gap) + 40.0:
            least = plan(math.exp(high)).samples
            raise InputError(f"rows={rows}: too few; one step takes {least} whatever the accuracy")
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if plan(math.exp(middle)).samples > rows else (low, middle)
    best = plan(math.exp(high))
    if not best.steps:
        raise InputError(
            f"rows={rows}: too few for one step of a plan, whose batch takes {best.batch_size} "
            "already for an epsilon of twice the gap; start closer, or find more rows"
        )
    return best


@dataclass(frozen=True)
class RowsNeeded:
    """The number of rows at which each coordinate's interval has the required half-width.

    Args:
        per_coordinate: (p,).
        half_width: wanted, (p,).
        level: of the interval.
    """

    per_coordinate: np.ndarray
    half_width: np.ndarray
    level: float

    @property
    def rows(self) -> int:
        """The number of rows that suffices for all coordinates."""
        return int(self.per_coordinate.max())


@float64
def rows_for_width(
    model: Model, pilot: Rows, theta: Array, half_width: Array, level: float = 0.95
) -> RowsNeeded:
    """Rows needed for intervals of a wanted half-width, from the sandwich of a pilot fit.

    Paper: asymptotic normality of the ERM - rows for a wanted width from H^-1 Sigma H^-1 / N

    Args:
        model: the loss.
        pilot: the rows of a pilot study (or a `Simulator`, or `LeastSquaresMoments`).
        theta: the pilot's estimate, (p,).
        half_width: wanted, one number or one for each coordinate.
        level: of the interval.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.array([-1.0, 1.0])  # the variance of z is 1
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 1)
        >>> mg.theory.rows_for_width(model, z, [0.0], 0.1).rows  # (1.96 / 0.1)^2
        385
    """
    check_model(model)
    rows = sample_rows(model, pilot)
    if not 0 < as_number("level", level) < 1:
        raise InputError(f"level={level}; a probability between 0 and 1 is needed")
    m = moment_function(model, pilot)(model.theta(theta, rows))
    width = _widths(half_width, len(m.mean))
    _warn_off_optimum(m)
    needed = np.ceil((norm.ppf((1 + level) / 2) / width) ** 2 * np.diag(m.sandwich))
    if not needed.max() < 1e18:
        raise InputError(
            f"half_width={half_width}: {needed.max():.1e} rows would be needed; ask for wider ones"
        )
    return RowsNeeded(needed.astype(int), width, float(level))


def _warn_off_optimum(m: Moments) -> None:
    """Warn if theta is not the pilot's optimum: a Newton step beyond half a standard error."""
    error = np.sqrt(np.diag(m.sandwich) / m.count)
    step = np.abs(np.linalg.solve(m.hessian, m.mean))
    if m.count < SIMULATED_ROWS and np.any(step > 0.5 * error):
        warnings.warn(
            "theta is more than half a standard error away from the optimum of the pilot's rows; "
            "give their estimate",
            StationarityWarning,
            stacklevel=4,
        )


def _widths(half_width: Array, p: int) -> np.ndarray:
    """The half-widths as one positive number per coordinate."""
    try:
        width = np.broadcast_to(np.asarray(half_width, float), p)
    except (TypeError, ValueError):
        raise InputError(
            f"half_width={half_width!r}; a number, or {p} of them, is needed"
        ) from None
    if not (np.isfinite(width).all() and (width > 0).all()):
        raise InputError(f"half_width={half_width}; positive numbers are needed")
    return width

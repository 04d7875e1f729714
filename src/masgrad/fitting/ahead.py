"""Looking ahead: what a quadratic misses a step away, before rows are read there.

Rows kept in memory show it. What the quadratic misses on them,

    missed = g(phi + step) - g(phi) - H step,

the other rows miss too, up to the sampling error of the kept ones. So a step is followed by
-H^-1 missed, and twice the sampling error of that is the predicted remainder.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.data.regression import total_weight
from masgrad.fitting.alike import agrees, informs
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.types import Rows

GROUPS = 8
"""Groups of kept rows whose spread is the sampling error of what is missed."""


@dataclass(frozen=True)
class Ahead:
    """What is known of the point after a step, before it is read.

    Args:
        trusted: whether the kept rows can stand for the others.
        extra: the step that is left there.
        own: sampling error of `extra`, of the rows that are read, in standard errors.
        left: the same with what a prior may miss.
        parts: quadratics whose M and H can be carried along.
    """

    trusted: bool
    extra: np.ndarray
    own: float
    left: float
    parts: list[Quadratic]


def look_ahead(
    problem: Problem,
    parts: list[Quadratic],
    total: Quadratic,
    phi: np.ndarray,
    kept: Rows,
    ordered: bool = False,
) -> Ahead:
    """What the quadratics of these parts (the prior's last, if any) miss at phi."""
    read = parts if problem.prior is None else parts[:-1]
    if ordered or not problem.spread or not informs(problem.quadratic(total.point, kept), total):
        size = total.typical(phi - total.point)
        return Ahead(False, np.zeros_like(phi), size, size + _old(problem, total, phi, kept), [])
    extra, own = third_order(problem, total, read, phi, kept)
    own = max(own, _next(total, read, phi, extra))
    if not np.isfinite(own):  # an exponential has overflowed there
        return Ahead(False, np.zeros_like(phi), np.inf, np.inf, [])
    if problem.prior is None:
        return Ahead(True, extra, own, own, read)
    old, error = third_order(problem, total, [problem.prior], phi, kept)
    if agrees(parts[0], problem.prior, problem.design_effect):
        return Ahead(True, extra + old, own, float(np.hypot(own, error)), parts)
    return Ahead(True, extra, own, own + total.typical(old), read)


def _next(total: Quadratic, parts: list[Quadratic], phi: np.ndarray, extra: np.ndarray) -> float:
    """What follows a step and its extra, if they go on as a geometric series."""
    step = max((total.typical(phi - q.point) for q in parts), default=0.0)
    more = total.typical(extra)
    return more * more / step if step > 0 else more


def _old(problem: Problem, total: Quadratic, phi: np.ndarray, kept: Rows) -> float:
    """What the prior may miss at phi, in standard errors, though kept rows cannot tell it well."""
    if problem.prior is None:
        return 0.0
    return total.typical(third_order(problem, total, [problem.prior], phi, kept)[0])


def third_order(
    problem: Problem, total: Quadratic, parts: list[Quadratic], phi: np.ndarray, kept: Rows
) -> tuple[np.ndarray, float]:
    """The step that is left at phi, and twice its sampling error (see `Quadratic.typical`).

    Args:
        problem: the loss.
        total: the quadratic of all rows.
        parts: those of parts of the rows, each at the point where it was taken.
        phi: where the gradient is wanted.
        kept: rows that stand for the others.
    """
    size = max(1, -(-count_rows(kept) // GROUPS))
    steps = [-total.solve(_missed(problem, parts, phi, rows)) for rows in blocks(kept, size)]
    mean = np.mean(steps, 0)
    if len(steps) < 2:
        return mean, total.typical(mean)
    spread = sum(total.typical(step - mean) ** 2 for step in steps)
    return mean, 2 * float(np.sqrt(spread / len(steps) / (len(steps) - 1)))


def _missed(problem: Problem, parts: list[Quadratic], phi: np.ndarray, rows: Rows) -> np.ndarray:
    """The gradient that the parts' quadratics miss at phi, if all rows are like these."""
    count = total_weight(rows)
    missed = [problem.missed(q.point, phi - q.point, rows) * (q.count / count) for q in parts]
    return np.sum(missed, 0)

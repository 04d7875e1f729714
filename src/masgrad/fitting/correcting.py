"""Correcting reads: g, Sigma and H at a point, and the Newton-like step to the optimum.

A step from an average that is a few standard errors away leaves a remainder of second order. Rows
kept in memory show it before another read is spent: what the quadratic misses there,

    missed = g(phi + step) - g(phi) - H step,

the other rows miss too, up to the sampling error of the kept ones. So the step is followed by
-H^-1 missed, and the sampling error of that is the predicted remainder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.fitting.identify import separated
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.types import Rows

GROUPS = 8
"""Groups of kept rows whose spread is the sampling error of what is missed."""


PATIENCE = 10
"""Every so many reads it is asked whether steps will ever end."""


@dataclass(frozen=True)
class Corrected:
    """Where the reads ended.

    Args:
        local: the quadratic of the last read, expanded at the estimate.
        reads: how many reads were spent.
        correction: size of the last step, in standard errors of the worst contrast.
        remainder: predicted distance from the optimum that is left, in the same unit.
    """

    local: Quadratic
    reads: int
    correction: float
    remainder: float


Read = Callable[[np.ndarray], Quadratic]


def correct(
    problem: Problem, phi: np.ndarray, kept: Rows, tolerance: float, most: int, read: Read
) -> Corrected:
    """Read and step until the predicted remainder is below the tolerance, at most `most` times.

    Where a step made the gradient grow, the next one starts halfway back. Steps that do not end
    are looked at for separation, along which they never would.
    """
    reads, best, back = 0, np.inf, phi
    while True:
        parts, reads = with_prior(problem, read(phi)), reads + 1
        total = reduce(Quadratic.merge, parts)
        step = total.newton()
        size = total.errors(step)
        if size > best and reads < most:
            phi, best = (phi + back) / 2, np.inf
            continue
        extra, left = third_order(problem, total, parts, phi + step, kept)
        hopeless = reads % PATIENCE == 0 and separated(problem, total, kept).shape[1] > 0
        if left <= tolerance or reads >= most or hopeless or _still(phi, step):
            return Corrected(total.at(phi + step + extra), reads, size, left)
        back, best, phi = phi, 2 * size, phi + step


def with_prior(problem: Problem, *parts: Quadratic) -> list[Quadratic]:
    """The quadratics of parts of the rows, and of earlier rows where there were some."""
    return list(parts) if problem.prior is None else [*parts, problem.prior]


def third_order(
    problem: Problem, total: Quadratic, parts: list[Quadratic], phi: np.ndarray, kept: Rows
) -> tuple[np.ndarray, float]:
    """The step that is left at phi, and its sampling error in standard errors.

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
        return mean, total.errors(mean)
    spread = sum(total.errors(step - mean) ** 2 for step in steps)
    return mean, float(np.sqrt(spread / len(steps) / (len(steps) - 1)))


def _missed(problem: Problem, parts: list[Quadratic], phi: np.ndarray, rows: Rows) -> np.ndarray:
    """The gradient that the parts' quadratics miss at phi, if all rows are like these."""
    count = count_rows(rows)
    missed = [problem.missed(q.point, phi - q.point, rows) * (q.count / count) for q in parts]
    return np.sum(missed, 0)


def _still(phi: np.ndarray, step: np.ndarray) -> bool:
    """Whether the step is below the rounding of the numbers themselves (noiseless rows)."""
    return bool(np.abs(step).max() <= 1e-13 * np.abs(phi).max())

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
from masgrad.fitting.carry import carry
from masgrad.fitting.identify import separated
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.models.families import Gaussian
from masgrad.types import Rows

GROUPS = 8
"""Groups of kept rows whose spread is the sampling error of what is missed."""


ROUNDING = 1e-6
"""A last step, in standard errors, that M and H need not be carried along."""

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
        tension: standard deviations by which the kept rows pull away from the estimate more than
            rows like the others would.
    """

    local: Quadratic
    reads: int
    correction: float
    remainder: float
    tension: float = 0.0


Read = Callable[[np.ndarray], Quadratic]


@dataclass(frozen=True)
class Goal:
    """When reads end.

    Args:
        remainder: largest predicted remainder, in standard errors.
        step: largest last step, in standard errors: M and H are those of the point before it.
        most: reads at most.
    """

    remainder: float
    step: float
    most: int


def correct(
    problem: Problem,
    phi: np.ndarray,
    kept: Rows,
    goal: Goal,
    read: Read,
    alike: Callable[[Quadratic], bool] = lambda total: True,
) -> Corrected:
    """Read and step until the goal is reached.

    Steps are shortened where they would leave the region in which a quadratic is one. If they do
    not end, separation is looked for, along which they never would. Where the kept rows are not
    `alike` the others, they predict nothing, and the step itself must become small.
    """
    reads = 0
    while True:
        parts, reads = with_prior(problem, read(phi)), reads + 1
        total = reduce(Quadratic.merge, parts)
        whole = total.newton()
        shorter = damping(problem, whole, kept)
        step = whole * shorter
        size = total.errors(step)
        extra, own, left = np.zeros_like(step), size, size
        if alike(total):
            own = third_order(problem, total, parts[:1], phi + step, kept)[1]
            extra, left = third_order(problem, total, parts, phi + step, kept)
        still = _still(phi, step)
        near = shorter == 1 and not _far(problem, total, step)
        done = still or (near and own <= goal.remainder and size <= goal.step)
        hopeless = reads % PATIENCE == 0 and separated(problem, total, kept).shape[1] > 0
        if done or hopeless or reads >= goal.most or problem.stop.is_set():
            exact = still and problem.prior is None
            there = phi + step + extra
            trusted = alike(total) and shorter == 1 and size > ROUNDING
            local = carry(problem, total, parts, there, kept) if trusted else total.at(there)
            return Corrected(local, reads, size, 0.0 if exact else left)
        phi = phi + step


def with_prior(problem: Problem, *parts: Quadratic) -> list[Quadratic]:
    """The quadratics of parts of the rows, and of earlier rows where there were some."""
    return list(parts) if problem.prior is None else [*parts, problem.prior]


def damping(problem: Problem, step: np.ndarray, kept: Rows) -> float:
    """log(1 + d) / d for a step that moves the linear predictor by up to d > 1, else 1.

    The curvature of a logistic or Poisson loss changes by at most a factor e^d over such a step,
    and the shortened one is safe (generalised self-concordance; Bach 2010).
    """
    if problem.family is None or isinstance(problem.family, Gaussian):
        return 1.0
    moved = max(np.abs(problem.features(rows) @ step).max() for rows in blocks(kept))
    return float(np.log1p(moved) / moved) if moved > 1 else 1.0


def _far(problem: Problem, total: Quadratic, step: np.ndarray) -> bool:
    """Whether M and H were taken too far from the estimate to serve there.

    In units of the model's own noise the step is a few standard errors in most directions; one of
    many times that has passed through rows whose residuals have changed with it.
    """
    if problem.family is None:
        return False
    after = total.at(total.point + step)
    noise = after.squares / after.count if isinstance(problem.family, Gaussian) else 1.0
    return bool(step @ total.hessian @ step > 100 * len(step) * noise)


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

"""Correcting reads: g, Sigma and H at a point, and the Newton-like step to the optimum.

A step from an average that is a few standard errors away leaves a remainder of second order. Rows
kept in memory show it before another read is spent: what the quadratic misses there,

    missed = g(phi + step) - g(phi) - H step,

the other rows miss too, up to the sampling error of the kept ones. So the step is followed by
-H^-1 missed, and the sampling error of that is the predicted remainder.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.fitting.alike import agrees, informs
from masgrad.fitting.carry import carry
from masgrad.fitting.identify import separated
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.steps import ROUNDING, Path, Steady, damping, on_plateau
from masgrad.types import Rows

GROUPS = 8
"""Groups of kept rows whose spread is the sampling error of what is missed."""


FELT = 0.2
"""A last step may move no row's residual by more than this share of its noise."""

CHANGE = 0.01
"""Change of a standard error over the last step that kept rows are trusted to tell."""


@dataclass(frozen=True)
class Corrected:
    """Where the reads ended.

    Args:
        local: the quadratic of the last read, expanded at the estimate.
        reads: how many reads were spent.
        correction: size of the last step, in standard errors of the worst contrast.
        remainder: predicted distance from the optimum that is left, in standard errors, root mean
            square over contrasts.
        tension: standard deviations by which the kept rows pull away from the estimate more than
            rows like the others would.
        felt: how far residuals moved from where M was summed to the estimate, in units of noise.
        flat: directions along which steps would never end, (p, k), or None.
    """

    local: Quadratic
    reads: int
    correction: float
    remainder: float
    tension: float = 0.0
    felt: float = 0.0
    flat: np.ndarray | None = None


@dataclass(frozen=True)
class Goal:
    """When reads end.

    Args:
        remainder: largest predicted remainder, in standard errors.
        step: largest last step, in standard errors.
        most: reads at most.
    """

    remainder: float
    step: float
    most: int


Read = Callable[[np.ndarray], Quadratic]


def correct(
    problem: Problem,
    phi: np.ndarray,
    kept: Rows,
    goal: Goal,
    read: Read,
    ordered: Callable[[Quadratic], bool] = lambda total: False,
    back: np.ndarray | None = None,
) -> Corrected:
    """Read and step until the goal is reached, or steps are seen never to end.

    Where the kept rows cannot stand for the others (a column that they hardly have, rows that are
    `ordered`), they predict nothing, and the step itself must become small. `back` is where to
    begin again if the first point is on a plateau, where Newton's steps are of no use.
    """
    path, steady = Path(), Steady()
    for reads in range(1, goal.most + 1):
        try:
            new = read(phi)
        except BadBlock:
            if reads == goal.most or not (path.begun or (reads == 1 and back is not None)):
                raise
            # An exponential may have overflowed: nearer to where it did not, bad rows show as well.
            phi = path.shorten(0.25) if path.begun or back is None else back
            continue
        parts = with_prior(problem, new)
        total = reduce(Quadratic.merge, parts)
        last = reads == goal.most or problem.stop.is_set()
        if reads == 1 and back is not None and not last and on_plateau(problem, total):
            phi = back
            continue
        if not last and path.overshot(total):
            phi = path.shorten()
            continue
        whole = total.newton()
        shorter = damping(problem, whole, kept)
        step = whole * shorter
        ahead = look_ahead(problem, parts, total, phi + step, kept, ordered(total))
        still, size = _still(phi, step), total.errors(step)
        near = shorter == 1 and total.felt(step, problem.gaussian) < FELT
        flat = separated(problem, total) if steady.after(whole) else None
        endless = flat is not None and flat.size > 0
        done = still or (near and ahead.own <= goal.remainder and size <= goal.step)
        if done or last or endless:
            end = _end(problem, total, step, ahead, kept, reads, still, flat if endless else None)
            if shorter < 1:
                end = replace(end, remainder=total.typical(whole))
            if still or last or endless or _same_errors(end.local, total):
                return end
        phi = path.forward(total, step)
    raise AssertionError("unreachable")


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
        return Ahead(False, np.zeros_like(phi), size, size, [])
    extra, own = third_order(problem, total, read, phi, kept)
    if not np.isfinite(own):  # an exponential has overflowed there
        return Ahead(False, np.zeros_like(phi), np.inf, np.inf, [])
    if problem.prior is None:
        return Ahead(True, extra, own, own, read)
    old, error = third_order(problem, total, [problem.prior], phi, kept)
    if agrees(parts[0], problem.prior):
        return Ahead(True, extra + old, own, float(np.hypot(own, error)), parts)
    return Ahead(True, extra, own, own + total.typical(old), read)


def _end(
    problem: Problem,
    total: Quadratic,
    step: np.ndarray,
    ahead: Ahead,
    kept: Rows,
    reads: int,
    still: bool,
    flat: np.ndarray | None,
) -> Corrected:
    there, size = total.point + step + ahead.extra, total.errors(step)
    carried = ahead.trusted and size > ROUNDING and flat is None
    local = carry(problem, total, ahead.parts, there, kept) if carried else total.at(there)
    exact = still and problem.prior is None
    return Corrected(local, reads, size, 0.0 if exact else ahead.left, flat=flat)


def _same_errors(local: Quadratic, before: Quadratic) -> bool:
    """Whether standard errors changed so little over the last step that kept rows tell it."""
    new, old = (np.diag(q.sandwich()) for q in (local, before))
    alive = old > 0
    return bool((np.abs(new[alive] / old[alive] - 1) < 2 * CHANGE).all())


def with_prior(problem: Problem, *parts: Quadratic) -> list[Quadratic]:
    """The quadratics of parts of the rows, and of earlier rows where there were some."""
    return list(parts) if problem.prior is None else [*parts, problem.prior]


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
    count = count_rows(rows)
    missed = [problem.missed(q.point, phi - q.point, rows) * (q.count / count) for q in parts]
    return np.sum(missed, 0)


def _still(phi: np.ndarray, step: np.ndarray) -> bool:
    """Whether the step is below the rounding of the numbers themselves (noiseless rows)."""
    return bool(np.abs(step).max() <= 1e-13 * np.abs(phi).max())

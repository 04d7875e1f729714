"""Correcting reads: g, M and H at a point, and the Newton-like step to the optimum.

A step from an average that is a few standard errors away leaves a remainder of second order, which
is predicted (`ahead.py`) before another read is spent on it. Steps are watched (`steps.py`): they
may go too far, or never end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.ahead import Ahead, look_ahead
from masgrad.fitting.carry import carry
from masgrad.fitting.identify import separated
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.fitting.quadratic import NotConvex, Quadratic
from masgrad.fitting.scoring import scoring
from masgrad.fitting.separation import separating
from masgrad.fitting.steps import ROUNDING, Path, Steady, damping, on_plateau
from masgrad.types import Rows

FELT = 0.2
"""A last step may move no row's residual by more than this share of its noise."""

DOUBT = 12
"""Reads after which it is asked whether responses are separated, and no end is to be expected."""

SCORING = 0.999
"""Share of a step of Fisher scoring that is taken; less than 1, so that it is never the last."""

CHANGE = 0.005
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
        got = _take(problem, read, phi)
        last = reads == goal.most or problem.stop.is_set()
        retreat = None if last else _retreat(problem, got, path, back if reads == 1 else None)
        if retreat is not None:
            phi = retreat
            continue
        if isinstance(got, BadBlock):
            raise got
        move = _move(problem, got, kept, ordered)
        end = _end(problem, move, kept, reads, steady)
        if last or (_reached(problem, move, goal) and _same_errors(end.local, move.total)):
            return end
        if end.flat is not None or move.still:
            return end
        if reads == DOUBT:
            away = separating(problem, move.total.point, kept)
            if away is not None:
                return replace(end, flat=away[:, None] / np.linalg.norm(away))
        phi = path.forward(move.total, move.step)
    raise AssertionError("the last read returns")


def _take(problem: Problem, read: Read, phi: np.ndarray) -> "list[Quadratic] | BadBlock":
    """The quadratics at phi, the prior's last; or a block whose sums were not finite."""
    try:
        return with_prior(problem, read(phi))
    except BadBlock as bad:
        return bad


def _retreat(
    problem: Problem, got: "list[Quadratic] | BadBlock", path: Path, back: np.ndarray | None
) -> np.ndarray | None:
    """Where to read instead of stepping on: nearer, if the last step went too far."""
    if isinstance(got, BadBlock):  # perhaps an exponential overflowed; bad rows will fail again
        return path.shorten(0.25) if path.begun else back
    total = reduce(Quadratic.merge, got)
    if back is not None and on_plateau(problem, total):
        return back
    return path.shorten() if path.overshot(total) else None


@dataclass(frozen=True)
class Move:
    """A step from where the total was taken, and what is known of its end."""

    total: Quadratic
    whole: np.ndarray
    shorter: float
    ahead: "Ahead"

    @property
    def step(self) -> np.ndarray:
        return self.whole * self.shorter

    @property
    def still(self) -> bool:
        """Whether the step is below the rounding of the numbers themselves (noiseless rows)."""
        return bool(np.abs(self.step).max() <= 1e-13 * np.abs(self.total.point).max())


def _move(problem: Problem, parts: list[Quadratic], kept: Rows, ordered) -> Move:
    total = reduce(Quadratic.merge, parts)
    try:
        whole, shorter = total.newton(), 1.0
    except NotConvex:
        total, shorter = _expected(problem, total, kept), SCORING
        whole = total.newton()
    shorter *= damping(problem, whole, kept)
    there = total.point + whole * shorter
    ahead = look_ahead(problem, parts, total, there, kept, ordered(total))
    return Move(total, whole, shorter, ahead)


def _expected(problem: Problem, total: Quadratic, kept: Rows) -> Quadratic:
    """The total with expected curvature, as far as kept rows tell it, for a step of scoring."""
    like = scoring(problem)
    if like is problem:
        raise NotConvex("H has a negative eigenvalue")
    H = like.quadratic(total.point, kept).hessian
    return replace(total, hessian=H * (total.count / total_weight(kept)))


def _reached(problem: Problem, move: Move, goal: Goal) -> bool:
    near = move.shorter == 1 and move.total.felt(move.step, problem.dispersed) < FELT
    size = move.total.errors(move.step)
    return near and move.ahead.own <= goal.remainder and size <= goal.step


def _end(problem: Problem, move: Move, kept: Rows, reads: int, steady: Steady) -> Corrected:
    """The result, should this step be the last."""
    total, ahead = move.total, move.ahead
    flat = separated(problem, total) if steady.after(move.whole) else None
    flat = None if flat is None or not flat.size else flat
    there, size = total.point + move.step + ahead.extra, total.errors(move.step)
    moved = size > ROUNDING or problem.prior is not None  # whose M and H are of another point
    carried = ahead.trusted and moved and flat is None
    local = carry(problem, total, ahead.parts, there, kept) if carried else total.at(there)
    left = ahead.left if move.shorter == 1 else total.typical(move.whole)
    exact = move.still and problem.prior is None
    prior = None if ahead.trusted else problem.prior  # else its M and H are carried along
    felt = 0.0 if prior is None else prior.felt(there - prior.point, problem.dispersed)
    return Corrected(local, reads, size, 0.0 if exact else left, felt=felt, flat=flat)


def _same_errors(local: Quadratic, before: Quadratic) -> bool:
    """Whether standard errors changed so little over the last step that kept rows tell it."""
    new, old = (np.diag(q.sandwich()) for q in (local, before))
    alive = old > 0
    return bool((np.abs(new[alive] / old[alive] - 1) < 2 * CHANGE).all())


def with_prior(problem: Problem, *parts: Quadratic) -> list[Quadratic]:
    """The quadratics of parts of the rows, and of earlier rows where there were some."""
    return list(parts) if problem.prior is None else [*parts, problem.prior]

"""A quadratic and a penalty, on the host: argmin_u u'A u / 2 - c'u + h(u), A positive semidefinite.

With A = V / eta and c = V w / eta this is the proximal map in the V metric; with A the Hessian and
c = A w - b it is a proximal Newton step. Accelerated proximal steps, as in `metric.py`, find out
which coordinates of a separable penalty are free to move; solving for those ends it to rounding.
Many coordinates are taken a working set at a time: those that are free, and those that the
conditions of optimality want free most.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import Separable

VIOLATION_LIMIT = 1e-11
"""Largest violation of the conditions of optimality at a solution, relative to the largest |c|.

Both are in units of the square root of A's diagonal, so that the units of columns do not matter."""

VIOLATION_LIMIT_UNSOLVED = 1e-9
"""The same if the free coordinates cannot be solved for exactly."""

STEPS_PER_CHECK, MOST_CHECKS = 10, 2000
"""Steps between two checks of optimality, and the largest number of checks."""

CHECKS_PER_SOLVE = 5
"""Checks between two exact solves while the set of free coordinates still changes."""

SMALLEST_PIVOT = 5e-8
"""Smallest pivot of A, with its diagonal scaled to 1, that is not rounding error."""

WORKING_SET_DIM = 64
"""Largest number of coordinates for which the working set is all of them."""


class Quadratic(NamedTuple):
    """u'A u / 2 - c'u."""

    A: np.ndarray
    c: np.ndarray

    def value(self, u: np.ndarray) -> float:
        return float(u @ (self.A @ u) / 2 - self.c @ u)

    def slope(self, u: np.ndarray) -> np.ndarray:
        return _times(self.A, u) - self.c

    def part(self, index: np.ndarray, u: np.ndarray) -> "Quadratic":
        """The quadratic in these coordinates, with the others fixed at u."""
        held = u.copy()
        held[index] = 0.0
        rows = self.A[index]
        return Quadratic(rows[:, index], self.c[index] - _times(rows, held))


def minimise(penalty: Penalty, quadratic: Quadratic, start: np.ndarray) -> np.ndarray:
    """The minimiser, from a nearby start."""
    if not isinstance(penalty, Separable):
        return _accelerated(
            penalty, quadratic, start, VIOLATION_LIMIT_UNSOLVED * scale(penalty, quadratic)
        )
    limit = VIOLATION_LIMIT * scale(penalty, quadratic)
    if len(start) <= WORKING_SET_DIM:
        return _accelerated(penalty, quadratic, start, limit)
    u = start.copy()
    for _ in range(MOST_CHECKS):
        wrong = violation(penalty, quadratic, u)
        if wrong.max() <= limit * VIOLATION_LIMIT_UNSOLVED / VIOLATION_LIMIT:
            return u
        chosen = _working_set(penalty.pieces(u).free, wrong, limit)
        part = quadratic.part(chosen, u)
        u[chosen] = _accelerated(penalty.only(chosen), part, u[chosen], limit)
    return u


def _working_set(free: np.ndarray, wrong: np.ndarray, limit: float) -> np.ndarray:
    """All free coordinates, and at most as many others that violate optimality most."""
    most = max(WORKING_SET_DIM, int(free.sum()))
    worst = np.argsort(np.where(free, 0.0, wrong))[::-1][:most]
    return np.union1d(np.flatnonzero(free), worst[wrong[worst] > limit])


def violation(penalty: Penalty, quadratic: Quadratic, u: np.ndarray) -> np.ndarray:
    """Each coordinate's violation of optimality: a proximal step's length times sqrt(D)."""
    d = _diagonal(penalty, quadratic.A)
    return np.abs(u - penalty.prox(u - quadratic.slope(u) / d, 1.0 / d)) * np.sqrt(d)


def scale(penalty: Penalty, quadratic: Quadratic) -> float:
    """The scale of violations: the largest violation at 0 without the penalty."""
    d = _diagonal(penalty, quadratic.A)
    return float((np.abs(quadratic.c) / np.sqrt(d)).max(initial=0.0))


def _diagonal(penalty: Penalty, A: np.ndarray) -> np.ndarray:
    """A's diagonal, common to coordinates that the penalty ties; 1 where it is 0."""
    d = penalty.common(np.diag(A))
    return np.where(d > 0, d, 1.0)


def _accelerated(penalty: Penalty, q: Quadratic, u: np.ndarray, limit: float) -> np.ndarray:
    """Accelerated proximal steps and exact solves for the free coordinates, until optimal."""
    D, y, momentum = _majorant(penalty, q.A), u, 1.0
    for look in range(MOST_CHECKS):
        before = u
        for _ in range(STEPS_PER_CHECK):
            last, u = u, penalty.prox(y - q.slope(y) / D, 1.0 / D)
            if (D * (y - u)) @ (u - last) > 0:
                momentum, y = 1.0, u
                continue
            new = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            y, momentum = u + (momentum - 1.0) / new * (u - last), new
        enough = limit
        if isinstance(penalty, Separable) and (
            look % CHECKS_PER_SOLVE == 0 or _same(penalty, before, u)
        ):
            there = _solved(penalty, q, u)
            if there is None:
                enough = limit * VIOLATION_LIMIT_UNSOLVED / VIOLATION_LIMIT
            else:
                u, y, momentum = there, there, 1.0
        if violation(penalty, q, u).max(initial=0.0) <= enough:
            return u
    return u


def _majorant(penalty: Penalty, A: np.ndarray) -> np.ndarray:
    """D >= A by diagonal dominance, as in `metric.py`; for a matrix the largest eigenvalue."""
    size = np.sqrt(np.maximum(np.diag(A), 0.0))
    size = np.where(size > 0, size, 1.0)
    D = penalty.common(size * (np.abs(A) / size).sum(1))
    D = D if D.ndim else np.minimum(D, np.linalg.norm(A, 2))
    return np.where(D > 0, D, 1.0)


def _solved(penalty: Separable, q: Quadratic, u: np.ndarray) -> np.ndarray | None:
    """The minimum over the free coordinates, some of which may become fixed on the way.

    A step that crosses a kink or a bound of h ends there, and the search continues without that
    coordinate: the objective decreases each time, however ill-conditioned A is. None if A is
    singular in the free coordinates.
    """
    for _ in range(len(u) + 1):
        piece = penalty.pieces(u)
        f = np.flatnonzero(piece.free)
        part = q.part(f, u)
        there = _root(part.A + np.diag(piece.curvature[f]), part.c - piece.slope[f])
        if there is None:
            return None
        step, low, high = there - u[f], piece.low[f], piece.high[f]
        wall = np.where(step < 0, low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(step != 0, (wall - u[f]) / step, np.inf)
        first = int(np.argmin(share)) if f.size else 0
        u = u.copy()
        if not f.size or share[first] >= 1:
            u[f] = there
            return u
        u[f] += share[first] * step
        u[f[first]] = wall[first]
    return u


def _root(A: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """A^-1 b; None if A is singular to rounding, when the solution is not unique."""
    size = np.sqrt(np.maximum(np.diag(A), np.finfo(float).tiny))
    try:
        L = np.linalg.cholesky(A / np.outer(size, size))
    except np.linalg.LinAlgError:
        return None
    if L.size and np.diag(L).min() < SMALLEST_PIVOT:
        return None
    return cho_solve((L, True), b / size) / size


def _same(penalty: Separable, before: np.ndarray, u: np.ndarray) -> bool:
    """Whether the same coordinates are free at both points, on the same pieces of h."""
    a, b = penalty.pieces(before), penalty.pieces(u)
    return np.array_equal(a.free, b.free) and np.array_equal(a.slope, b.slope)


def _times(A: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A u, from the columns with nonzero u if they are few."""
    index = np.flatnonzero(u)
    return A[:, index] @ u[index] if 4 * len(index) < len(u) else A @ u

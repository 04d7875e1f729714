"""A quadratic and a penalty, on the host: argmin_u u'A u / 2 - c'u + h(u), A positive semidefinite.

With A = V / eta and c = V w / eta this is the proximal map in the V metric; with A the Hessian and
c = A w - b it is a proximal Newton step. Accelerated proximal steps, as in `metric.py`, find out
which coordinates of a separable penalty are free to move; solving for those ends it to rounding.
Many coordinates are taken a working set at a time: those that are free, and those that the
conditions of optimality want free most.
"""

from typing import NamedTuple

import numpy as np

from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import Pieces, Separable

CLOSE = 1e-11
"""Violation of the conditions of optimality, as a share of the largest |c|, that is rounding."""

SLACK = 1e-9
"""The same where there is no set of free coordinates to solve for."""

EACH, MOST = 10, 2000
"""Steps between two looks, and looks."""

WHOLE = 64
"""Coordinates up to which the working set is all of them."""


class Quadratic(NamedTuple):
    """u'A u / 2 - c'u."""

    A: np.ndarray
    c: np.ndarray

    def value(self, u: np.ndarray) -> float:
        return float(u @ (self.A @ u) / 2 - self.c @ u)

    def slope(self, u: np.ndarray) -> np.ndarray:
        return _times(self.A, u) - self.c

    def part(self, index: np.ndarray, u: np.ndarray) -> "Quadratic":
        """In these coordinates, the others held where they are."""
        held = u.copy()
        held[index] = 0.0
        rows = self.A[index]
        return Quadratic(rows[:, index], self.c[index] - _times(rows, held))


def minimise(penalty: Penalty, quadratic: Quadratic, start: np.ndarray) -> np.ndarray:
    """The minimiser, from a start near it."""
    if not isinstance(penalty, Separable):
        return _accelerated(penalty, quadratic, start, SLACK)
    if len(start) <= WHOLE:
        return _accelerated(penalty, quadratic, start, CLOSE)
    u = start.copy()
    for _ in range(MOST):
        wrong = violation(penalty, quadratic, u)
        limit = CLOSE * np.abs(quadratic.c).max(initial=0.0)
        if wrong.max() <= 2 * limit:
            return u
        chosen = _working_set(penalty.pieces(u).free, wrong, limit)
        part = quadratic.part(chosen, u)
        u[chosen] = _accelerated(penalty.only(chosen), part, u[chosen], CLOSE, limit)
    return u


def _working_set(free: np.ndarray, wrong: np.ndarray, limit: float) -> np.ndarray:
    """All free coordinates, and as many more of those that should be."""
    most = max(WHOLE, int(free.sum()))
    worst = np.argsort(np.where(free, 0.0, wrong))[::-1][:most]
    return np.union1d(np.flatnonzero(free), worst[wrong[worst] > limit])


def violation(penalty: Penalty, quadratic: Quadratic, u: np.ndarray) -> np.ndarray:
    """How far each coordinate is from optimal, in units of the gradient: a proximal step's length.

    Coordinates that A does not see have no unit, and are where the penalty wants them.
    """
    if isinstance(penalty, Separable):
        d = np.diag(quadratic.A).copy()
        d = np.where(d > 0, d, 1.0)
    else:
        d = np.linalg.norm(quadratic.A, 2) or 1.0
    return np.abs(u - penalty.prox(u - quadratic.slope(u) / d, 1.0 / d)) * d


def _accelerated(
    penalty: Penalty, q: Quadratic, u: np.ndarray, share: float, limit: float = 0.0
) -> np.ndarray:
    """Accelerated proximal steps until nothing is wrong; free coordinates are solved for."""
    D, y, momentum = _majorant(penalty, q.A), u, 1.0
    limit = max(limit, share * np.abs(q.c).max(initial=0.0))
    for _ in range(MOST):
        before = u
        for _ in range(EACH):
            last, u = u, penalty.prox(y - q.slope(y) / D, 1.0 / D)
            if (D * (y - u)) @ (u - last) > 0:
                momentum, y = 1.0, u
                continue
            new = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            y, momentum = u + (momentum - 1.0) / new * (u - last), new
        solved = _solved(penalty, q, before, u) if isinstance(penalty, Separable) else None
        if solved is not None:
            u = y = solved
            momentum = 1.0
        if violation(penalty, q, u).max(initial=0.0) <= limit:
            return u
    return u


def _majorant(penalty: Penalty, A: np.ndarray) -> np.ndarray | float:
    """D >= A: for a separable penalty a diagonal, by dominance; else the largest eigenvalue."""
    if not isinstance(penalty, Separable):
        return float(np.linalg.norm(A, 2)) or 1.0
    size = np.sqrt(np.maximum(np.diag(A), 0.0))
    size = np.where(size > 0, size, 1.0)
    D = size * (np.abs(A) / size).sum(1)
    return np.where(D > 0, D, 1.0)


def _solved(
    penalty: Separable, q: Quadratic, before: np.ndarray, u: np.ndarray
) -> np.ndarray | None:
    """The minimum over the coordinates that stayed free, if h is there what it was solved with."""
    piece = penalty.pieces(u)
    f, out = piece.free, u.copy()
    if not f.any() or not _same(penalty.pieces(before), piece):
        return None
    part = q.part(np.flatnonzero(f), u)
    try:
        out[f] = np.linalg.solve(part.A + np.diag(piece.curvature[f]), part.c - piece.slope[f])
    except np.linalg.LinAlgError:
        return None
    return out if np.isfinite(out).all() and _same(penalty.pieces(out), piece) else None


def _same(a: Pieces, b: Pieces) -> bool:
    return np.array_equal(a.free, b.free) and np.array_equal(a.slope, b.slope)


def _times(A: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A u, by the columns in which u is not 0 where those are few."""
    index = np.flatnonzero(u)
    return A[:, index] @ u[index] if 4 * len(index) < len(u) else A @ u

"""Conjugate gradients for several right-hand sides at once.

S x = r for a symmetric S without negative eigenvalues, preconditioned by a diagonal. S may be
singular if r is in its range: the part of x in its null space stays what it was at the start.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SMALL_SHARE = 1e-6
"""Share of a column's squares, at least, that its residual is judged by."""

ITERATIONS_TO_JUDGE = 5
"""Iterations after which the number of those to come is foreseen."""


class Iterated(NamedTuple):
    """Where conjugate gradients ended.

    Args:
        x: (N, q).
        left: r - S x, (N, q).
        iterations: their number.
        converged: whether every residual is as small as it has to be.
    """

    x: np.ndarray
    left: np.ndarray
    iterations: int
    converged: bool


def conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray],
    inverse: np.ndarray,
    start: tuple[np.ndarray, np.ndarray],
    tolerance: np.ndarray,
    most: int,
    *,
    worth: float = np.inf,
) -> Iterated:
    """Solve S x = r for several r.

    Args:
        times: x -> S x.
        inverse: the preconditioner, (N,).
        start: x to begin with, and r - S x, (N, q).
        tolerance: residuals of the columns, in the preconditioner's norm, that are 0, (q,).
        most: iterations.
        worth: iterations yet to come, as foreseen, beyond which something else costs less.
    """
    M, x, r = inverse[:, None], start[0].copy(), start[1].copy()
    z = M * r
    q, rz = z, np.einsum("ij,ij->j", r, z)
    first = worst = _worst(rz, tolerance)
    for k in range(most):
        if worst <= 1 or (k >= ITERATIONS_TO_JUDGE and _to_come(k, first, worst) > worth):
            return Iterated(x, r, k, worst <= 1)
        Sq = times(q)
        a = ratio(rz, np.einsum("ij,ij->j", q, Sq))
        a[np.sqrt(rz) <= tolerance] = 0.0  # rounding errors are left, with no curvature along them
        x += a * q
        r -= a * Sq
        z = M * r
        before, rz = rz, np.einsum("ij,ij->j", r, z)
        q = ratio(rz, before) * q + z
        worst = _worst(rz, tolerance)
    return Iterated(x, r, most, worst <= 1)


def _worst(squared: np.ndarray, tolerance: np.ndarray) -> float:
    """The largest residual over its tolerance."""
    over = np.divide(np.sqrt(squared), tolerance, out=np.zeros(len(squared)), where=squared > 0)
    return float(over.max(initial=0.0))


def _to_come(k: int, first: float, worst: float) -> float:
    """How many iterations it takes from `worst` to 1, if k took the residual from `first` there."""
    return k * float(np.log(worst) / np.log(first / worst)) if worst < first else np.inf


def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, and 0 where b is not above 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def inverted(d: np.ndarray) -> np.ndarray:
    """1/d, and 0 where d is not above 0."""
    return ratio(np.ones(len(d)), d)


def squared_norms(r: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Those of the columns of r (N, q) in the preconditioner's norm, (q,)."""
    return np.einsum("ij,ij,i->j", r, r, inverse)

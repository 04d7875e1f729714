"""Directions of the columns that vary at the boundary alone, beside effects.

Along a recession direction the predictors of interior rows, those with a response inside its range,
do not move. With U the regression of the columns on the effects among interior rows, slopes b of
such a direction have (x - sum over k of U_k[level])'b = 0 in each of them. They are found from sums
of squares over interior rows and over those at the boundary, I and B: I b is 0 beside B b. Columns
less DU are summed anew, twice, so that these sums have all their digits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from masgrad.fitting.effects.eliminate import Eliminated
from masgrad.fitting.effects.rows.design import EffectRows
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.levels.arrow import Vector

STILL = 1e-9
"""Share of interior rows in a direction's sum of squares up to which it may be one that does not
move them. It is far above what rounding leaves, for the rectifier looks at each of these rows."""

SMALLEST = 1e-14
"""Relative eigenvalue of all sums of squares below which columns are collinear."""

ROUNDS = 2
"""Regressions on the effects, each of what the one before has left."""


class Directions(NamedTuple):
    """Directions of the columns that move rows at the boundary alone.

    Args:
        means: U, (L_k, q) for each grouping.
        basis: slopes b, (q, m), of which B is the identity.
    """

    means: tuple[np.ndarray, ...]
    basis: np.ndarray

    def columns(self, rows: EffectRows) -> np.ndarray:
        """(x - DU)'b of rows, (n, m)."""
        return less_means(rows, self.means) @ self.basis

    def vector(self, fit: Vector) -> Vector:
        """Slopes and effects of the predictors that a fit on these columns has."""
        b = self.basis @ fit.columns
        return Vector(b, fit.levels - np.concatenate([U @ b for U in self.means]))


def less_means(rows: EffectRows, means: Sequence[np.ndarray]) -> np.ndarray:
    """Columns about their centre, less the means of their levels."""
    X = np.array(rows.centred())
    for k, U in enumerate(means):
        X -= U.take(rows.codes[:, k], axis=0, mode="clip")
    return X


class Sides(NamedTuple):
    """Sums of squares and products of columns, (q, q), over interior rows and over the others."""

    inside: np.ndarray
    outside: np.ndarray


def directions(
    sums: Callable[[Sequence[np.ndarray]], EffectSums],
    sides: Callable[[Sequence[np.ndarray]], Sides],
    eliminated: Callable[[EffectSums], Eliminated],
    shapes: Sequence[tuple[int, int]],
) -> Directions:
    """The directions, by reads.

    Args:
        sums: over interior rows, of columns less some means.
        sides: products of such columns over interior rows, and over those at the boundary.
        eliminated: takes the effects out.
        shapes: (L_k, q) of each grouping.
    """
    means = tuple(np.zeros(shape) for shape in shapes)
    for _ in range(ROUNDS):
        inner = sums(means)
        if not inner.weight:
            break
        found = eliminated(inner).effects_of_x
        means = tuple(U + more for U, more in zip(means, found, strict=True))
    return Directions(means, _still(sides(means)))


def _still(of: Sides) -> np.ndarray:
    """A basis of the directions that move no interior row, orthonormal in B."""
    size = np.sqrt(np.diag(of.inside) + np.diag(of.outside))
    unit = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)
    inside, outside = (part * np.outer(unit, unit) for part in (of.inside, of.outside))
    values, Q = eigh(inside + outside)
    kept = values > SMALLEST * values[-1] if len(values) else np.zeros(0, bool)
    Q = Q[:, kept] / np.sqrt(values[kept])
    share, R = eigh(Q.T @ inside @ Q)
    V = (unit[:, None] * Q) @ R[:, share <= STILL]
    return V / np.sqrt(1 - share[share <= STILL])

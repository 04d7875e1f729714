"""Arrow matrices: sums over rows of which each has one of very many levels.

        | A  B' |
    H = | B  D  |        A (q, q) of the other columns, B (L, q) by level, D = diag(d)

With U = D^-1 B, the levels' weighted means, and the Schur complement S = A - B'U,

    H^-1 (c, e) = (a, e / d - U a),    a = S^-1 (c - U'e)

takes q^3 + L q operations, and so do the entries of H^-1 and of H^-1 M H^-1 for an M of the same
shape. A level without rows has d = 0, and 1/d is taken to be 0: it does not move.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.designs.coded import CodedDesign
from masgrad.data.designs.group_sums import sums
from masgrad.models.gram import factor, scaled_spectrum

COLLINEAR = 1e-9
"""Eigenvalue of the scaled Schur complement that is 0."""


class Arrow(NamedTuple):
    """A symmetric matrix of q columns and L levels.

    Args:
        corner: A, (q, q).
        border: B, (L, q).
        diagonal: d, (L,).
    """

    corner: np.ndarray
    border: np.ndarray
    diagonal: np.ndarray

    @classmethod
    def of(cls, X: CodedDesign, codes: np.ndarray, size: int, w: np.ndarray) -> "Arrow":
        """Weighted products of the rows (x, dummies of their level)."""
        return cls(X.gram(w), X.sums_by(codes, size, w), sums(codes, size, w))

    def plus(self, other: "Arrow") -> "Arrow":
        return Arrow(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> "Arrow":
        return Arrow(*(factor * part for part in self))

    def only(self, columns: np.ndarray) -> "Arrow":
        """Some of the q columns, with all levels."""
        return Arrow(self.corner[np.ix_(columns, columns)], self.border[:, columns], self.diagonal)


class Vector(NamedTuple):
    """A vector over q columns and L levels."""

    columns: np.ndarray
    levels: np.ndarray

    def plus(self, other: "Vector", share: float = 1.0) -> "Vector":
        """This vector and a share of another."""
        pairs = zip(self, other, strict=True)
        return Vector(*(a + share * b for a, b in pairs))

    def dot(self, other: "Vector") -> float:
        return float(self.columns @ other.columns + self.levels @ other.levels)


@dataclass(frozen=True)
class Eliminated:
    """An arrow matrix with its levels eliminated.

    Args:
        means: U, (L, q).
        inverse_diagonal: 1/d, (L,).
        inverse: S^-1, (q, q).
        condition: condition number of S with its diagonal scaled to 1.
    """

    means: np.ndarray
    inverse_diagonal: np.ndarray
    inverse: np.ndarray
    condition: float

    def solve(self, b: Vector) -> Vector:
        """H^-1 b."""
        columns = self.inverse @ (b.columns - self.means.T @ b.levels)
        return Vector(columns, self.inverse_diagonal * b.levels - self.means @ columns)


def level_means(H: Arrow) -> tuple[np.ndarray, np.ndarray]:
    """U and 1/d."""
    with np.errstate(divide="ignore"):
        inverse = np.where(H.diagonal > 0, 1 / H.diagonal, 0.0)
    return H.border * inverse[:, None], inverse


def schur_complement(H: Arrow) -> np.ndarray:
    """S, (q, q)."""
    return H.corner - H.border.T @ level_means(H)[0]


def eliminate(H: Arrow) -> Eliminated | None:
    """The matrix with its levels eliminated; None if it is not positive definite."""
    if not all(np.isfinite(part).all() for part in H) or (H.diagonal < 0).any():
        return None
    means, inverse = level_means(H)
    S = H.corner - H.border.T @ means
    if not len(S):
        return Eliminated(means, inverse, S, 1.0)
    found = factor(S)
    if found is not None:
        return Eliminated(means, inverse, found.inverse(), found.condition)
    size, values, Q = scaled_spectrum(S)  # nearly collinear columns
    if not values[0] > COLLINEAR:
        return None
    turned = Q / size[:, None]
    return Eliminated(means, inverse, (turned / values) @ turned.T, float(values[-1] / values[0]))


@dataclass(frozen=True)
class Sandwich:
    """H^-1 M H^-1 for two arrow matrices, without forming it.

    For a combination (c, e) of columns and levels let v = c - U'e, a = S^-1 v and f = e / d. Then

        variance = a' M_S a + 2 f' K a + sum of m f^2,
        M_S = M_A - M_B'U - U'M_B + U' diag(m) U,    K = M_B - diag(m) U

    Args:
        bread: H, eliminated.
        corner: M_S, (q, q), the meat of rows less their level's mean.
        border: K, (L, q).
        diagonal: m, (L,).
    """

    bread: Eliminated
    corner: np.ndarray
    border: np.ndarray
    diagonal: np.ndarray

    @classmethod
    def of(cls, bread: Eliminated, M: Arrow) -> "Sandwich":
        U = bread.means
        border = M.border - M.diagonal[:, None] * U
        crossed = border.T @ U
        corner = M.corner - M.border.T @ U - crossed.T
        return cls(bread, (corner + corner.T) / 2, border, M.diagonal)

    def variances(
        self, c: np.ndarray, plus: np.ndarray | int, minus: int | None = None
    ) -> np.ndarray:
        """Variances of combinations c (k, q) of columns plus one level each, less another."""
        bread = self.bread
        sign = ((plus, 1.0),) if minus is None else ((plus, 1.0), (minus, -1.0))
        v = c - sum(s * bread.means[level] for level, s in sign)
        a = v @ bread.inverse
        total = np.einsum("ij,ij->i", a @ self.corner, a)
        for level, s in sign:
            f = s * bread.inverse_diagonal[level]
            total = total + 2 * f * np.einsum("...j,...j->...", a, self.border[level])
            total = total + self.diagonal[level] * f**2
        return total

    def covariance(self, c: np.ndarray, e: Any) -> np.ndarray:
        """Covariance (k, k) of combinations: c (k, q) of columns, sparse e (k, L) of levels."""
        bread = self.bread
        a = (c - e @ bread.means) @ bread.inverse
        f = e.multiply(bread.inverse_diagonal).tocsr()
        crossed = (f @ self.border) @ a.T
        levels = (f.multiply(self.diagonal).tocsr() @ f.T).toarray()
        return a @ self.corner @ a.T + crossed + crossed.T + levels

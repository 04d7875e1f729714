"""Fourth moments of regression rows in one pass, in a frame that keeps them free of cancellation.

Rows are summed as the symmetric fourth-order tensor of their coordinates a = (1, u, r),

    u = x - centre      r = y - level - u'slope

Since a_0 = 1 it holds all lower moments. Sums of fourth powers lose (mean / sd)^4 in precision, so
the frame follows the rows: before rows are added, it is moved to their mean and tilted along their
fit when either is far off. A move is exact up to rounding, a polynomial in the sums.
"""

import operator
from dataclasses import dataclass
from fractions import Fraction

import equinox as eqx
import numpy as np

from masgrad.covariance.symmetric_tensor import (
    contract,
    fourth_power_sum,
    pairs,
    position,
    shear,
    size,
    square,
    translate,
)
from masgrad.types import Array, namespace

LARGEST_SQUARED_MEAN = 10.0
"""Largest squared mean, in variances, before the frame is moved."""
SMALLEST_RESIDUAL_SHARE = 0.01
"""Smallest residual share of the variance of r before the frame is tilted."""
LARGEST_SLOPE_TERM = 100.0
"""Squared terms of a frame's slope, in variances of y: a coefficient that noise made large in a
direction in which the rows hardly vary would cancel at every other theta."""


class Frame(eqx.Module):
    """Coordinates (1, u, r) of a row: u = x - centre, r = y - level - u'slope.

    `intercept` is centre'slope - level.
    """

    centre: Array
    level: Array
    slope: Array
    intercept: Array

    @classmethod
    def at(cls, centre: np.ndarray, level: Array, slope: np.ndarray) -> "Frame":
        intercept = _rounded_once(centre, slope, level)
        return cls(centre, np.asarray(level), slope, np.asarray(intercept))

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> "Frame":
        """The frame at the mean of these rows, along their least-squares fit."""
        centre, level = _mean(X), _mean(y)
        m = len(y) ** 0.5
        slope, _ = _least_squares(
            (X - centre) / m, (y - level) / m, centre, level, LARGEST_SLOPE_TERM
        )
        return cls.at(centre, level, slope)

    @property
    def d(self) -> int:
        return len(self.centre) + 2

    def rows(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The rows' coordinates, (m, d)."""
        u = X - self.centre
        return np.column_stack([np.ones(len(y)), u, (y - self.level) - u @ self.slope])

    def residual(self, theta: Array) -> tuple[Array, Array]:
        """s and f with x'theta - y = s + (u, r)'f."""
        change = theta - self.slope
        f = namespace(theta).concatenate([change, np.full(1, -1.0)])
        return self.intercept + self.centre @ change, f

    def change(self, packed: np.ndarray, order: int, new: "Frame") -> np.ndarray:
        """Moments of this frame's coordinates as moments of another's."""
        tau = self.centre - new.centre
        offset = self.level - new.level - tau @ new.slope
        packed = shear(packed, self.d, order, np.hstack([offset, self.slope - new.slope, 1.0]))
        return translate(packed, self.d, order, np.hstack([0.0, tau, 0.0]))

    def settled(self, second: np.ndarray) -> "Frame":
        """This frame, or a better one if E[a a'] shows that it suits the rows badly."""
        mean, cov = _centred(second)
        better, _ = self.fitted(second)
        q = np.append(self.slope - better.slope, 1.0)
        if (
            q @ cov @ q >= SMALLEST_RESIDUAL_SHARE * cov[-1, -1]
            and (mean**2 <= LARGEST_SQUARED_MEAN * cov.diagonal()).all()
        ):
            return self
        return better

    def fitted(
        self, second: np.ndarray, limit: float = LARGEST_SLOPE_TERM
    ) -> tuple["Frame", np.ndarray]:
        """The frame at the mean of all rows along their fit, and a basis of what is identified."""
        mean, cov = _centred(second)
        root = _root(cov)
        centre = self.centre + mean[:-1]
        level = self.level + (mean[-1] + mean[:-1] @ self.slope)
        gap = -_rounded_once(centre, self.slope, level)
        tilt, basis = _least_squares(root[:, :-1], root[:, -1], centre, gap, limit)
        return Frame.at(centre, level, self.slope + tilt), basis


@dataclass(frozen=True, eq=False)
class Tally:
    """Sum over `count` rows of the packed fourth-order tensor of their coordinates."""

    frame: Frame
    packed: np.ndarray
    count: int

    @classmethod
    def empty(cls, frame: Frame) -> "Tally":
        return cls(frame, np.zeros(size(frame.d, 4)), 0)

    @property
    def second(self) -> np.ndarray:
        """Sum of a a', packed."""
        return self.packed[position(0, 0, *pairs(self.frame.d))]

    def powers(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E[w w' t^k] for k = 0, 1, 2, where w = (1, u) and t = (u, r)'f."""
        d, q = self.frame.d, np.append(0.0, f)
        third = contract(self.packed, d, 4, q)
        w = square(d - 1)
        once, twice = third[position(0, *pairs(d))], contract(third, d, 3, q)
        return self.second[w] / self.count, once[w] / self.count, twice[w] / self.count

    def cancellation(self, s: Array, f: np.ndarray) -> np.ndarray:
        """For each gradient coordinate, the squared size of its terms before cancellation: (p,).

        Rounding leaves its variance an error of about this times 1e-16.
        """
        i = np.arange(self.frame.d)
        rms = (self.packed[position(i[:, None], i[:, None], i, i)] / self.count) ** 0.5
        of_t, of_ut = rms[0, 1:] @ np.abs(f), rms[1:-1, 1:] @ np.abs(f)
        return (np.abs(self.frame.centre) * of_t + of_ut + np.abs(s) * rms[0, 1:-1]) ** 2

    def optimum(self) -> np.ndarray:
        """The least-squares estimate, of minimum norm if it is not unique."""
        fit, basis = self.frame.fitted(self.second[square(self.frame.d)] / self.count, limit=1e300)
        if basis.shape[1] == len(basis):
            return fit.slope
        Q = np.linalg.qr(basis)[0]
        return Q @ (Q.T @ fit.slope)

    def add(self, X: np.ndarray, y: np.ndarray) -> "Tally":
        """The tally with more rows, in a frame that suits all rows."""
        A = self.frame.rows(X, y)
        count = self.count + len(y)
        moved = self.moved(self.frame.settled((self.second[square(A.shape[1])] + A.T @ A) / count))
        A = A if moved is self else moved.frame.rows(X, y)
        sums = fourth_power_sum(A)
        sums += moved.packed
        return Tally(moved.frame, sums, count)

    def merge(self, other: "Tally") -> "Tally":
        """The sum of both tallies, in this frame or a better one."""
        count = self.count + other.count
        total = self.second + other.frame.change(other.second, 2, self.frame)
        frame = self.frame.settled(total[square(self.frame.d)] / count)
        return Tally(frame, self.moved(frame).packed + other.moved(frame).packed, count)

    def moved(self, frame: Frame) -> "Tally":
        if frame is self.frame:
            return self
        return Tally(frame, self.frame.change(self.packed, 4, frame), self.count)


def _root(S: np.ndarray) -> np.ndarray:
    """R with R'R = S; eigenvalues of the correlations at rounding level are set to 0."""
    sd = S.diagonal().clip(0.0) ** 0.5
    scale = np.where(sd > 0, sd, 1.0)
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    values[values < 100 * len(S) * np.finfo(float).eps * values[-1]] = 0.0
    return values[:, None] ** 0.5 * vectors.T * sd


def _least_squares(
    A: np.ndarray, b: np.ndarray, centre: np.ndarray, gap: Array, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """z that minimises |A z - b|^2 + (centre'z - gap)^2, and a basis (p, k) of what is identified.

    A holds centred rows; its columns are scaled, so that units do not matter. Directions in which
    z^2 would exceed `limit` times b'b + gap^2 are left out. Of those in which A has no spread, the
    centre determines one: columns that sum to a constant, as indicators of groups do, need it.
    """
    norms = np.linalg.norm(A, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    A, c = A / scale, centre / scale
    largest = limit * (b @ b + gap**2)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    seen = s > 1e-12 * s[0]
    along = (b @ U[:, seen]) / s[seen]
    keep = along**2 <= largest
    V = Vt[seen][keep].T
    free = c - V @ (V.T @ c)
    length = np.linalg.norm(free)
    if (gap - c @ V @ along[keep]) ** 2 <= largest * length**2 and length > 1e-10 * np.linalg.norm(
        c
    ):
        V = np.column_stack([V, free / length])
    along = np.linalg.lstsq(np.vstack([A @ V, c @ V]), np.append(b, gap), rcond=1e-14)[0]
    return V @ along / scale, scale[:, None] * V


def _centred(second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (u, r) from E[a a']."""
    mean = second[0, 1:]
    return mean, second[1:, 1:] - np.outer(mean, mean)


def _mean(rows: np.ndarray) -> np.ndarray:
    """The mean, which is exact for a constant column."""
    return rows[0] + (rows - rows[0]).mean(0)


def _rounded_once(a: np.ndarray, b: np.ndarray, c: Array) -> float:
    """a'b - c rounded once, for a small difference of large terms."""
    exact = sum(map(operator.mul, map(Fraction, a.tolist()), map(Fraction, b.tolist())))
    return float(exact - Fraction(float(c)))

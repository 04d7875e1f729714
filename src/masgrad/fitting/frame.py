"""Coordinates in which the user's units do not matter: theta = J phi.

MasGrad is not invariant to a change of coordinates, and a column 1e9 + u has lost its digits before
it is squared. So fits run in phi, where columns are scaled, and centred where they can be:

- against a constant column k:  phi_k = v_k theta_k + sum_j c_j theta_j,  phi_j = s_j theta_j
- without one, a Householder reflection turns the shifts d = c / s into the first axis, P d = r e_1:
  x'theta = r chi_1 + (P u)'chi  with  u = (x - c) / s,  chi = P (s theta),  r = -sign(d_1) |d|

Where shifts are small the rows stay as they are, and only sums over rows are transformed.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.models.model import RowSums

FAR = 1e3
"""A column further from 0 than this many standard deviations is centred row by row: a sum of raw
squares would lose twice as many digits as the shift has."""

LOST = 1e8
"""So is one whose squared shift times the condition number of H exceeds this, for the digits that
are left must tell collinear columns apart: powers of the year 1984."""


FEW = 64
"""Columns up to which sums are turned by products of matrices."""

ENOUGH = 1 << 13
"""Rows that tell the spread of columns, unless one does not vary in them."""


@dataclass(frozen=True)
class Frame:
    """J, and how rows are brought into phi where sums of the raw ones would cancel.

    Args:
        matrix: J, (p, p).
        centre: c, (p,).
        scale: s, (p,).
        constant: the constant column k, or None.
        far: whether rows are transformed before they are summed.
    """

    matrix: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    constant: int | None = None
    far: bool = False

    def theta(self, phi: np.ndarray) -> np.ndarray:
        return self.matrix @ phi

    def phi(self, theta: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.matrix, theta)

    def cov(self, C: np.ndarray) -> np.ndarray:
        """A covariance of phi as one of theta."""
        return self.matrix @ C @ self.matrix.T

    def sums(self, s: RowSums) -> RowSums:
        """Sums of raw rows, in phi."""
        H = None if s.hessian is None else self._turned(s.hessian)
        M = None if s.meat is None else self._turned(s.meat)
        # A centred column is at most as large as the raw one and its shift together.
        peak = np.abs(s.peak) / np.abs(self.scale) * np.where(self.centre == 0, 1.0, 2.0)
        expected = None if s.information is None else self._turned(s.information)
        return RowSums(s.gradient @ self.matrix, H, M, s.squares, peak, s.loss, expected)

    def _turned(self, H: np.ndarray) -> np.ndarray:
        """J'H J. J is a diagonal d, and against a constant column k a row r beside it.

        Two products lose fewer digits where H is nearly singular, and cost nothing up to FEW.
        """
        if self.far or len(H) <= FEW:
            return self.matrix.T @ H @ self.matrix
        d, k = np.diag(self.matrix), self.constant
        scaled = H * np.outer(d, d)
        if k is None:
            return scaled
        r = self.matrix[k] - d * (np.arange(len(d)) == k)
        cross = np.outer(d * H[k], r)
        return scaled + cross + cross.T + H[k, k] * np.outer(r, r)

    def design(self, X: np.ndarray) -> np.ndarray:
        """X J, without forming the large numbers that would cancel."""
        if self.constant is None:
            d = self.centre / self.scale
            U = _reflect((X - self.centre) / self.scale, d)
            U[:, 0] = 1.0 + U[:, 0] / _length(d)
            return U
        one = X[:, self.constant] / self.scale[self.constant]
        U = (X - one[:, None] * self.centre) / self.scale
        U[:, self.constant] = one
        return U


def identity(p: int) -> Frame:
    return Frame(np.eye(p), np.zeros(p), np.ones(p))


def of_scale(scale: np.ndarray) -> Frame:
    """phi = scale * theta."""
    return Frame(np.diag(1.0 / scale), np.zeros(len(scale)), scale)


def of_design(X: np.ndarray) -> Frame:
    """The frame of a design matrix, from some of its rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        centre = X.mean(0)
        spread = _spread(X[:ENOUGH], centre)
        spread = spread if (spread > 0).all() else _spread(X, centre)
    still = spread <= 1e-14 * np.abs(centre)
    constants = np.flatnonzero(still & (centre != 0))
    size = np.where(centre != 0, np.abs(centre), 1.0)
    spread = np.where(still | (spread == 0), size, spread)
    shift = np.abs(centre / spread) * ~still
    far = shift.max() > FAR or _loses(X[:ENOUGH], centre, spread, still, shift.max())
    if len(constants):
        return _against_constant(centre, spread, int(constants[0]), far)
    if far:
        return _reflected(centre, spread)
    zero = np.zeros(X.shape[1])
    size = _spread(X[:ENOUGH], zero)
    size = size if (size > 0).all() else _spread(X, zero)
    return of_scale(np.where(size > 0, size, 1.0))


def _spread(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Root mean square about a centre; a few outliers must not set a column's unit.

    They are cut to 20 times the median deviation, where that is not 0 (as it is for a dummy).
    """
    few = X[: 1 << 11]  # medians of all rows would take as long as a read of a million
    usual = np.median(few, axis=0)
    middle = np.median(np.abs(few - usual), axis=0)
    shift = np.abs(usual - centre)
    away = X - centre  # the one copy: another costs as much as what is done with it
    np.abs(away, out=away)
    largest = np.minimum(np.where(middle > 0, 20 * middle + shift, np.inf), away.max(0))
    unit = np.where(largest > 0, largest, 1.0)
    np.minimum(away, largest, out=away)
    away /= unit
    np.square(away, out=away)
    return unit * np.sqrt(away.mean(0))


def _loses(X: np.ndarray, c: np.ndarray, s: np.ndarray, still: np.ndarray, shift: float) -> bool:
    """Whether sums of raw rows would blur directions in which columns nearly cancel."""
    if shift < 1:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        U = ((X - c) / s)[:, ~still]
        moment = U.T @ U
    if not np.isfinite(moment).all():
        return False
    values = np.linalg.eigvalsh(moment)
    return bool(shift**2 * values[-1] > LOST * max(values[0], 0.0))


def _against_constant(c: np.ndarray, s: np.ndarray, k: int, far: bool) -> Frame:
    value, c, s = c[k], c.copy(), s.copy()
    c[k], s[k] = 0.0, value
    J = np.diag(1.0 / s)
    others = np.arange(len(c)) != k
    J[k, others] = -(c / s)[others] / value
    return Frame(J, c, s, k, far)


def _reflected(c: np.ndarray, s: np.ndarray) -> Frame:
    d = c / s
    P = _reflect(np.eye(len(c)), d)
    P[:, 0] /= _length(d)
    return Frame(P / s[:, None], c, s, None, True)


def _length(d: np.ndarray) -> float:
    """r: the sign is the one for which d - r e_1 does not cancel."""
    return float(-np.copysign(np.linalg.norm(d), d[0]))


def _reflect(U: np.ndarray, d: np.ndarray) -> np.ndarray:
    """U P with P d = r e_1."""
    v = d.copy()
    v[0] -= _length(d)
    return U - np.outer(U @ v, v) * (2.0 / (v @ v))

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

LARGEST_SHIFT = 1e3
"""Standard deviations from 0 beyond which a column is centred row by row: a sum of raw squares
loses twice as many digits as the shift has."""

LARGEST_CANCELLATION = 1e8
"""Squared shift times the condition number of H beyond which columns are centred row by row as
well, because the remaining digits must tell collinear columns apart (powers of the year 1984)."""

DENSE_COLUMNS = 64
"""Columns up to which sums are transformed by dense products."""

SPREAD_ROWS = 1 << 13
"""Rows from which the spread of columns is computed, unless a column is constant in them."""

MEDIAN_ROWS = 1 << 11
"""Rows from which medians are computed: those of all rows would take as long as a read of a
million."""


@dataclass(frozen=True)
class Coordinates:
    """The matrix J, and the shifts and scales behind it.

    Args:
        matrix: J, (p, p).
        centre: the columns' shifts c, (p,).
        scale: the columns' scales s, (p,).
        constant: index k of the constant column, or None.
        transforms_rows: whether rows, rather than sums over them, are transformed.
    """

    matrix: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    constant: int | None = None
    transforms_rows: bool = False

    def theta(self, phi: np.ndarray) -> np.ndarray:
        return self.matrix @ phi

    def phi(self, theta: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.matrix, theta)

    def cov(self, C: np.ndarray) -> np.ndarray:
        """The covariance of theta, from that of phi."""
        return self.matrix @ C @ self.matrix.T

    def sums(self, s: RowSums) -> RowSums:
        """Sums over raw rows, transformed to phi."""
        H = None if s.hessian is None else self._transformed(s.hessian)
        M = None if s.meat is None else self._transformed(s.meat)
        # A centred column is at most as large as the raw one and its shift together.
        largest = (
            np.abs(s.max_weighted_x) / np.abs(self.scale) * np.where(self.centre == 0, 1.0, 2.0)
        )
        expected = None if s.information is None else self._transformed(s.information)
        return RowSums(s.gradient @ self.matrix, H, M, s.squares, largest, s.loss, expected)

    def _transformed(self, H: np.ndarray) -> np.ndarray:
        """J'H J, where J is a diagonal d plus, with a constant column k, a row r.

        Dense products lose fewer digits if H is nearly singular, and are cheap for few columns.
        """
        if self.transforms_rows or len(H) <= DENSE_COLUMNS:
            return self.matrix.T @ H @ self.matrix
        d, k = np.diag(self.matrix), self.constant
        scaled = H * np.outer(d, d)
        if k is None:
            return scaled
        r = self.matrix[k] - d * (np.arange(len(d)) == k)
        cross = np.outer(d * H[k], r)
        return scaled + cross + cross.T + H[k, k] * np.outer(r, r)

    def raw_design(self, X: np.ndarray) -> np.ndarray:
        """X J from raw columns, if rows are not transformed: a diagonal and a row, as above."""
        if len(self.matrix) <= DENSE_COLUMNS:
            return X @ self.matrix
        d, k = np.diag(self.matrix), self.constant
        U = X * d
        return U if k is None else U + X[:, [k]] * (self.matrix[k] - d * (np.arange(len(d)) == k))

    def design(self, X: np.ndarray) -> np.ndarray:
        """X J, without forming the large numbers that would cancel."""
        if self.constant is None:
            d = self.centre / self.scale
            U = _reflect((X - self.centre) / self.scale, d)
            U[:, 0] = 1.0 + U[:, 0] / _reflected_length(d)
            return U
        one = X[:, self.constant] / self.scale[self.constant]
        U = (X - one[:, None] * self.centre) / self.scale
        U[:, self.constant] = one
        return U


def identity(p: int) -> Coordinates:
    return Coordinates(np.eye(p), np.zeros(p), np.ones(p))


def of_scale(scale: np.ndarray) -> Coordinates:
    """phi = scale * theta."""
    return Coordinates(np.diag(1.0 / scale), np.zeros(len(scale)), scale)


def of_design(X: np.ndarray) -> Coordinates:
    """Coordinates for a linear predictor, from some rows of its design matrix."""
    with np.errstate(over="ignore", invalid="ignore"):
        centre = X.mean(0)
        spread = _spread(X[:SPREAD_ROWS], centre)
        spread = spread if (spread > 0).all() else _spread(X, centre)
    still = spread <= 1e-14 * np.abs(centre)
    constants = np.flatnonzero(still & (centre != 0))
    size = np.where(centre != 0, np.abs(centre), 1.0)
    spread = np.where(still | (spread == 0), size, spread)
    shift = np.abs(centre / spread) * ~still
    far = bool(shift.max() > LARGEST_SHIFT)
    far = far or _cancels(X[:SPREAD_ROWS], centre, spread, still, shift.max())
    if len(constants):
        return _against_constant(centre, spread, int(constants[0]), far)
    if far:
        return _reflected(centre, spread)
    return of_columns(X)


def of_columns(X: np.ndarray) -> Coordinates:
    """Coordinates that scale the columns of X and do not centre them."""
    zero = np.zeros(X.shape[1])
    size = _spread(X[:SPREAD_ROWS], zero)
    size = size if (size > 0).all() else _spread(X, zero)
    return of_scale(np.where(size > 0, size, 1.0))


def _spread(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Root mean square about a centre, robust to a few outliers.

    Deviations are clipped at 20 times their median, unless that is 0 (as it is for a dummy).
    """
    few = X[:MEDIAN_ROWS]
    usual = np.median(few, axis=0)
    middle = np.median(np.abs(few - usual), axis=0)
    shift = np.abs(usual - centre)
    away = X - centre  # the only copy: another would double the cost
    np.abs(away, out=away)
    largest = np.minimum(np.where(middle > 0, 20 * middle + shift, np.inf), away.max(0))
    unit = np.where(largest > 0, largest, 1.0)
    np.minimum(away, largest, out=away)
    away /= unit
    np.square(away, out=away)
    return unit * np.sqrt(away.mean(0))


def _cancels(X: np.ndarray, c: np.ndarray, s: np.ndarray, still: np.ndarray, shift: float) -> bool:
    """Whether sums over raw rows lose the directions in which columns nearly cancel."""
    if shift < 1:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        U = ((X - c) / s)[:, ~still]
        moment = U.T @ U
    if not np.isfinite(moment).all():
        return False
    values = np.linalg.eigvalsh(moment)
    return bool(shift**2 * values[-1] > LARGEST_CANCELLATION * max(values[0], 0.0))


def _against_constant(c: np.ndarray, s: np.ndarray, k: int, far: bool) -> Coordinates:
    value, c, s = c[k], c.copy(), s.copy()
    c[k], s[k] = 0.0, value
    J = np.diag(1.0 / s)
    others = np.arange(len(c)) != k
    J[k, others] = -(c / s)[others] / value
    return Coordinates(J, c, s, k, far)


def _reflected(c: np.ndarray, s: np.ndarray) -> Coordinates:
    d = c / s
    P = _reflect(np.eye(len(c)), d)
    P[:, 0] /= _reflected_length(d)
    return Coordinates(P / s[:, None], c, s, None, True)


def _reflected_length(d: np.ndarray) -> float:
    """r: the sign is the one for which d - r e_1 does not cancel."""
    return float(-np.copysign(np.linalg.norm(d), d[0]))


def _reflect(U: np.ndarray, d: np.ndarray) -> np.ndarray:
    """U P with P d = r e_1."""
    v = d.copy()
    v[0] -= _reflected_length(d)
    return U - np.outer(U @ v, v) * (2.0 / (v @ v))

"""Coordinates in which the user's units do not matter: theta = J phi.

MasGrad is not invariant to a change of coordinates, and a column 1e9 + u has lost its digits before
it is squared. So fits run in phi, where columns are scaled, and centred where they can be:

- against a constant column k:  phi_k = v_k theta_k + sum_j c_j theta_j,  phi_j = s_j theta_j
- without one, a Householder reflection turns the shifts d = c / s into the first axis, P d = r e_1:
  x'theta = r chi_1 + (P u)'chi  with  u = (x - c) / s,  chi = P (s theta),  r = -sign(d_1) |d|

Where shifts are small the rows stay as they are, and only sums over rows are transformed. Columns
that are nearly collinear even so are multiplied by a preconditioner (`factor.py`).
"""

from dataclasses import dataclass

import numpy as np

from masgrad.data.arrays import BLOCK, SPREAD_ROWS, column_spread, every_few
from masgrad.data.designs.structured import Structured
from masgrad.fitting.objective.accurate import accurate_product, exact_difference
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.models.gram import Bordered, factor
from masgrad.models.model import RowSums

LARGEST_SHIFT = 1e3
"""Standard deviations from 0 beyond which a column is centred row by row: a sum of raw squares
loses twice as many digits as the shift has."""

LARGEST_CANCELLATION = 1e8
"""Squared shift times the condition number of H beyond which columns are centred row by row as
well, because the remaining digits must tell collinear columns apart (powers of the year 1984)."""

LARGEST_RANGE = 1e4
"""Ratio of the sizes of two parameters' gradients at an estimate beyond which a fit is repeated in
its units: a curvature below 1e-13 of the largest counts as none."""

SMALL_LOADING = 1e-3
"""Share of a direction's largest loading up to which a parameter does not move along it."""

DENSE_COLUMNS = 64
"""Columns up to which sums are transformed by dense products."""

LARGEST_GRAM_CONDITION = 1e6
"""Condition number of the columns' moment matrix up to which sums of squares have digits enough."""

SURELY = 0.1
"""Share of the largest condition number up to which an estimate of it decides."""

CONDITION_ROWS = 1 << 11
"""Rows from which that condition number is computed, or two for each column if that is more."""


@dataclass(frozen=True)
class Coordinates:
    """The matrix J, and the shifts and scales behind it.

    Args:
        matrix: J, (p, p).
        centre: the columns' shifts c, (p,).
        scale: the columns' scales s, (p,).
        constant: index k of the constant column, or None.
        transforms_rows: whether rows, rather than sums over them, are transformed.
        preconditioner: R^-1, (p, p), by which centred and scaled rows are multiplied; R is their
            triangular factor, and None if they are not multiplied.
    """

    matrix: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    constant: int | None = None
    transforms_rows: bool = False
    preconditioner: np.ndarray | None = None

    def theta(self, phi: np.ndarray) -> np.ndarray:
        return self.matrix @ phi

    def phi(self, theta: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.matrix, theta)

    def cov(self, C: np.ndarray) -> np.ndarray:
        """The covariance of theta, from that of phi."""
        if self._is_dense:
            return self.matrix @ C @ self.matrix.T
        return self._bordered.covariance(C)

    def raw_moment(self, M: np.ndarray) -> np.ndarray:
        """The moment matrix of raw rows, from that of rows in phi: J^-T M J^-1."""
        if self._is_dense:
            back = np.linalg.inv(self.matrix)
            return back.T @ M @ back
        return self._bordered.inverse().moment(M)

    @property
    def _is_dense(self) -> bool:
        """Whether products with J are dense ones, which lose fewer digits."""
        return self.transforms_rows or len(self.matrix) <= DENSE_COLUMNS

    @property
    def _bordered(self) -> Bordered:
        d, k = np.diag(self.matrix), self.constant
        if k is None:
            return Bordered(d)
        return Bordered(d, k, self.matrix[k] * (np.arange(len(d)) != k))

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
        """J'H J."""
        if self._is_dense:
            return self.matrix.T @ H @ self.matrix
        return self._bordered.moment(H)

    def raw_design(self, X: np.ndarray) -> np.ndarray:
        """X J from raw columns, if rows are not transformed: a diagonal and a row, as above."""
        if self._is_dense:
            with np.errstate(invalid="ignore", over="ignore"):  # sums show it
                return X @ self.matrix
        return self._bordered.rows(X)

    def moment(self, X: np.ndarray) -> np.ndarray:
        """The Gram matrix of rows in phi."""
        if isinstance(X, Structured) and not self.transforms_rows:
            return self._transformed(X.gram(np.ones(len(X))))
        parts = [X[s : s + BLOCK] for s in range(0, len(X), BLOCK)]
        return sum((U.T @ U for U in map(self.design, parts)), np.zeros(()))

    def condition(self, local: LocalModel) -> float:
        """Condition number of the scaled H of rows before they are multiplied by R^-1."""
        if self.preconditioner is None:
            return local.condition
        size, values, Q = local.spectrum
        if values[0] <= np.finfo(float).eps * values[-1]:
            return local.condition
        root = np.sqrt(values)[:, None] * Q.T * size @ np.linalg.inv(self.preconditioner)
        values = np.linalg.svd(root / np.linalg.norm(root, axis=0), compute_uv=False)
        return float((values[0] / values[-1]) ** 2)

    def design(self, X: np.ndarray) -> np.ndarray:
        """X J, without forming the large numbers that would cancel."""
        if self.preconditioner is None:
            return self.centred(X)
        U = accurate_product(self.centred(X), self.preconditioner)
        return U + self._rounding_errors(X) @ self.preconditioner

    def _rounding_errors(self, X: np.ndarray) -> np.ndarray:
        """What centring has rounded; scales are powers of 2 where this matters."""
        if self.constant is None or not self.centre.any():
            return np.zeros_like(X)
        one = X[:, [self.constant]] / self.scale[self.constant]
        return exact_difference(X, one * self.centre)[1] / self.scale

    def centred(self, X: np.ndarray) -> np.ndarray:
        """Centred and scaled rows."""
        if not self.centre.any():
            return X / self.scale
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


def rescaled(coordinates: Coordinates, local: LocalModel) -> Coordinates | None:
    """Coordinates in which gradients have one size at the estimate; None if they nearly have.

    The size is that of a row, or the root of the curvature where no row has a gradient.

    Args:
        coordinates: of a loss of one's own, in which they had at the start.
        local: at the estimate.
    """
    size = np.maximum(np.diag(local.meat), np.abs(np.diag(local.hessian)))
    size = np.sqrt(size / local.count)
    seen = size > 0
    if not np.isfinite(size).all() or size.max() <= LARGEST_RANGE * size[seen].min(initial=np.inf):
        return None
    return of_scale(coordinates.scale * np.where(seen, size, 1.0))


def of_design(X: np.ndarray) -> Coordinates:
    """Coordinates for a linear predictor, from some rows of its design matrix."""
    with np.errstate(over="ignore", invalid="ignore"):
        centre = X.mean(0)
        spread = column_spread(X, centre)
    still = spread <= 1e-14 * np.abs(centre)
    constants = np.flatnonzero(still & (centre != 0))
    size = np.where(centre != 0, np.abs(centre), 1.0)
    spread = np.where(still | (spread == 0), size, spread)
    shift = np.abs(centre / spread) * ~still
    far = bool(shift.max() > LARGEST_SHIFT)
    far = far or _cancels(every_few(X, SPREAD_ROWS), centre, spread, still, shift.max())
    if len(constants):
        return against_constant(centre, spread, int(constants[0]), far)
    if far:
        return reflected(centre, spread)
    return of_columns(X)


def of_columns(X: np.ndarray) -> Coordinates:
    """Coordinates that scale the columns of X and do not centre them."""
    size = column_spread(X, np.zeros(X.shape[1]))
    return of_scale(np.where(size > 0, size, 1.0))


def is_ill_conditioned(
    coordinates: Coordinates, X: np.ndarray, earlier: np.ndarray | None = None
) -> bool:
    """Whether sums of squares over such rows lose too many digits.

    `earlier` is the mean of H over the rows of an earlier fit, in phi. A few rows are looked at
    first: if they are well conditioned, all are.
    """
    every = max(1, len(X) // max(CONDITION_ROWS, 2 * X.shape[1]))
    few_then_all = X[::every], X
    return all(_condition(coordinates, A, earlier) > LARGEST_GRAM_CONDITION for A in few_then_all)


def _condition(coordinates: Coordinates, X: np.ndarray, earlier: np.ndarray | None) -> float:
    """Condition number of the scaled moment matrix, without empty columns; 1 if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        moment = coordinates.moment(X) / len(X) + (0.0 if earlier is None else earlier)
    if not np.isfinite(moment).all():
        return 1.0
    if (found := factor(moment)) is not None and found.condition < SURELY * LARGEST_GRAM_CONDITION:
        return found.condition
    full = np.flatnonzero(np.diag(moment))
    size = np.sqrt(np.diag(moment)[full])
    values = np.linalg.eigvalsh(moment[np.ix_(full, full)] / np.outer(size, size))
    if not len(full):
        return 1.0
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def _cancels(X: np.ndarray, c: np.ndarray, s: np.ndarray, still: np.ndarray, shift: float) -> bool:
    """Whether sums over raw rows lose the directions in which columns nearly cancel."""
    if shift <= 1:  # a column that is absent here has 1
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, Structured):
            moment = X.gram_about(c, s)[np.ix_(~still, ~still)]
        else:
            U = ((X - c) / s)[:, ~still]
            moment = U.T @ U
    if not np.isfinite(moment).all():
        return False
    values = np.linalg.eigvalsh(moment)
    return bool(shift**2 * values[-1] > LARGEST_CANCELLATION * max(values[0], 0.0))


def against_constant(c: np.ndarray, s: np.ndarray, k: int, far: bool) -> Coordinates:
    value, c, s = c[k], c.copy(), s.copy()
    c[k], s[k] = 0.0, value
    J = np.diag(1.0 / s)
    others = np.arange(len(c)) != k
    J[k, others] = -(c / s)[others] / value
    return Coordinates(J, c, s, k, far)


def reflected(c: np.ndarray, s: np.ndarray) -> Coordinates:
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


def moved_along(
    coordinates: Coordinates, directions: np.ndarray, share: float = SMALL_LOADING
) -> np.ndarray:
    """Mask of the entries of theta that change along directions of phi, beyond rounding."""
    if not directions.size:
        return np.zeros(len(coordinates.matrix), bool)
    loads = np.abs(coordinates.matrix @ directions) * np.abs(coordinates.scale[:, None])
    return (loads > share * loads.max(0)).any(1)

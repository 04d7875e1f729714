"""Coordinates in which the user's units do not matter: theta = J phi.

MasGrad is not invariant to a change of coordinates, and a column 1e9 + u has lost its digits before
it is squared. So fits run in phi, where columns are scaled, and centred where they can be:

- against a constant column k:  phi_k = v_k theta_k + sum_j c_j theta_j,  phi_j = s_j theta_j
- without one, a Householder reflection P turns the shifts c / s into the first axis:
  x'theta = |d| chi_1 + (P u)'chi  with  u = (x - c) / s,  d = c / s,  chi = P (s theta)

Where shifts are small the rows stay as they are, and only sums over rows are transformed.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.models.model import RowSums

FAR = 1e3
"""A column further from 0 than this many standard deviations is centred row by row: a sum of raw
squares would lose twice as many digits as the shift has."""


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
        J = self.matrix
        H = None if s.hessian is None else J.T @ s.hessian @ J
        M = None if s.meat is None else J.T @ s.meat @ J
        return RowSums(s.gradient @ J, H, M, s.squares)

    def design(self, X: np.ndarray) -> np.ndarray:
        """X J, without forming the large numbers that would cancel."""
        if self.constant is None:
            return _reflect((X - self.centre) / self.scale, self.centre / self.scale)
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
        spread = np.sqrt(np.square(X - centre).mean(0))
    still = spread <= 1e-14 * np.abs(centre)
    constants = np.flatnonzero(still & (centre != 0))
    size = np.where(centre != 0, np.abs(centre), 1.0)
    spread = np.where(still | (spread == 0), size, spread)
    if len(constants):
        return _against_constant(centre, spread, int(constants[0]), still)
    shift = np.abs(centre / spread)
    if shift.max() > FAR:
        return _reflected(centre, spread)
    return of_scale(np.sqrt(np.square(X).mean(0)) + (spread == 0) + (np.abs(X).max(0) == 0))


def _against_constant(c: np.ndarray, s: np.ndarray, k: int, still: np.ndarray) -> Frame:
    value, c, s = c[k], c.copy(), s.copy()
    c[k], s[k] = 0.0, value
    J = np.diag(1.0 / s)
    others = np.arange(len(c)) != k
    J[k, others] = -(c / s)[others] / value
    far = bool((np.abs(c / s) * ~still).max() > FAR)
    return Frame(J, c, s, k, far)


def _reflected(c: np.ndarray, s: np.ndarray) -> Frame:
    d = c / s
    P = _reflect(np.eye(len(c)), d, plain=True)
    P[:, 0] /= np.linalg.norm(d)
    return Frame(P / s[:, None], c, s, None, True)


def _reflect(U: np.ndarray, d: np.ndarray, plain: bool = False) -> np.ndarray:
    """U P with P e_1 = d / |d|; unless plain, the first feature is 1 + (U P)_1 / |d|."""
    length = np.linalg.norm(d)
    v = d / length
    v[0] -= 1.0
    norm = v @ v
    out = U - np.outer(U @ v, v) * (2.0 / norm) if norm > 0 else U.copy()
    if not plain:
        out[:, 0] = 1.0 + out[:, 0] / length
    return out

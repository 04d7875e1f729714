"""The two penalised regressions of the proximal experiment, their optimum and the gap to it.

    L(w) = g(w) + h(w),        g(w) = w'H w / 2 - c'w + const,        H = X'X / N,  c = X'y / N

The rows are rotated so that H is exactly the matrix that is wanted: its condition number then
depends on no seed. Columns of unequal size are correlated, so that the diagonal of V is neither I
nor V. Coefficients are large where columns are small: the slow direction of H is then inside the
support of the lasso, and does not vanish from the path once the support is found.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from masgrad.models.glm import GLM, Linear
from masgrad.models.trace import TraceRegression
from masgrad.penalties.penalty import Penalty, Scaled
from masgrad.penalties.separable import L1
from masgrad.penalties.structured import Nuclear
from masgrad.types import Rows

N, P, SUPPORT, CONDITION, CORRELATION = 2000, 40, 8, 1e3, 0.7
SIDE, RANK, MATRIX_CONDITION, LEAST_SIZE = 20, 2, 100.0, 0.6
QUICK_SIDE = 10
ENOUGH = 100
"""Accelerated steps for the optimum, in units of sqrt(kappa): rounding ends progress first."""


@dataclass(frozen=True)
class Penalised:
    """A quadratic loss over rows, and a penalty.

    Args:
        model: the loss.
        rows: (X, y).
        H: its Hessian, (p, p).
        c: the mean of y x, (p,).
        penalty: h.
    """

    model: GLM
    rows: Rows
    H: np.ndarray
    c: np.ndarray
    penalty: Scaled

    @property
    def start(self) -> np.ndarray:
        """w_0 = 0."""
        return np.zeros(len(self.c))

    @functools.cached_property
    def extremes(self) -> tuple[float, float]:
        """The least and the largest eigenvalue of H."""
        values = np.linalg.eigvalsh(self.H)
        return float(values[0]), float(values[-1])

    @functools.cached_property
    def optimum(self) -> np.ndarray:
        """argmin L."""
        return _minimised(self.H, self.c, self.penalty, *self.extremes)

    @property
    def optimum_error(self) -> float:
        """A bound of L(optimum) - min L: |G|^2 / (2 alpha) with G the gradient mapping there."""
        alpha, gamma = self.extremes
        b = self.H @ self.optimum - self.c
        G = gamma * (self.optimum - self.penalty.prox(self.optimum - b / gamma, 1 / gamma))
        return float(G @ G) / (2 * alpha)

    def gap(self, path: np.ndarray) -> np.ndarray:
        """L(w) - min L for w in rows.

        g is expanded at the optimum, whose gradient b cancels against h: gaps of 1e-12 keep digits.
        """
        away, b = path - self.optimum, self.H @ self.optimum - self.c
        kink = self.penalty.value(path.T) + path @ b
        least = self.penalty.value(self.optimum) + self.optimum @ b
        return ((away @ self.H) * away).sum(1) / 2 + np.asarray(kink - least)


def lasso(seed: int = 0) -> Penalised:
    """2000 rows, 40 columns of which the first 8 matter; condition number 1000; noise N(0, 1).

    Paper: sparse regression - square loss with an l1 penalty
    """
    rng = np.random.default_rng([seed, 5])
    H, size = _lasso_hessian()
    X = _rows_with(H, N, rng)
    effect = rng.choice([-1.0, 1.0], SUPPORT) * rng.uniform(2, 3, SUPPORT)
    w = np.append(effect / size[:SUPPORT], np.zeros(P - SUPPORT))
    y = X @ w + rng.normal(size=N)
    return Penalised(Linear(), (X, y), H, X.T @ y / N, L1(np.sqrt(2 * np.log(P) / N)))


def trace_regression(seed: int = 0, side: int = SIDE) -> Penalised:
    """A matrix of rank 2 and 2.5 rows a coefficient; condition number 100; noise N(0, 1)."""
    rng = np.random.default_rng([seed, 6])
    A, count = _side(side), 5 * side**2 // 2
    X = _rows_with(np.kron(A, A), count, rng)
    left, right = np.linalg.solve(np.linalg.cholesky(A).T, rng.normal(size=(2, side, RANK)))
    y = X @ (left @ right.T).ravel() / np.sqrt(side) + rng.normal(size=count)
    penalty = Nuclear(2 * np.sqrt(side / count), (side, side))
    rows = X.reshape(count, side, side), y
    return Penalised(
        TraceRegression(side, side), rows, np.kron(A, A), X.T @ y / count, penalty
    )  # fmt: skip


def _lasso_hessian() -> tuple[np.ndarray, np.ndarray]:
    """H and the sizes of the columns: those in the support fall until the condition number is met.

    Correlations are CORRELATION^|i - j| over all columns.
    """

    def hessian(least: float) -> tuple[np.ndarray, np.ndarray]:
        size = np.append(np.geomspace(1, least, SUPPORT), np.ones(P - SUPPORT))
        return _correlated(size, CORRELATION), size

    def miss(least: float) -> float:
        return float(np.log(np.linalg.cond(hessian(least)[0]) / CONDITION))

    return hessian(float(brentq(miss, 1e-3, 1.0)))  # type: ignore[arg-type]


def _side(side: int) -> np.ndarray:
    """The covariance of a matrix's rows, and of its columns: H is their Kronecker product."""
    size, wanted = np.geomspace(1, LEAST_SIZE, side), np.sqrt(MATRIX_CONDITION)

    def miss(correlation: float) -> float:
        return float(np.log(np.linalg.cond(_correlated(size, correlation)) / wanted))

    return _correlated(size, float(brentq(miss, 1e-6, 0.95)))  # type: ignore[arg-type]


def _correlated(size: np.ndarray, correlation: float) -> np.ndarray:
    place = np.arange(len(size))
    return correlation ** np.abs(place[:, None] - place) * np.outer(size, size)


def _rows_with(H: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian rows, rotated and scaled so that X'X / N is H."""
    Z = rng.normal(size=(count, len(H)))
    Z = np.linalg.solve(np.linalg.cholesky(Z.T @ Z / count), Z.T).T
    return Z @ np.linalg.cholesky(H).T


def _minimised(
    H: np.ndarray, c: np.ndarray, penalty: Penalty, alpha: float, gamma: float
) -> np.ndarray:
    """By accelerated proximal steps with restarts, apart from all kernels that are compared."""
    w = y = np.zeros(len(c))
    momentum = 1.0
    for _ in range(int(ENOUGH * np.sqrt(gamma / alpha))):
        new = penalty.prox(y - (H @ y - c) / gamma, 1 / gamma)
        if (y - new) @ (new - w) > 0:
            y, momentum = new, 1.0
        else:
            after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            y, momentum = new + (momentum - 1) / after * (new - w), after
        w = new
    return w

"""Rows n T to an accuracy of the risk, MasGrad beside SGD, each at its own best n and eta.

The paper counts rows, O(p / eps log(1 / eps)) for a strongly convex landscape, and steps, of which
MasGrad needs sqrt(kappa). Here both are in one number: against the condition number at one
accuracy, and against the accuracy at the paper's condition number. V is that of the population, and
rows for it are not counted. Beside them stand the natural gradient, whose matrix costs as much as
V, and the ERM.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.methods import masgrad, natural_gradient, sgd
from masgrad.models.glm import GLM, Linear
from masgrad.theory.plans.reach import Reach, rows_to_reach
from masgrad.theory.samples.rates import Power

N, P = 2000, 4
PAPER_KAPPA, EPSILON = 30.98, 0.01
POWERS = {"MasGrad": 0.5, "SGD": 1.0, "natural gradient": 0.0}
"""The power a of H to which A H is proportional at the optimum."""
METHODS: dict[str, Callable[[float], Kernel]] = {
    "MasGrad": masgrad,
    "SGD": sgd,
    "natural gradient": natural_gradient,
}


@dataclass(frozen=True)
class RowsProblem:
    """Linear regression rows with a known condition number, and a start of excess risk 1/2."""

    data: tuple[np.ndarray, np.ndarray]
    moments: LeastSquaresMoments
    optimum: np.ndarray
    start: np.ndarray


@dataclass(frozen=True)
class RowsStudy:
    """What each method needs, by name: against kappa at EPSILON, against epsilon at PAPER_KAPPA."""

    kappas: np.ndarray
    by_kappa: dict[str, list[Reach]]
    epsilons: np.ndarray
    by_epsilon: dict[str, list[Reach]]

    def slope(self, name: str) -> float:
        """Of log rows in log kappa."""
        return Power.fit(self.kappas, [found.rows for found in self.by_kappa[name]]).slope

    def theory(self, name: str) -> np.ndarray:
        """tr(H^a) / lambda_min(H^a) for each kappa, to which rows are proportional."""
        spectra = self.kappas[:, None] ** (POWERS[name] * np.linspace(0.0, 1.0, P))
        return spectra.sum(1)


def rows_study(
    seed: int = 0, quick: bool = False, report: Callable[[str], None] = lambda name: None
) -> RowsStudy:
    """Count rows for all methods; `quick` stops at condition number 100 and epsilon 0.01.

    Paper: sample complexity - rows against the condition number and the accuracy, measured
    """
    kappas = 10.0 ** np.arange(1, 3 if quick else 4)
    epsilons = 0.1 * 10.0 ** (-np.arange(3 if quick else 5) / 2)
    ill = [problem(kappa, seed) for kappa in kappas]
    paper = problem(PAPER_KAPPA, seed)
    by_kappa, by_epsilon = {}, {}
    for name, method in METHODS.items():
        by_kappa[name] = [_rows(method, at, EPSILON) for at in ill]
        by_epsilon[name] = [_rows(method, paper, epsilon) for epsilon in epsilons]
        report(f"rows, {name}")
    return RowsStudy(kappas, by_kappa, epsilons, by_epsilon)


def problem(kappa: float, seed: int = 0) -> RowsProblem:
    """Well-specified rows with noise 1, and a start one standard deviation from the optimum."""
    X, y = rescaled(Linear(), kappa, seed)
    moments = LeastSquaresMoments(P).update(X, y)
    optimum = moments.optimum()
    return RowsProblem((X, y), moments, optimum, optimum + one_sd(moments.hessian))


def rescaled(model: GLM, kappa: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Well-specified rows, the same for every kappa but for the units of the columns."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(N, P))
    Z = Z @ np.linalg.inv(np.linalg.cholesky(Z.T @ Z / N)).T
    mean = model.family.mean(Z @ np.full(P, 0.5))
    noise = rng.normal(size=N), rng.random(N)
    y = mean + noise[0] if model.family.name == "gaussian" else (noise[1] < mean).astype(float)
    return Z * kappa ** -np.linspace(0.0, 0.5, P), y


def one_sd(hessian: np.ndarray) -> np.ndarray:
    """A move of excess risk 1/2, of equal size in all directions of the noise's metric."""
    p = len(hessian)
    return np.linalg.solve(np.linalg.cholesky(hessian).T, np.full(p, p**-0.5))


def _rows(method: Callable[[float], Kernel], at: RowsProblem, epsilon: float) -> Reach:
    return rows_to_reach(method, Linear(), at.moments, at.start, at.optimum, epsilon)

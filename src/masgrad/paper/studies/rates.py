"""The theory's rates, measured.

1. Iterations of the deterministic update against the condition number, on a well-specified linear
   and logistic regression whose columns are rescaled and otherwise the same: from a start at one
   noise standard deviation from the optimum, and from a far one; beside gradient descent and
   Nesterov's method, which is told the condition number.
2. The distance between a chain and its diffusion against the batch size, on a simulator.
3. The distance between a diffusion and continuous time against the step, at a fixed time and batch
   size, on MasGrad's own bounded field and on one that is not convex, with the lemma's bound.
4. The same against time at a fixed step, in the lemma's three regimes.
5. Rows n T to an accuracy (`paper/studies/rows.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from masgrad.chains.run import run
from masgrad.covariance.moments import moments
from masgrad.errors import MasgradError
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.methods import masgrad, sgd
from masgrad.kernels.momentum import Accelerated, nesterov
from masgrad.kernels.stability import minimise
from masgrad.models.glm import GLM, Linear, Logistic
from masgrad.paper.studies.fields import Problem, bowl, gaussian_design, waves
from masgrad.paper.studies.rows import RowsStudy, one_sd, rescaled, rows_study
from masgrad.theory.curvature.conditioning import conditioning
from masgrad.theory.processes.bounds import (
    convex_expansion,
    smooth_expansion,
    strongly_convex_expansion,
    wasserstein_bound,
)
from masgrad.theory.processes.coupling import coupled
from masgrad.theory.samples.rates import ClosenessRate, Power, closeness_rate

ACCURACY = 1e-4
FAR = 30.0
"""Distance of the far start in every parameter: many standard deviations in the steep ones."""
RECORDS = 5000
TIME, BATCH, START = 2.0, 25, 1.0
GROWTH_ETA, GROWTH_TIMES = 0.05, np.array([0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])


@dataclass(frozen=True)
class Iterations:
    """Steps until the relative parameter error is 1e-4, for each condition number of H."""

    kappa: np.ndarray
    steps: np.ndarray

    @property
    def slope(self) -> float:
        return Power.fit(self.kappa, self.steps).slope


@dataclass(frozen=True)
class Discretisation:
    """Distance to continuous time at a fixed time, for each step size, and the lemma's bound."""

    step_sizes: np.ndarray
    distances: np.ndarray
    bounds: np.ndarray

    @property
    def slope(self) -> float:
        return Power.fit(self.step_sizes, self.distances).slope


@dataclass(frozen=True)
class Growth:
    """Distance to continuous time at several times, for one step size, and the lemma's bound."""

    times: np.ndarray
    distances: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class RatesExperiment:
    """All rates, by name of the process."""

    iterations: dict[str, Iterations]
    closeness: ClosenessRate
    discretisation: dict[str, Discretisation]
    growth: dict[str, Growth]
    rows: RowsStudy


def rates_experiment(
    seed: int = 0, quick: bool = False, report: Callable[[str], None] = lambda name: None
) -> RatesExperiment:
    """Measure all of them; `quick` stops at condition number 1e3 and takes fewer chains."""
    kappas = 10.0 ** np.arange(1, 4 if quick else 6)
    iterations = {}
    for name, model, method, far in (
        ("gradient descent, linear", Linear(), "gd", False),
        ("Nesterov, linear", Linear(), "nesterov", False),
        ("MasGrad, linear", Linear(), "masgrad", False),
        ("MasGrad, logistic", Logistic(), "masgrad", False),
        ("MasGrad, linear, far start", Linear(), "masgrad", True),
    ):
        iterations[name] = iterations_against_kappa(model, method, kappas, seed, far)
        report(name)
    model, data = gaussian_design([1.0, -1.0])
    sizes, chains = ([4, 16, 64], 20_000) if quick else ([4, 8, 16, 32, 64], 200_000)
    close = closeness_rate(
        masgrad(0.5), model, data, [4.0, 2.0], 2, sizes, chains=chains, seed=seed
    )
    report("closeness")
    steps = 0.4 * 0.5 ** np.arange(3 if quick else 5)
    discretisation = {}
    for name, problem, bound, expansion in (
        ("Gaussian design", gaussian_design([0.0, 0.0]), np.sqrt(0.5), convex_expansion),
        ("waves", waves(2), np.sqrt(2.0), smooth_expansion),
    ):
        discretisation[name] = discretisation_error(problem, bound, expansion, steps, seed)
        report(name)
    growth = {name: growth_in_time(name, seed, 500 if quick else 2000) for name in REGIMES}
    report("growth in time")
    rows = rows_study(seed, quick, report)
    return RatesExperiment(iterations, close, discretisation, growth, rows)


def iterations_against_kappa(
    model: GLM, method: str, kappas: np.ndarray, seed: int = 0, far: bool = False
) -> Iterations:
    """Run the deterministic update on one data set with its columns rescaled.

    Paper: Theorem 4.2 Acceleration - iterations grow like kappa for gradient descent, its root here
    """
    found = [_iterations(model, method, *rescaled(model, kappa, seed), far) for kappa in kappas]
    kappa, steps = zip(*found, strict=True)
    return Iterations(np.array(kappa), np.array(steps))


def _iterations(
    model: GLM, method: str, X: np.ndarray, y: np.ndarray, far: bool
) -> tuple[float, int]:
    """The condition number of H at the optimum, and the steps that the update takes."""
    rough = minimise(model, (X, y))
    if rough is None:
        raise MasgradError("these rows have no optimum; take another seed")
    m = moments(model, rough, (X, y))
    optimum = rough - np.linalg.solve(m.hessian, m.mean)
    start = optimum + (FAR if far else one_sd(m.hessian))
    c = conditioning(model, (X, y), [optimum])
    kernel, rate = {
        "gd": (sgd(c.step_gd), c.kappa_gd),
        "nesterov": (nesterov(c.step_gd, c.kappa_gd), np.sqrt(c.kappa_gd)),
        "masgrad": (masgrad(c.step_masgrad), c.kappa_masgrad),
    }[method]
    return c.kappa_gd, _hitting(kernel, model, (X, y), start, optimum, rate)


def _hitting(kernel: Kernel | Accelerated, model: GLM, data, start, optimum, kappa: float) -> int:
    """First recorded step whose relative error is below ACCURACY; recorded to one in 5000."""
    steps = int(12 * kappa) + 40
    while True:
        thin = max(1, steps // RECORDS)
        steps = -(-steps // thin) * thin
        args = model, data, start, steps, None, 1
        trace = run(kernel, *args, thin=thin, progress=False)  # type: ignore[arg-type]
        error = np.linalg.norm(trace.theta[0] - optimum, axis=1)  # type: ignore[union-attr]
        below = error < ACCURACY * error[0]
        if below.any():
            return int(np.argmax(below)) * thin
        steps *= 4


def discretisation_error(
    problem: Problem,
    bound: float,
    expansion: Callable[[float, float], float],
    step_sizes: np.ndarray,
    seed: int = 0,
    chains: int = 2000,
) -> Discretisation:
    """Coupled distance to continuous time at a fixed time, with beta = 2n / eta and n fixed.

    Paper: Lemma A.1 Wasserstein - of order eta at a fixed k eta, and below the bound

    The problem is in two dimensions, its field 1-Lipschitz and bounded by `bound`; `expansion` is
    one of the lemma's cases, as a function of the Lipschitz constant and the step.
    """
    p, lipschitz, distances, bounds = 2, 1.0, [], []
    for eta in step_sizes:
        k, delta = round(TIME / eta), expansion(lipschitz, eta)
        start = np.full(p, START)
        pair = coupled(masgrad(eta), *problem, start, k, BATCH, chains=chains, seed=seed)
        distances.append(pair.distance)
        bounds.append(wasserstein_bound(lipschitz, bound, 2 * BATCH / eta, eta, p, k, delta))
    return Discretisation(np.array(step_sizes), np.array(distances), np.array(bounds))


@dataclass(frozen=True)
class Regime:
    """A field in one dimension: its start, Lipschitz constant l, bound M and batch size.

    `expansion` is the lemma's delta as a function of l and the step.
    """

    problem: Problem
    start: float
    lipschitz: float
    bound: float
    batch_size: int
    expansion: Callable[[float, float], float]


REGIMES = {
    "hilltop": Regime(waves(1), np.pi - 1e-4, 1.0, 1.0, 10**8, smooth_expansion),
    "gentle slope": Regime(bowl([[0.01]]), 100.0, 0.01, 1.0, BATCH, convex_expansion),
    "bowl": Regime(bowl([[1.0]]), 1.0, 1.0, 1.0, BATCH, partial(strongly_convex_expansion, 1.0)),
}
"""Where each case of the lemma shows: a hill that is left slowly, a slope on which 0.01 t is small
at all times, and a bowl. On the last two M is the largest root mean square of h, that at the start.
"""


def growth_in_time(name: str, seed: int = 0, chains: int = 2000) -> Growth:
    """Coupled distance to continuous time against time, in one of the lemma's regimes.

    Paper: Lemma A.1 Wasserstein - growth in k: exponential, linear, bounded
    """
    r, eta, distances, bounds = REGIMES[name], GROWTH_ETA, [], []
    for k in np.round(GROWTH_TIMES / eta).astype(int).tolist():
        pair = coupled(
            masgrad(eta), *r.problem, [r.start], k, r.batch_size, chains=chains, seed=seed
        )
        distances.append(pair.distance)
        delta, beta = r.expansion(r.lipschitz, eta), 2 * r.batch_size / eta
        bounds.append(wasserstein_bound(r.lipschitz, r.bound, beta, eta, 1, k, delta))
    return Growth(GROWTH_TIMES, np.array(distances), np.array(bounds))

"""The theory's rates, measured.

1. Iterations of the deterministic update against the condition number, on a well-specified linear
   and logistic regression whose columns are rescaled and otherwise the same: from a start at one
   noise standard deviation from the optimum, and from a far one.
2. The distance between a chain and its diffusion against the batch size, on a simulator.
3. The distance between a diffusion and continuous time against the step, at a fixed time and batch
   size, on MasGrad's own bounded field and on one that is not convex, with the lemma's bound.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.chains.run import run
from masgrad.covariance.moments import moments
from masgrad.errors import MasgradError
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.methods import masgrad, sgd
from masgrad.kernels.stability import minimise
from masgrad.models.glm import GLM, Linear, Logistic
from masgrad.paper.fields import Problem, gaussian_design, waves
from masgrad.theory.bounds import convex_expansion, smooth_expansion, wasserstein_bound
from masgrad.theory.conditioning import conditioning
from masgrad.theory.coupling import coupled
from masgrad.theory.rates import ClosenessRate, Power, closeness_rate

N, P, ACCURACY = 2000, 4, 1e-4
FAR = 30.0
"""Distance of the far start in every parameter: many standard deviations in the steep ones."""
RECORDS = 5000
TIME, BATCH, START = 2.0, 25, 1.0


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
class RatesExperiment:
    """The three rates, by name of the process."""

    iterations: dict[str, Iterations]
    closeness: ClosenessRate
    discretisation: dict[str, Discretisation]


def rates_experiment(
    seed: int = 0, quick: bool = False, report: Callable[[str], None] = lambda name: None
) -> RatesExperiment:
    """Measure all three; `quick` stops at condition number 1e3 and takes fewer chains."""
    kappas = 10.0 ** np.arange(1, 4 if quick else 6)
    iterations = {}
    for name, model, method, far in (
        ("gradient descent, linear", Linear(), "gd", False),
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
    return RatesExperiment(iterations, close, discretisation)


def iterations_against_kappa(
    model: GLM, method: str, kappas: np.ndarray, seed: int = 0, far: bool = False
) -> Iterations:
    """Run the deterministic update on one data set with its columns rescaled.

    Paper: Theorem 4.2 Acceleration - iterations grow like kappa for gradient descent, its root here
    """
    found = [_iterations(model, method, *_rescaled(model, kappa, seed), far) for kappa in kappas]
    kappa, steps = zip(*found, strict=True)
    return Iterations(np.array(kappa), np.array(steps))


def _rescaled(model: GLM, kappa: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Well-specified rows, the same for every kappa but for the units of the columns."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(N, P))
    Z = Z @ np.linalg.inv(np.linalg.cholesky(Z.T @ Z / N)).T
    mean = model.family.mean(Z @ np.full(P, 0.5))
    noise = rng.normal(size=N), rng.random(N)
    y = mean + noise[0] if model.family.name == "gaussian" else (noise[1] < mean).astype(float)
    return Z * kappa ** -np.linspace(0.0, 0.5, P), y


def _iterations(
    model: GLM, method: str, X: np.ndarray, y: np.ndarray, far: bool
) -> tuple[float, int]:
    """The condition number of H at the optimum, and the steps that the update takes."""
    rough = minimise(model, (X, y))
    if rough is None:
        raise MasgradError("these rows have no optimum; take another seed")
    m = moments(model, rough, (X, y))
    optimum = rough - np.linalg.solve(m.hessian, m.mean)
    one_sd = np.linalg.solve(np.linalg.cholesky(m.hessian).T, np.full(P, P**-0.5))
    start = optimum + (FAR if far else one_sd)
    c = conditioning(model, (X, y), [optimum])
    if method == "gd":
        kernel, kappa = sgd(c.step_gd), c.kappa_gd
    else:
        kernel, kappa = masgrad(c.step_masgrad), c.kappa_masgrad
    return c.kappa_gd, _hitting(kernel, model, (X, y), start, optimum, kappa)


def _hitting(kernel: Kernel, model: GLM, data, start, optimum, kappa: float) -> int:
    """First recorded step whose relative error is below ACCURACY; recorded to one in 5000."""
    steps = int(12 * kappa) + 40
    while True:
        thin = max(1, steps // RECORDS)
        steps = -(-steps // thin) * thin
        trace = run(kernel, model, data, start, steps, None, 1, thin=thin, progress=False)
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

    Paper: Lemma Wasserstein - of order eta at a fixed k eta, and below the bound

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

"""Stationary laws and exit times of the diffusion, where they are known.

1. V = I: the Gibbs law, density proportional to exp(-beta L), on a double well.
2. b linear, V constant: Ornstein-Uhlenbeck, a Gaussian that solves C S + S C' = (2/beta) V V'.
3. Linear regression with spherically symmetric rows, V not constant: MasGrad's own law, whose
   tails are exponential (`theory.invariant`), for normal and for heavy-tailed rows.
4. Eyring and Kramers: the time to leave a basin of depth h grows like exp(beta h), on the double
   well, where the mean first-passage time is an integral.

The discretised process has these laws up to terms of order eta.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.linalg import solve_continuous_lyapunov

from masgrad.chains.run import run
from masgrad.kernels.diffusion import diffusion
from masgrad.kernels.field import Field
from masgrad.kernels.kernel import Kernel, State
from masgrad.kernels.methods import masgrad, sgd
from masgrad.paper.studies.fields import bowl, double_well, spherical_design
from masgrad.types import Array, Vectors

GRID = np.linspace(-2.5, 2.5, 20_001)
GIBBS_DEPTH, GIBBS_ETA, GIBBS_BATCH = 0.0125, 0.1, 6
DEPTH, ETA = 0.04, 0.2
CURVATURE = np.array([[1.0, 0.4], [0.4, 0.5]])
ROOT = np.array([[1.0, 0.3], [0.3, 0.5]])
OU_ETA, OU_BATCH = 0.05, 10
OWN_ETA, OWN_BATCH, KURTOSES = 0.1, 1, (1.0, 5.0)


@dataclass(frozen=True)
class Exits:
    """Mean exit times in units of t = k eta, for each beta: simulated, and by quadrature."""

    beta: np.ndarray
    simulated: np.ndarray
    standard_error: np.ndarray
    exact: np.ndarray

    @property
    def slope(self) -> float:
        """Of log mean exit time in beta: the depth of the basin, says the law."""
        return float(np.polyfit(self.beta, np.log(self.simulated), 1)[0])

    @property
    def exact_slope(self) -> float:
        return float(np.polyfit(self.beta, np.log(self.exact), 1)[0])


@dataclass(frozen=True)
class LawsExperiment:
    """Samples of the three laws, (chains, p) each, and exit times; `own` is by kurtosis."""

    gibbs: np.ndarray
    ornstein_uhlenbeck: np.ndarray
    own: dict[float, np.ndarray]
    exits: Exits


def laws_experiment(
    seed: int = 0, quick: bool = False, report: Callable[[str], None] = lambda name: None
) -> LawsExperiment:
    """Sample the laws and measure exit times; `quick` takes fewer chains and shallower basins."""
    chains = 20_000 if quick else 100_000
    gibbs = gibbs_sample(chains, seed)
    report("Gibbs")
    gaussian = ornstein_uhlenbeck_sample(chains, seed)
    report("Ornstein-Uhlenbeck")
    own = {kurtosis: own_sample(kurtosis, chains, seed) for kurtosis in KURTOSES}
    report("MasGrad's own")
    batches = np.arange(5, 11 if quick else 16, 2)
    return LawsExperiment(gibbs, gaussian, own, exit_times(batches, 500 if quick else 2000, seed))


def gibbs_beta() -> float:
    return 2 * GIBBS_BATCH / GIBBS_ETA


def gibbs_sample(chains: int, seed: int = 0) -> np.ndarray:
    """The diffusion on a double well with V = I, half of the chains from either minimum.

    Paper: Fokker-Planck - V = I has the Gibbs law exp(-beta L)
    """
    starts = np.where(np.arange(chains) % 2, 1.0, -1.0)[:, None]
    kernel = diffusion(sgd(GIBBS_ETA))
    steps = 2000
    return run(
        kernel, *double_well(GIBBS_DEPTH), starts, steps, GIBBS_BATCH, chains, seed, thin=steps
    ).final  # fmt: skip


def gibbs_cdf(depth: float, beta: float) -> np.ndarray:
    """Distribution function of exp(-beta L) on GRID."""
    density = np.exp(-beta * _potential(GRID, depth))
    total = cumulative_trapezoid(density, GRID, initial=0.0)
    return total / total[-1]


def ornstein_uhlenbeck_sample(chains: int, seed: int = 0) -> np.ndarray:
    """SGD's diffusion with linear b and constant V.

    Paper: Fokker-Planck - linear b and constant V give Ornstein-Uhlenbeck
    """
    model, data = bowl(CURVATURE, ROOT)
    steps = 1000
    return run(
        diffusion(sgd(OU_ETA)), model, data, np.zeros(2), steps, OU_BATCH, chains, seed, thin=steps
    ).final


def ornstein_uhlenbeck_cov() -> np.ndarray:
    """S with C S + S C' = (2/beta) V V', in continuous time."""
    beta = 2 * OU_BATCH / OU_ETA
    return solve_continuous_lyapunov(CURVATURE, 2 / beta * ROOT @ ROOT.T)


def own_beta() -> float:
    return 2 * OWN_BATCH / OWN_ETA


def own_sample(kurtosis: float, chains: int, seed: int = 0, dim: int = 1) -> np.ndarray:
    """MasGrad's diffusion on linear regression with spherical rows, theta* = 0 and sigma = 1.

    Paper: Fokker-Planck - MasGrad's own law, exp(-(beta / k) sqrt(k |d|^2 + sigma^2))
    """
    model, data = spherical_design(np.zeros(dim), 1.0, kurtosis)
    kernel, steps = diffusion(masgrad(OWN_ETA)), 200
    return run(
        kernel, model, data, np.zeros(dim), steps, OWN_BATCH, chains, seed, thin=steps
    ).final  # fmt: skip


class Absorbed(eqx.Module):
    """A kernel whose chains stop for good where theta >= level."""

    kernel: Kernel
    level: float

    def init(self, theta: Vectors) -> State:
        return self.kernel.init(theta)

    def step(self, key: Array, state: State, field: Field) -> State:
        new = self.kernel.step(key, state, field)
        theta = jnp.where(state.theta >= self.level, state.theta, new.theta)
        return eqx.tree_at(lambda s: s.theta, new, theta)


def exit_times(batches: np.ndarray, chains: int, seed: int = 0) -> Exits:
    """Time from one minimum of a double well to the other, for beta = 2n / eta at several n.

    Paper: Eyring-Kramers - exit times grow like exp(beta h) with the depth h of the basin
    """
    betas = 2 * np.asarray(batches) / ETA
    exact = np.array([first_passage(beta) for beta in betas])
    found = [_simulated(int(n), time, chains, seed) for n, time in zip(batches, exact, strict=True)]
    mean, error = (np.array(x) for x in zip(*found, strict=True))
    return Exits(betas, mean, error, exact)


def first_passage(beta: float, start: float = -1.0, level: float = 1.0) -> float:
    """Mean first-passage time of the diffusion, beta times a double integral."""
    U = _potential(GRID, DEPTH)
    inner = cumulative_trapezoid(np.exp(-beta * U), GRID, initial=0.0)
    outer = cumulative_trapezoid(np.exp(beta * U) * inner, GRID, initial=0.0)
    return float(beta * (np.interp(level, GRID, outer) - np.interp(start, GRID, outer)))


def _simulated(n: int, expected: float, chains: int, seed: int) -> tuple[float, float]:
    """Time at risk over the number of exits within twice the expected time, and its error."""
    thin = max(1, int(expected / ETA / 200))
    steps = thin * 400
    kernel, field = Absorbed(diffusion(sgd(ETA)), 1.0), double_well(DEPTH)
    trace = run(kernel, *field, [-1.0], steps, n, chains, seed, thin=thin)  # type: ignore[arg-type]
    out = trace.theta[:, :, 0] >= 1.0  # type: ignore[union-attr]
    gone = out[:, -1]
    first = np.where(gone, out.argmax(1) - 0.5, out.shape[1] - 1.0)
    mean = first.sum() * thin * ETA / gone.sum()
    return mean, mean / np.sqrt(gone.sum())


def _potential(theta: np.ndarray, depth: float) -> np.ndarray:
    return depth * (theta**2 - 1) ** 2

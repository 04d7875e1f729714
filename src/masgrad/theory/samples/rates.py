"""Rates, measured: how a distance falls with the batch size, and the constant that goes with it.

Theorem 1 gives total variation <= C sqrt(T/n) with a C it leaves open. For KS and W2 the constant
can be estimated: run chain and diffusion at several n, beside a second copy of the diffusion for
what sampling alone would give.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masgrad.chains.run import run
from masgrad.checks import check_count, check_seed
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.kernels.diffusion import diffusion
from masgrad.kernels.kernel import Kernel
from masgrad.models.model import Model
from masgrad.theory.samples.distances import Closeness, closeness
from masgrad.types import Array, Rows


@dataclass(frozen=True)
class Power:
    """distance ~ constant * x^slope, by least squares on logarithms."""

    slope: float
    constant: float

    @classmethod
    def fit(cls, x: Array, distances: Array) -> "Power":
        slope, level = np.polyfit(np.log(x), np.log(distances), 1)
        return cls(float(slope), float(np.exp(level)))


@dataclass(frozen=True)
class ClosenessRate:
    """Distances between a chain and its diffusion at several batch sizes.

    Args:
        batch_sizes: n.
        steps: T.
        ks: worst coordinate at each n.
        ks_baseline: the same between two copies of the diffusion.
        w2: worst coordinate, in standard deviations of the diffusion there.
        w2_baseline: the same between two copies.
    """

    batch_sizes: np.ndarray
    steps: int
    ks: np.ndarray
    ks_baseline: np.ndarray
    w2: np.ndarray
    w2_baseline: np.ndarray

    @property
    def ks_power(self) -> Power:
        """The fit of KS against T/n: Theorem 1's rate is a slope of 1/2."""
        return Power.fit(self.steps / self.batch_sizes, self.ks)

    @property
    def w2_power(self) -> Power:
        """The fit of W2 against T/n."""
        return Power.fit(self.steps / self.batch_sizes, self.w2)

    @property
    def ks_constant(self) -> float:
        """The smallest C with KS <= C sqrt(T/n) at all of these n: an estimate, not a bound."""
        return float((self.ks * np.sqrt(self.batch_sizes / self.steps)).max())

    @property
    def w2_constant(self) -> float:
        """The same for W2."""
        return float((self.w2 * np.sqrt(self.batch_sizes / self.steps)).max())


def closeness_rate(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    theta0: Array,
    steps: int,
    batch_sizes: Sequence[int],
    *,
    chains: int = 20_000,
    seed: int = 0,
) -> ClosenessRate:
    """Measure how close a chain's last iterate is to its diffusion's as the batch grows.

    Paper: Theorem 3.1 Non-asymptotic bound for inference - the rate in n, for KS and W2

    Args:
        kernel: the chain's; its diffusion is run beside it, twice.
        model: the loss.
        data: a `Simulator`, where (A.1) can hold; or rows, where only KS and W2 have a meaning.
        theta0: the start.
        steps: T.
        batch_sizes: at least two n.
        chains: samples; distances below about 1/sqrt(chains) are noise, which the baseline shows.
        seed: of the chain; the diffusions take the two that follow.

    Example:
        >>> import jax, jax.numpy as jnp, masgrad as mg
        >>> sample = lambda key, n: jax.random.exponential(key, (n, 1))
        >>> data = mg.Simulator(sample, moments=lambda theta: (theta - 1, jnp.eye(1)))
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 1)
        >>> rate = mg.theory.closeness_rate(mg.sgd(0.5), model, data, [2.0], 1, [2, 8], chains=4000)
        >>> rate.ks.shape
        (2,)
    """
    sizes = np.array([check_count("batch_sizes", n) for n in np.atleast_1d(batch_sizes)])
    if len(np.unique(sizes)) < 2:
        raise InputError(f"batch_sizes={sizes.tolist()}; at least two different ones make a rate")
    steps, chains, seed = (
        check_count("steps", steps),
        check_count("chains", chains, 2),
        check_seed(seed),
    )
    same = {"steps": steps, "chains": chains, "seed": seed}
    found = [_at(kernel, model, data, theta0, n=int(n), **same) for n in sizes]
    names = ("ks", "ks_baseline", "w2", "w2_baseline")
    return ClosenessRate(sizes, steps, *(np.array([getattr(c, k) for c in found]) for k in names))


def _at(kernel, model, data, theta0, *, steps, n, chains, seed) -> Closeness:
    """Chain, diffusion and a copy at one n, in standard deviations of the diffusion."""
    limit = diffusion(kernel)
    ends = [
        run(k, model, data, theta0, steps, n, chains, seed + i, thin=steps).final
        for i, k in enumerate((kernel, limit, limit))
    ]
    centre, scale = ends[1].mean(0), ends[1].std(0)
    return closeness(*((end - centre) / scale for end in ends))

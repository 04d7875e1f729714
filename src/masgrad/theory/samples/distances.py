"""Distances between two samples of a process.

On a table of rows the chain is discrete and its diffusion is not, so their total variation is 1:
Theorem "Non-asymptotic bound for inference" needs (A.1), which a table violates. Closeness is
measured in Kolmogorov-Smirnov and Wasserstein-2 distance instead, beside the distance of two
independent copies of the diffusion, which is what sampling alone would give.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from masgrad.checks import check_count
from masgrad.errors import InputError

LARGEST_ASSIGNMENT = 5000
"""Sample size up to which the exact Wasserstein distance is computed: a matrix of 200 MB."""


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Largest gap between the empirical distribution functions, for each column: (p,)."""
    return np.array([stats.ks_2samp(x, y)[0] for x, y in _columns(a, b)])


def energy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Energy distance of each column's empirical laws: (p,)."""
    return np.array([stats.energy_distance(x, y) for x, y in _columns(a, b)])


def wasserstein2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Wasserstein-2 distance of each column's empirical laws (equal sample sizes): (p,)."""
    _check_equal(a, b)
    return np.sqrt([((np.sort(x) - np.sort(y)) ** 2).mean() for x, y in _columns(a, b)])


def sliced_wasserstein2(
    a: np.ndarray, b: np.ndarray, directions: int = 200, seed: int = 0
) -> float:
    """Root mean square over random directions of the Wasserstein-2 distance along them.

    Times sqrt(p) it equals the distance of two laws that differ by a shift.
    """
    a, b = _samples(a, b)
    shape = a.shape[1], check_count("directions", directions)
    axes = np.random.default_rng(seed).normal(size=shape)
    axes /= np.linalg.norm(axes, axis=0)
    return float(np.sqrt((wasserstein2(a @ axes, b @ axes) ** 2).mean()))


def exact_wasserstein2(a: np.ndarray, b: np.ndarray) -> float:
    """Wasserstein-2 distance of two empirical laws in p dimensions, by optimal assignment."""
    a, b = _samples(a, b)
    _check_equal(a, b)
    if len(a) > LARGEST_ASSIGNMENT:
        raise InputError(
            f"samples of {len(a)}; an exact assignment takes at most {LARGEST_ASSIGNMENT}: give "
            "fewer, or use sliced_wasserstein2"
        )
    cost = cdist(a, b, "sqeuclidean")
    return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))


def _samples(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two samples (n, p) of finite numbers in the same dimension."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or not a.size * b.size:
        raise InputError(f"samples of shape {a.shape} and {b.shape}; (n, p) is needed")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("a sample holds numbers that are not finite; leave those chains out")
    return a, b


def _columns(a: np.ndarray, b: np.ndarray):
    a, b = _samples(a, b)
    return zip(a.T, b.T, strict=True)


def _check_equal(a: np.ndarray, b: np.ndarray) -> None:
    if len(a) != len(b):
        raise InputError(f"samples of {len(a)} and {len(b)}; equal sizes are needed")


@dataclass(frozen=True)
class Closeness:
    """Largest KS and W2 over coordinates between a chain and its diffusion, and the baseline."""

    ks: float
    ks_baseline: float
    w2: float
    w2_baseline: float


def closeness(chain: np.ndarray, diffusion: np.ndarray, copy: np.ndarray) -> Closeness:
    """Chain against diffusion beside diffusion against an independent copy of it.

    Paper: Theorem 3.1 Non-asymptotic bound for inference - in distances that a table allows
    Paper: Remark 3.1 marginal result - the law of one step, not of the path
    """
    return Closeness(
        float(kolmogorov_smirnov(chain, diffusion).max()),
        float(kolmogorov_smirnov(copy, diffusion).max()),
        float(wasserstein2(chain, diffusion).max()),
        float(wasserstein2(copy, diffusion).max()),
    )

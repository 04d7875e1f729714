"""Distances between two samples of a process, coordinate by coordinate.

On a table of rows the chain is discrete and its diffusion is not, so their total variation is 1:
Theorem "Non-asymptotic bound for inference" needs (A.1), which a table violates. Closeness is
measured in Kolmogorov-Smirnov and Wasserstein-2 distance instead, beside the distance of two
independent copies of the diffusion, which is what sampling alone would give.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from masgrad.errors import InputError


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Largest gap between the empirical distribution functions, for each column: (p,)."""
    return np.array([stats.ks_2samp(x, y)[0] for x, y in _columns(a, b)])


def wasserstein2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Wasserstein-2 distance of each column's empirical laws (equal sample sizes): (p,)."""
    if len(a) != len(b):
        raise InputError(f"samples of {len(a)} and {len(b)}; equal sizes are needed")
    return np.sqrt([((np.sort(x) - np.sort(y)) ** 2).mean() for x, y in _columns(a, b)])


def _columns(a: np.ndarray, b: np.ndarray):
    if np.ndim(a) != 2 or np.ndim(b) != 2 or a.shape[1] != b.shape[1]:
        raise InputError(f"samples of shape {np.shape(a)} and {np.shape(b)}; (n, p) is needed")
    return zip(np.asarray(a).T, np.asarray(b).T, strict=True)


@dataclass(frozen=True)
class Closeness:
    """Largest KS and W2 over coordinates between a chain and its diffusion, and the baseline."""

    ks: float
    ks_baseline: float
    w2: float
    w2_baseline: float


def closeness(chain: np.ndarray, diffusion: np.ndarray, copy: np.ndarray) -> Closeness:
    """Chain against diffusion beside diffusion against an independent copy of it.

    Paper: Theorem 1 - closeness of chain and diffusion, in distances that a table allows
    """
    return Closeness(
        float(kolmogorov_smirnov(chain, diffusion).max()),
        float(kolmogorov_smirnov(copy, diffusion).max()),
        float(wasserstein2(chain, diffusion).max()),
        float(wasserstein2(copy, diffusion).max()),
    )

"""Laws of estimates over their standard errors, one by one and jointly.

Normal and chi-squared; Student's, and Hotelling's by way of F, where the covariance has df degrees
of freedom: it came from df + 1 chains, or from clusters.

For the maximum Z = rho L u with u uniform on the sphere of R^r and rho^2 chi-squared with r degrees
of freedom, so that P(max |Z_j| <= c) = E F_r(c^2 / max (L u)_j^2): rho is integrated out, and
directions u are drawn with a fixed seed. With df, each Z_j is divided
by a standard error of its own, drawn as chains do.
"""

from typing import Any

import numpy as np
from scipy.special import chdtr, chdtri, fdtri, ndtr, ndtri, stdtr, stdtrit

from masgrad.errors import InputError

Degrees = int | float | np.ndarray | None
"""Degrees of freedom of Student's law, one number or one for each estimate; None for the normal."""

DIRECTIONS, WITH_ERRORS = 1 << 16, 1 << 14
"""Directions drawn: the level is then right to 0.001, or 0.002 where errors are drawn as well."""

CHUNK = 1 << 12


def probability(z: np.ndarray, df: Degrees) -> np.ndarray:
    """P(Z <= z) of the normal law, or of Student's where the covariance has few terms."""
    return ndtr(z) if df is None else stdtr(df, z)


def quantile(level: float, df: Degrees) -> Any:
    """The z at which `probability` is the level, one for each of several df."""
    found = ndtri(level) if df is None else stdtrit(df, level)
    return found if np.ndim(found) else float(found)


def joint_quantile(k: int, df: int | float | None, level: float) -> float:
    """Quantile of the Wald statistic of k combinations: chi-squared, or Hotelling's."""
    if df is None:
        return float(chdtri(k, 1 - level))
    check_joint(k, df)
    return float(fdtri(k, df - k + 1, level) * k * df / (df - k + 1))


def check_joint(k: int, df: int | float) -> None:
    """Refuse more combinations than the covariance has degrees of freedom for."""
    if not df > k - 1:
        raise InputError(
            f"{k} combinations have no joint law with {df:.4g} degrees of freedom, as from "
            f"{df + 1:.4g} chains; take more, or fewer combinations"
        )


def max_quantile(L: np.ndarray, df: int | float | None, level: float) -> float:
    """c with P(max |Z_j| <= c) = level, where Z has the covariance L L' with 1 on its diagonal."""
    k, r = L.shape
    peak = _peaks(L, df) ** 2

    def beyond(c: float) -> float:
        return float(chdtr(r, c**2 / peak).mean()) - level

    low, high = quantile((1 + level) / 2, df), quantile(1 - (1 - level) / (2 * k), df)
    if beyond(low) >= 0:  # all of one mind: pointwise, up to the error of the draws
        return low
    if beyond(high) <= 0:
        return high
    from scipy.optimize import brentq

    return float(brentq(beyond, low, high))  # pyright: ignore


def _peaks(L: np.ndarray, df: int | float | None) -> np.ndarray:
    """max |L u| for directions u, by parts; with df, in drawn standard errors."""
    rng, peaks = np.random.default_rng(0), []
    for _ in range((DIRECTIONS if df is None else WITH_ERRORS) // CHUNK):
        u = rng.normal(size=(L.shape[1], CHUNK))
        size = np.abs(L @ u) / np.linalg.norm(u, axis=0)
        peaks.append((size if df is None else size / _drawn_errors(L, df, rng)).max(0))
    return np.concatenate(peaks)


def _drawn_errors(L: np.ndarray, df: int | float, rng: np.random.Generator) -> np.ndarray:
    """Standard errors (k, CHUNK) from df + 1 chains, where the true ones are 1; df is whole, or
    rounded down."""
    squares, terms = np.zeros((len(L), CHUNK)), max(int(df), 1)
    for _ in range(terms):
        squares += np.square(L @ rng.normal(size=(L.shape[1], CHUNK)))
    return np.sqrt(squares / terms)


def factor_of(K: np.ndarray) -> np.ndarray:
    """L (k, r) with K = L L' and r the rank of K."""
    values, Q = np.linalg.eigh(K)
    keep = values > len(K) * np.finfo(float).eps * values[-1]
    return Q[:, keep] * np.sqrt(values[keep])

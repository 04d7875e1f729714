"""Intervals that hold all at once, from the joint law of the estimates.

Each is estimate -+ c se. With Z of the estimates' correlation matrix, of rank r,

- pointwise:     each interval alone has the level; c is the normal quantile
- simultaneous:  P(max |Z_j| <= c) = level, the shortest that hold together with equal c
- bonferroni:    the pointwise quantile at alpha / k; whatever the correlations
- scheffe:       c^2 is the quantile of the Wald statistic: all linear combinations at once

For the maximum Z = rho L u with u uniform on the sphere of R^r and rho^2 chi-squared with r degrees
of freedom, so that P(max |Z_j| <= c) = E F_r(c^2 / max (L u)_j^2): rho is integrated out, and
directions u are drawn with a fixed seed. Where the covariance came from chains, laws are Student's
and F, and for the maximum each Z_j is divided by a standard error of its own, drawn as chains do.
"""

from typing import Any

import numpy as np
from scipy import optimize, stats

from masgrad.checks import as_number
from masgrad.errors import InputError

METHODS = ("pointwise", "simultaneous", "bonferroni", "scheffe")

DIRECTIONS, WITH_ERRORS = 1 << 16, 1 << 14
"""Directions drawn: the level is then right to 0.001, or 0.002 where errors are drawn as well."""

CHUNK = 1 << 12


def reference(df: int | None) -> Any:
    """The normal law, or Student's where the covariance came from a few chains."""
    return stats.norm if df is None else stats.t(df)


def half_widths(
    se: np.ndarray, cov: np.ndarray, df: int | None, alpha: float, method: str
) -> np.ndarray:
    """c se: half of every interval's width, (k,); infinite where se is."""
    if not 0 < as_number("alpha", alpha) < 1:
        raise InputError(f"alpha={alpha}; a probability between 0 and 1 is needed")
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; use one of {', '.join(METHODS)}")
    if method == "pointwise":
        return reference(df).ppf(1 - alpha / 2) * se
    known = np.isfinite(se) & (se > 0)
    return _multiple(cov[np.ix_(known, known)], df, alpha, method) * se


def _multiple(cov: np.ndarray, df: int | None, alpha: float, method: str) -> float:
    """c, from the covariance of what is identified."""
    k = max(len(cov), 1)
    if method == "bonferroni" or k == 1:
        return float(reference(df).ppf(1 - alpha / (2 * k)))
    scale = np.sqrt(np.diag(cov))
    L = _factor(cov / np.outer(scale, scale))
    if method == "scheffe":
        return float(np.sqrt(joint_quantile(L.shape[1], df, 1 - alpha)))
    return max_quantile(L, df, 1 - alpha)


def joint_quantile(k: int, df: int | None, level: float) -> float:
    """Quantile of the Wald statistic of k combinations: chi-squared, or Hotelling's."""
    if df is None:
        return float(stats.chi2.ppf(level, k))
    if df < k:
        raise InputError(f"{k} combinations have no joint law from {df + 1} chains; take more")
    return float(stats.f.ppf(level, k, df - k + 1) * k * df / (df - k + 1))


def max_quantile(L: np.ndarray, df: int | None, level: float) -> float:
    """c with P(max |Z_j| <= c) = level, where Z has the covariance L L' with 1 on its diagonal."""
    k, r = L.shape
    peak = _peaks(L, df) ** 2

    def beyond(c: float) -> float:
        return float(stats.chi2.cdf(c**2 / peak, r).mean()) - level

    law = reference(df)
    low, high = law.ppf((1 + level) / 2), law.ppf(1 - (1 - level) / (2 * k))
    if beyond(low) >= 0:  # all of one mind: pointwise, up to the error of the draws
        return float(low)
    return float(high) if beyond(high) <= 0 else float(optimize.brentq(beyond, low, high))  # pyright: ignore


def _peaks(L: np.ndarray, df: int | None) -> np.ndarray:
    """max |L u| for directions u, by parts; with df, in drawn standard errors."""
    rng, peaks = np.random.default_rng(0), []
    for _ in range((DIRECTIONS if df is None else WITH_ERRORS) // CHUNK):
        u = rng.normal(size=(L.shape[1], CHUNK))
        size = np.abs(L @ u) / np.linalg.norm(u, axis=0)
        peaks.append((size if df is None else size / _drawn_errors(L, df, rng)).max(0))
    return np.concatenate(peaks)


def _drawn_errors(L: np.ndarray, df: int, rng: np.random.Generator) -> np.ndarray:
    """Standard errors (k, CHUNK) from df + 1 chains, where the true ones are 1."""
    squares = np.zeros((len(L), CHUNK))
    for _ in range(df):
        squares += np.square(L @ rng.normal(size=(L.shape[1], CHUNK)))
    return np.sqrt(squares / df)


def _factor(K: np.ndarray) -> np.ndarray:
    """L (k, r) with K = L L' and r the rank of K."""
    values, Q = np.linalg.eigh(K)
    keep = values > len(K) * np.finfo(float).eps * values[-1]
    return Q[:, keep] * np.sqrt(values[keep])

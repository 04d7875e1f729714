"""Estimates with their covariance: standard errors, tests, and intervals one by one or all at once.

Coefficients and contrasts share this record. What depends on a direction that is not identified has
an infinite standard error and no test; what has no estimate at all is NaN throughout. An interval
is estimate -+ c se. With Z of the estimates' correlation matrix, of rank r,

- pointwise:     each interval alone has the level; c is the normal quantile
- simultaneous:  P(max |Z_j| <= c) = level, the shortest that hold together with equal c
- bonferroni:    the pointwise quantile at alpha / k; whatever the correlations
- scheffe:       c^2 is the quantile of the Wald statistic: all linear combinations at once

For the maximum Z = rho L u with u uniform on the sphere of R^r and rho^2 chi-squared with r degrees
of freedom, so that P(max |Z_j| <= c) = E F_r(c^2 / max (L u)_j^2): rho is integrated out, and
directions u are drawn with a fixed seed. If the covariance came from chains, laws are Student's and
F, and for the maximum each Z_j is divided by a standard error of its own, drawn as chains do.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtr, chdtri, fdtri, ndtr, ndtri, stdtr, stdtrit

from masgrad.checks import as_number
from masgrad.errors import InputError, printable
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.objective.coordinates import Coordinates

if TYPE_CHECKING:
    import pandas as pd

INTERVAL_METHODS = ("pointwise", "simultaneous", "bonferroni", "scheffe")

DIRECTIONS, WITH_ERRORS = 1 << 16, 1 << 14
"""Directions drawn: the level is then right to 0.001, or 0.002 where errors are drawn as well."""

CHUNK = 1 << 12

SMALL_DEPENDENCE = 1e-6
"""Cosine of the angle up to which a combination does not depend on a direction."""


@dataclass(frozen=True, repr=False, eq=False)
class Estimates:
    """k estimates.

    Args:
        estimate: (k,).
        cov: their covariance, (k, k).
        value: what each is tested against, (k,).
        labels: names.
        not_identified: mask of those that are not identified.
        df: degrees of freedom, if the covariance came from chains.
    """

    estimate: np.ndarray
    cov: np.ndarray
    value: np.ndarray
    labels: tuple[str, ...]
    not_identified: np.ndarray
    df: int | None = None

    @cached_property
    def se(self) -> np.ndarray:
        """Standard errors, (k,); inf for what is not identified."""
        known = np.sqrt(np.maximum(np.diag(self.cov), 0.0))
        return np.where(self.not_identified, self._unknown, known)

    @property
    def _unknown(self) -> np.ndarray:
        """Standard errors of what is not identified: NaN without any value, else inf."""
        return np.where(np.isnan(self.estimate), np.nan, np.inf)

    @cached_property
    def zvalues(self) -> np.ndarray:
        """Distances from `value` in standard errors; NaN if those are infinite, or 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (self.estimate - self.value) / self.se
        return np.where(np.isfinite(self.se) & np.isfinite(z), z, np.nan)

    @property
    def pvalues(self) -> np.ndarray:
        """Two-sided p-values, each of one estimate."""
        return 2 * probability(-np.abs(self.zvalues), self.df)

    def conf_int(self, alpha: float = 0.05, method: str = "pointwise") -> np.ndarray:
        """Intervals (k, 2); `method` is that of `Result.conf_int`."""
        half = half_widths(self.se, self.cov, self.df, alpha, method)
        middle = np.where(np.isinf(half), 0.0, self.estimate)  # infinite, or without a sign
        return np.column_stack([middle - half, middle + half])

    def to_numpy(self, alpha: float = 0.05, method: str = "pointwise") -> np.ndarray:
        """For each estimate its value, standard error, statistic, p-value and interval, (k, 6)."""
        ends = self.conf_int(alpha, method)
        return np.column_stack([self.estimate, self.se, self.zvalues, self.pvalues, ends])

    def to_frame(
        self, alpha: float = 0.05, method: str = "pointwise", *, heading: str = "estimate"
    ) -> "pd.DataFrame":
        """A row for each estimate: its value, standard error, test and interval."""
        import pandas as pd

        z = "z" if self.df is None else "t"
        columns = [heading, "std err", z, f"P>|{z}|", "lower", "upper"]
        return pd.DataFrame(self.to_numpy(alpha, method), list(self.labels), columns)

    def __repr__(self) -> str:
        return printable(repr(self.to_frame()), "\n")


@dataclass(frozen=True, repr=False, eq=False)
class Coefficients(Estimates):
    """The coefficients of a fit, and the directions in which they are not identified.

    Args:
        null_directions: (p, k).
        scale: of the columns, (p,).
        coordinates: of the fit.
        cov_phi: covariance in these coordinates, where combinations are to be taken in them.
        finite: the estimates with null directions held fixed, (p,).
        separated: mask of those that only separated rows determine, or ().
    """

    null_directions: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))
    coordinates: Coordinates | None = None
    cov_phi: np.ndarray | None = None
    finite: np.ndarray = field(default_factory=lambda: np.empty(0))
    separated: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    @property
    def _unknown(self) -> np.ndarray:
        unknown = super()._unknown
        return np.where(self.separated, np.inf, unknown) if self.separated.size else unknown

    def combine(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows A and a covariance C for which A C A' is the covariance of R theta, R (k, p)."""
        if self.coordinates is None or self.cov_phi is None:
            return R, self.cov
        return self.coordinates.design(R), self.cov_phi

    def root(self, R: np.ndarray) -> np.ndarray | None:
        """L with the covariance L L' of R theta, R (k, p); None if that can be factored itself."""
        if self.cov_phi is None:
            return None
        A, C = self.combine(R)
        return np.asarray(np.linalg.qr((A @ _factor(C)).T, mode="r")).T

    def depends(self, R: np.ndarray) -> np.ndarray:
        """Which rows of R (k, p) depend on a direction of theta that is not identified."""
        null = np.where(self.not_identified[:, None], self.null_directions, 0.0)
        null = null * self.scale[:, None]
        rows = R / self.scale
        size = np.linalg.norm(rows, axis=1, keepdims=True) * np.linalg.norm(null, axis=0)
        return (np.abs(rows @ null) > SMALL_DEPENDENCE * size).any(1)


def labels_of(fitted: Fitted) -> tuple[str, ...]:
    """The parameters' names, or theta[0], theta[1], ..."""
    return fitted.names or tuple(f"theta[{j}]" for j in range(len(fitted.theta)))


def coefficients(fitted: Fitted) -> Coefficients:
    """The coefficients of a fit."""
    return Coefficients(
        fitted.theta,
        fitted.cov,
        np.zeros_like(fitted.theta),
        labels_of(fitted),
        fitted.not_identified,
        fitted.df,
        fitted.null_directions,
        fitted.coordinates.scale,
        fitted.coordinates,
        fitted.cov_phi,
        fitted.finite_theta,
        fitted.separated,
    )


# Laws and quantiles.


def probability(z: np.ndarray, df: int | None) -> np.ndarray:
    """P(Z <= z) of the normal law, or of Student's where the covariance came from a few chains."""
    return ndtr(z) if df is None else stdtr(df, z)


def quantile(level: float, df: int | None) -> float:
    """The z at which `probability` is the level."""
    return float(ndtri(level) if df is None else stdtrit(df, level))


def covariance_of(R: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """R cov R'; NaN in cov, of single coefficients, matters to the rows of R that use them."""
    unknown = np.isnan(np.diag(cov))
    if not unknown.any():
        return R @ cov @ R.T
    C = R[:, ~unknown] @ cov[np.ix_(~unknown, ~unknown)] @ R[:, ~unknown].T
    uses = (R[:, unknown] != 0).any(1)
    return np.where(uses[:, None] | uses, np.nan, C)


def half_widths(
    se: np.ndarray, cov: np.ndarray, df: int | None, alpha: float, method: str
) -> np.ndarray:
    """c se: half of every interval's width, (k,); infinite where se is."""
    if not 0 < as_number("alpha", alpha) < 1:
        raise InputError(f"alpha={alpha}; a probability between 0 and 1 is needed")
    if method not in INTERVAL_METHODS:
        raise InputError(
            f"method={method!r} is not known; use one of {', '.join(INTERVAL_METHODS)}"
        )
    if method == "pointwise":
        return quantile(1 - alpha / 2, df) * se
    known = np.isfinite(se) & (se > 0)
    return _multiple(cov[np.ix_(known, known)], df, alpha, method) * se


def _multiple(cov: np.ndarray, df: int | None, alpha: float, method: str) -> float:
    """c, from the covariance of what is identified."""
    k = max(len(cov), 1)
    if method == "bonferroni" or k == 1:
        return quantile(1 - alpha / (2 * k), df)
    scale = np.sqrt(np.diag(cov))
    L = _factor(cov / np.outer(scale, scale))
    if method == "scheffe":
        return float(np.sqrt(joint_quantile(L.shape[1], df, 1 - alpha)))
    return max_quantile(L, df, 1 - alpha)


def joint_quantile(k: int, df: int | None, level: float) -> float:
    """Quantile of the Wald statistic of k combinations: chi-squared, or Hotelling's."""
    if df is None:
        return float(chdtri(k, 1 - level))
    if df < k:
        raise InputError(f"{k} combinations have no joint law from {df + 1} chains; take more")
    return float(fdtri(k, df - k + 1, level) * k * df / (df - k + 1))


def max_quantile(L: np.ndarray, df: int | None, level: float) -> float:
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

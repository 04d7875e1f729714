"""Estimates with their covariance: standard errors, tests, and intervals one by one or all at once.

Coefficients and contrasts share this record. What depends on a direction that is not identified has
an infinite standard error and no test; what has no estimate at all is NaN throughout. An interval
is estimate -+ c se. With Z of the estimates' correlation matrix, of rank r,

- pointwise:     each interval alone has the level; c is the normal quantile
- simultaneous:  P(max |Z_j| <= c) = level, the shortest that hold together with equal c
- bonferroni:    the pointwise quantile at alpha / k; whatever the correlations
- scheffe:       c^2 is the quantile of the Wald statistic: all linear combinations at once

If the covariance came from chains or clusters, laws are Student's and F (`laws.py`). With CR2 each
estimate has degrees of freedom of its own, and joint intervals take the smallest.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from masgrad.checks import as_number
from masgrad.errors import InputError, printable
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.results.laws import (
    Degrees,
    factor_of,
    joint_quantile,
    max_quantile,
    probability,
    quantile,
)
from masgrad.fitting.uncertainty.clusters.degrees import BellMcCaffrey
from masgrad.fitting.uncertainty.clusters.leverages import Leverages

if TYPE_CHECKING:
    import pandas as pd

INTERVAL_METHODS = ("pointwise", "simultaneous", "bonferroni", "scheffe")

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
        df: degrees of freedom, if the covariance came from chains or clusters.
    """

    estimate: np.ndarray
    cov: np.ndarray
    value: np.ndarray
    labels: tuple[str, ...]
    not_identified: np.ndarray
    df: Degrees = None

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
        clusters: sums by cluster, if errors are clustered.
    """

    null_directions: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))
    coordinates: Coordinates | None = None
    cov_phi: np.ndarray | None = None
    finite: np.ndarray = field(default_factory=lambda: np.empty(0))
    separated: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    clusters: Clustered | None = None

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
        return np.asarray(np.linalg.qr((A @ factor_of(C)).T, mode="r")).T

    @cached_property
    def _quadratic(self) -> BellMcCaffrey | None:
        """The degrees of freedom of combinations, if they differ and can be known."""
        own = isinstance(self.df, np.ndarray) and self.clusters is not None
        leverages = Leverages.of(self.clusters) if own and self.clusters is not None else None
        return None if leverages is None else BellMcCaffrey(leverages)

    def df_of(self, R: np.ndarray) -> Degrees:
        """The degrees of freedom of each row of R theta, R (k, p)."""
        if not isinstance(self.df, np.ndarray):
            return self.df
        if self._quadratic is None or self.coordinates is None:
            return self._smallest_df(R)
        return self._quadratic.of(self.coordinates.design(R))

    def joint_df(self, R: np.ndarray) -> int | float | None:
        """The degrees of freedom of all rows of R theta together, R (k, p)."""
        if not isinstance(self.df, np.ndarray):
            return self.df
        if self._quadratic is None or self.coordinates is None:
            return float(self._smallest_df(R).min())
        return self._quadratic.joint(self.coordinates.design(R))

    def _smallest_df(self, R: np.ndarray) -> np.ndarray:
        """The smallest of the coefficients that each row of R has, where nothing else is known."""
        assert isinstance(self.df, np.ndarray)
        return np.where(R != 0, self.df, np.inf).min(1)

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
        fitted.clusters,
    )


def covariance_of(R: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """R cov R'; NaN in cov, of single coefficients, matters to the rows of R that use them."""
    unknown = np.isnan(np.diag(cov))
    if not unknown.any():
        return R @ cov @ R.T
    C = R[:, ~unknown] @ cov[np.ix_(~unknown, ~unknown)] @ R[:, ~unknown].T
    uses = (R[:, unknown] != 0).any(1)
    return np.where(uses[:, None] | uses, np.nan, C)


def half_widths(
    se: np.ndarray, cov: np.ndarray, df: Degrees, alpha: float, method: str
) -> np.ndarray:
    """c se: half of every interval's width, (k,); infinite where se is."""
    if not 0 < as_number("alpha", alpha) < 1:
        raise InputError(f"alpha={alpha}; a probability between 0 and 1 is needed")
    if method not in INTERVAL_METHODS:
        raise InputError(
            f"method={method!r} is not known; use one of {', '.join(INTERVAL_METHODS)}, 'wild' "
            "(clusters) or 'fixed-b' (HAC)"
        )
    if method == "pointwise":
        return quantile(1 - alpha / 2, df) * se
    known = np.isfinite(se) & (se > 0)
    k = max(int(known.sum()), 1)
    if method == "bonferroni" or k == 1:
        return quantile(1 - alpha / (2 * k), df) * se
    least = float(np.nanmin(df[known])) if isinstance(df, np.ndarray) else df
    return _multiple(cov[np.ix_(known, known)], least, alpha, method) * se


def _multiple(cov: np.ndarray, df: int | float | None, alpha: float, method: str) -> float:
    """c, from the covariance of what is identified."""
    scale = np.sqrt(np.diag(cov))
    L = factor_of(cov / np.outer(scale, scale))
    if method == "scheffe":
        return float(np.sqrt(joint_quantile(L.shape[1], df, 1 - alpha)))
    return max_quantile(L, df, 1 - alpha)

"""Linear combinations of parameters: their estimates, joint tests and joint regions.

R theta has the estimate R theta_hat and the covariance R C R'. Jointly, with k combinations,

    W = (R theta_hat - q)' (R C R')^-1 (R theta_hat - q)

is chi-squared with k degrees of freedom, or, where C came from df + 1 chains or clusters,
Hotelling's: W (df - k + 1) / (k df) is F with k and df - k + 1. CR2 has a df for each combination,
and one for several together (`uncertainty.clusters.degrees`). A clustered covariance is a sum over
G clusters, and of rank G - 1 at most: more combinations than that have no joint test.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc

from masgrad.checks import as_number
from masgrad.errors import InputError, printable
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.results.constraints import Combinations, combinations
from masgrad.fitting.results.estimates import (
    Coefficients,
    Estimates,
    covariance_of,
)
from masgrad.fitting.results.laws import check_joint, joint_quantile


class WaldTest(NamedTuple):
    """A joint test of R theta = q."""

    statistic: float
    df: int
    pvalue: float


class Contrast(Estimates):
    """Estimates of linear combinations R theta*; `value` is q, 0 unless the text said "= 1"."""


@dataclass(frozen=True, repr=False, eq=False)
class Region:
    """An ellipsoid {v: (v - centre)' matrix^-1 (v - centre) <= quantile} for R theta*.

    Args:
        centre: the estimate of R theta*, (k,).
        matrix: its covariance, (k, k).
        quantile: of the Wald statistic.
        level: how often such regions hold R theta*.
        labels: what the k coordinates are.
        root: L with the matrix L L', (k, k), if that is too ill-conditioned to be factored.
    """

    centre: np.ndarray
    matrix: np.ndarray
    quantile: float
    level: float
    labels: tuple[str, ...]
    root: np.ndarray | None = None

    def contains(self, values: Any) -> Any:
        """Whether values of R theta, (k,) or (n, k), lie in the region."""
        return self.distance(values) <= self.quantile

    def distance(self, values: Any) -> Any:
        """The Wald statistic of values (k,) or (n, k)."""
        v = np.asarray(values, np.float64)
        if v.ndim not in (1, 2) or v.shape[-1] != len(self.centre):
            raise InputError(
                f"values have shape {v.shape}; {len(self.centre)} numbers are needed: "
                f"{', '.join(self.labels)}"
            )
        scale = np.sqrt(np.diag(self.matrix))
        if self.root is None:
            L = np.linalg.cholesky(self.matrix / np.outer(scale, scale))
        else:
            L = self.root / scale[:, None]
        away = np.linalg.solve(L, ((v - self.centre) / scale).T)
        return np.square(away).sum(0)

    def ellipse(self, points: int = 200) -> np.ndarray:
        """Points (points, 2) on the border of a region of two coordinates, the last the first."""
        if len(self.centre) != 2:
            raise InputError(
                f"the region has {len(self.centre)} coordinates; an ellipse needs 2: region('a, b')"
            )
        angle = np.linspace(0.0, 2 * np.pi, points)
        circle = np.sqrt(self.quantile) * np.stack([np.cos(angle), np.sin(angle)])
        return self.centre + (np.linalg.cholesky(self.matrix) @ circle).T

    def __repr__(self) -> str:
        named = zip(map(printable, self.labels), self.centre, strict=True)
        centre = ", ".join(f"{name}: {value:.4g}" for name, value in named)
        return f"Region({self.level:.3g} for {centre}; Wald statistic <= {self.quantile:.4g})"


def contrast(of: Coefficients, R: Any, q: Any = None) -> Contrast:
    """Estimates of R theta, and how far each is from q."""
    rows = combinations(R, of.labels, q)
    depends = of.depends(rows.R)
    with np.errstate(invalid="ignore"):
        limit = np.where(rows.R != 0, rows.R * of.estimate, 0.0).sum(1)
    estimate = np.where(depends, limit, rows.R @ of.finite)
    cov = covariance_of(*of.combine(rows.R))
    return Contrast(estimate, cov, rows.q, rows.labels, depends, of.df_of(rows.R))


def wald_test(of: Coefficients, R: Any, q: Any = None) -> WaldTest:
    """Test R theta = q jointly."""
    rows = combinations(R, of.labels, q)
    found, root = _joint(of, rows)
    region = Region(found.estimate, found.cov, np.inf, 1.0, found.labels, root)
    statistic, k = float(region.distance(found.value)), len(found.value)
    df = of.joint_df(rows.R)
    if df is None:
        return WaldTest(statistic, k, float(chdtrc(k, statistic)))
    check_joint(k, df)
    F = statistic * (df - k + 1) / (k * df)
    return WaldTest(statistic, k, float(fdtrc(k, df - k + 1, F)))


def region(of: Coefficients, R: Any, level: float) -> Region:
    """The values of R theta that a Wald test of level 1 - `level` does not reject."""
    if not 0 < as_number("level", level) < 1:
        raise InputError(f"level={level}; a probability between 0 and 1 is needed")
    rows = combinations(np.eye(len(of.estimate)) if R is None else R, of.labels)
    if rows.q.any():
        raise InputError(f"{R!r}: a region is of combinations such as 'a, b', without '= 1'")
    found, root = _joint(of, rows)
    quantile = joint_quantile(len(rows.R), of.joint_df(rows.R), level)
    return Region(found.estimate, found.cov, quantile, level, rows.labels, root)


def _joint(of: Coefficients, rows: Combinations) -> tuple[Contrast, np.ndarray | None]:
    """The contrasts, once their covariance is known to have an inverse, and its root if needed."""
    found = contrast(of, rows.R, rows.q)
    if of.clusters is not None:
        check_rank(of.clusters, len(rows.R))
    if found.not_identified.any():
        raise InputError(
            f"{rows.labels[int(np.argmax(found.not_identified))]!r}: R depends on a direction of "
            "theta that is not identified"
        )
    if np.isnan(found.se).any():
        raise InputError(
            f"{rows.labels[int(np.argmax(np.isnan(found.se)))]!r} has no standard error: a single "
            "row determines it, of leverage 1; fit with cov_type='HC1'"
        )
    root, scale = of.root(rows.R), found.se
    if not scale.all() or _rank(found.cov, root, scale) < len(rows.R):
        raise _no_inverse(rows.R, found.df)
    known = found.not_identified
    return Contrast(found.estimate, found.cov, rows.q, rows.labels, known, found.df), root


def check_rank(clusters: Clustered, k: int) -> None:
    """Refuse more combinations than a covariance from these clusters has directions."""
    most = clusters.fewest - 1
    if k > most:
        why = f"leave their covariance, of rank {most} at most, without an inverse"
        if len(clusters.single) > 1:
            why = f"leave F, with {most} degrees of freedom of the errors, without a law"
        raise InputError(
            f"{k} combinations and clusters of {clusters.in_words}: fewer clusters than tested "
            f"combinations {why}; test at most {most} together"
        )


def _no_inverse(R: np.ndarray, df: Any) -> InputError:
    """The error for combinations whose covariance has no inverse."""
    if np.ndim(df) == 0 and df is not None and np.linalg.matrix_rank(R) == len(R):
        return InputError(
            f"{len(R)} combinations cannot be tested together with errors of {df:g} degrees of "
            f"freedom: there are fewer chains than that takes; test at most {df:g}"
        )
    return InputError("the rows of R are linearly dependent; leave some of them out")


def _rank(cov: np.ndarray, root: np.ndarray | None, scale: np.ndarray) -> int:
    """The rank of a covariance, or of its root, with standard errors of 1."""
    if root is None:
        return int(np.linalg.matrix_rank(cov / np.outer(scale, scale), hermitian=True))
    return int(np.linalg.matrix_rank(root / scale[:, None]))

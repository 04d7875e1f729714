"""What a merged result keeps of its shards: whether they agree, and what tells them apart."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import chdtrc


@dataclass(frozen=True)
class Heterogeneity:
    """A test that the shards have one theta*: Cochran's Q of their scores.

    Args:
        statistic: Q, chi-squared with `df` degrees of freedom if they have.
        df: the shards' coefficients, less those of the merged result.
        shares: what each shard adds to Q, (K,).
    """

    statistic: float
    df: int
    shares: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def pvalue(self) -> float:
        """The probability of a Q as large if all shards have one theta*; NaN without a test."""
        return float(chdtrc(self.df, self.statistic)) if self.df > 0 else float("nan")

    @property
    def i_squared(self) -> float:
        """The share of Q beyond its mean if all shards have one theta*: Higgins' I^2."""
        return max(1 - self.df / self.statistic, 0.0) if self.statistic > 0 else 0.0

    def __str__(self) -> str:
        return f"Q = {self.statistic:.4g}, df {self.df}, p = {self.pvalue:.3g}"


@dataclass(frozen=True)
class Merged:
    """Of which shards a result is made.

    Args:
        marks: numbers by which a shard is known again, whatever the point of its sums, (K, 3 + p):
            its rows, their weight, and the sums of w and w x (`totals.constants_of`).
        heterogeneity: the test that they have one theta*.
    """

    marks: np.ndarray
    heterogeneity: Heterogeneity

    @property
    def shards(self) -> int:
        """K, the number of shards."""
        return len(self.marks)

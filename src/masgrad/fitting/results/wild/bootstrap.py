"""The wild cluster bootstrap of a result: who may have it, its test, and its intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.checks import as_number
from masgrad.errors import InputError, printable
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.options import CLUSTERED
from masgrad.fitting.results.constraints import combinations
from masgrad.fitting.results.contrasts import check_rank, contrast
from masgrad.fitting.results.wild.draws import Draws
from masgrad.fitting.results.wild.intervals import Curves
from masgrad.fitting.results.wild.statistics import (
    Linear,
    share_beyond,
    signed_statistics,
    wald_statistics,
)
from masgrad.fitting.uncertainty.clusters.factors import factor_of
from masgrad.fitting.uncertainty.clusters.leverages import Leverages
from masgrad.models.families.canonical import Gaussian
from masgrad.models.glm import GLM

if TYPE_CHECKING:
    from masgrad.fitting.results.inference import Tested


@dataclass(frozen=True, repr=False)
class WildTest:
    """A test by the wild cluster bootstrap with the null imposed.

    Args:
        hypothesis: what was tested.
        statistic: t of one combination with its CR1 error; W of several, as `wald_test` has it.
        pvalue: the share of draws whose |t*|, or W*, is as large.
        equal_tailed: twice the share of draws in the smaller tail; None of several combinations.
        draws: their number.
        exhaustive: whether they are all vectors of signs, so that nothing is random.
        weights: "rademacher" or "webb".
        clusters: their number.
        by: what rows are clustered by.
    """

    hypothesis: tuple[str, ...]
    statistic: float
    pvalue: float
    equal_tailed: float | None
    draws: int
    exhaustive: bool
    weights: str
    clusters: int
    by: str

    def __repr__(self) -> str:
        name = "t" if self.equal_tailed is not None else "W"
        every = "all " if self.exhaustive else ""
        kind = "sign vectors" if self.exhaustive else f"{self.weights} draws"
        p = f"p = {self.pvalue:.4g}" if self.pvalue else f"p < {1 / self.draws:.4g}"
        return printable(
            f"WildTest({', '.join(self.hypothesis)}: {name} = {self.statistic:.4g}, "
            f"{p}; {every}{self.draws:,} {kind} of {self.clusters:,} clusters "
            f"by {self.by})"
        )


def wild_test(
    result: "Tested", R: Any, q: Any, draws: int, weights: str | None, seed: int
) -> WildTest:
    """The test of R theta = q."""
    kept, leverages = _checked(result)
    of = result.coefficients
    rows = combinations(R, of.labels, q)
    check_rank(kept, len(rows.R))
    found = contrast(of, rows.R, rows.q)
    if found.not_identified.any():
        raise InputError(
            f"{rows.labels[int(np.argmax(found.not_identified))]!r}: R depends on a direction of "
            "theta that is not identified"
        )
    A, e = _in_phi(result, rows.R), found.estimate - rows.q
    if not _is_independent(A @ leverages.root):
        raise InputError("the rows of R are linearly dependent; leave some of them out")
    linear = Linear.of(leverages, A)
    if not linear.has_variance:
        raise InputError(
            f"{', '.join(rows.labels)}: the clusters' scores show no sampling error, as if rows "
            "were fitted exactly, and there is nothing to draw"
        )
    chosen = Draws.of(kept.fewest, draws, weights, seed)
    scale = factor_of(kept, kept.ways[0], _is_least_squares(result))
    statistic, p, tails = _compared(linear, e, chosen)
    named = zip(rows.labels, rows.q, strict=True)
    return WildTest(
        tuple(label if "=" in label else f"{label} = {value:g}" for label, value in named),
        statistic / (scale if tails is None else np.sqrt(scale)),
        p,
        tails,
        chosen.count,
        chosen.exhaustive,
        chosen.kind,
        kept.fewest,
        kept.ways[0].names[0],
    )


def _compared(linear: Linear, e: np.ndarray, draws: Draws) -> tuple[float, float, float | None]:
    """The statistic without its factor, the p-value, and that of equal tails."""
    W, null = linear.wald(e), linear.under(e)
    if len(e) > 1:
        return W, share_beyond(wald_statistics(null, draws), W), None
    t, drawn = float(np.copysign(np.sqrt(W), e[0])), signed_statistics(null, draws)
    tail = min(share_beyond(drawn, t), share_beyond(-drawn, -t))
    return t, share_beyond(np.abs(drawn), abs(t)), min(2 * tail, 1.0)


def wild_intervals(
    result: "Tested", alpha: float, draws: int, weights: str | None, seed: int
) -> np.ndarray:
    """The values of each coefficient that the test accepts at the level alpha, (p, 2)."""
    if not 0 < as_number("alpha", alpha) < 1:
        raise InputError(f"alpha={alpha}; a probability between 0 and 1 is needed")
    kept, leverages = _checked(result)
    chosen = Draws.of(kept.fewest, draws, weights, seed)
    ends = result.coefficients.conf_int(alpha)
    A = _in_phi(result, np.eye(len(ends)))
    for j in np.flatnonzero(np.isfinite(result.coefficients.se)):
        linear = Linear.of(leverages, A[[j]])
        if linear.has_variance:
            curves = Curves.of(linear, chosen)
            ends[j] = result.theta[j] + np.array([-curves.end(alpha, 1), curves.end(alpha, -1)])
        else:
            ends[j] = result.theta[j]
    return ends


def _is_independent(rows: np.ndarray) -> bool:
    """Whether rows (k, r) are linearly independent, whatever their lengths."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return bool(size.all()) and int(np.linalg.matrix_rank(rows / size)) == len(rows)


def _in_phi(result: "Tested", R: np.ndarray) -> np.ndarray:
    """Rows of combinations of phi with the values of R theta."""
    coordinates = result.coefficients.coordinates
    assert coordinates is not None
    return coordinates.design(R)


def _is_least_squares(result: "Tested") -> bool:
    return isinstance(result.model, GLM) and isinstance(result.model.family, Gaussian)


def _checked(result: "Tested") -> tuple[Clustered, Leverages]:
    """The clusters of a result, and what they know; an error if they have no wild bootstrap."""
    kept = result.clusters
    if kept is None:
        loaded = result.cov_type in CLUSTERED
        raise InputError(
            "the sums by cluster were not saved with this result; fit the rows again"
            if loaded
            else "the wild bootstrap draws clusters, and this fit has none; give clusters='firm', "
            "or an array of keys"
        )
    if result.penalized is not None:
        raise InputError(
            "the wild bootstrap imposes the null on the optimum of the rows, and this estimate is "
            "one step from a penalised one; fit without a penalty"
        )
    if len(kept.single) > 1:
        raise InputError(
            f"the wild bootstrap draws the clusters of one grouping, and rows are clustered by "
            f"{kept.in_words}; fit with one of them, the one with fewer clusters as a rule"
        )
    if kept.outside:
        raise InputError(
            f"the levels of {' and '.join(kept.outside)} lie in several clusters, so that every "
            "draw would move their effects, which sums by cluster do not follow; write their "
            f"levels out: C({kept.outside[0]}) before the bar"
        )
    if kept.alone is None:
        raise InputError(
            f"the Hessians of {kept.in_words} were not kept, which are for few clusters only; fit "
            "with cov_type='CR3', which keeps them"
        )
    leverages = Leverages.of(kept)
    if leverages is None:
        raise InputError(
            "the Hessian is not positive definite at the estimate: the wild bootstrap has no "
            "Newton step to take"
        )
    return kept, leverages

"""Sums by cluster at the estimate, and the meat that they make.

One read of gradients at the estimate gives the scores. A single read has taken them on its way, and
earlier rows (`update`) at their own estimate: both are moved to this one by the clusters' Hessians.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.groupings.grouping import with_role
from masgrad.errors import InputError
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.clusters.reading import (
    cluster_ways,
    hessians_fit,
    size_of_hessians,
)
from masgrad.fitting.objective.clusters.sums import ClusterWay
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.clusters.adjusted import POWERS, adjusted_meat
from masgrad.fitting.uncertainty.clusters.degrees import BellMcCaffrey
from masgrad.fitting.uncertainty.clusters.factors import check_clusters, meat_of
from masgrad.fitting.uncertainty.clusters.leverages import Leverages
from masgrad.fitting.uncertainty.clusters.notes import (
    few_clusters,
    lost_clusters,
    moved_scores,
    unequal_clusters,
)
from masgrad.fitting.uncertainty.kinds import complement, observations
from masgrad.models.families.canonical import Gaussian

HESSIANS_KEPT_UP_TO = 64
"""Clusters up to which Hessians are kept by default: tests for few clusters need them."""

CHEAP_PRODUCTS = 1 << 22
"""Products of columns, over all rows, up to which they are kept whatever the number of clusters."""


@dataclass(frozen=True)
class ClusteredMeat:
    """The meat of clusters.

    Args:
        matrix: M, (p, p), with its factors.
        kept: what it was made of.
        reads: of the rows, made for it.
        notes: about it.
        df: degrees of freedom of t; of each coefficient, (p,), for CR2.
    """

    matrix: np.ndarray
    kept: Clustered
    reads: int
    notes: tuple[str, ...]
    df: int | np.ndarray


def clustered_meat(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    *,
    local: LocalModel,
    free: int,
    null: np.ndarray,
    kind: str,
    options: Options,
    earlier: Clustered | None,
    outside: tuple[str, ...] = (),
) -> ClusteredMeat:
    """The meat of the kind CR1, CR2 or CR3 at the estimate; `null` are directions without one.

    `outside` are the fixed effects whose levels lie in several clusters.
    """
    ways, reads = _ways(objective, reader, sample, done, local=local, kind=kind, options=options)
    notes = () if reads or sample.complete else moved_scores(ways, options.memory)
    if earlier is not None:
        ways, notes = _with_earlier(ways, earlier, local), (*notes, *_on_earlier(earlier))
    count = observations(local.count, local.rows, options)
    basis = complement(null)
    kept = Clustered(ways, options.small_sample, local.hessian, count, free, basis, outside)
    A = objective.coordinates.design(np.eye(len(local.point)))
    least_squares = isinstance(objective.family, Gaussian)
    found = meat_of_sums(kept, kind, least_squares, A, reader.source.names)
    return replace(found, reads=reads, notes=(*notes, *found.notes))


def meat_of_sums(
    kept: Clustered, kind: str, least_squares: bool, A: np.ndarray, names: tuple[str, ...]
) -> ClusteredMeat:
    """The meat that sums by cluster make; the coefficients are A phi."""
    check_clusters(kept)
    leverages = Leverages.of(kept)
    if kind in POWERS and leverages is None:
        raise InputError(_without_hessians(kind, kept))
    notes = (*few_clusters(kept, kind), *unequal_clusters(kept, leverages, A, names))
    if kind not in POWERS or leverages is None:
        return ClusteredMeat(meat_of(kept, least_squares), kept, 0, notes, kept.fewest - 1)
    notes += lost_clusters(kept, leverages, A, names)
    df = BellMcCaffrey(leverages).of(A) if kind == "CR2" else kept.fewest - 1
    return ClusteredMeat(adjusted_meat(leverages, kind), kept, 0, notes, df)


def _without_hessians(kind: str, kept: Clustered) -> str:
    if kept.alone is not None:
        return (
            f"cov_type={kind!r} takes the root of the Hessian, which is not positive definite at "
            "this estimate; use 'CR1'"
        )
    return (
        f"cov_type={kind!r} takes the Hessians of all clusters, and those of earlier rows, or of a "
        "single read, were not kept; fit the earlier rows with the same cov_type, give more "
        "memory=..., or use 'CR1'"
    )


def _ways(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    *,
    local: LocalModel,
    kind: str,
    options: Options,
) -> tuple[tuple[ClusterWay, ...], int]:
    """The clusters' sums at the estimate, and the reads that they took."""
    if done.clusters and not sample.complete:
        return tuple(way.at(local.point, local.hessian) for way in done.clusters), 0
    if not (sample.complete or reader.source.rereadable):
        raise InputError(
            "clustered errors need gradients at the estimate, and these rows can be read once; "
            "give mg.Stream(function) with a function that starts them anew"
        )
    keeps = keeps_hessians(reader, local, kind, options)
    ways = cluster_ways(objective, reader, sample, local.point, keeps)
    return ways, int(not sample.complete)


def keeps_hessians(reader: Reader, local: LocalModel, kind: str, options: Options) -> bool:
    """Whether the clusters' Hessians are summed as well."""
    p, groupings = len(local.point), with_role(reader.source.groupings, "clusters")
    G = max(grouping.size for grouping in groupings)
    fits = hessians_fit(G, p, options.memory)
    if kind in ("CR2", "CR3"):
        if not fits:
            raise InputError(
                f"cov_type={kind!r} takes the Hessians of {G:,} clusters, "
                f"{size_of_hessians(G, p) / 2**20:,.0f} MB, more than a quarter of "
                f"memory={options.memory / 2**20:,.0f}MB; give it more, or use 'CR1', which "
                "differs little with as many clusters"
            )
        return True
    cheap = local.rows * p * (p + 1) // 2 <= CHEAP_PRODUCTS
    return fits and len(groupings) == 1 and (G <= HESSIANS_KEPT_UP_TO or cheap)


def _with_earlier(
    ways: tuple[ClusterWay, ...], earlier: Clustered, local: LocalModel
) -> tuple[ClusterWay, ...]:
    """The clusters of earlier rows, moved to the estimate, and these, joined by their keys."""
    names = [way.names for way in ways]
    if [way.names for way in earlier.ways] != names:
        old = " and ".join(name for way in earlier.single for name in way.names)
        new = " and ".join(name for some in names if len(some) == 1 for name in some)
        raise InputError(
            f"the old rows were clustered by {old}, and these by {new}; they must be the same"
        )
    pairs = zip(earlier.ways, ways, strict=True)
    return tuple(old.at(local.point, earlier.bread).plus(new) for old, new in pairs)


def _on_earlier(earlier: Clustered) -> tuple[str, ...]:
    if all(way.sums.hessians is not None for way in earlier.ways):
        return ()
    return (
        "Scores of the old clusters were moved to the new estimate by the Hessian of all old rows, "
        "since their own were not kept (they are for CR2 and CR3, and for few clusters).",
    )

"""What a reader should know of clusters that are few, or unlike each other.

CR1 errors and t with G - 1 degrees of freedom are right as G grows, if no cluster has much of the
information. A cluster's share of it about a coefficient is its partial leverage (`shares`), 1 / G
for all if they are alike. One treated cluster of 20 has 0.95 of it for the treatment: its residuals
are 0 on average by construction, and no formula knows their noise.
"""

from collections.abc import Sequence

import numpy as np

from masgrad.fitting.identification.rank import listed
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.clusters.sums import ClusterWay
from masgrad.fitting.uncertainty.clusters.adjusted import lost_without
from masgrad.fitting.uncertainty.clusters.leverages import Leverages

FEW_CLUSTERS = 40
"""Clusters below which errors by CR1 and quantiles of t are not to be trusted without a look."""

LARGEST_SHARE = 0.5
"""Share of one cluster in the information about a coefficient above which it is named."""


def few_clusters(kept: Clustered, kind: str) -> tuple[str, ...]:
    """A note if there are few clusters."""
    if kept.fewest >= FEW_CLUSTERS:
        return ()
    said = f"Few clusters ({kept.in_words}): "
    if len(kept.single) > 1:
        return (
            f"{said}intervals may be too short; compare those by one grouping, for which there are "
            'cov_type="CR3", wild_test and conf_int(method="wild").',
        )
    if kept.outside:
        return (
            f"{said}intervals may be too short; CR3 and wild_test need the levels of "
            f"{' and '.join(kept.outside)} as columns, C({kept.outside[0]}), since they lie in "
            "several clusters.",
        )
    wild = 'wild_test and conf_int(method="wild")'
    if kind == "CR1":
        return (f'{said}intervals may be too short; see {wild}, or cov_type="CR3".',)
    more = ' or cov_type="CR3"' if kind == "CR2" else ""
    return (f"{said}intervals of {kind} may still be too short; compare {wild}{more}.",)


def moved_scores(ways: Sequence[ClusterWay], memory: int) -> tuple[str, ...]:
    """A note on the clusters of a single read that have moved without Hessians of their own."""
    if all(way.sums.hessians is not None for way in ways):
        return ()
    return (
        "Scores of clusters were taken on the way of a single read, and moved to the estimate by "
        "the Hessian of all rows: the clusters' own take more than a quarter of "
        f"memory={memory / 2**20:,.0f}MB; give more, or rows that can be read again.",
    )


def unequal_clusters(
    kept: Clustered, leverages: Leverages | None, A: np.ndarray, names: tuple[str, ...]
) -> tuple[str, ...]:
    """A note on coefficients, rows of A phi, about which one cluster has most information."""
    if leverages is None or kept.fewest < 3:
        return ()
    shares = leverages.shares(A)
    leading = shares.max(0) > LARGEST_SHARE
    if not leading.any():
        return ()
    j = int(np.argmax(shares.max(0)))
    g, name = int(np.argmax(shares[:, j])), kept.ways[0].names[0]
    return (
        f"One cluster has most of the information about {listed(leading, names)}: {name} "
        f"{kept.ways[0].keys[g]!r} has {100 * shares[g, j]:.0f} % of it for "
        f"{listed(np.arange(len(A)) == j, names)}. As with one treated cluster, errors may be much "
        "too small, whatever their kind.",
    )


def lost_clusters(
    kept: Clustered, leverages: Leverages, A: np.ndarray, names: tuple[str, ...]
) -> tuple[str, ...]:
    """A note on coefficients that the rows without some cluster do not determine."""
    lost = lost_without(leverages, A)
    if not lost.any():
        return ()
    return (
        f"Leaving out one cluster of {kept.ways[0].names[0]} loses {listed(lost, names)}: a "
        "pseudo-inverse holds what is lost fixed, so that errors have nothing of that cluster's "
        "noise.",
    )

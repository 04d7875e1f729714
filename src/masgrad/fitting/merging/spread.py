"""The meat and the covariance of shards together, of the kind that all of them have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.merging.combine import Combined
from masgrad.fitting.merging.shard import Shard
from masgrad.fitting.objective.clusters.clustered import Clustered, transformed
from masgrad.fitting.objective.clusters.sums import ClusterWay
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.options import CLUSTERED
from masgrad.fitting.status import Status
from masgrad.fitting.uncertainty.clusters.factors import positive_part
from masgrad.fitting.uncertainty.clusters.meat import meat_of_sums
from masgrad.fitting.uncertainty.covariance import SUSPECT_RESIDUAL
from masgrad.fitting.uncertainty.kinds import covariance
from masgrad.models.families.canonical import Gaussian
from masgrad.models.glm import GLM

OF_ROWS = ("HC3", "chains")
"""Kinds that take the rows of all shards together; those of HC0 are given instead."""


@dataclass(frozen=True)
class Spread:
    """The covariance of phi, and what it was made of.

    Args:
        cov: (p, p).
        cov_type: its kind.
        df: degrees of freedom of t; None for the normal law.
        clusters: the sums by cluster of all shards.
        notes: about it.
    """

    cov: np.ndarray
    cov_type: str
    df: int | np.ndarray | None = None
    clusters: Clustered | None = None
    notes: tuple[str, ...] = ()


def spread_of(
    shards: Sequence[Shard], done: Combined, coordinates: Coordinates, names: tuple[str, ...]
) -> Spread:
    """The covariance at the merged estimate."""
    first, local = shards[0].fitted, done.local
    family = first.model.family if isinstance(first.model, GLM) else None
    none = np.empty((len(local.point), 0))
    if _is_perfect(shards, local):
        return Spread(np.zeros_like(local.hessian), first.cov_type)
    if first.cov_type in CLUSTERED:
        kept, notes = _clusters(shards, local)
        A = coordinates.design(np.eye(len(local.point)))
        squares = isinstance(family, Gaussian)
        found = meat_of_sums(kept, first.cov_type, squares, A, names)
        C = covariance(replace(local, meat=found.matrix), "HC0", False, none, local.count)
        if len(kept.ways) > 1:
            back = np.linalg.inv(coordinates.matrix)
            C = back @ positive_part(coordinates.cov(C))[0] @ back.T
        return Spread(C, first.cov_type, found.df, kept, (*notes, *found.notes))
    kind, notes = first.cov_type, ()
    if kind in OF_ROWS:
        notes = (f"{kind} takes the rows of all shards together: these errors are robust (HC0).",)
        kind = "robust"
    dispersed = family is not None and family.dispersed
    C = covariance(local, kind, dispersed, none, local.count)
    return Spread(C, kind, notes=notes)


def _is_perfect(shards: Sequence[Shard], local: LocalModel) -> bool:
    """Whether all shards are fitted to rounding, and by one theta."""
    if not all(shard.fitted.status is Status.PERFECT_FIT for shard in shards):
        return False
    gaussian = getattr(getattr(shards[0].fitted.model, "family", None), "name", "") == "gaussian"
    unit = -2 * local.constants[0] / local.count if gaussian else 1.0
    return bool(np.trace(local.meat) <= SUSPECT_RESIDUAL * unit * np.trace(local.hessian))


def _clusters(shards: Sequence[Shard], local: LocalModel) -> tuple[Clustered, tuple[str, ...]]:
    """The sums by cluster of all shards at the merged estimate, joined by their keys."""
    for k, shard in enumerate(shards):
        if shard.fitted.clusters is None:
            raise InputError(
                f"result {k} has no sums by cluster: they were too many for its file; merge it "
                "before it is saved, or fit the shards without clusters"
            )
    first = shards[0].fitted.clusters
    assert first is not None
    each = [_ways(shard, local.point) for shard in shards]
    ways = tuple(reduce(ClusterWay.plus, some) for some in zip(*each, strict=True))
    p = len(local.point)
    kept = Clustered(ways, first.small_sample, local.hessian, local.count, p, np.eye(p))
    several = sum(len(way.keys) for way in each_single(each)) - sum(
        len(way.keys) for way in kept.single
    )
    if not several:
        return kept, ()
    return kept, (
        f"{several:,} keys of {' and '.join(way.names[0] for way in kept.single)} are in more than "
        "one shard, and their clusters were joined; if they are different clusters, number them "
        "apart.",
    )


def each_single(each: Sequence[Sequence[ClusterWay]]) -> list[ClusterWay]:
    """The single groupings of all shards."""
    return [way for ways in each for way in ways if len(way.names) == 1]


def _ways(shard: Shard, phi: np.ndarray) -> tuple[ClusterWay, ...]:
    """The clusters of one shard, moved to the merged estimate, in united coordinates."""
    return tuple(
        replace(way, sums=transformed(way.sums, shard.turn, phi)) for way in moved(shard, phi)
    )


def moved(shard: Shard, phi: np.ndarray) -> tuple[ClusterWay, ...]:
    """The clusters of one shard, moved to the merged estimate, in its own coordinates."""
    kept = shard.fitted.clusters
    assert kept is not None
    return tuple(way.at(shard.turn @ phi, kept.bread) for way in kept.ways)


def own_meat(shard: Shard, part: LocalModel, phi: np.ndarray) -> np.ndarray:
    """The sum of squared scores of the shard's clusters, or of its rows, without factors."""
    if shard.fitted.clusters is None:
        return part.meat
    ways = moved(shard, phi)
    return positive_part(sum((way.sign * way.sums.meat for way in ways), np.zeros_like(part.meat)))[
        0
    ]

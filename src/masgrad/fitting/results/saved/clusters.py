"""Sums by cluster as JSON, so that a loaded result has its tests for few clusters, and updates.

Sums of very many clusters would make a file that is far larger than all else in it, and are left
out; a result without them says so when it is asked for what needs them.
"""

from typing import Any

import numpy as np

from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.clusters.sums import ClusterSums, ClusterWay
from masgrad.fitting.results.saved.arrays import pack, unpack

LARGEST_NUMBERS = 1 << 22
"""Numbers that sums by cluster may have in a file: 32 MB, and 43 MB as text."""


def clusters_to_json(kept: Clustered | None) -> dict[str, Any] | None:
    """The sums; None if there are none, or too many of them."""
    if kept is None or not is_kept(kept):
        return None
    return {
        "ways": [_way_to_json(way) for way in kept.ways],
        "small_sample": kept.small_sample,
        "bread": pack(kept.bread),
        "nobs": kept.nobs,
        "parameters": kept.parameters,
        "basis": pack(kept.basis),
        "outside": list(kept.outside),
    }


def is_kept(kept: Clustered) -> bool:
    """Whether there are so few sums that they are written to the file."""
    return sum(_size(way.sums) for way in kept.ways) <= LARGEST_NUMBERS


def clusters_from_json(body: dict[str, Any] | None) -> Clustered | None:
    """The sums of what `clusters_to_json` made."""
    if body is None:
        return None
    return Clustered(
        tuple(_way_from_json(way) for way in body["ways"]),
        body["small_sample"],
        unpack(body["bread"]),
        float(body["nobs"]),
        int(body["parameters"]),
        unpack(body["basis"]),
        tuple(body["outside"]),
    )


def _size(sums: ClusterSums) -> int:
    return sums.scores.size + (0 if sums.hessians is None else sums.hessians.size)


def _way_to_json(way: ClusterWay) -> dict[str, Any]:
    sums = way.sums
    return {
        "names": list(way.names),
        "keys": [list(key) if isinstance(key, tuple) else key for key in way.keys],
        "point": pack(sums.point),
        "scores": pack(sums.scores),
        "weights": pack(sums.weights),
        "rows": pack(sums.rows),
        "hessians": None if sums.hessians is None else pack(sums.hessians),
    }


def _way_from_json(body: dict[str, Any]) -> ClusterWay:
    keys = tuple(tuple(key) if isinstance(key, list) else key for key in body["keys"])
    hessians = None if body["hessians"] is None else unpack(body["hessians"])
    point, scores, weights = (unpack(body[name]) for name in ("point", "scores", "weights"))
    p, G = len(point), len(keys)
    if scores.shape != (G, p) or weights.shape != (G,):
        raise ValueError(f"scores of shape {scores.shape} for {G} clusters, {p} parameters")
    if hessians is not None and hessians.shape != (G, p * (p + 1) // 2):
        raise ValueError(f"Hessians of shape {hessians.shape} for {G} clusters")
    rows = unpack(body["rows"]).astype(np.int64)
    sums = ClusterSums(point, scores, weights, rows, hessians)
    return ClusterWay(tuple(body["names"]), keys, sums)

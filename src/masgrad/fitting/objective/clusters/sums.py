"""Sums by cluster at one point: scores, weights, rows, and Hessians where they are kept.

The score of cluster g is s_g = sum of the gradients of its rows, and H_g the sum of their Hessians.
At another point the scores are s_g + H_g step, exactly so for least squares; where no H_g were
kept, each cluster has its share of the Hessian of all rows. Clusters are added by their keys, so
that the order of rows, blocks, shards and updates does not matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

CHUNK_BYTES = 1 << 26
"""Size of the Hessians that are unpacked at a time."""


@dataclass(frozen=True)
class ClusterSums:
    """Sums over the rows of each of G clusters, in the coordinates phi.

    Args:
        point: where they were taken, (p,).
        scores: sums of gradients, (G, p).
        weights: total weight of the rows, (G,).
        rows: number of rows, (G,).
        hessians: sums of Hessians, upper triangles by rows (`np.triu_indices`), (G, p(p+1)/2); None
            if they were not kept.
    """

    point: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    hessians: np.ndarray | None = None

    @property
    def count(self) -> int:
        """G, the number of clusters."""
        return len(self.weights)

    def each_hessian(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The Hessians (g, p, p) of some clusters at a time, with the places of these clusters."""
        assert self.hessians is not None
        p = len(self.point)
        some = max(1, CHUNK_BYTES // (8 * p * p))
        for start in range(0, self.count, some):
            chosen = slice(start, min(start + some, self.count))
            yield chosen, unpacked(self.hessians[chosen], p)

    @property
    def information(self) -> np.ndarray:
        """The sum of the clusters' Hessians, (p, p)."""
        assert self.hessians is not None
        return unpacked(self.hessians.sum(0)[None], len(self.point))[0]

    def at(self, point: np.ndarray, hessian: np.ndarray | None = None) -> "ClusterSums":
        """The sums at another point; `hessian`, of all rows, serves where none were kept."""
        step = point - self.point
        if not step.any():
            return replace(self, point=point)
        scores = self.scores.copy()
        if self.hessians is not None:
            for chosen, H in self.each_hessian():
                scores[chosen] += H @ step
        elif hessian is not None:
            scores += np.outer(self.weights / self.weights.sum(), hessian @ step)
        return replace(self, point=point, scores=scores)

    def chosen(self, kept: np.ndarray) -> "ClusterSums":
        """Some of the clusters."""
        hessians = None if self.hessians is None else self.hessians[kept]
        parts = (self.scores[kept], self.weights[kept], self.rows[kept])
        return ClusterSums(self.point, *parts, hessians)

    @property
    def meat(self) -> np.ndarray:
        """Sum of s_g s_g', (p, p)."""
        return self.scores.T @ self.scores


def unpacked(triangles: np.ndarray, p: int) -> np.ndarray:
    """Symmetric matrices (g, p, p) of their upper triangles (g, p(p+1)/2)."""
    i, j = np.triu_indices(p)
    full = np.empty((len(triangles), p, p))
    full[:, i, j] = full[:, j, i] = triangles
    return full


def packed(matrices: np.ndarray) -> np.ndarray:
    """The upper triangles (g, p(p+1)/2) of symmetric matrices (g, p, p)."""
    i, j = np.triu_indices(matrices.shape[-1])
    return matrices[..., i, j]


@dataclass(frozen=True)
class ClusterWay:
    """One way of clustering: by one grouping, or by the combinations of several.

    Args:
        names: of the groupings.
        keys: of the clusters, (G,), plain values; tuples for combinations.
        sums: over their rows.
    """

    names: tuple[str, ...]
    keys: tuple[Any, ...]
    sums: ClusterSums

    @property
    def sign(self) -> int:
        """In the sum over ways, by inclusion and exclusion."""
        return 1 if len(self.names) % 2 else -1

    def at(self, point: np.ndarray, hessian: np.ndarray | None = None) -> "ClusterWay":
        """The same clusters, their scores moved to another point."""
        return replace(self, sums=self.sums.at(point, hessian))

    def plus(self, other: "ClusterWay") -> "ClusterWay":
        """The clusters of both, joined by their keys; both sums are at one point."""
        place = {key: k for k, key in enumerate(self.keys)}
        for key in other.keys:
            place.setdefault(key, len(place))
        at = np.array([place[key] for key in other.keys], np.intp)
        sums = _both(self.sums, other.sums, at, len(place))
        return ClusterWay(self.names, tuple(place), sums)


def _both(a: ClusterSums, b: ClusterSums, at: np.ndarray, size: int) -> ClusterSums:
    """The sums of both, those of `b` added at these places."""

    def total(mine: np.ndarray, others: np.ndarray) -> np.ndarray:
        out = np.zeros((size, *mine.shape[1:]), mine.dtype)
        out[: len(mine)] = mine
        out[at] += others
        return out

    known = a.hessians is not None and b.hessians is not None
    return ClusterSums(
        a.point,
        total(a.scores, b.scores),
        total(a.weights, b.weights),
        total(a.rows, b.rows),
        total(a.hessians, b.hessians) if known else None,  # pyright: ignore
    )

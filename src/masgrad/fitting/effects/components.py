"""Groupings that meet: connected components.

Two groupings are a graph: levels are its nodes, and rows join a level of the one to one of the
other. Adding a number to the effects of the one and taking it from those of the other, within a
connected component, changes no row: each component has one redundant effect.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from masgrad.fitting.effects.pairs import Pairs

PAIRS_A_LEVEL = 8
"""Pairs for each level that are joined first."""


@dataclass(frozen=True)
class Components:
    """Connected components of two groupings.

    Args:
        count: their number.
        first: the component of each level of the first grouping, -1 for levels without rows.
        second: of each level of the second.
    """

    count: int
    first: np.ndarray
    second: np.ndarray

    def only(self, first: np.ndarray, second: np.ndarray) -> "Components":
        """The components of some of the levels, of which these are masks."""
        live = np.concatenate([first, second])
        labels = np.concatenate([self.first, self.second])
        numbers, labels[live] = np.unique(labels[live], return_inverse=True)
        labels[~live] = -1
        return Components(len(numbers), labels[: len(first)], labels[len(first) :])

    @classmethod
    def of(cls, pairs: Pairs, sizes: tuple[int, int]) -> "Components":
        """The components that pairs with a weight make.

        A few of the pairs join most levels, and only pairs that they leave apart are looked at.
        """
        kept = (
            pairs if pairs.weights is None or pairs.weights.all() else pairs.only(pairs.weights > 0)
        )
        first, second = kept.first, kept.second + np.int32(sizes[0])
        total, every = sum(sizes), max(1, len(kept) // (PAIRS_A_LEVEL * max(sum(sizes), 1)))
        labels = _joined_labels(first[::every], second[::every], total)
        if every > 1:
            a, b = labels[first], labels[second]
            apart = np.flatnonzero(a != b)
            if len(apart):
                labels = _joined_labels(a[apart], b[apart], total)[labels]
        met = np.zeros(total, bool)
        met[first], met[second] = True, True
        numbers, labels[met] = np.unique(labels[met], return_inverse=True)
        labels[~met] = -1
        return cls(len(numbers), labels[: sizes[0]], labels[sizes[0] :])


def _joined_labels(a: np.ndarray, b: np.ndarray, size: int) -> np.ndarray:
    """The component of each node of a graph with these edges, (size,)."""
    from scipy.sparse import csgraph, csr_array  # heavy, and for fixed effects alone

    graph = csr_array((np.ones(len(a), np.int8), (a, b)), (size, size))
    return csgraph.connected_components(graph, directed=False)[1]


class GrowingComponents:
    """Connected components of two groupings whose pairs are seen part by part, and not kept."""

    def __init__(self, pairs: Iterable[Pairs]):
        self.labels = np.zeros(0, np.int64)
        for part in pairs:
            self.add(part)

    def add(self, pairs: Pairs) -> None:
        """Join the levels of some pairs."""
        first, second = 2 * pairs.first.astype(np.int64), 2 * pairs.second.astype(np.int64) + 1
        size = max(first.max(initial=-1), second.max(initial=-1)) + 1
        if size > len(self.labels):
            new = np.arange(len(self.labels), max(size, 2 * len(self.labels)))
            self.labels = np.concatenate([self.labels, new])
        a, b = self.labels[first], self.labels[second]
        apart = np.flatnonzero(a != b)
        if pairs.weights is not None:
            apart = apart[pairs.weights[apart] > 0]
        self._join_labels(a[apart], b[apart])

    def _join_labels(self, a: np.ndarray, b: np.ndarray) -> None:
        if not len(a):
            return
        met, ends = np.unique([a, b], return_inverse=True)
        start, end = ends.reshape(2, -1)
        joined = _joined_labels(start, end, len(met))
        now = np.arange(len(self.labels))
        now[met] = met[np.unique(joined, return_index=True)[1]][joined]
        self.labels = now[self.labels]

    def join(self, other: "GrowingComponents") -> None:
        """Join the levels that others found joined: each with the first level of its component."""
        levels = np.flatnonzero(other.labels != np.arange(len(other.labels)))
        size = max(len(self.labels), len(other.labels))
        self.labels = np.append(self.labels, np.arange(len(self.labels), size))
        self._join_labels(self.labels[levels], self.labels[other.labels[levels]])

    def components(self, first: np.ndarray, second: np.ndarray) -> Components:
        """The components of the levels that have rows, of which these are masks."""
        size = 2 * max(len(first), len(second))
        labels = np.append(self.labels, np.arange(len(self.labels), max(size, len(self.labels))))
        parts = labels[: 2 * len(first) : 2].copy(), labels[1 : 2 * len(second) : 2].copy()
        return Components(0, *parts).only(first, second)

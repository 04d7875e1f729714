"""Which groupings of effects are nested in clusters: each of their levels lies in one cluster.

Clustered errors do not count such effects as parameters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from masgrad.data.groupings.grouping import Grouping, places_of_role

MIXED = -2
"""The cluster of a level that lies in several."""


class LevelClusters(NamedTuple):
    """The cluster of each level that some rows meet.

    Args:
        levels: (m,), each once.
        clusters: (m,); `MIXED` where they differ.
    """

    levels: np.ndarray
    clusters: np.ndarray

    @classmethod
    def of(cls, levels: np.ndarray, clusters: np.ndarray) -> "LevelClusters":
        table = np.full(int(levels.max(initial=-1)) + 1, -1, np.int32)
        table[levels] = clusters
        table[levels[table[levels] != clusters]] = MIXED
        met = np.flatnonzero(table != -1)
        return cls(met, table[met])


class Nesting:
    """The clusters of levels, part after part, for every grouping of effects and of clusters."""

    def __init__(self, groupings: Sequence[Grouping]):
        self.effects = places_of_role(groupings, "effects")
        self.clusters = places_of_role(groupings, "clusters")
        self.tables = {pair: np.empty(0, np.int32) for pair in self._pairs()}

    def _pairs(self) -> list[tuple[int, int]]:
        return [(k, m) for k in self.effects for m in self.clusters]

    def of_rows(self, groups: np.ndarray) -> list[LevelClusters]:
        """What some rows say; `groups` are their codes, (n, groupings)."""
        return [LevelClusters.of(groups[:, k], groups[:, m]) for k, m in self._pairs()]

    def add(self, parts: Sequence[LevelClusters]) -> None:
        """Take in what a part says."""
        for pair, (levels, clusters) in zip(self._pairs(), parts, strict=True):
            table = self.tables[pair]
            if len(levels) and levels[-1] >= len(table):
                longer = np.full(max(2 * len(table), levels[-1] + 1), -1, np.int32)
                longer[: len(table)] = table
                self.tables[pair] = table = longer
            before = table[levels]
            table[levels] = np.where((before == -1) | (before == clusters), clusters, MIXED)

    def joined(self, other: "Nesting") -> "Nesting":
        """With what other rows say."""
        met = ((t, np.flatnonzero(t != -1)) for t in other.tables.values())
        self.add([LevelClusters(levels, table[levels]) for table, levels in met])
        return self

    def nested(self, live: Sequence[np.ndarray]) -> np.ndarray:
        """Which groupings of effects are nested in one of clusters, (K,), by their live levels."""
        levels = dict(zip(self.effects, map(np.flatnonzero, live), strict=True))
        inside = {
            (k, m): not (table[levels[k]] == MIXED).any() for (k, m), table in self.tables.items()
        }
        return np.array([any(inside[k, m] for m in self.clusters) for k in self.effects], bool)

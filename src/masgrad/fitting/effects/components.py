"""Groupings that meet: connected components, redundant effects, nesting.

Two groupings are a graph: levels are its nodes, and rows join a level of the one to one of the
other. Adding a number to the effects of the one and taking it from those of the other, within a
connected component, changes no row: each component has one redundant effect.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.pairs import Pairs
from masgrad.fitting.effects.tables import EffectSums

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


def components_of(sums: EffectSums) -> dict[tuple[int, int], Components]:
    """The components of every two groupings."""
    sizes, places = sums.sizes, combinations(range(len(sums.levels)), 2)
    return {(k, m): Components.of(sums.pairs_of(k, m), (sizes[k], sizes[m])) for k, m in places}


def is_nested(pairs: Pairs, size: int) -> bool:
    """Whether each level of the first grouping meets one level of the second alone."""
    return bool((np.bincount(pairs.first, minlength=size) <= 1).all())


def nested(sums: EffectSums, k: int, m: int) -> bool:
    """Whether each level of grouping k meets only one level of grouping m."""
    pairs = sums.pairs_of(min(k, m), max(k, m))
    turned = pairs if k < m else Pairs(pairs.second, pairs.first, pairs.weights)
    return is_nested(turned, sums.sizes[k])


class EffectCounts(NamedTuple):
    """How many parameters effects are.

    Args:
        levels: with rows, of each grouping.
        redundant: effects that the others determine. Of one grouping none, of two the number of
            connected components, which is exact. Of three and more the sum over groupings after
            the largest of its components with the largest: at least so many are redundant, so that
            the effects use at most sum(levels) - redundant parameters.
        assumed: one for each grouping after the first, as fixest and pyfixest count by default.
    """

    levels: tuple[int, ...]
    redundant: int
    assumed: int

    @property
    def parameters(self) -> int:
        """Effects that are not redundant."""
        return sum(self.levels) - self.redundant


def effect_counts(sums: EffectSums) -> EffectCounts:
    """Count the effects' parameters."""
    levels = tuple(int((table.rows > 0).sum()) for table in sums.levels)
    main, total = largest(sums), 0
    for k in range(len(levels)):
        if k != main:
            low, high = min(k, main), max(k, main)
            sizes = sums.sizes[low], sums.sizes[high]
            total += Components.of(sums.pairs_of(low, high), sizes).count
    return EffectCounts(levels, total, len(levels) - 1)


def largest(sums: EffectSums) -> int:
    """The grouping with most levels."""
    return int(np.argmax(sums.sizes))

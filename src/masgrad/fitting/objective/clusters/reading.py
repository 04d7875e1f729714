"""Sums by cluster over all rows: one read at a point, for every way of clustering.

With several groupings, the sums over the combinations of their clusters are taken as well: the
covariance is a sum over all ways, by inclusion and exclusion (Cameron, Gelbach & Miller 2011).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import BLOCK, blocks
from masgrad.data.groupings.combined import CombinedKeys
from masgrad.data.groupings.grouping import Grouping, places_of_role
from masgrad.data.groupings.keys import Keys
from masgrad.data.regression import groups_of
from masgrad.data.source import Source
from masgrad.data.views import Together
from masgrad.fitting.objective.clusters.blocks import ROWS_EACH, BlockSums, block_sums, row_terms
from masgrad.fitting.objective.clusters.sums import ClusterSums, ClusterWay, packed, unpacked
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

LONG_BYTES = 1 << 26
"""Size of the blocks that rows of very many clusters are read in, at most."""

MEMORY_SHARE = 4
"""Memory over that which the clusters' Hessians may take."""

CHUNK_BYTES = 1 << 22
"""Size of the scores and of the Hessians that are transformed at a time."""


class Way(NamedTuple):
    """A way of clustering: the columns of the rows' codes that it combines.

    Args:
        names: of the groupings.
        places: of their columns.
        keys: of the clusters.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    keys: Keys

    def codes(self, groups: np.ndarray) -> np.ndarray:
        """The codes of the rows' clusters, (n,)."""
        return self.codes_of([groups[:, k] for k in self.places])

    def codes_of(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The codes of clusters, given those in each of the columns."""
        if len(columns) == 1:
            return columns[0]
        assert isinstance(self.keys, CombinedKeys)
        return self.keys.codes_of(columns)


def ways_of(groupings: Sequence[Grouping], role: str = "clusters") -> tuple[Way, ...]:
    """Each grouping with this role, and every combination of several."""
    places = places_of_role(groupings, role)
    found = []
    for size in range(1, len(places) + 1):
        for some in combinations(places, size):
            names = tuple(groupings[k].name for k in some)
            each = [groupings[k].keys for k in some]
            keys = each[0] if size == 1 else CombinedKeys(" and ".join(names), each)
            found.append(Way(names, some, keys))
    return tuple(found)


class Totals:
    """Sums by code, which grow as codes appear beyond the `size` that are expected."""

    def __init__(self, p: int, hessians: bool, size: int = 0):
        self.scores, self.weights = np.zeros((size, p)), np.zeros(size)
        self.rows = np.zeros(size, np.int64)
        self.hessians = np.zeros((size, p * (p + 1) // 2)) if hessians else None

    def add(self, part: BlockSums) -> None:
        """Add the sums over a block."""
        last = part.codes.stop if isinstance(part.codes, slice) else part.codes[-1] + 1
        if last > len(self.weights):
            self._grow(max(last, 2 * len(self.weights)))
        self.scores[part.codes] += part.scores
        self.weights[part.codes] += part.weights
        self.rows[part.codes] += part.rows
        if self.hessians is not None and part.hessians is not None:
            self.hessians[part.codes] += part.hessians

    def _grow(self, size: int) -> None:
        def longer(a: np.ndarray) -> np.ndarray:
            out = np.zeros((size, *a.shape[1:]), a.dtype)
            out[: len(a)] = a
            return out

        self.scores, self.weights, self.rows = map(longer, (self.scores, self.weights, self.rows))
        self.hessians = None if self.hessians is None else longer(self.hessians)

    @property
    def sums(self) -> BlockSums:
        """The sums of the clusters that have rows."""
        seen = np.flatnonzero(self.rows)
        H = None if self.hessians is None else self.hessians[seen]
        return BlockSums(seen, self.scores[seen], self.weights[seen], self.rows[seen], H)

    def way(self, way: Way, objective: Objective, phi: np.ndarray) -> ClusterWay:
        """The clusters that have rows, and their sums in phi; these sums are used up."""
        seen = np.flatnonzero(self.rows)
        every = len(seen) == 0 or int(seen[-1]) + 1 == len(seen)
        values = way.keys.values
        if isinstance(way.keys, CombinedKeys):
            keys = [way.keys.key(code) for code in seen.tolist()]
        else:
            keys = values[: len(seen)] if every else [values[code] for code in seen.tolist()]
        chosen = slice(0, len(seen)) if every else seen
        scores, weights, rows = self.scores[chosen], self.weights[chosen], self.rows[chosen]
        H = None if self.hessians is None else self.hessians[chosen]
        _to_phi(objective, phi, scores, weights, H)
        return ClusterWay(way.names, tuple(keys), ClusterSums(phi, scores, weights, rows, H))


def _to_phi(
    objective: Objective,
    phi: np.ndarray,
    scores: np.ndarray,
    weights: np.ndarray,
    hessians: np.ndarray | None,
) -> None:
    """Transform scores and Hessians to phi, in place, and add the ridge's."""
    J, ridge = objective.coordinates.matrix, objective.ridge
    raw = not objective.coordinates.transforms_rows
    for part in _chunks(len(scores), len(phi)):
        if raw:
            scores[part] = scores[part] @ J
        if ridge.matrix is not None:
            scores[part] += np.outer(weights[part], ridge.slope(phi))
    if hessians is None or not (raw or ridge.matrix is not None):
        return
    for part in _chunks(len(hessians), len(phi) ** 2):
        H = unpacked(hessians[part], len(phi))
        H = J.T @ H @ J if raw else H
        if ridge.matrix is not None:
            H = H + weights[part, None, None] * ridge.matrix
        hessians[part] = packed(H)


def _chunks(clusters: int, numbers: int) -> Iterator[slice]:
    """Clusters whose arrays, of so many numbers each, take `CHUNK_BYTES`."""
    some = max(1, CHUNK_BYTES // (8 * numbers))
    return (slice(start, start + some) for start in range(0, clusters, some))


def cluster_ways(
    objective: Objective, reader: Reader, sample: Sample, phi: np.ndarray, hessians: bool
) -> tuple[ClusterWay, ...]:
    """The sums over all rows at phi, by one more read unless the sample is complete."""
    ways, collect = ways_of(reader.source.groupings), _Collector(objective, phi, hessians)
    if sample.complete:
        sums = collect.total(ways, blocks(sample.rows))
    else:
        source = _in_long_blocks(reader.source, ways, objective, len(phi), hessians)
        reader = replace(reader, source=source)
        workers = reader.workers(objective, reader.source.count)
        combined = [way.keys for way in ways if len(way.places) > 1]
        work, addition = partial(collect.block, ways), collect.addition(ways)
        sums = reader.total(work, addition, workers, keys=combined)
    return collect.ways(ways, sums)


def _in_long_blocks(
    source: Source, ways: Sequence[Way], objective: Objective, p: int, hessians: bool
) -> Source:
    """The source in blocks of some rows for each cluster, if memory allows."""
    each = ROWS_EACH if hessians else 2
    rows = min(each * max(len(way.keys) for way in ways), LONG_BYTES // (8 * p))
    block = getattr(source, "block", BLOCK)
    return Together(source, rows // block) if objective.linear and rows >= 2 * block else source


def ways_over(
    objective: Objective,
    groupings: Sequence[Grouping],
    parts: Iterable[Rows],
    phi: np.ndarray,
    hessians: bool,
) -> tuple[ClusterWay, ...]:
    """The sums over some blocks of rows at phi."""
    ways, collect = ways_of(groupings), _Collector(objective, phi, hessians)
    return collect.ways(ways, collect.total(ways, parts))


class _Collector:
    """Sums over blocks at one point."""

    def __init__(self, objective: Objective, phi: np.ndarray, hessians: bool):
        self.objective, self.phi, self.hessians = objective, phi, hessians
        self.at = objective.argument(phi)

    def block(self, ways: Sequence[Way], rows: Rows) -> list[BlockSums]:
        """The sums over one block, for each way."""
        groups = groups_of(rows)
        assert groups is not None
        terms = row_terms(self.objective, self.at, rows, self.hessians)
        found = []
        for way in ways:
            codes = way.codes(groups)
            found.append(block_sums(terms, codes, int(codes.max()) + 1))
        return found

    def total(self, ways: Sequence[Way], parts: Iterable[Rows]) -> list[Totals]:
        """The sums over some blocks, for each way."""
        addition, total = self.addition(ways), None
        for rows in parts:
            total = addition.plus(total, self.block(ways, rows))
        assert total is not None
        return total

    def addition(self, ways: Sequence[Way]) -> Addition:
        """How the sums over blocks are added."""
        sizes = [len(way.keys) for way in ways]
        p, hessians = len(self.phi), self.hessians
        return Addition(
            _with_block,
            lambda: [Totals(p, hessians, n) for n in sizes],
            partial(_with_packed, ways),
            partial(_packed, ways),
        )

    def ways(self, ways: Sequence[Way], totals: Sequence[Totals]) -> tuple[ClusterWay, ...]:
        """The clusters that have rows, for each way."""
        pairs = zip(totals, ways, strict=True)
        return tuple(total.way(way, self.objective, self.phi) for total, way in pairs)


def _with_block(totals: list[Totals], part: Sequence[BlockSums]) -> list[Totals]:
    for total, sums in zip(totals, part, strict=True):
        total.add(sums)
    return totals


Packed = list[tuple[list[np.ndarray], BlockSums]]
"""For each way the codes of clusters in the columns that it combines, and the clusters' sums."""


def _packed(ways: Sequence[Way], totals: list[Totals]) -> Packed:
    """Sums for another process: combinations have codes of their own in each, columns have not."""
    found = []
    for way, total in zip(ways, totals, strict=True):
        sums, keys = total.sums, way.keys
        columns = [np.arange(len(keys))[sums.codes]]
        if isinstance(keys, CombinedKeys) and len(way.places) > 1:
            columns = keys.columns_of(columns[0])
        found.append((columns, sums))
    return found


def _with_packed(ways: Sequence[Way], totals: list[Totals], later: Packed) -> list[Totals]:
    """The totals with the sums over later rows, which another process has packed."""
    for way, total, (codes, sums) in zip(ways, totals, later, strict=True):
        own = way.codes_of(codes)
        order = np.argsort(own, kind="stable")
        H = None if sums.hessians is None else sums.hessians[order]
        parts = (sums.scores[order], sums.weights[order], sums.rows[order])
        total.add(BlockSums(own[order], *parts, H))
    return totals


def hessians_fit(clusters: int, p: int, memory: int) -> bool:
    """Whether the Hessians of so many clusters may be kept in this memory."""
    return size_of_hessians(clusters, p) * MEMORY_SHARE <= memory


def size_of_hessians(clusters: int, p: int) -> int:
    """Bytes of the Hessians of so many clusters."""
    return 8 * clusters * (p * (p + 1) // 2)

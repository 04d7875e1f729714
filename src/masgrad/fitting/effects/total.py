"""Totals of sums by level: parts of the rows are added in their order.

Levels that come up later lengthen the tables. Pairs of levels wait row by row until they are as
many as those joined before, so that joining all of them takes a few passes. Beyond `most_pairs`
they are let go, and connected components alone are kept.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.effects.components import GrowingComponents
from masgrad.fitting.effects.pairs import Pairs, joined
from masgrad.fitting.effects.tables import EffectSums, LevelTable, Products, Unpaired

PAIR_BATCH = 1 << 24
"""Pairs, at least, that are joined at a time, unless memory is short: 128 MB of codes."""


class Room(NamedTuple):
    """What there is memory for.

    Args:
        levels: of each grouping, from the start.
        most_pairs: of levels.
    """

    levels: tuple[int, ...] = ()
    most_pairs: float = np.inf


def total_of(parts: Iterable[EffectSums], room: Room | None = None) -> EffectSums:
    """The sum of parts, added in their order: tables of all levels, each pair of levels once."""
    total = GrowingSums(room or Room())
    for part in parts:
        total.add(part)
    return total.sums()


class GrowingSums:
    """Tables that grow: the sum of the parts seen so far."""

    def __init__(self, room: Room):
        self.room = room
        self.products: np.ndarray | None = None
        self.tables: list[_GrowingTable] = []
        self.pairs: list[_GrowingPairs] = []
        self.joined: list[GrowingComponents] | None = None

    def _begin(self, like: EffectSums) -> None:
        q = len(like.products)
        self.products = np.zeros((q, q))
        levels = self.room.levels or (0,) * len(like.levels)
        self.tables = [_GrowingTable(q, size) for size in levels]
        batch = min(PAIR_BATCH, self.room.most_pairs)
        self.pairs = [_GrowingPairs(batch) for _ in like.pairs]

    def add(self, part: EffectSums) -> None:
        """Add a part."""
        if self.products is None:
            self._begin(part)
        self.products += part.products
        for table, levels in zip(self.tables, part.levels, strict=True):
            table.add(levels)
        for grown, new in zip(self.joined or self.pairs, part.pairs, strict=True):
            grown.add(new)
        if self._are_too_many(sum(pairs.size for pairs in self.pairs)):
            self._let_go()

    def _are_too_many(self, pairs: int) -> bool:
        return pairs > self.room.most_pairs

    def _let_go(self) -> None:
        """Keep connected components instead of pairs."""
        self.joined = [GrowingComponents(pairs.parts) for pairs in self.pairs]
        self.pairs = []

    def join(self, later: "GrowingSums") -> "GrowingSums":
        """These sums with those of rows that follow."""
        if later.products is None or self.products is None:
            return later if self.products is None else self
        self.products += later.products
        for table, more in zip(self.tables, later.tables, strict=True):
            table.add(more.of_size(more.size))
        if later.joined is not None and self.joined is None:
            self._let_go()
        if later.joined is not None:
            for mine, others in zip(self.joined or (), later.joined, strict=True):
                mine.join(others)
            return self
        for grown, more in zip(self.joined or self.pairs, later.pairs, strict=True):
            for part in more.parts:
                grown.add(part)
        if self._are_too_many(sum(pairs.size for pairs in self.pairs)):
            self._let_go()
        return self

    def sums(
        self, sizes: tuple[int, ...] | None = None, products: Products | None = None
    ) -> EffectSums:
        """The sums over all parts.

        Args:
            sizes: numbers of levels, if some may have no rows.
            products: with pairs, should they be more than memory holds.
        """
        if self.products is None:
            raise InputError("the data hold no rows; at least one observation is needed")
        every = [pairs.all() for pairs in self.pairs]
        if self._are_too_many(sum(map(len, every))):
            self._let_go()
        sizes = sizes or tuple(table.size for table in self.tables)
        tables = [table.of_size(size) for table, size in zip(self.tables, sizes, strict=True)]
        if self.joined is None:
            return EffectSums(self.products, tuple(tables), tuple(every))
        assert products is not None
        met = combinations([table.weights > 0 for table in tables], 2)
        found = (one.components(*live) for one, live in zip(self.joined, met, strict=True))
        return EffectSums(self.products, tuple(tables), (), Unpaired(products, tuple(found)))


class _GrowingTable:
    """Sums by level, in arrays with room for more levels."""

    def __init__(self, q: int, room: int):
        self.size, self.rows, self.table = 0, np.zeros(room), np.zeros((room, q))

    def add(self, part: LevelTable) -> None:
        self.size = max(self.size, part.size)
        if self.size > len(self.rows):
            self._grow(max(self.size, 2 * len(self.rows)))
        at = slice(0, len(part.rows)) if part.levels is None else part.levels
        self.rows[at] += part.rows
        self.table[at] += part.sums

    def of_size(self, size: int) -> LevelTable:
        if size > len(self.rows):
            self._grow(size)
        return LevelTable(None, self.rows[:size], self.table[:size])

    def _grow(self, size: int) -> None:
        rows, table = np.zeros(size), np.zeros((size, self.table.shape[1]))
        rows[: len(self.rows)], table[: len(self.table)] = self.rows, self.table
        self.rows, self.table = rows, table


class _GrowingPairs:
    """Pairs joined so far, and those that wait: as many as the others, or a batch."""

    def __init__(self, batch: float):
        self.batch = batch
        self.joined: list[Pairs] = []
        self.waiting: list[Pairs] = []
        self.count = 0

    def add(self, part: Pairs) -> None:
        self.waiting.append(part)
        self.count += len(part)
        if self.count >= max(self.batch, *(len(pairs) for pairs in self.joined), 0):
            self._join()

    @property
    def size(self) -> int:
        """The number of pairs that are joined."""
        return sum(map(len, self.joined))

    @property
    def parts(self) -> list[Pairs]:
        """The pairs, joined or not."""
        return [*self.joined, *self.waiting]

    def all(self) -> Pairs:
        if self.waiting or not self.joined:
            self._join()
        return self.joined[0]

    def _join(self) -> None:
        new = joined(self.waiting)
        self.joined = [joined([*self.joined, new])] if self.joined else [new]
        self.waiting, self.count = [], 0

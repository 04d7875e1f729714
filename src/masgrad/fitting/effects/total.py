"""Totals of sums by level: parts of the rows are added in their order.

Levels that come up later lengthen the tables. Pairs of levels wait row by row until they are as
many as those joined before, so that joining all of them takes a few passes.
"""

from collections.abc import Callable, Iterable

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.effects.pairs import Pairs, joined
from masgrad.fitting.effects.tables import EffectSums, LevelTable

PAIR_BATCH = 1 << 21
"""Pairs, at least, that are joined at a time."""


def total_of(
    parts: Iterable[EffectSums],
    sizes: Callable[[], tuple[int, ...]] | None = None,
    expected: tuple[int, ...] | None = None,
) -> EffectSums:
    """The sum of parts, added in their order: tables of all levels, each pair of levels once.

    Args:
        parts: of the rows.
        sizes: the numbers of levels, known after the last part, if some may have no rows.
        expected: numbers of levels for which there is room from the start.
    """
    total = None
    for part in parts:
        total = _Total(part, expected) if total is None else total
        total.add(part)
    if total is None:
        raise InputError("the data hold no rows; at least one observation is needed")
    return total.sums(None if sizes is None else sizes())


class _Total:
    """Tables that grow: the sum of the parts seen so far."""

    def __init__(self, like: EffectSums, expected: tuple[int, ...] | None):
        q = len(like.products)
        self.products = np.zeros((q, q))
        self.tables = [_GrowingTable(q, size) for size in expected or (0,) * len(like.levels)]
        self.pairs = [_GrowingPairs() for _ in like.pairs]

    def add(self, part: EffectSums) -> None:
        self.products += part.products
        for table, levels in zip(self.tables, part.levels, strict=True):
            table.add(levels)
        for pairs, new in zip(self.pairs, part.pairs, strict=True):
            pairs.add(new)

    def sums(self, sizes: tuple[int, ...] | None) -> EffectSums:
        sizes = sizes or tuple(table.size for table in self.tables)
        tables = (table.of_size(size) for table, size in zip(self.tables, sizes, strict=True))
        return EffectSums(self.products, tuple(tables), tuple(p.all() for p in self.pairs))


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

    def __init__(self):
        self.joined: list[Pairs] = []
        self.waiting: list[Pairs] = []
        self.count = 0

    def add(self, part: Pairs) -> None:
        self.waiting.append(part)
        self.count += len(part)
        if self.count >= max(PAIR_BATCH, *(len(pairs) for pairs in self.joined), 0):
            self._join()

    def all(self) -> Pairs:
        if self.waiting or not self.joined:
            self._join()
        return self.joined[0]

    def _join(self) -> None:
        new = joined(self.waiting)
        self.joined = [joined([*self.joined, new])] if self.joined else [new]
        self.waiting, self.count = [], 0

"""The rows of a table as blocks of (X, y): any medium and size, in bounded memory.

Columns are views of Arrow's buffers, copied once, into the (p, n) buffer of a block. In a random
order, row groups are permuted and whole blocks are shuffled.
"""

import copy
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from masgrad.checkpoints.pieces import Pieces
from masgrad.cores import prefetch
from masgrad.data.arrays import BLOCK, block_of
from masgrad.data.formula.terms import Terms
from masgrad.data.groupings.columns import ColumnGroups
from masgrad.data.groupings.grouping import Grouping, check_keys
from masgrad.data.opening import MEMORY_BYTES
from masgrad.data.regression import Place, beside, label, only, shown, weigh
from masgrad.data.shards.outline import Outline, TableShard
from masgrad.data.source import Arrays, Source, shuffle
from masgrad.data.tables.frames import Memory
from masgrad.data.tables.levels import Coder, check_codes, lookup
from masgrad.data.tables.medium import Columns, Medium, codes_of, grouped, length_of
from masgrad.errors import InputError
from masgrad.types import Rows

FILE_BLOCK = 4 * BLOCK
"""Largest number of rows of a block of a file: dozens are held at a time."""

MOST_SHUFFLED_BLOCKS, READ_AHEAD = 1024, 8
"""Largest number of blocks in a shuffle buffer, and of those that wait for steps of MasGrad."""


class MediumSource(Source):
    """Blocks made of columns: `numbers` are read, `made` makes rows of them, `weight` is one."""

    numbers: tuple[str, ...]
    lookups: Mapping[str, Coder] = {}
    by: ColumnGroups = ColumnGroups(())

    def __init__(self, medium: Medium, weight: str | None, memory: int, block: int):
        self.medium, self.weight, self.memory, self.block = medium, weight, memory, block
        self.rereadable, self.ordered = medium.rereadable, medium.ordered
        self.shards = medium.shards

    def outline(self) -> Source:
        other = copy.copy(self)
        other.medium = Outline(self.medium.types, self.medium.complete)
        other.shards = other.spread = None
        return other

    def part(self, shard: TableShard, data: Any) -> Source:
        other = copy.copy(self)
        other.medium = shard.open(self.medium, data)
        other.shards = other.spread = None
        return other

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        blocks = self._blocks(rng)
        if rng is None or not self.ordered:
            return blocks
        return prefetch(shuffle(blocks, self._held(), rng), READ_AHEAD)

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        """Blocks from row groups in a random order, without a shuffle buffer."""
        return self._blocks(rng)

    def _blocks(self, rng: np.random.Generator | None) -> Generator[Rows]:
        for piece in self.pieces(rng):
            try:
                rows = self.made(piece)
            except InputError:
                if rng is not None and self.rereadable:  # only in order do rows have a place
                    for _ in self._blocks(None):
                        pass
                raise
            if rows is not None:
                yield rows

    def pieces(self, rng: np.random.Generator | None = None) -> Pieces:
        """Columns of blocks, views of Arrow's where possible, and the row at which each begins."""
        return Pieces(partial(self._pieces, rng))

    def _pieces(self, rng: np.random.Generator | None, first: int) -> Iterator[tuple[int, Columns]]:
        """The pieces from the first one to read on."""
        row = first * self.block
        medium = self.medium.starting(row) if row and rng is None else None
        blocks = (medium or self.medium).blocks(rng, self.block, self.numbers, self.lookups)
        row, skipped = (0, first) if medium is None else (row, 0)
        for number, columns in enumerate(blocks):
            combined = with_combined(self.by, columns)
            if number >= skipped:
                yield row, combined
            row += length_of(columns)

    def watch(self, watch: Any) -> None:
        self.medium.watch(watch)

    def state(self) -> Any:
        return self.medium.state()

    def restore(self, state: Any) -> None:
        self.medium.restore(state)

    def _held(self) -> int:
        """The size in blocks of a shuffle buffer that uses an eighth of the memory."""
        size = 8 * self.block * (max(len(self.names), len(self.numbers)) + 1)
        return min(max(self.memory // 8 // size, 1), MOST_SHUFFLED_BLOCKS)

    def place(self, row: int) -> str:
        """The row's name in the table, where rows of weight 0 count as well."""
        weight = self.weight
        if weight is None:
            return self.medium.place(row)
        if not self.rereadable:
            return f"{self.medium.place(row)} (rows of weight 0 not counted)"
        start = 0
        for columns in self.medium.blocks(None, self.block, (weight,), {}):
            kept = np.flatnonzero(columns[weight])
            if row < len(kept):
                return self.medium.place(start + int(kept[row]))
            row, start = row - len(kept), start + length_of(columns)
        return self.medium.place(start + row)


class TableSource(MediumSource):
    """A table seen through the terms of a formula.

    Example:
        >>> import pandas as pd
        >>> from masgrad.data.formula.formulas import parse
        >>> from masgrad.data.formula.learning import learn
        >>> medium = open_table(pd.DataFrame({"y": [0.0, 1.0], "g": ["a", "b"]}), ("y", "g"))
        >>> next(TableSource(medium, learn(parse("y ~ g"), medium)).blocks())[0]
        array([[1., 0.],
               [1., 1.]])
    """

    def __init__(
        self,
        medium: Medium,
        terms: Terms,
        memory: int = MEMORY_BYTES,
        block: int = BLOCK,
        known: Sequence[Grouping] = (),
    ):
        super().__init__(medium, terms.weight, memory, block)
        self.terms, self.names = terms, terms.names
        self.count = None if self._weighed() or medium.complete else medium.count
        self.by = ColumnGroups(terms.groups, shown, known)
        self.groupings = self.by.groupings
        levels = {name: lookup(levels) for name, levels in terms.levels.items()}
        self.lookups = levels | keys_of_groups(self.by)
        self.numbers = terms.numbers
        if not self.numbers and not self.lookups:  # an intercept alone: any column counts the rows
            self.numbers = tuple(medium.types)[:1]

    def made(self, piece: tuple[int, Columns]) -> Rows | None:
        row, columns = piece
        return as_block(self.terms, columns, lambda k: self.medium.place(row + k), self.by)

    def _weighed(self) -> bool:
        """Whether rows may be dropped for weight 0; weights in memory are checked here, once."""
        roles = (self.terms.weight, self.terms.offset, self.terms.exposure)
        if not isinstance(self.medium, Memory):
            return self.terms.weight is not None
        carried = [None if name is None else self.medium.column(name) for name in roles]
        alone, labels = self.terms.response is None, tuple(map(label, roles))
        return weigh(carried, self.medium.place, labels, missing=alone).kept is not None


class TableInMemory(Arrays):
    """A table in memory seen through terms; any thread can build the block at any row."""

    def __init__(
        self,
        columns: Columns,
        terms: Terms,
        by: ColumnGroups,
        block: int = BLOCK,
        kept: np.ndarray | None = None,
    ):
        settings: dict[str, Any] = {"real": False, "kept": kept, "groupings": by.groupings}
        super().__init__(dict(columns), terms.names, block, **settings)
        self.terms, self.by, self.compact = terms, by, terms.is_coded

    def _tree(self, part: Callable[[np.ndarray], np.ndarray]) -> Rows:
        columns = {name: part(column) for name, column in self.rows.items()}
        return as_block(self.terms, columns, self.place, self.by)

    def _shuffled(self, rng: np.random.Generator) -> Generator[Rows]:
        """The order of `Arrays`, by slices: gathering single rows takes as long as building X."""
        chunk = self.chunk
        if chunk == 1:
            yield from super()._shuffled(rng)
            return
        starts = chunk * rng.permutation(-(-self.count // chunk))
        many = self.block // chunk
        for k in range(0, len(starts), many):
            chosen = starts[k : k + many].tolist()
            yield self._tree(lambda a, c=chosen: np.concatenate([a[s : s + chunk] for s in c]))


def table_rows(
    medium: Medium,
    terms: Terms,
    memory: int = MEMORY_BYTES,
    block: int | None = None,
    known: Sequence[Grouping] = (),
) -> Source:
    """The rows of a table, with random access if it is in memory and no row has weight 0."""
    size = block_of(medium.count or 0, terms.width, terms.is_coded)
    block = block or (size if isinstance(medium, Memory) else min(size, FILE_BLOCK))
    source = TableSource(medium, terms, memory, block, known)
    if not isinstance(medium, Memory) or terms.response is None or not source.count:
        return source
    columns = with_combined(source.by, medium.columns(source.numbers, source.lookups))
    codes_of_rows(source.by, columns, None, medium.place)  # of blocks no row's place is known
    return TableInMemory(columns, terms, source.by, block, medium.kept)


def keys_of_groups(by: ColumnGroups) -> dict[str, Coder]:
    """The keys of grouping columns, as a medium looks them up."""
    return {grouped(name): keys for name, keys in by.keys.items()}


def with_combined(by: ColumnGroups, columns: Columns) -> Columns:
    """Columns with the codes of combinations of keys, such as firm^year, in the order of rows."""
    found = by.combined(lambda name: columns[codes_of(grouped(name))])
    return {**columns, **{codes_of(grouped(name)): codes for name, codes in found.items()}}


def codes_of_rows(
    by: ColumnGroups, columns: Columns, kept: np.ndarray | None, place: Place
) -> np.ndarray | None:
    """The codes of the kept rows' groups, (n, k), every one of them known; None without groups."""
    codes = by.codes(lambda name: only(columns[codes_of(grouped(name))], kept))
    if codes is not None:
        check_keys(by.groupings, codes, place)
    return codes


def as_block(terms: Terms, columns: Columns, place: Place, by: ColumnGroups) -> Rows | None:
    """(X, y) or a `Regression`; None if there are no rows.

    Without a response it is (X, offset), with the codes of groups after them if there are any.
    """
    roles = (terms.weight, terms.offset, terms.exposure)
    carried = (None if name is None else columns[name] for name in roles)
    alone = terms.response is None
    kept, weight, offset = weigh(carried, place, tuple(map(label, roles)), missing=alone)
    if kept is not None:
        if not len(kept):
            return None
        columns = {name: column[kept] for name, column in columns.items()}
    at = place if kept is None else lambda row: place(int(kept[row]))
    for name in terms.levels:
        check_codes(name, columns[codes_of(name)], alone, at)
    X = terms.matrix(columns)
    if terms.response is None:
        codes = by.codes(lambda name: columns[codes_of(grouped(name))])
        return (X, offset) if codes is None else (X, offset, codes)
    y = np.array(columns[terms.response], np.float64)  # a view would keep a row group
    return beside(X, y, weight, offset, codes_of_rows(by, columns, None, at))

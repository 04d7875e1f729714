"""A formula over a table, as a source of blocks of (X, y): any medium and size, in bounded memory.

Weights, offset and exposure are columns of the table; arrays beside it become such columns.

Columns are views of Arrow's buffers, copied once, into the (p, n) buffer of a block. In a random
order, row groups are permuted and whole blocks are shuffled.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.arrays import BLOCK, block_of
from masgrad.data.formula.formulas import parse
from masgrad.data.formula.learning import check_table, learn
from masgrad.data.formula.terms import Terms
from masgrad.data.groupings.columns import ColumnGroups, GroupColumns
from masgrad.data.groupings.given import Asked, as_keys
from masgrad.data.groupings.grouping import check_keys
from masgrad.data.regression import (
    ROLES,
    Place,
    as_vector,
    beside,
    given,
    label,
    only,
    weigh,
)
from masgrad.data.source import Arrays, Source, Stream, prefetch
from masgrad.data.tables.chunks import Chunks
from masgrad.data.tables.csv import Csv
from masgrad.data.tables.frames import Memory, names_of
from masgrad.data.tables.ipc import Ipc
from masgrad.data.tables.levels import Coder, check_codes, lookup
from masgrad.data.tables.medium import Columns, Medium, codes_of, grouped, length_of, shuffle
from masgrad.data.tables.paths import column_names, expand, is_dataset, is_frame, is_paths, kind
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows

MEMORY_BYTES = 512 * 2**20
"""Default limit on the memory used for reading, in bytes."""

FILE_BLOCK = 4 * BLOCK
"""Largest number of rows of a block of a file: dozens are held at a time."""

MOST_SHUFFLED_BLOCKS, READ_AHEAD = 1024, 8
"""Largest number of blocks in a shuffle buffer, and of those that wait for steps of MasGrad."""


def open_table(
    data: Any,
    columns: Sequence[str],
    memory: int = MEMORY_BYTES,
    extra: Mapping[str, np.ndarray] | None = None,
) -> Medium:
    """Open a table and check that it has the columns.

    Args:
        data: files, a dataset, a table in memory, or an iterator or `Stream` of such tables.
        columns: the columns to read.
        memory: limit on the memory used for reading, in bytes.
        extra: additional columns of a table in memory, as arrays.
    """
    if is_paths(data):
        paths = expand(data)
        columns = columns or column_names(paths[0])[:1]  # of an intercept alone, to count rows
        if kind(paths[0]) == "CSV":
            return Csv(paths, columns, memory)
        if kind(paths[0]) == "Arrow":
            return Ipc(paths, columns)
        from masgrad.data.tables.parquet import Parquet

        return Parquet(paths, columns)
    if is_dataset(data):
        from masgrad.data.tables.scans import Scan

        return Scan(data, columns or data.schema.names[:1], memory)
    if isinstance(data, Stream):
        return Chunks(data.start, data.rereadable, columns)
    if isinstance(data, Iterator):
        return Chunks(lambda: data, False, columns)
    return Memory(data, columns, extra)


class MediumSource(Source):
    """Blocks made of columns: `numbers` are read, `made` makes rows of them, `weight` is one."""

    numbers: tuple[str, ...]
    lookups: Mapping[str, Coder] = {}

    def __init__(self, medium: Medium, weight: str | None, memory: int, block: int):
        self.medium, self.weight, self.memory, self.block = medium, weight, memory, block
        self.rereadable, self.ordered = medium.rereadable, medium.ordered

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

    def pieces(self, rng: np.random.Generator | None = None) -> Iterator[tuple[int, Columns]]:
        """Columns of blocks, views of Arrow's where possible, and the row at which each begins."""
        row = 0
        for columns in self.medium.blocks(rng, self.block, self.numbers, self.lookups):
            yield row, columns
            row += length_of(columns)

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
        >>> medium = open_table(pd.DataFrame({"y": [0.0, 1.0], "g": ["a", "b"]}), ("y", "g"))
        >>> next(TableSource(medium, learn(parse("y ~ g"), medium)).blocks())[0]
        array([[1., 0.],
               [1., 1.]])
    """

    def __init__(
        self, medium: Medium, terms: Terms, memory: int = MEMORY_BYTES, block: int = BLOCK
    ):
        super().__init__(medium, terms.weight, memory, block)
        self.terms, self.names = terms, terms.names
        self.count = None if self._weighed() else medium.count
        self.by = ColumnGroups(terms.groups, _shown)
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

    def __init__(self, columns: Columns, terms: Terms, by: ColumnGroups, block: int = BLOCK):
        groupings = by.groupings
        super().__init__(dict(columns), terms.names, block, real=False, groupings=groupings)
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
    medium: Medium, terms: Terms, memory: int = MEMORY_BYTES, block: int | None = None
) -> Source:
    """The rows of a table, with random access if it is in memory and no row has weight 0."""
    size = block_of(medium.count or 0, terms.width, terms.is_coded)
    block = block or (size if isinstance(medium, Memory) else min(size, FILE_BLOCK))
    source = TableSource(medium, terms, memory, block)
    if not isinstance(medium, Memory) or terms.response is None or not source.count:
        return source
    columns = medium.columns(source.numbers, source.lookups)
    return TableInMemory(columns, terms, source.by, block)


def keys_of_groups(by: ColumnGroups) -> dict[str, Coder]:
    """The keys of grouping columns, as a medium looks them up."""
    return {grouped(name): keys for name, keys in by.keys.items()}


def codes_of_rows(
    by: ColumnGroups, columns: Columns, kept: np.ndarray | None, place: Place
) -> np.ndarray | None:
    """The codes of the kept rows' groups, (n, k), every one of them known; None without groups."""
    codes = by.codes(lambda name: only(columns[codes_of(grouped(name))], kept))
    if codes is not None:
        check_keys(by.groupings, codes, place)
    return codes


def _shown(name: str) -> str:
    """The name of a grouping column in messages and summaries; that of an array is its keyword."""
    return name.removeprefix("\0").removesuffix(" given")


def as_block(terms: Terms, columns: Columns, place: Place, by: ColumnGroups) -> Rows | None:
    """(X, y) or a `Regression`; (X, offset) if there is no response; None if there are no rows."""
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
        return X, offset
    y = np.array(columns[terms.response], np.float64)  # a view would keep a row group
    return beside(X, y, weight, offset, codes_of_rows(by, columns, None, at))


def learn_table(
    data: Any,
    formula: str,
    memory: int,
    block: int | None,
    roles: dict[str, Any],
    groups: Sequence[Asked] = (),
) -> tuple[Source, Terms]:
    """The rows of a table, and the terms that code later tables in the same way.

    Args:
        data: a table in memory, a dataset, files, or an iterator of tables.
        formula: such as "y ~ a + C(g)".
        memory: limit on the memory used for reading, in bytes.
        block: rows per block.
        roles: weights, offset and exposure: None, the name of a column, or an array.
        groups: clusters and the like: names of columns, or arrays.
    """
    parsed = parse(formula, names_of(data) if "." in formula else None)
    columns = [value for value in roles.values() if isinstance(value, str)]
    by = _group_columns(groups)
    columns += [name for group in by for name in group.columns if not _is_array(name)]
    medium = _open(data, [*parsed.columns, *columns], memory, roles, groups)
    terms = replace(learn(parsed, medium, **_columns(roles)), groups=by)
    arrays: dict[str, Any] = {p: None for p, name in _columns(roles).items() if _is_array(name)}
    named = tuple(group for group in by if not any(map(_is_array, group.columns)))
    return table_rows(medium, terms, memory, block), replace(terms, groups=named, **arrays)


def table_source(
    data: Any,
    terms: Terms,
    memory: int = MEMORY_BYTES,
    block: int | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    groups: Sequence[Asked] = (),
) -> Source:
    """A table seen through terms learned from another table; unseen levels are errors.

    Args:
        data: a table in memory, a dataset, files, or an iterator of tables.
        terms: the terms of the formula.
        memory: limit on the memory used for reading, in bytes.
        block: rows per block.
        weights: an array or a column that replaces the one named by the terms.
        offset: as for weights.
        exposure: as for weights.
        groups: arrays or columns that replace those of the same role.
    """
    roles = dict(zip(ROLES, (weights, offset, exposure), strict=True))
    terms = replace(terms, **{k: v for k, v in _columns(roles).items() if v is not None})
    given_roles = {one.role for one in groups}
    kept = tuple(group for group in terms.groups if group.role not in given_roles)
    terms = replace(terms, groups=kept + _group_columns(groups))
    columns = [name for name in terms.columns if not _is_array(name)]
    medium = _open(data, columns, memory, roles, groups)
    check_table(terms, medium)
    return table_rows(medium, terms, memory, block)


def predictors(terms: Terms, data: Any, offset: Any = None, exposure: Any = None) -> Source:
    """Blocks of X and the offset, or None, of a table without a response."""
    alone = replace(terms, response=None, weight=None, groups=())
    return table_source(data, alone, offset=offset, exposure=exposure)


def _group_columns(groups: Sequence[Asked]) -> tuple[GroupColumns, ...]:
    """The columns of groupings; arrays become columns of their own."""
    return tuple(
        GroupColumns.of(one.role, one.value)
        if one.is_column
        else GroupColumns(one.role, (given(one.name),))
        for one in groups
    )


def _open(
    data: Any,
    columns: list[str],
    memory: int,
    roles: dict[str, Any],
    groups: Sequence[Asked] = (),
) -> Medium:
    """Open a table together with the arrays given beside it."""
    arrays = {k: v for k, v in roles.items() if v is not None and not isinstance(v, str)}
    keys = [one for one in groups if not one.is_column]
    unique = tuple(dict.fromkeys(columns))
    if not arrays and not keys:
        return open_table(data, unique, memory)
    if not is_frame(data) and not isinstance(data, dict):
        first = next(iter([*arrays, *(one.role for one in keys)]))
        raise InputTypeError(f"{first} of a file, a dataset or an iterator is the name of a column")
    rows = len(next(iter(data.values()))) if isinstance(data, dict) else len(data)
    index = getattr(data, "index", None)
    extra: dict[str, Any] = {given(k): as_vector(k, v, rows, index) for k, v in arrays.items()}
    for one in keys:
        extra[given(one.name)] = _as_arrow(as_keys(one.name, one.value, rows, index))
    return open_table(data, unique, memory, extra)


def _columns(roles: dict[str, Any]) -> dict[str, Any]:
    """The columns of weights, offset and exposure, keyed by the fields of `Terms`."""
    named = (v if isinstance(v, str | None) else given(role) for role, v in roles.items())
    return dict(zip(("weight", "offset", "exposure"), named, strict=True))


def _as_arrow(keys: np.ndarray) -> Any:
    """Keys as a column: numbers as they are, others as Arrow has them."""
    if keys.dtype.kind in "iufb":
        return keys
    import pyarrow as pa

    return pa.array(keys, from_pandas=True)


def _is_array(column: str | None) -> bool:
    """Whether this is the name of an array that was given beside the table."""
    return column is not None and column.startswith("\0") and column.endswith(" given")

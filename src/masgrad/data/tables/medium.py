"""What a table is read from: files, a dataset, a table in memory, an iterator of tables.

A medium knows the types of its columns before any row is read, and gives rows as batches of Arrow
columns, or as blocks of NumPy columns in which categories are codes. Below `Medium` is what all
media share: Arrow's types, columns from Arrow to NumPy, blocks cut to size, errors about columns.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.tables.complete import Complete
from masgrad.data.tables.levels import (
    Coder,
    Found,
    check_kind,
    check_levels,
    encode,
    survey,
    to_numpy,
)
from masgrad.errors import InputError, InputTypeError
from masgrad.stores.path import AnyPath

Columns = Mapping[str, np.ndarray]
"""Numeric columns by name, and codes of categories by `codes_of(name)`."""

IN_MEMORY = "the data frame"
"""The name of a table in memory in messages."""


class Medium(abc.ABC):
    """A table on its medium.

    Attributes:
        where: the name of the table in messages.
        types: the Arrow type of each column to read.
        count: number of rows, if known.
        ordered: whether rows come in stored order, so that they are shuffled and watched for drift.
        rereadable: whether the table can be read again.
        complete: which rows are complete, if others are left out.
        begin: number of rows that are skipped at the beginning.
        shards: what workers of a cluster read of it; None if this process reads it all.
    """

    where: str
    types: dict[str, pa.DataType]
    count: int | None = None
    ordered: bool = True
    rereadable: bool = True
    complete: Complete | None = None
    begin: int = 0
    shards: Any = None

    @abc.abstractmethod
    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The columns of all rows, in order, or with large pieces in a random order."""

    def leave_out(self, complete: Complete) -> None:
        """Leave out the rows that are not complete, from all that follows."""
        self.complete = complete

    def kept_batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """`batches`, without the rows that are left out."""
        if self.complete is None:
            return self.batches(rng, columns)
        names = dict.fromkeys([*columns, *self.complete.columns])
        return self.complete.batches(self.batches(rng, tuple(names)))

    def blocks(
        self,
        rng: np.random.Generator | None,
        size: int,
        numbers: Sequence[str],
        lookups: Mapping[str, Coder],
    ) -> Iterator[Columns]:
        """Blocks of `size` rows: numeric columns, and codes of categories and groups."""
        names = tuple(dict.fromkeys([*numbers, *map(column_of, lookups)]))
        kept = rows_after(self.kept_batches(rng, names), self.begin)
        return cut((as_columns(b, numbers, lookups) for b in kept), size)

    def starting(self, row: int) -> "Medium | None":
        """The rows from this one on, in order; None if those before have to be read as well."""
        del row
        return None

    def find(self, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """Find the levels of categorical columns, in rows of positive weight."""
        if not names:
            return {}
        for name in names if self.count != 0 else ():
            check_kind(self.where, name, self.types[name])
        if self.shards is not None:
            return self.shards.find(self, names, weight)
        columns = (*names, weight) if weight is not None else names
        return survey(self.kept_batches(None, tuple(dict.fromkeys(columns))), names, weight)

    def check(
        self, levels: Mapping[str, Sequence[Any]], weight: str | None, missing: bool
    ) -> dict[str, Found] | None:
        """Check that the categorical columns have no levels other than those learned.

        Args:
            levels: the levels of each column.
            weight: the column of frequencies; rows of weight 0 are ignored.
            missing: whether a value may be missing.

        Returns:
            What was found in these columns; None if that is not looked for before rows are read.
        """
        found = self.find(tuple(levels), weight)
        check_levels(found, levels, self.place, missing)
        return found

    def declared(self, name: str) -> Sequence[Any] | None:
        """The categories declared by the type of a column, in order, or None."""
        return None

    def watch(self, watch: Any) -> None:
        """Have a `Watch` see the tables of a function or an iterator, if they come from one."""
        del watch

    def state(self) -> Any:
        """What reads have told of the rows, for `restore`; None if they tell nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Know what was known when the state was taken."""
        assert state is None

    def place(self, row: int) -> str:
        """The name of a row in messages, numbered from 0 in the order of `blocks(None)`."""
        if self.complete is None:
            return self.stored_place(row)
        if not self.rereadable:
            return f"{self.stored_place(row)} (rows with missing values not counted)"
        return self.stored_place(self.stored_row(row, self.complete))

    def stored_row(self, row: int, complete: Complete) -> int:
        """The number among all rows of a row that is numbered among the complete ones."""
        return complete.stored(self.batches(None, complete.columns), row)

    def stored_place(self, row: int) -> str:
        """The name of a row that is numbered among all of them, in stored order."""
        return f"row {row}"


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is read as numbers; Booleans are 0 and 1, as in formulaic."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is read as categories by default."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return pa.types.is_dictionary(kind) or any(test(kind) for test in tests)


def kind_of(kind: pa.DataType) -> str:
    return "numeric" if is_number(kind) else "text" if is_text(kind) else str(kind)


def codes_of(name: str) -> str:
    """The key of a category's codes; the column itself may be numeric in another term."""
    return f"\0{name}"


def grouped(name: str) -> str:
    """The key among lookups of a column by which rows are grouped; it may be a category as well."""
    return f"\1{name}"


def column_of(key: str) -> str:
    """The column of a key among lookups."""
    return key.removeprefix("\1")


def as_columns(
    batch: pa.RecordBatch, numbers: Iterable[str], lookups: Mapping[str, Coder]
) -> Columns:
    """Convert a batch: numbers as views if Arrow allows, nulls to NaN, categories to codes."""
    columns = {name: as_numpy(batch.column(name)) for name in numbers}
    codes = {
        codes_of(key): encode(batch.column(column_of(key)), coder) for key, coder in lookups.items()
    }
    return columns | codes


def as_numpy(column: pa.Array) -> np.ndarray:
    """A view of Arrow's numbers; a copy if there are nulls, which become NaN, or Booleans."""
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return to_numpy(column)


def cut(batches: Iterable[Columns], size: int) -> Iterator[Columns]:
    """Recut batches into blocks of `size` rows, so that they do not depend on the file's layout."""
    held: list[Columns] = []
    lacking = size
    for batch in batches:
        start, length = 0, length_of(batch)
        while length - start >= lacking:
            yield _join([*held, _slice(batch, start, start + lacking)])
            start, held, lacking = start + lacking, [], size
        if start < length:
            held.append(_slice(batch, start, length))
            lacking -= length - start
    if held:
        yield _join(held)


def rows_after(batches: Iterator[pa.RecordBatch], begin: int) -> Iterator[pa.RecordBatch]:
    """The batches without so many rows at their beginning."""
    for batch in batches:
        if begin < len(batch):
            yield batch[begin:] if begin else batch
        begin = max(0, begin - len(batch))


def length_of(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column[start:stop] for name, column in columns.items()}


def _join(pieces: list[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def check_columns(where: str, needed: Iterable[str], present: list[str]) -> None:
    for name in needed:
        if name not in present:
            said = ", ".join(map(str, present[:20])) + (", ..." if len(present) > 20 else "")
            several = " (several columns are a list, clusters=['a', 'b'], or combined, 'a^b')"
            hint = several if any(mark in name for mark in "+,*:") else ""
            raise InputError(f"{where} has no column {name!r}{hint}; it has {said}")
        if present.count(name) > 1:
            raise InputError(f"{where} has two columns {name!r}; rename one of them")


def common_type(name: str, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The common type of a column in all files; mixed numeric types become float64.

    Args:
        name: the column.
        types: its type in each file, by the file's name.
    """
    known = {where: kind for where, kind in types.items() if not pa.types.is_null(kind)}
    if not known:
        return pa.float64()
    kinds = {kind_of(kind): where for where, kind in reversed(known.items())}
    if len(kinds) > 1:
        said = " and ".join(f"{kind} in {where}" for kind, where in sorted(kinds.items()))
        raise InputTypeError(f"column {name!r} is {said}; store it as one type in all files")
    distinct = set(known.values())
    if len(distinct) == 1:
        return distinct.pop()
    return pa.float64() if "numeric" in kinds else pa.string()


def stored_types(
    columns: Sequence[str], paths: Sequence[AnyPath], schemas: Sequence[pa.Schema]
) -> dict[str, pa.DataType]:
    """The common type of each column in files with these schemas, to which it is cast if needed."""
    found = {}
    for name in columns:
        files = zip(paths, schemas, strict=True)
        kind = common_type(name, {str(path): schema.field(name).type for path, schema in files})
        found[name] = pa.float64() if pa.types.is_decimal(kind) else kind
    return found


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, cast where the batch has another type."""
    columns = [_cast(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def without_index(schema: pa.Schema) -> list[str]:
    """The columns of a file, without those that pandas stored as a data frame's index."""
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name not in index]


def whole(values: Any) -> pa.Array:
    """A column as one contiguous array, copied only if it is chunked."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()

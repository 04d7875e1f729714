"""What a table is read from: files, a dataset, a table in memory, an iterator of tables.

A medium knows the types of its columns before any row is read, and gives rows as batches of Arrow
columns, or as blocks of NumPy columns in which categories are codes. Below `Medium` is what all
media share: Arrow's types, columns from Arrow to NumPy, blocks cut to size, errors about columns.
"""

import abc
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.tables.levels import Found, Lookup, check_levels, encode, survey
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows

Columns = Mapping[str, np.ndarray]
"""Columns of numbers by name; those of a category's codes by `codes_of(name)`."""


class Medium(abc.ABC):
    """A table on its medium.

    Attributes:
        where: how messages name it.
        types: Arrow's type of each column that is needed.
        count: number of rows, if known.
        ordered: whether rows come in an order that deserves to be shuffled and watched.
        rereadable: whether it can be read a second time.
    """

    where: str
    types: dict[str, pa.DataType]
    count: int | None = None
    ordered: bool = True
    rereadable: bool = True

    @abc.abstractmethod
    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The columns of all rows, in order, or in some random order of large pieces."""

    def blocks(
        self,
        rng: np.random.Generator | None,
        size: int,
        numbers: Sequence[str],
        lookups: Mapping[str, Lookup],
    ) -> Iterator[Columns]:
        """The columns `size` rows at a time: numbers, and codes of categories."""
        names = tuple(dict.fromkeys([*numbers, *lookups]))
        batches = (as_columns(b, numbers, lookups) for b in self.batches(rng, names))
        return cut(batches, size)

    def find(self, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """What the columns of categories hold, in rows of positive weight."""
        if not names:
            return {}
        columns = (*names, weight) if weight is not None else names
        return survey(self.batches(None, tuple(dict.fromkeys(columns))), names, weight)

    def check(self, levels: Mapping[str, Sequence[Any]], weight: str | None) -> None:
        """Whether the columns of categories hold levels that were learned, and only those."""
        check_levels(self.find(tuple(levels), weight), levels, self.place)

    def declared(self, name: str) -> Sequence[Any] | None:
        """Categories that the type of a column declares, in their order."""
        return None

    def place(self, row: int) -> str:
        """How to name a row, counted from 0 in the order of `batches(None)`."""
        return f"row {row}"


def codes_of(name: str) -> str:
    """Where a category's codes are: a column may be a number in one term, a category in another."""
    return f"\0{name}"


def is_number(kind: pa.DataType) -> bool:
    """Whether Arrow's type is read as numbers; bools are 0 and 1, as formulaic has them."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether Arrow's type is read as categories without being told."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return pa.types.is_dictionary(kind) or any(test(kind) for test in tests)


def kind_of(kind: pa.DataType) -> str:
    return "numeric" if is_number(kind) else "text" if is_text(kind) else str(kind)


def as_columns(
    batch: pa.RecordBatch, numbers: Iterable[str], lookups: Mapping[str, Lookup]
) -> Columns:
    """Numbers as views where Arrow allows, nulls as NaN; categories as codes."""
    columns = {name: as_numpy(batch.column(name)) for name in numbers}
    codes = {codes_of(name): encode(batch.column(name), lookups[name]) for name in lookups}
    return columns | codes


def as_numpy(column: pa.Array) -> np.ndarray:
    """A view of Arrow's numbers; a copy where there are nulls, which become NaN, and bools."""
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def cut(batches: Iterable[Columns], size: int) -> Iterator[Columns]:
    """The same rows, `size` at a time: blocks do not depend on how the file was written."""
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


def length_of(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column[start:stop] for name, column in columns.items()}


def _join(pieces: list[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def shuffle(blocks: Iterable[Rows], size: int, rng: np.random.Generator) -> Generator[Rows]:
    """The blocks in a random order, at most `size` of them held."""
    held = []
    for block in blocks:
        if len(held) < size:
            held.append(block)
        else:
            chosen = int(rng.integers(size))
            out, held[chosen] = held[chosen], block
            yield out
    for chosen in rng.permutation(len(held)):
        yield held[chosen]


def check_columns(where: str, needed: Iterable[str], present: list[str]) -> None:
    for name in needed:
        if name not in present:
            said = ", ".join(map(str, present[:20])) + (", ..." if len(present) > 20 else "")
            raise InputError(f"{where} has no column {name!r}; it has {said}")
        if present.count(name) > 1:
            raise InputError(f"{where} has two columns {name!r}; rename one of them")


def not_numeric(where: str, name: str, kind: Any) -> InputTypeError:
    return InputTypeError(
        f"{where}: column {name!r} is not numeric ({kind}); leave it out, convert it, or write "
        f"C({name}) where its values are categories"
    )


def common_type(name: str, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type that a column has in all files; numbers of several types are float64.

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


def no_rows(paths: list[Path]) -> InputError:
    said = str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return InputError(f"{said}: no rows; at least one observation is needed")


def place_in(paths: Sequence[Path | str], counts: Sequence[int | None], row: int) -> str:
    """A row as the file that it is in and its number there."""
    for path, count in zip(paths, counts, strict=True):
        if count is None or row < count:
            return f"row {row} of {path}"
        row -= count
    return f"row {row} after {paths[-1]}"

"""Levels of categories: found in one read of their columns, then fixed, so that every block and
every later table is coded alike.

A level that was not learned, and in a fit a missing one, are errors that name column, level and
row: coded as the base they would be wrong in silence. Dates and times are levels as text, in ISO
form, so that a CSV file, which has nothing but text, holds the same levels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.groupings.keys import KINDS_OF_KEYS, Keys, level_of
from masgrad.data.tables.odd_text import is_like_a_number, is_number_text, odd_levels
from masgrad.errors import InputError, InputTypeError

MOST_LEVELS = 1_000_000
"""Largest number of levels of a category; a column with more is likely a number or identifier."""

ALWAYS_ALLOWED_LEVELS = 20
"""Number of levels that is accepted however few rows the table has."""

MISSING, UNKNOWN = -1, -2
"""Codes of a missing value, and of a level that was not learned."""

KINDS = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null),
    *(pa.types.is_date, pa.types.is_timestamp, pa.types.is_time),
)
"""Types of Arrow that can be categories."""

Lookup = Mapping[Any, int]
"""The code of each level. 1, 1.0 and True are one level, whatever type a file stores."""

Coder = Lookup | Keys
"""Levels that are known, or keys that are learned on the way."""


@dataclass
class Found:
    """The levels found in a column.

    Attributes:
        first: the first row of each level.
        missing: the first row with a missing value.
        rows: number of rows examined.
        length: number of rows, also of weight 0.
        orders: the orders of levels declared by Arrow's ordered dictionaries.
        counts: number of rows of each level, as far as rows were counted.
    """

    first: dict[Any, int] = field(default_factory=dict)
    missing: int | None = None
    rows: int = 0
    length: int = 0
    orders: set[tuple[Any, ...]] = field(default_factory=set)
    counts: Counter[Any] = field(default_factory=Counter)

    def join(self, name: str, later: "Found") -> None:
        """Add what was found in the rows that follow."""
        for level, row in later.first.items():
            self.first.setdefault(level, self.length + row)
        if self.missing is None and later.missing is not None:
            self.missing = self.length + later.missing
        self.rows, self.length = self.rows + later.rows, self.length + later.length
        self.orders |= later.orders
        self.counts += later.counts
        self.check_number(name)

    def check_number(self, name: str) -> None:
        """Refuse a column with too many levels."""
        if len(self.first) > MOST_LEVELS:
            raise _too_many(name, f"more than {MOST_LEVELS:,}", self)


def lookup(levels: Sequence[Any]) -> Lookup:
    return {level: code for code, level in enumerate(levels)}


def encode(column: pa.Array, lookup: Coder) -> np.ndarray:
    """The codes of a column's values; negative for a missing value and for an unknown level."""
    if isinstance(lookup, Keys):
        return _encode_keys(column, lookup)
    indices, values = dictionary_of(column)
    codes = (MISSING if value is None else lookup.get(value, UNKNOWN) for value in values)
    return np.array([*codes, MISSING], np.int32)[indices]


def _encode_keys(column: pa.Array, keys: Keys) -> np.ndarray:
    """The codes of a column's keys; only keys that rows have get one."""
    kind = column.type
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(test(held) for test in KINDS):
        raise InputTypeError(f"{keys.name} holds values of type {held}: {KINDS_OF_KEYS}")
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return keys.codes(to_numpy(column))
    indices, values = dictionary_of(column)
    present = np.unique(indices[indices >= 0])
    codes = np.full(len(values) + 1, MISSING, np.int32)
    codes[present] = keys.codes_of_distinct(values[k] for k in present.tolist())
    return codes[indices]


def check_codes(name: str, codes: np.ndarray, missing: bool, place: Callable[[int], str]) -> None:
    """Refuse a level that was not there when levels were learned; a missing value unless allowed.

    Levels are looked for before rows are read, so that these are rows of a table that has changed.
    """
    wrong = codes < (MISSING if missing else 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "no value" if codes[row] == MISSING else "a level that was not there before"
        raise InputError(
            f"column {name!r} has {what} at {place(row)}: the table has changed while it was read; "
            "fit again"
        )


def check_kind(where: str, name: str, kind: pa.DataType) -> None:
    """Refuse a column whose values cannot be levels."""
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(test(held) for test in KINDS):
        raise InputTypeError(
            f"{where}: column {name!r} holds values of type {kind}; categories are text, numbers, "
            "bools, dates or times: convert it to text first"
        )


def not_numeric(where: str, name: str, kind: Any) -> InputTypeError:
    return InputTypeError(
        f"{where}: column {name!r} is not numeric ({kind}); leave it out, convert it, or write "
        f"C({name}) where its values are categories"
    )


def encode_it(name: Any, kind: Any) -> InputTypeError:
    """The error for a column of an X that is not numeric."""
    return InputTypeError(
        f"column {name!r} is not numeric ({kind}); encode or drop it, or use a formula"
    )


def survey(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], weight: str | None
) -> dict[str, Found]:
    """Find the levels of the columns in row order, ignoring rows of weight 0."""
    found = {name: Found() for name in names}
    row = 0
    for batch in batches:
        kept = None
        if weight is not None:
            kept = batch.column(weight).to_numpy(zero_copy_only=False).astype(np.float64) != 0
        for name in names:
            _look(found[name], name, batch.column(name), kept, row)
        row += len(batch)
    return found


def _look(found: Found, name: str, column: pa.Array, kept: np.ndarray | None, row: int) -> None:
    indices, values = dictionary_of(column)
    if pa.types.is_dictionary(column.type) and column.type.ordered:
        found.orders.add(tuple(values))
    rows = None if kept is None else np.flatnonzero(kept)
    indices = indices if rows is None else indices[rows]
    found.rows, found.length = found.rows + len(indices), row + len(column)
    if not len(indices):
        return
    first = np.full(len(values) + 1, -1)
    first[indices[::-1] + 1] = np.arange(len(indices))[::-1]  # the last to be written stays
    first = first if rows is None else np.where(first >= 0, rows[first], -1)
    counts = np.bincount(indices + 1, minlength=len(values) + 1)
    for k in np.flatnonzero(first >= 0):
        value = values[k - 1] if k else None
        if value is None and found.missing is None:
            found.missing = row + int(first[k])
        elif isinstance(value, float) and abs(value) >= 2**53:
            raise InputError(
                f"column {name!r} holds {value:.0f}, a number of more digits than floats keep, so "
                "that levels would be merged; store it as text or whole numbers (Parquet)"
            )
        elif value is not None:
            found.first.setdefault(value, row + int(first[k]))
            found.counts[value] += int(counts[k])
    found.check_number(name)


def dictionary_of(column: pa.Array) -> tuple[np.ndarray, list[Any]]:
    """Indices into the list of distinct values, -1 for a null; NaN values become None."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = to_numpy(column.indices)
    if column.indices.null_count:
        indices = np.where(np.isnan(indices), -1, indices)
    values = [level_of(value) for value in column.dictionary.to_pylist()]
    return indices.astype(np.int64, copy=False), values


def to_numpy(column: pa.Array) -> np.ndarray:
    """A view of Arrow's numbers; a copy if there are nulls, which become NaN.

    Arrow's own `to_numpy` imports pandas, so that it is left to nulls.
    """
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and isinstance(column, pa.Array) and not column.null_count:
        return np.from_dlpack(column)
    return column.to_numpy(zero_copy_only=False)


def order(name: str, found: Found, declared: Sequence[Any] | None, whole: bool) -> tuple[Any, ...]:
    """The levels of a column: sorted, or in the order declared by its type.

    Args:
        name: the column.
        found: the levels found in it.
        declared: the categories declared by its type, or None.
        whole: whether its numbers are integers, though they may have been read as floats.
    """
    levels = list(found.first)
    if len(levels) > max(found.rows / 2, ALWAYS_ALLOWED_LEVELS):
        raise _too_many(name, f"{len(levels)} in {found.rows} rows", found)
    if declared is None and len(found.orders) == 1:
        (declared,) = found.orders
    if declared is not None:
        return tuple(level for level in declared if level in found.first)
    if whole and all(level == int(level) for level in levels):
        levels = [int(level) for level in levels]
    try:
        return tuple(sorted(levels))
    except TypeError:
        raise InputTypeError(f"column {name!r} mixes text and numbers; make it text") from None


def check_missing(found: Mapping[str, Found], place: Callable[[int], str]) -> None:
    for name, what in found.items():
        if what.missing is not None:
            raise InputError(
                f"column {name!r} has no value at {place(what.missing)}; drop such rows, or "
                "missing='drop', or make 'missing' a level of its own"
            )


def check_levels(
    found: Mapping[str, Found],
    levels: Mapping[str, Sequence[Any]],
    place: Callable[[int], str],
    missing: bool = False,
) -> None:
    """Check that new data have no levels other than those learned, nor, unless allowed, none."""
    if not missing:
        check_missing(found, place)
    for name, what in found.items():
        known = set(levels[name])
        unseen = [level for level in what.first if level not in known]
        if unseen:
            some = ", ".join(map(repr, levels[name][:10])) + ", ..." * (len(levels[name]) > 10)
            raise InputError(
                f"column {name!r} has the level {unseen[0]!r} at {place(what.first[unseen[0]])}, "
                f"which the fitted data had not; they had {some}: drop such rows, or fit again"
            )


def check_text(name: str, found: Found, place: Callable[[int], str]) -> None:
    """Refuse text that is mostly numbers: likely a numeric column with a few invalid entries."""
    levels = list(found.first)
    other = odd_levels(levels)
    if other:
        alike = sum(is_number_text(level) or is_like_a_number(level) for level in levels)
        raise InputTypeError(
            f"column {name!r} is text, though {alike} of its {len(levels)} levels are numbers or "
            f"look like it; {other[0]!r} at {place(found.first[other[0]])} is none: correct it, or "
            f"write C({name}) if these are categories"
        )


def _too_many(name: str, said: str, found: Found) -> InputError:
    odd = odd_levels(list(found.first))
    hint = f"; most are numbers, and {odd[0]!r} is not: correct it?" if odd else ""
    return InputError(
        f"column {name!r} has too many levels for a category ({said}){hint}; convert it to "
        "numbers, group its levels, or leave it out"
    )

"""Rows of CSV files that cannot be read: left out up to a limit, and counted by their numbers.

A row cannot be read if it has another number of fields than the header, or text in a column of
numbers. A column is one of numbers if most of its first values are, unless it is a category C(...)
or a key of groups. All columns of numbers are parsed in every read, which keeps the same rows then.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from masgrad.data.left_out import LeftOut
from masgrad.errors import InputError
from masgrad.stores.path import AnyPath

MOST_BAD_ROWS, BAD_SHARE, ALWAYS_ALLOWED_BAD_ROWS = 10_000, 0.01, 5
"""Rows that are left out at most; the share of all rows up to which they are; and how many are left
out whatever their share."""

TYPE_ROWS = 1000
"""Values of a column, from all over its first ones, that say whether it is one of numbers."""


class BadRows:
    """The rows of CSV files that are left out, by file and number.

    Args:
        paths: the files.
        text: columns that may hold text.
        left_out: where they are reported.
    """

    def __init__(self, paths: Sequence[AnyPath], text: frozenset[str], left_out: LeftOut | None):
        self.paths, self.text = paths, text
        self.fields: list[dict[int, str]] = [{} for _ in paths]
        self.values: list[dict[int, str]] = [{} for _ in paths]
        self.rows = [0] * len(paths)
        self.open_quote = ""  # the first bad row that goes over several lines
        if left_out is not None:
            left_out.bad_rows = self

    def state(self) -> Any:
        """What has been found so far, for `restore`."""
        return [list(map(dict, self.fields)), list(map(dict, self.values)), [*self.rows]]

    def restore(self, state: Any) -> None:
        """Know what was found when the state was taken."""
        self.fields, self.values, self.rows = state

    @property
    def count(self) -> int:
        return sum(map(len, (*self.fields, *self.values)))

    @property
    def read(self) -> int:
        """The number of rows that can be read, once all have been."""
        return sum(self.rows)

    @property
    def first(self) -> str:
        """The first bad row, and why it is one; "" if there are none."""
        for path, fields, values in zip(self.paths, self.fields, self.values, strict=True):
            why = fields | values
            if why:
                return f"row {min(why)} of {path}, which has {why[min(why)]}"
        return ""

    def handler(self, k: int) -> Callable[[Any], str]:
        """What Arrow calls for a row with another number of fields, and does with it."""

        def skip(row: Any) -> str:
            if "\n" in row.text.rstrip():
                self.open_quote = self.open_quote or f"row {row.number - 2} of {self.paths[k]}"
            if len(self.fields[k]) <= MOST_BAD_ROWS:
                fields = "1 field" if row.actual_columns == 1 else f"{row.actual_columns} fields"
                said = f"{fields} where the header has {row.expected_columns}"
                self.fields[k][row.number - 2] = said  # Arrow counts from 1, and the header
            return "skip"

        return skip

    def is_number(self, name: str, column: pa.Array) -> bool:
        """Whether the first values of a column of text are numbers, but for a few."""
        if name in self.text or not len(column):
            return False
        some = column.take(pa.array(np.linspace(0, len(column) - 1, TYPE_ROWS).astype(np.int64)))
        values, bad = as_numbers(some, pa.float64())
        return bool(bad.sum() * 2 < len(some) - values.null_count + bad.sum())

    def parsed(
        self, k: int, batches: Iterator[pa.RecordBatch], numbers: dict[str, pa.DataType]
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a file with their columns of numbers parsed, without bad rows."""
        start = 0
        for batch in batches:
            bad = np.zeros(len(batch), bool)
            columns = {name: batch.column(name) for name in batch.schema.names}
            for name, kind in numbers.items():
                text = columns[name]
                columns[name], wrong = as_numbers(text, kind)
                for row in np.flatnonzero(wrong & ~bad)[:MOST_BAD_ROWS].tolist():
                    said = f"{text[row].as_py()!r:.40} in column {name!r}"
                    self.values[k][self._number(k, start + row)] = said
                bad |= wrong
            self._check()
            start += len(batch)
            done = pa.RecordBatch.from_pydict(columns)
            yield done.filter(pa.array(~bad)) if bad.any() else done

    def finish(self, k: int, rows: int) -> None:
        """Take note of the rows of a file that could be read, and check their share at the end."""
        self.rows[k] = rows
        if k == len(self.paths) - 1:
            self._check(max(BAD_SHARE * (self.read + self.count), ALWAYS_ALLOWED_BAD_ROWS))

    def place(self, k: int, row: int) -> int:
        """The number in its file of a row that is numbered among those that can be read."""
        return _among_all(sorted(self.fields[k] | self.values[k]), row)

    def _number(self, k: int, row: int) -> int:
        """The number in its file of a row that is numbered among those of as many fields."""
        return _among_all(sorted(self.fields[k]), row)

    def _check(self, most: float = np.inf) -> None:
        if self.open_quote:
            raise InputError(
                f"{self.open_quote} has a quotation mark that is not closed on its line, so that "
                "the rows after it are a part of it; correct the file"
            )
        if self.count > min(most, MOST_BAD_ROWS):
            share = f" of {self.read + self.count:,}" if np.isfinite(most) else " or more"
            raise InputError(
                f"{self.count:,}{share} rows cannot be read, the first is {self.first}: "
                f"on_bad_rows='skip' leaves out {BAD_SHARE:.0%} of the rows and {MOST_BAD_ROWS:,} "
                "at most; correct the file, or read it first, pandas.read_csv(..., "
                "on_bad_lines='skip'), and give the table"
            )


def as_numbers(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Numbers, or Booleans, of a column of text; and the mask of what is neither, null there."""
    wrong = np.zeros(len(column), bool)
    text: Any = compute.call_function("utf8_trim_whitespace", [column])
    return pa.concat_arrays(_cast(text, kind, wrong)), wrong


def _cast(text: pa.Array, kind: pa.DataType, wrong: np.ndarray) -> list[pa.Array]:
    """The values in pieces: halves are parsed apart until what is no value is alone."""
    try:
        return [text.cast(kind)]
    except pa.ArrowInvalid:
        if len(text) == 1:
            wrong[0] = True
            return [pa.nulls(1, kind)]
    half = len(text) // 2
    return _cast(text[:half], kind, wrong[:half]) + _cast(text[half:], kind, wrong[half:])


def _among_all(skipped: list[int], row: int) -> int:
    """The number of a row among all rows, of which some were skipped."""
    for number in skipped:
        if number > row:
            break
        row += 1
    return row

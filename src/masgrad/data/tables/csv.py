"""CSV files as batches of columns, rows numbered from 0 below the header."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from masgrad.data.source import prefetch
from masgrad.data.tables.levels import Found, Lookup, check_levels
from masgrad.data.tables.medium import (
    Columns,
    Medium,
    Unchanged,
    check_columns,
    common_type,
    is_number,
    no_rows,
    not_numeric,
    place_in,
)
from masgrad.errors import InputError, InputTypeError


class TextFound(InputTypeError):
    """A value of a numeric column that is no number."""

    column: str


class Csv(Medium):
    """CSV files with a header; rows are counted while they are read."""

    def __init__(self, paths: list[Path], columns: Sequence[str], memory: int):
        self.paths, self.where, self.files = paths, str(paths[0]), Unchanged(paths)
        self.counts: list[int | None] = [None] * len(paths)
        self.headers = [_header(path) for path in paths]
        for path, header in zip(paths, self.headers, strict=True):
            check_columns(str(path), columns, header.names)
        self.types = {name: self._common(name) for name in columns}
        if not sum(self._has_rows(k) for k in range(len(paths))):  # a sum, since it looks at all
            raise no_rows(paths)

    def _common(self, name: str) -> pa.DataType:
        """The common type of a column in all files; an error names the first value that is text."""
        types = [header.field(name).type for header in self.headers]
        try:
            return common_type(name, dict(zip(map(str, self.paths), types, strict=True)))
        except InputTypeError as error:
            for path, kind in zip(self.paths, types, strict=True):
                if not is_number(kind):
                    raise InputTypeError(f"{error}{_first_text(path, name)}") from None
            raise

    def _has_rows(self, k: int) -> bool:
        return any(len(batch) for batch in self._read(k, tuple(self.types), first=True))

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Batches in file order, whether or not `rng` is given."""
        self.files.check()
        for k in range(len(self.paths)):
            rows = 0
            for batch in self._read(k, columns):
                rows += len(batch)
                yield batch
            self.counts[k] = rows
        self.files.check()

    def find(self, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """Find levels; where numbers are followed by text, all values of the column are text."""
        while True:
            try:
                return super().find(names, weight)
            except TextFound as error:
                if error.column not in names:
                    raise
                self.types[error.column] = pa.string()

    def check(self, levels: Mapping[str, Sequence[Any]], weight: str | None, missing: bool) -> None:
        """Check levels, reading as text what is text in the table that they were learned from."""
        for name, held in levels.items():
            if any(isinstance(level, str) for level in held):
                self.types[name] = pa.string()
        found = super().find(tuple(levels), weight)
        check_levels(found, levels, self.place, missing)

    def blocks(
        self,
        rng: np.random.Generator | None,
        size: int,
        numbers: Sequence[str],
        lookups: Mapping[str, Lookup],
    ) -> Iterator[Columns]:
        """Read ahead in our own thread: errors in Arrow's threads do not number the rows."""
        return prefetch(super().blocks(rng, size, numbers, lookups))

    def _read(
        self, k: int, columns: Sequence[str], first: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a file, or only the first."""
        header = self.headers[k]
        types = {name: self._type(name) for name in columns}
        try:
            for batch in _open_csv(self.paths[k], types):
                yield batch
                if first:
                    return
        except (pa.ArrowException, OSError) as error:
            self.files.check()
            raise _csv_error(self.paths[k], header.names, error) from None

    def _type(self, name: str) -> pa.DataType:
        """The type a column is read as: float64 for numbers, even if the first are integers."""
        kind = self.types[name]
        if pa.types.is_boolean(kind):
            return kind
        return pa.float64() if is_number(kind) else pa.string()

    def place(self, row: int) -> str:
        return place_in(self.paths, self.counts, row)


def _open_csv(path: Path, types: dict[str, pa.DataType]) -> csv.CSVStreamingReader:
    return csv.open_csv(
        str(path),
        read_options=csv.ReadOptions(use_threads=False),
        convert_options=csv.ConvertOptions(
            include_columns=list(types), column_types=types, strings_can_be_null=True
        ),
    )


def _first_text(path: Path, name: str) -> str:
    """The first value of a column that is not a number, found by Arrow's error."""
    try:
        for _ in _open_csv(path, {name: pa.float64()}):
            pass
    except pa.ArrowException as error:
        bad = _no_number(error)
        return f": {path} holds {bad[1]}" if bad else ""
    return ""


def _header(path: Path) -> pa.Schema:
    """The names of all columns, with types inferred from their first values."""
    try:
        return _open_csv(path, {}).schema
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise _csv_error(path, [], error) from None


def _csv_error(path: Path, header: list[str], error: Exception) -> Exception:
    """Arrow's error in our terms: Arrow numbers rows from 1 and counts the header."""
    text, bad = str(error), _no_number(error)
    if bad:
        found = TextFound(*not_numeric(str(path), header[bad[0]], bad[1]).args)
        found.column = header[bad[0]]
        return found
    if "Empty CSV file" in text:
        return no_rows([path])
    text = re.sub(r"Row #(\d+)", lambda row: f"row {int(row[1]) - 2}", text)
    return InputError(f"{path} cannot be read as CSV: {text:.200}")


def _no_number(error: Exception) -> tuple[int, str] | None:
    """The column number of a value that Arrow cannot parse as a number; the value and its row."""
    bad = re.search(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", str(error), re.DOTALL)
    return (int(bad[1]), f"{bad[3]!r:.80} at row {int(bad[2]) - 2}") if bad else None


def csv_names(path: Path) -> list[str]:
    """All columns of a file."""
    return _header(path).names

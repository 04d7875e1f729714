"""CSV files as batches of columns, rows numbered from 0 below the header.

Fields are separated by commas, text is UTF-8, or UTF-16 with a byte-order mark.
"""

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from masgrad.cores import prefetch
from masgrad.data.tables.files import Unchanged, no_rows, place_in, unreadable
from masgrad.data.tables.levels import Coder, Found, check_levels, not_numeric
from masgrad.data.tables.medium import Columns, Medium, check_columns, common_type, is_number
from masgrad.data.tables.text.bad_rows import BadRows
from masgrad.errors import InputError, InputTypeError
from masgrad.stores.files import StoreFile, streamed
from masgrad.stores.path import AnyPath

OTHER_SEPARATORS = {";": ";", "\t": "\\t", "|": "|"}
"""Separators of fields that are not read, as they are written in Python."""


class Csv(Medium):
    """CSV files with a header; rows are counted while they are read."""

    with_text: str | None = None
    """The column of numbers in which the last read met text."""

    def __init__(
        self, paths: Sequence[AnyPath], columns: Sequence[str], bad: BadRows | None = None
    ):
        self.paths, self.where, self.files = paths, str(paths[0]), Unchanged(paths)
        self.counts: list[int | None] = [None] * len(paths)
        self.bad = bad
        self.headers = [self._header_of(k, columns) for k in range(len(paths))]
        for path, header in zip(paths, self.headers, strict=True):
            check_columns(str(path), columns, header.names)
        self.types = {name: self._common(name) for name in columns}
        if not self._any_rows():
            raise no_rows(paths)

    def _header_of(self, k: int, columns: Sequence[str]) -> pa.Schema:
        """The columns of a file; those of text that are numbers but for a few count as numbers."""
        path = self.paths[k]
        if self.bad is None:
            return _header(path)
        skip = self.bad.handler(k)
        schema = _header(path, skip)
        texts = [f.name for f in schema if pa.types.is_string(f.type) and f.name in columns]
        first = _first_batch(path, texts, skip)
        for name in texts:
            if self.bad.is_number(name, first.column(name)):
                at = schema.get_field_index(name)
                schema = schema.set(at, pa.field(name, pa.float64()))
        return schema

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

    def _any_rows(self) -> bool:
        """Whether any file has rows; where rows may be bad, all are read.

        Columns that may hold text and have it after numbers are text then, in all rows.
        """
        while True:
            self.with_text = None
            try:
                self.with_rows = [self._has_rows(k) for k in range(len(self.paths))]
                return any(self.with_rows)
            except InputTypeError:
                if self.bad is None or self.with_text not in self.bad.text:
                    raise
                self.types[self.with_text] = pa.string()

    def _has_rows(self, k: int) -> bool:
        batches = self._read(k, tuple(self.types), first=self.bad is None)
        return sum(len(batch) for batch in batches) > 0

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
            if self.bad is not None:
                self.bad.finish(k, rows)
        self.files.check()

    def find(self, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """Find levels; where numbers are followed by text, all values of the column are text."""
        while True:
            self.with_text = None
            try:
                return super().find(names, weight)
            except InputTypeError:
                if self.with_text is None or self.with_text not in names:
                    raise
                self.types[self.with_text] = pa.string()

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
        lookups: Mapping[str, Coder],
    ) -> Iterator[Columns]:
        """Read ahead in our own thread: errors in Arrow's threads do not number the rows."""
        return prefetch(super().blocks(rng, size, numbers, lookups))

    def _read(
        self, k: int, columns: Sequence[str], first: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a file, or only the first."""
        header = self.headers[k]
        try:
            for batch in self._opened(k, columns):
                yield batch
                if first:
                    return
        except (pa.ArrowException, OSError) as error:
            self.files.check()
            bad = _no_number(error)
            self.with_text = header.names[bad[0]] if bad else None
            raise _csv_error(self.paths[k], header.names, error) from None

    def _opened(self, k: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches of a file; where rows may be bad, with all columns of numbers."""
        if self.bad is None:
            return iter(_open_csv(self.paths[k], {name: self._type(name) for name in columns}))
        known = {n: self._type(n) for n, kind in self.types.items() if is_number(kind)}
        numbers = {n: kind for n, kind in known.items() if n not in self.bad.text}
        types = {name: self._type(name) for name in columns} | dict.fromkeys(numbers, pa.string())
        reader = _open_csv(self.paths[k], types, self.bad.handler(k))
        return self.bad.parsed(k, iter(reader), numbers)

    def _type(self, name: str) -> pa.DataType:
        """The type a column is read as: float64 for numbers, even if the first are integers."""
        kind = self.types[name]
        if pa.types.is_boolean(kind):
            return kind
        return pa.float64() if is_number(kind) else pa.string()

    def state(self) -> Any:
        texts = [name for name, kind in self.types.items() if pa.types.is_string(kind)]
        return [*self.counts], texts

    def restore(self, state: Any) -> None:
        self.counts, texts = state
        self.types |= dict.fromkeys(texts, pa.string())

    def stored_place(self, row: int) -> str:
        if self.bad is None:
            if self.shards is not None:  # then this process may not have counted them
                for _ in self.batches(None, tuple(self.types)[:1]):
                    pass
            return place_in(self.paths, self.counts, row)
        k = 0
        while k < len(self.paths) - 1 and row >= (self.counts[k] or 0):
            row, k = row - (self.counts[k] or 0), k + 1
        return f"row {self.bad.place(k, row)} of {self.paths[k]}"


def _open_csv(
    path: AnyPath, types: dict[str, pa.DataType], skip: Callable[[Any], str] | None = None
) -> csv.CSVStreamingReader:
    return csv.open_csv(
        _stream(path),
        parse_options=csv.ParseOptions(invalid_row_handler=skip),
        read_options=csv.ReadOptions(use_threads=False, encoding=_encoding(path)),
        convert_options=csv.ConvertOptions(
            include_columns=list(types), column_types=types, strings_can_be_null=True
        ),
    )


def _stream(path: AnyPath, whole: bool = True) -> pa.NativeFile:
    """The text of a file, which may be compressed; a store is asked ahead if all is read."""
    if isinstance(path, Path):
        return pa.input_stream(str(path))
    zipped = path.name.lower().endswith(".gz")
    file = streamed(path) if whole else StoreFile(path)
    return pa.input_stream(file, compression="gzip" if zipped else None)


def _encoding(path: AnyPath) -> str:
    """UTF-16 if the file begins with its byte-order mark; otherwise UTF-8."""
    with _stream(path, whole=False) as file:
        begin = file.read(4)
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if 0 in begin:
        raise InputError(
            f"{path} holds zero bytes, as UTF-16 without a byte-order mark does; save it as UTF-8"
        )
    return "utf8"


def _check_separator(path: AnyPath, header: list[str]) -> None:
    """Refuse a header that is one field because another character than a comma separates it."""
    if len(header) > 1:
        return
    for separator, written in OTHER_SEPARATORS.items():
        if separator in header[0]:
            raise InputError(
                f"the fields of {path} seem to be separated by '{written}', and those of CSV files "
                "must be by commas: save it so, or read it first, "
                f"pandas.read_csv({str(path)!r}, sep='{written}'), with decimal=',' if its numbers "
                "have decimal commas, and give the table"
            )


def _first_text(path: AnyPath, name: str) -> str:
    """The first value of a column that is not a number, found by Arrow's error."""
    try:
        for _ in _open_csv(path, {name: pa.float64()}):
            pass
    except pa.ArrowException as error:
        bad = _no_number(error)
        return f": {path} holds {bad[1]}" if bad else ""
    return ""


def _first_batch(path: AnyPath, texts: list[str], skip: Callable[[Any], str]) -> pa.RecordBatch:
    """The first rows of some columns as text; none if the file has none."""
    types = dict.fromkeys(texts, pa.string())
    none = pa.RecordBatch.from_pylist([], pa.schema(list(types.items())))
    return next(iter(_open_csv(path, types, skip)), none) if texts else none


def _header(path: AnyPath, skip: Callable[[Any], str] | None = None) -> pa.Schema:
    """The names of all columns, with types inferred from their first values."""
    try:
        schema = _open_csv(path, {}, skip).schema
        _check_separator(path, schema.names)
    except PermissionError:
        raise
    except UnicodeDecodeError:
        raise _not_utf8(path, "a name of a column") from None
    except (pa.ArrowException, OSError) as error:
        raise _csv_error(path, [], error) from None
    return schema


def _csv_error(path: AnyPath, header: list[str], error: Exception) -> Exception:
    """Arrow's error in our terms: Arrow numbers rows from 1 and counts the header."""
    text, bad = str(error), _no_number(error)
    if bad:
        return not_numeric(str(path), header[bad[0]], bad[1])
    if invalid := re.search(r"column #(\d+): Row #(\d+): .*invalid UTF8", text):
        where = f"column {header[int(invalid[1])]!r} at row {int(invalid[2]) - 2}"
        return _not_utf8(path, where)
    if "Empty CSV file" in text:
        return no_rows([path])
    text = re.sub(r"Row #(\d+)", lambda row: f"row {int(row[1]) - 2}", text)
    return unreadable(f"{path} cannot be read as CSV: {text:.200}", error)


def _not_utf8(path: AnyPath, where: str) -> InputError:
    return InputError(
        f"{path} is not in UTF-8: see {where}; save it as UTF-8, or read it first, "
        f"pandas.read_csv({str(path)!r}, encoding='latin-1'), and give the table"
    )


def _no_number(error: Exception) -> tuple[int, str] | None:
    """The column number of a value that Arrow cannot parse as a number; the value and its row."""
    bad = re.search(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", str(error), re.DOTALL)
    return (int(bad[1]), f"{bad[3]!r:.80} at row {int(bad[2]) - 2}") if bad else None


def csv_names(path: AnyPath) -> list[str]:
    """All columns of a file, whatever its rows are."""
    return _header(path, lambda row: "skip").names

"""CSV files as batches of columns, rows numbered from 0 below the header."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from masgrad.data.columns import Columns, as_columns, check_columns, no_rows, not_numeric
from masgrad.data.source import ahead
from masgrad.errors import InputError


class Csv:
    """Batches of columns from CSV files with a header; rows are counted while they are read."""

    count = None

    def __init__(self, paths: list[Path], columns: tuple[str, ...], memory: int):
        self.paths, self.columns = paths, columns
        self.counts: list[int | None] = [None] * len(paths)
        self.headers = [_header(path) for path in paths]
        for path, header in zip(paths, self.headers, strict=True):
            check_columns(str(path), columns, header.names)
        if not sum(self._has_rows(k) for k in range(len(paths))):  # a sum, since it looks at all
            raise no_rows(paths)

    def _has_rows(self, k: int) -> bool:
        return any(len(batch) for batch in self._read(k, first=True))

    def batches(self, rng: np.random.Generator | None) -> Iterator[Columns]:
        """In order, always, and by another thread: Arrow's own do not number the rows."""
        return ahead(self._batches())

    def _batches(self) -> Iterator[Columns]:
        for k in range(len(self.paths)):
            rows = 0
            for batch in self._read(k):
                rows += len(batch)
                yield as_columns(batch)
            self.counts[k] = rows

    def _read(self, k: int, first: bool = False) -> Iterator[pa.RecordBatch]:
        """The batches of a file, or the first of them."""
        header = self.headers[k]
        types = {c: _csv_type(header.field(c).type) for c in self.columns}
        try:
            for batch in _open_csv(self.paths[k], types):
                yield batch
                if first:
                    return
        except (pa.ArrowException, OSError) as error:
            raise _csv_error(self.paths[k], header.names, error) from None


def _open_csv(path: Path, types: dict[str, pa.DataType]) -> csv.CSVStreamingReader:
    return csv.open_csv(
        str(path),
        read_options=csv.ReadOptions(use_threads=False),
        convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types),
    )


def _header(path: Path) -> pa.Schema:
    """Names of all columns, and what their first values look like."""
    try:
        return _open_csv(path, {}).schema
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise _csv_error(path, [], error) from None


def _csv_type(kind: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_boolean(kind) else pa.float64()


def _csv_error(path: Path, header: list[str], error: Exception) -> Exception:
    """Arrow's complaint with our names: it counts rows from 1, and the header is one."""
    text = str(error)
    bad = re.search(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", text, re.DOTALL)
    if bad:
        where = f"{bad[3]!r:.80} at row {int(bad[2]) - 2}"
        return not_numeric(str(path), header[int(bad[1])], where)
    if "Empty CSV file" in text:
        return no_rows([path])
    text = re.sub(r"Row #(\d+)", lambda row: f"row {int(row[1]) - 2}", text)
    return InputError(f"{path} cannot be read as CSV: {text:.200}")


def csv_names(path: Path) -> list[str]:
    """All columns of a file."""
    return _header(path).names

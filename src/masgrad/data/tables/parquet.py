"""Parquet files as batches of columns.

Row groups are decoded batch by batch, and not whole: a batch and a page or two of each column are
all that is in memory; of a file at a store, some megabytes that were asked for ahead. Files are
not mapped: their pages would count as memory of the process. Every file's columns are checked
before any is read.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from masgrad.cores import cores
from masgrad.data.tables.files import Unchanged, no_rows, place_in, unreadable
from masgrad.data.tables.medium import Medium, as_schema, check_columns, stored_types, without_index
from masgrad.errors import InputError
from masgrad.stores.files import AheadFile, StoreFile
from masgrad.stores.path import AnyPath, side_by_side
from masgrad.stores.row_groups import batches_of

BATCH_ROWS = 1 << 14
"""Rows per Arrow batch: what is decoded is still in a core's cache when blocks are made of it."""

BUFFER_BYTES = 1 << 16
"""Bytes of a column that are read at once; without a buffer, the column's part of a row group."""

READ_OPTIONS: dict[str, Any] = {
    "buffer_size": BUFFER_BYTES,
    "pre_buffer": False,  # it would hold the whole file
    "page_checksum_verification": True,
}

TEXT_TYPES = (pa.string(), pa.large_string())
"""Text types read as dictionary codes, in a third of the time that strings take."""


class Parquet(Medium):
    """Parquet files with the same columns.

    Args:
        paths: of the files.
        columns: the columns to read.
        groups: of one file, the row groups that are read; all by default.
    """

    def __init__(
        self, paths: Sequence[AnyPath], columns: Sequence[str], groups: Sequence[int] | None = None
    ):
        self.paths, self.where, self.files = paths, str(paths[0]), Unchanged(paths)
        footers = side_by_side(_open, paths)
        for path, footer in zip(paths, footers, strict=True):
            check_columns(str(path), columns, footer.schema_arrow.names)
        self.footers = [footer.metadata for footer in footers]
        self.schemas = [footer.schema_arrow for footer in footers]
        self.groups = [
            range(footer.num_row_groups) if groups is None else groups for footer in self.footers
        ]
        self.counts = _rows_of(self.footers, self.groups)
        self.count = sum(self.counts)
        if not self.count:
            raise no_rows(paths)
        self.types = stored_types(columns, paths, self.schemas)
        self.texts = [name for name in columns if self._is_coded(name)]

    def starting(self, row: int) -> "Parquet | None":
        """The row groups that hold this row and later ones; their rows before it are skipped."""
        if self.complete is not None:
            return None
        other, other.groups = copy.copy(self), []
        for footer, held in zip(self.footers, self.groups, strict=True):
            kept = list(held)
            while kept and row >= (rows := footer.row_group(kept[0]).num_rows):
                row, kept = row - rows, kept[1:]
            other.groups.append(kept)
        other.begin, other.count = row, sum(_rows_of(self.footers, other.groups))
        return other

    def _is_coded(self, name: str) -> bool:
        """Whether the column has the same text type in all files."""
        types = {schema.field(name).type for schema in self.schemas}
        return len(types) == 1 and self.types[name] in TEXT_TYPES

    def _read_as(self, name: str) -> pa.DataType:
        kind = self.types[name]
        return pa.dictionary(pa.int32(), kind) if name in self.texts else kind

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        self.files.check()
        schema, rows = pa.schema([(name, self._read_as(name)) for name in columns]), 0
        for number, groups in self._pieces(rng):
            for batch in self._read(number, groups, schema):
                rows += len(batch)
                yield batch
        self.files.check()
        if rows != self.count:
            raise InputError(
                f"{self.where} is damaged: {rows} rows were read, and its footer says {self.count}"
            )

    def _pieces(self, rng: np.random.Generator | None) -> Iterator[tuple[int, list[int]]]:
        """Numbers of files and of row groups: every file at once, or row groups at random."""
        groups = [(k, list(held)) for k, held in enumerate(self.groups) if held]
        if rng is None:
            yield from groups
            return
        single = [(k, [group]) for k, held in groups for group in held]
        for chosen in rng.permutation(len(single)):
            yield single[chosen]

    def _read(self, number: int, groups: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Row groups of a file."""
        path, footer = self.files.absolute[number], self.footers[number]
        try:
            with (
                self._source(number, groups, schema.names) as source,
                _open(path, source, metadata=footer, read_dictionary=self.texts) as file,
            ):
                yield from decoded(file, groups, schema)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.files.check()
            raise unreadable(f"{path} cannot be read: {error}", error) from error

    def _source(self, number: int, groups: list[int], columns: list[str]) -> Any:
        """What a file is read from, if this is not the file itself."""
        path, size = self.files.absolute[number], int(self.files.stamps[number][0])
        if isinstance(path, Path):
            return nullcontext()
        return closing(AheadFile(path, size, batches_of(self.footers[number], groups, columns)))

    def stored_place(self, row: int) -> str:
        if len(self.paths) > 1:
            return place_in(self.paths, self.counts, row)
        footer, first = self.footers[0], next(iter(self.groups[0]), 0)
        before = sum(footer.row_group(k).num_rows for k in range(first))
        return f"row {before + row} of {self.paths[0]}"


def _rows_of(footers: Sequence[Any], groups: Sequence[Sequence[int]]) -> list[int]:
    """The number of rows in these row groups of each file."""
    return [
        sum(footer.row_group(k).num_rows for k in held)
        for footer, held in zip(footers, groups, strict=True)
    ]


def decoded(
    file: parquet.ParquetFile, groups: list[int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Row groups as batches of these columns, cast where the file stores another type.

    On two cores one thread decodes while others sum, which is quicker than to share both; with more
    cores Arrow's threads decode columns side by side.
    """
    columns, many = schema.names, cores() > 2
    for batch in file.iter_batches(BATCH_ROWS, groups, columns, use_threads=many):
        yield as_schema(batch, schema)


def _open(path: AnyPath, source: Any = None, **options: Any) -> parquet.ParquetFile:
    """A file, read from itself unless its source is another."""
    if source is None:
        source = path.absolute() if isinstance(path, Path) else StoreFile(path)
    try:
        return parquet.ParquetFile(source, **READ_OPTIONS, **options)
    except (PermissionError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise unreadable(f"{path} cannot be read as Parquet: {error}", error) from error


def parquet_names(path: AnyPath) -> list[str]:
    """The columns of a file, without those that pandas stored as a data frame's index."""
    return without_index(_open(path).schema_arrow)

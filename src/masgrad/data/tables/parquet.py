"""Parquet files as batches of columns.

Arrow's dataset scanner reads ahead with threads of its own while the caller computes. Every file's
columns are checked before any is read: the scanner itself would yield nothing for a missing one.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset, fs

from masgrad.data.tables.medium import (
    Medium,
    Unchanged,
    check_columns,
    common_type,
    no_rows,
    place_in,
)
from masgrad.errors import InputError, MemoryWarning, say

BATCH_ROWS = 1 << 16
"""Rows per Arrow batch: smaller batches slow the scanner more than they save."""

LOCAL_FILES = fs.LocalFileSystem()

# pre_buffer would hold the whole file; buffered streams took a quarter less time than whole chunks.
SCAN_OPTIONS = dataset.ParquetFragmentScanOptions(
    pre_buffer=False,
    use_buffered_stream=True,
    buffer_size=1 << 18,
    page_checksum_verification=True,
)
PARQUET_FORMAT = dataset.ParquetFileFormat(default_fragment_scan_options=SCAN_OPTIONS)

TEXT_TYPES = (pa.string(), pa.large_string())
"""Text types read as dictionary codes, in a third of the time that strings take."""


class Parquet(Medium):
    """Parquet files with the same columns."""

    def __init__(self, paths: list[Path], columns: Sequence[str], memory: int):
        self.paths, self.where, self.files = paths, str(paths[0]), Unchanged(paths)
        self.fragments = [
            PARQUET_FORMAT.make_fragment(str(path.absolute()), LOCAL_FILES) for path in paths
        ]
        for path, fragment in zip(paths, self.fragments, strict=True):
            check_columns(str(path), columns, _schema(path, fragment).names)
        self.counts: list[int] = [fragment.metadata.num_rows for fragment in self.fragments]
        self.count = sum(self.counts)
        if not self.count:
            raise no_rows(paths)
        self.types = {name: self._type(name) for name in columns}
        self._check_memory(memory)
        self.texts = [name for name in columns if self._is_coded(name)]
        if self.texts:
            coded = _coded(self.texts)
            self.fragments = [coded.make_fragment(f.path, LOCAL_FILES) for f in self.fragments]

    def _type(self, name: str) -> pa.DataType:
        """The common type of a column in all files, to which Arrow casts if needed."""
        files = zip(self.paths, self.fragments, strict=True)
        types = {str(path): f.physical_schema.field(name).type for path, f in files}
        kind = common_type(name, types)
        return pa.float64() if pa.types.is_decimal(kind) else kind

    def _is_coded(self, name: str) -> bool:
        """Whether the column has the same text type in all files."""
        types = {fragment.physical_schema.field(name).type for fragment in self.fragments}
        return len(types) == 1 and self.types[name] in TEXT_TYPES

    def _read_as(self, name: str) -> pa.DataType:
        kind = self.types[name]
        return pa.dictionary(pa.int32(), kind) if name in self.texts else kind

    def _check_memory(self, memory: int) -> None:
        """Warn of large row groups: Arrow decodes them whole, and the next one ahead of time."""
        groups = [(g.num_rows, f.path) for f in self.fragments for g in f.row_groups]
        rows, path = max(groups)
        fits = memory // (16 * len(self.types))
        if rows > fits:
            say(
                MemoryWarning,
                f"{path} has a row group of {rows} rows, and reading two at a time takes more than "
                f"memory={memory}; write it with row_group_size={fits} at most, or grant more",
            )

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        self.files.check()
        schema = pa.schema([(name, self._read_as(name)) for name in columns])
        pieces = self.fragments if rng is None else self._row_groups(rng)
        table = dataset.FileSystemDataset(pieces, schema, PARQUET_FORMAT, LOCAL_FILES)
        scanner = table.scanner(batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1)
        rows = 0
        try:
            for batch in scanner.to_batches():
                rows += len(batch)
                yield batch
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.files.check()
            raise InputError(f"{self._culprit(schema)} cannot be read: {error}") from error
        self.files.check()
        if rows != self.count:
            raise InputError(
                f"{self.where} is damaged: {rows} rows were read, and its footer says {self.count}"
            )

    def _row_groups(self, rng: np.random.Generator) -> list:
        groups = [(f, g.id) for f in self.fragments for g in f.row_groups]
        order = rng.permutation(len(groups))
        return [f.subset(row_group_ids=[g]) for f, g in (groups[i] for i in order)]

    def _culprit(self, schema: pa.Schema) -> str:
        """The first file that cannot be read; the scanner's error does not name it."""
        for fragment in self.fragments:
            try:
                for _ in fragment.scanner(schema=schema, batch_readahead=1).to_batches():
                    pass
            except (pa.ArrowException, OSError):
                return fragment.path
        return "one of the files"

    def place(self, row: int) -> str:
        return place_in(self.paths, self.counts, row)


def _coded(texts: list[str]) -> dataset.ParquetFileFormat:
    """The Parquet format, with these text columns read as dictionaries."""
    options = dataset.ParquetReadOptions(dictionary_columns=texts)
    return dataset.ParquetFileFormat(
        read_options=options, default_fragment_scan_options=SCAN_OPTIONS
    )


def _schema(path: Path, fragment: Any) -> pa.Schema:
    try:
        return fragment.physical_schema
    except (PermissionError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error


def parquet_names(path: Path) -> list[str]:
    """The columns of a file, without those that pandas stored as a data frame's index."""
    schema = _schema(path, PARQUET_FORMAT.make_fragment(str(path.absolute()), LOCAL_FILES))
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name not in index]

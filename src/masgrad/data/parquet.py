"""Parquet files as batches of columns.

Arrow's dataset scanner reads ahead with threads of its own while the caller computes. Every file's
columns are checked before any is read: the scanner itself would yield nothing for a missing one.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset, fs

from masgrad.data.columns import Columns, as_columns, check_columns, no_rows, not_numeric
from masgrad.errors import InputError, MemoryWarning

BATCH = 1 << 16
"""Rows of an Arrow batch: smaller ones cost the scanner more than they save."""

LOCAL = fs.LocalFileSystem()

# pre_buffer would hold the whole file; buffered streams took a quarter less time than whole chunks.
FORMAT = dataset.ParquetFileFormat(
    default_fragment_scan_options=dataset.ParquetFragmentScanOptions(
        pre_buffer=False,
        use_buffered_stream=True,
        buffer_size=1 << 18,
        page_checksum_verification=True,
    )
)


class Parquet:
    """Batches of columns from Parquet files of one set of columns."""

    def __init__(self, paths: list[Path], columns: tuple[str, ...], memory: int):
        self.fragments = [FORMAT.make_fragment(str(path.absolute()), LOCAL) for path in paths]
        for path, fragment in zip(paths, self.fragments, strict=True):
            _check_parquet(path, fragment, columns)
        self.counts: list[int] = [fragment.metadata.num_rows for fragment in self.fragments]
        self.count = sum(self.counts)
        if not self.count:
            raise no_rows(paths)
        self.schema = pa.schema([(name, self._type(name)) for name in columns])
        self._check_memory(memory)

    def _type(self, name: str) -> pa.DataType:
        """The type that all files share, or float64, to which Arrow casts the others."""
        types = {fragment.physical_schema.field(name).type for fragment in self.fragments}
        plain = len(types) == 1 and not pa.types.is_decimal(next(iter(types)))
        return types.pop() if plain else pa.float64()

    def _check_memory(self, memory: int) -> None:
        """Arrow decodes a row group whole, and the next one while its batches are read."""
        groups = [(g.num_rows, f.path) for f in self.fragments for g in f.row_groups]
        rows, path = max(groups)
        fits = memory // (16 * len(self.schema))
        if rows > fits:
            warnings.warn(
                f"{path} has a row group of {rows} rows, and reading two at a time takes more than "
                f"memory={memory}; write it with row_group_size={fits} at most, or grant more",
                MemoryWarning,
                stacklevel=4,
            )

    def batches(self, rng: np.random.Generator | None) -> Iterator[Columns]:
        pieces = self.fragments if rng is None else self._row_groups(rng)
        rows = dataset.FileSystemDataset(pieces, self.schema, FORMAT, LOCAL)
        scanner = rows.scanner(batch_size=BATCH, batch_readahead=1, fragment_readahead=1)
        try:
            for batch in scanner.to_batches():
                yield as_columns(batch)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._culprit()} cannot be read: {error}") from error

    def _row_groups(self, rng: np.random.Generator) -> list:
        groups = [(f, g.id) for f in self.fragments for g in f.row_groups]
        order = rng.permutation(len(groups))
        return [f.subset(row_group_ids=[g]) for f, g in (groups[i] for i in order)]

    def _culprit(self) -> str:
        """The first file that fails on its own: the scanner, which reads ahead, does not say."""
        for fragment in self.fragments:
            try:
                for _ in fragment.scanner(schema=self.schema, batch_readahead=1).to_batches():
                    pass
            except (pa.ArrowException, OSError):
                return fragment.path
        return "one of the files"


def _check_parquet(path: Path, fragment: Any, columns: tuple[str, ...]) -> None:
    try:
        schema = fragment.physical_schema
    except (PermissionError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    check_columns(str(path), columns, schema.names)
    for name in columns:
        kind = schema.field(name).type
        if not (_is_plain(kind) or pa.types.is_decimal(kind)):
            raise not_numeric(str(path), name, kind)


def _is_plain(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def parquet_names(path: Path) -> list[str]:
    """All columns of a file."""
    fragment = FORMAT.make_fragment(str(path.absolute()), LOCAL)
    _check_parquet(path, fragment, ())
    return fragment.physical_schema.names

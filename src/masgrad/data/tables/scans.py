"""A pyarrow Dataset of any format, partitioning and filter, as batches of columns.

Parquet files that hold all columns are read as files are, row group by row group. Anything else
goes through Arrow's scanner, which decodes large pieces whole: columns that are keys of partitions,
filters, other formats.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

from masgrad.data.tables.files import place_in
from masgrad.data.tables.medium import Medium, check_columns, common_type
from masgrad.data.tables.parquet import READ_OPTIONS, decoded
from masgrad.errors import InputError, MemoryWarning, say

SCAN_OPTIONS: dict[str, Any] = {"batch_size": 1 << 16, "batch_readahead": 1}
"""Smaller batches slow the scanner more than they save."""

PARQUET_OPTIONS = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, **READ_OPTIONS)


class Scan(Medium):
    """A dataset read in batches; row groups can be read in a random order if it is Parquet."""

    where = "the dataset"

    def __init__(self, data: dataset.Dataset, columns: Sequence[str], memory: int):
        self.data = data
        check_columns(self.where, columns, data.schema.names)
        self.fragments = _fragments(data)
        files = [isinstance(f, dataset.ParquetFileFragment) for f in self.fragments]
        self.parquet = bool(files) and all(files)
        self.types = {name: data.schema.field(name).type for name in columns}
        self._check_fragments()
        self.count = data.count_rows() if self.parquet else None
        if self.count == 0:
            raise InputError(f"{self.where} has no rows; at least one observation is needed")
        if self.parquet and not _holds(self.fragments[0], columns):
            self._check_memory(memory)

    def _check_memory(self, memory: int) -> None:
        """Warn of large row groups: the scanner decodes them whole, and the next one ahead."""
        groups = [(g.num_rows, f.path) for f in self.fragments for g in f.row_groups]
        rows, path = max(groups)
        fits = memory // (16 * len(self.types))
        if rows > fits:
            say(
                MemoryWarning,
                f"{path} has a row group of {rows} rows, and scanning two at a time for a dataset "
                f"with keys of partitions takes more than memory={memory}; write it with "
                f"row_group_size={fits} at most, or grant more",
            )

    def _check_fragments(self) -> None:
        """Check that each column is in all files, or in none (a partition key), and of one kind."""
        files = [f for f in self.fragments if hasattr(f, "path")]
        for name in self.types:
            without = [f for f in files if name not in f.physical_schema.names]
            if 0 < len(without) < len(files):
                check_columns(without[0].path, [name], without[0].physical_schema.names)
            if not without:
                common_type(name, {f.path: f.physical_schema.field(name).type for f in files})

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, self.types[name]) for name in columns])
        try:
            for piece in self._pieces(rng, columns):
                yield from self._read(piece, schema)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.where} cannot be read: {error}") from error

    def _pieces(self, rng: np.random.Generator | None, columns: Sequence[str]) -> list:
        """Files, or row groups in a random order; the dataset itself if it must be scanned."""
        if not self.parquet:
            return [self.data]
        if rng is None:
            return self.fragments if _holds(self.fragments[0], columns) else [self.data]
        groups = [group for f in self.fragments for group in f.split_by_row_group()]
        return [groups[k] for k in rng.permutation(len(groups))]

    def _read(self, piece: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Batches of a file, of a row group, or of the dataset."""
        scanned = piece is self.data
        if not scanned and _holds(piece, schema.names):
            return _stored(piece, schema)
        more = {"fragment_readahead": 1} if scanned else {"schema": self.data.schema}
        options = SCAN_OPTIONS | more
        if self.parquet:
            options["fragment_scan_options"] = PARQUET_OPTIONS
        return piece.scanner(columns=schema.names, **options).to_batches()

    def stored_place(self, row: int) -> str:
        if not self.parquet:
            return f"row {row} of {self.where}"
        counts = [f.count_rows() for f in self.fragments]
        return place_in([f.path for f in self.fragments], counts, row)


def _holds(fragment: dataset.ParquetFileFragment, columns: Sequence[str]) -> bool:
    """Whether all columns are read from the file: keys of partitions are not, if stored as well."""
    keys = dataset.get_partition_keys(fragment.partition_expression)
    return set(columns) <= set(fragment.physical_schema.names) - set(keys)


def _stored(fragment: dataset.ParquetFileFragment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet file, or of those of its row groups that the fragment has."""
    coded = list(fragment.format.read_options.dictionary_columns)
    options = READ_OPTIONS | {"metadata": fragment.metadata, "read_dictionary": coded}
    file = parquet.ParquetFile(fragment.open(), **options)
    return decoded(file, [group.id for group in fragment.row_groups], schema)


def _fragments(data: dataset.Dataset) -> list:
    """The fragments of a dataset, such as files; [] for a filtered one, which lists none."""
    try:
        return list(data.get_fragments())
    except ValueError:
        return []

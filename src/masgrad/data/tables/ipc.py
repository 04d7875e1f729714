"""Arrow's own files (IPC, Feather) as batches of columns.

Files are mapped to memory, and columns that are not compressed are views of them: nothing is
decoded or copied. Of a file at a store, the columns that are read are. A file that was written as
one long batch is given in slices.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.tables.files import Unchanged, no_rows, place_in, unreadable
from masgrad.data.tables.medium import Medium, as_schema, check_columns, stored_types, without_index
from masgrad.stores.files import StoreFile
from masgrad.stores.path import AnyPath, side_by_side

SLICE_ROWS = 1 << 16
"""Rows of a batch that are given at once."""


class Ipc(Medium):
    """Arrow files with the same columns."""

    def __init__(self, paths: Sequence[AnyPath], columns: Sequence[str]):
        self.paths, self.where, self.files = paths, str(paths[0]), Unchanged(paths)
        self.schemas = [file.schema for file in side_by_side(_opened, paths)]
        for path, schema in zip(paths, self.schemas, strict=True):
            check_columns(str(path), columns, schema.names)
        self.types = stored_types(columns, paths, self.schemas)
        self.compressed = [self._is_compressed(k) for k in range(len(paths))]
        self.lengths = [self._lengths(k, columns[0]) for k in range(len(paths))]
        self.counts = [sum(lengths) for lengths in self.lengths]
        self.count = sum(self.counts)
        if not self.count:
            raise no_rows(paths)

    def _is_compressed(self, number: int) -> bool:
        """Whether the columns of a file's first batch are not views of the file."""
        path = self.files.absolute[number]
        if not isinstance(path, Path):
            return True
        source = pa.memory_map(str(path))
        file, held = pa.ipc.open_file(source), source.read_buffer()
        if not file.num_record_batches:
            return False
        batch, inside = self._batch(file, number, 0), range(held.address, held.address + held.size)
        buffers = [b for column in batch.columns for b in column.buffers() if b is not None]
        return any(buffer.size and buffer.address not in inside for buffer in buffers)

    def _lengths(self, number: int, column: str) -> list[int]:
        """The number of rows of each batch of a file."""
        file = self._reader(number, [column])
        return [len(self._batch(file, number, k)) for k in range(file.num_record_batches)]

    def _reader(self, number: int, columns: Sequence[str]) -> pa.RecordBatchFileReader:
        """A file; if it is compressed, only these columns of it."""
        fields = [self.schemas[number].get_field_index(name) for name in columns]
        path = self.files.absolute[number]
        return _opened(path, fields if self.compressed[number] else None)

    def _batch(
        self, file: pa.RecordBatchFileReader, number: int, k: int, columns: Sequence[str] = ()
    ) -> pa.RecordBatch:
        """A batch, or columns of it, whose text and codes were checked to lie inside it."""
        try:
            batch = file.get_batch(k)
            if columns:
                batch = batch.select(columns)
                batch.validate(full=True)
            return batch
        except (pa.ArrowException, OSError) as error:
            self.files.check()
            raise unreadable(f"{self.paths[number]} cannot be read: {error}", error) from error

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        self.files.check()
        schema = pa.schema([(name, self.types[name]) for name in columns])
        pieces = [(n, k) for n, lengths in enumerate(self.lengths) for k in range(len(lengths))]
        last, file = -1, None
        for chosen in range(len(pieces)) if rng is None else rng.permutation(len(pieces)):
            number, k = pieces[chosen]
            if file is None or number != last:
                last, file = number, self._reader(number, columns)
            batch = self._batch(file, number, k, columns)
            for start in range(0, len(batch), SLICE_ROWS):
                yield as_schema(batch.slice(start, SLICE_ROWS), schema)
        self.files.check()

    def stored_place(self, row: int) -> str:
        return place_in(self.paths, self.counts, row)


def _opened(path: AnyPath, fields: list[int] | None = None) -> pa.RecordBatchFileReader:
    """A file of which only some fields are read: that takes a copy, even of a map."""
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    try:
        return pa.ipc.open_file(_source(path), options=options)
    except (PermissionError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise unreadable(f"{path} cannot be read as an Arrow file: {error}", error) from error


def _source(path: AnyPath) -> Any:
    return pa.memory_map(str(path.absolute())) if isinstance(path, Path) else StoreFile(path)


def ipc_names(path: AnyPath) -> list[str]:
    """The columns of a file, without those that pandas stored as a data frame's index."""
    return without_index(_opened(path).schema)

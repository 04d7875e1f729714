"""What a table is opened as: the medium of whatever a user gives."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.data.left_out import LeftOut
from masgrad.data.shards.collections import is_dask_frame
from masgrad.data.stream import Stream
from masgrad.data.tables.chunks import Chunks
from masgrad.data.tables.frames import Memory
from masgrad.data.tables.ipc import Ipc
from masgrad.data.tables.medium import Medium
from masgrad.data.tables.paths import column_names, expand, is_dataset, is_paths, kind
from masgrad.data.tables.text.bad_rows import BadRows
from masgrad.data.tables.text.csv import Csv

MEMORY_BYTES = 512 * 2**20
"""Default limit on the memory used for reading, in bytes."""


@dataclass(frozen=True)
class Opening:
    """How a table is opened.

    Args:
        memory: limit on the memory used for reading, in bytes.
        left_out: which rows are left out.
        text: columns whose values may be text, such as those of categories.
        client: of the cluster that reads it; None if this process does.
    """

    memory: int = MEMORY_BYTES
    left_out: LeftOut | None = None
    text: frozenset[str] = frozenset()
    client: Any = None


USUAL = Opening()


def open_table(
    data: Any,
    columns: Sequence[str],
    opening: Opening = USUAL,
    extra: Mapping[str, np.ndarray] | None = None,
) -> Medium:
    """Open a table and check that it has the columns.

    Args:
        data: files, a dataset, a table in memory, or an iterator or `Stream` of such tables.
        columns: the columns to read.
        opening: how; rows with missing values are left out by `Medium.leave_out`.
        extra: additional columns of a table in memory, as arrays.
    """
    medium = _open(data, columns, opening, extra)
    if opening.client is not None:
        from masgrad.data.shards.shards import shards_of

        medium.shards = shards_of(medium, opening.client)
    return medium


def _open(
    data: Any, columns: Sequence[str], opening: Opening, extra: Mapping[str, np.ndarray] | None
) -> Medium:
    if is_dask_frame(data):
        from masgrad.data.shards.frames import DaskFrame

        return DaskFrame(data, columns, opening.client)
    if is_paths(data):
        paths = expand(data)
        columns = columns or column_names(paths[0])[:1]  # of an intercept alone, to count rows
        if kind(paths[0]) == "CSV":
            skips = opening.left_out is not None and opening.left_out.bad
            bad = BadRows(paths, opening.text, opening.left_out) if skips else None
            return Csv(paths, columns, bad)
        if kind(paths[0]) == "Arrow":
            return Ipc(paths, columns)
        from masgrad.data.tables.parquet import Parquet

        return Parquet(paths, columns)
    if is_dataset(data):
        from masgrad.data.tables.scans import Scan

        return Scan(data, columns or data.schema.names[:1], opening.memory)
    if isinstance(data, Stream):
        return Chunks(data.start, data.rereadable, columns)
    if isinstance(data, Iterator):
        return Chunks(lambda: data, False, columns)
    return Memory(data, columns, extra)

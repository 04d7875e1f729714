"""A data frame of Dask as a table: partitions come one by one, or are read by workers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.shards.collections import (
    FEW_PARTITIONS,
    FEW_ROWS,
    computed,
    first_rows,
    partitions_of,
)
from masgrad.data.shards.outline import Outline, TableShard, checked
from masgrad.data.tables.frames import Memory
from masgrad.data.tables.medium import Medium, check_columns
from masgrad.errors import InputError


@dataclass(frozen=True)
class FrameShard(TableShard):
    """A partition of a data frame.

    Args:
        number: of the partition.
    """

    number: int
    rows: int | None = None

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"partition {self.number}"

    def open(self, outline: Medium, data: Any) -> Medium:
        check_columns(self.name, outline.types, list(map(str, data.columns)))
        return checked(Partition(data, tuple(outline.types), self.name), outline, self.name)


class Partition(Memory):
    """A partition of a data frame, in memory.

    Args:
        data: the partition.
        columns: the columns to read.
        name: of the partition, in messages.
    """

    def __init__(self, data: Any, columns: Sequence[str], name: str):
        super().__init__(data, columns)
        self.name = name

    def place(self, row: int) -> str:
        return f"{super().place(row)} of {self.name}"


class DaskFrame(Medium):
    """A data frame of Dask.

    Args:
        data: the data frame.
        columns: the columns to read.
        client: of the cluster that computes partitions; None for Dask's default.
    """

    where = "the Dask data frame"

    def __init__(self, data: Any, columns: Sequence[str], client: Any = None):
        present = list(map(str, data.columns))
        check_columns(self.where, columns, present)
        data = data[list(columns) or present[:1]]
        self.partitions, self.client = partitions_of(data), client
        self.meta = data._meta
        self.first = self._first_with_rows()
        self.types = self.first.types

    def _first_with_rows(self) -> Memory:
        """Rows of the first partition that has some: an empty one may not know its types."""
        for partition in self.partitions:
            frame = self._computed(first_rows(partition))
            if len(frame):
                return Memory(frame, list(frame.columns))
        raise InputError(f"{self.where} has no rows; at least one observation is needed")

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """All rows; with a generator, some rows of a few partitions come first."""
        order = (
            range(len(self.partitions)) if rng is None else rng.permutation(len(self.partitions))
        )
        few = {} if rng is None else dict.fromkeys(map(int, order[:FEW_PARTITIONS]), FEW_ROWS)
        for number in few:
            yield self._batch(first_rows(self.partitions[number]), number, columns)
        for number in map(int, order):
            batch = self._batch(self.partitions[number], number, columns)
            yield batch.slice(few.get(number, 0))

    def _batch(self, partition: Any, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        shard = FrameShard(number).open(Outline(self.types, None), self._computed(partition))
        return next(iter(shard.batches(None, columns)))

    def _computed(self, partition: Any) -> Any:
        return computed(partition, self.client)

    def declared(self, name: str) -> Sequence[Any] | None:
        values = self.meta[name]
        known = getattr(getattr(values, "cat", None), "categories", ())
        unknown = "__UNKNOWN_CATEGORIES__" in map(str, known)
        return None if unknown else self.first.declared(name)

    def stored_place(self, row: int) -> str:
        for number, partition in enumerate(self.partitions):
            rows = len(self._computed(partition))
            if row < rows:
                return f"row {row} of partition {number}"
            row -= rows
        return f"row {row} after the last partition"

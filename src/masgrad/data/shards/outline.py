"""What a worker is told of a table, and what a shard is made of."""

import abc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.tables.complete import Complete
from masgrad.data.tables.medium import Medium, kind_of
from masgrad.errors import InputTypeError


class Outline(Medium):
    """A table without its rows: the columns that are read, and which rows are complete.

    Args:
        types: the Arrow type of each column, in all of the shards.
        complete: which rows are complete, if others are left out.
    """

    def __init__(self, types: dict[str, pa.DataType], complete: Complete | None):
        self.types, self.complete = types, complete

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class TableShard(abc.ABC):
    """A part of a table.

    Attributes:
        name: in messages.
        rows: their number, if known.
    """

    name: str
    rows: int | None

    @abc.abstractmethod
    def open(self, outline: Medium, data: Any) -> Medium:
        """The rows of the shard; `data` are those that were sent."""


def checked(shard: Medium, outline: Medium, name: str) -> Medium:
    """A shard whose columns are of the kinds that the others have; its complete rows alone."""
    for column, kind in outline.types.items():
        here, others = kind_of(shard.types[column]), kind_of(kind)
        empty = pa.types.is_null(shard.types[column]) or not shard.count
        if here != others and not empty:
            raise InputTypeError(
                f"column {column!r} is {here} in {name}, and {others} in others; convert it to one "
                "type"
            )
    if outline.complete is not None:
        shard.leave_out(outline.complete)
    return shard

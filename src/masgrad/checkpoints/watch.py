"""A running checksum of blocks that come from a function or an iterator.

Such blocks cannot be looked at beforehand. Work that goes on passes over those that it has done,
and they must be the ones that it had seen: the checksum of all blocks up to the last that was seen
before tells. It is a CRC of 32 bits, which takes a tenth of the time of sums over the same blocks;
it is for accidents, not for forgers.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from masgrad.checkpoints.digest import digest
from masgrad.errors import CheckpointError
from masgrad.types import is_from


class Watch:
    """The checksum of the longest sequence of blocks that was seen.

    Args:
        name: what to delete if the blocks are others, for the message.
        expected: the number of blocks that was seen before, and their checksum.
    """

    def __init__(self, name: Any, expected: tuple[int, int] = (0, 0)):
        self.name, self.expected, self.seen = name, expected, (0, 0)

    def over(self, start: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        """The same function, whose blocks are seen on their way."""
        return lambda: self.through(start())

    def through(self, blocks: Iterator[Any]) -> Iterator[Any]:
        """The same blocks, seen on their way."""
        number, total = 0, 0
        for number, block in enumerate(blocks, 1):
            total = checksum(block, total)
            if number == self.expected[0] and total != self.expected[1]:
                raise self._others()
            if number > self.seen[0]:
                self.seen = number, total
            yield block
        if number < self.expected[0]:
            raise self._others()

    def _others(self) -> CheckpointError:
        return CheckpointError(
            f"{self.name} was written after {self.expected[0]:,} blocks, and this iterator or "
            "function gives others: let it give the same ones, or delete the file to begin anew"
        )


def checksum(value: Any, total: int = 0) -> int:
    """The checksum of the arrays in a block, going on from another."""
    if isinstance(value, Mapping):
        return checksum([part for pair in value.items() for part in pair], total)
    if isinstance(value, tuple | list) and not _is_numeric(value):
        for part in value:
            total = checksum(part, total)
        return total
    if is_dataclass(value) and not isinstance(value, type):
        return checksum([getattr(value, f.name) for f in fields(value)], total)
    return _of_array(value, total)


def _of_array(value: Any, total: int) -> int:
    if is_from("pandas", value, "DataFrame", "Series"):
        import pandas as pd

        value = pd.util.hash_pandas_object(value, index=False).to_numpy()  # pyright: ignore
    elif is_from("pyarrow", value, "Table", "RecordBatch", "Array", "ChunkedArray"):
        return checksum(value.to_pandas(), total)
    elif is_from("polars", value, "DataFrame", "Series"):
        return checksum(value.to_arrow(), total)
    elif hasattr(value, "tocsr"):
        rows = value.tocsr()
        return checksum([rows.data, rows.indices, rows.indptr], total)
    array = None if value is None or isinstance(value, str) else np.asarray(value)
    if array is None or array.dtype == object:
        return zlib.crc32(digest(value).encode(), total)
    heading = f"{array.shape} {array.dtype.str}".encode()
    return zlib.crc32(np.ascontiguousarray(array).data.cast("B"), zlib.crc32(heading, total))


def _is_numeric(value: Any) -> bool:
    """Whether a list is one of numbers, such as responses."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], int | float)

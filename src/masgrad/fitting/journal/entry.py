"""Entries of a journal: what a read has given, as copies that nothing else changes."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from masgrad.checkpoints.codec import decode, encode


class Packed(NamedTuple):
    """A value as copies of its arrays, and its structure as text."""

    arrays: list[np.ndarray]
    structure: str

    @classmethod
    def of(cls, value: Any, live: Sequence[Any]) -> "Packed":
        arrays, structure = encode(value, live)
        return cls(_copies(arrays), json.dumps(structure))

    def value(self, live: Sequence[Any]) -> Any:
        """The value, which a fit may change: the copies stay as they are, to be saved again."""
        return decode(_copies(self.arrays), json.loads(self.structure), live)

    @property
    def size(self) -> int:
        return len(self.structure) + sum(a.nbytes for a in self.arrays)


class Entry(NamedTuple):
    """A read, or the first blocks of it.

    Args:
        question: what it asked.
        total: of the blocks.
        blocks: their number; None if the read is complete.
        rows: their number, of a part of a read.
        failed: whether the next block failed.
        monitor: what was seen on the way.
        learned: what was learned beside, if the rows do not tell it again.
    """

    question: str
    total: Packed
    blocks: int | None
    rows: int
    failed: bool
    monitor: Packed
    learned: Packed

    @property
    def size(self) -> int:
        return self.total.size + self.monitor.size + self.learned.size


def _copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies of the arrays in the same order of memory: products round as they did."""
    return [a.copy("K") for a in arrays]

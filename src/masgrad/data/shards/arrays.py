"""Arrays of Dask as a stream of their chunks: (X, y), or the rows of another loss.

A block of the stream is a dictionary of the chunks that stand side by side, as given.
"""

import copy
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.data.shards.collections import FEW_PARTITIONS, FEW_ROWS, computed, first_rows
from masgrad.data.source import Source
from masgrad.data.stream import Stream
from masgrad.data.views import View
from masgrad.types import Rows

Chunk = Mapping[str, Any]
"""A chunk of each array, by name."""


@dataclass(frozen=True)
class ArrayShard:
    """A chunk of each array.

    Args:
        number: of the chunks.
        rows: their number, if known.
    """

    number: int
    rows: int | None = None

    @property
    def name(self) -> str:
        return f"chunk {self.number}"


class DaskArrays(View):
    """Arrays of Dask, chunk by chunk.

    Args:
        stream: the chunks, checked one after the other.
        chunks: of the arrays side by side, as delayed objects.
        names: of the columns of X.
        count: number of rows, if known.
        client: of the cluster that computes chunks; None for Dask's default.
        shards: what its workers read.
    """

    source: Stream

    def __init__(
        self,
        stream: Stream,
        chunks: list[Any],
        names: tuple[str, ...],
        count: int | None,
        client: Any = None,
        shards: Any = None,
    ):
        super().__init__(stream)
        stream.start = lambda: (computed(chunk, client) for chunk in chunks)
        self.chunks, self.client, self.shards = chunks, client, shards
        self.names, self.count, self.where = names, count, ""

    def outline(self) -> Source:
        other = self._of_chunks(lambda: iter(()))
        other.chunks, other.client, other.shards, other.spread = [], None, None, None
        return other

    def part(self, shard: ArrayShard, data: Chunk) -> Source:
        other = self._of_chunks(lambda: iter((data,)))
        other.where = f" of {shard.name}"
        other.shards = other.spread = None
        return other

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return self.source.blocks(rng)

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        """Some rows of a few chunks come first."""
        return self._of_chunks(lambda: self._from_heads(rng)).source.blocks()

    def pieces(self) -> Iterable[Any]:
        return self.source.pieces()

    def place(self, row: int) -> str:
        return self.source.place(row) + self.where

    def _of_chunks(self, start: Callable[[], Iterator[Any]]) -> "DaskArrays":
        """The same stream of other chunks."""
        other = copy.copy(self)
        other.source = copy.copy(self.source)
        other.source.start = start
        return other

    def _from_heads(self, rng: np.random.Generator) -> Iterator[Chunk]:
        order = rng.permutation(len(self.chunks)).tolist()
        few = order[:FEW_PARTITIONS]
        for number in few:
            yield computed(first_rows(self.chunks[number]), self.client)
        for number in order:
            start = FEW_ROWS if number in few else 0
            chunk = computed(self.chunks[number], self.client)
            yield {name: part[start:] for name, part in chunk.items()}

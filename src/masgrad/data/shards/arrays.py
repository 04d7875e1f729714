"""Arrays of Dask as a stream of their chunks: (X, y), or the rows of another loss."""

import copy
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from masgrad.data.shards.collections import FEW_PARTITIONS, FEW_ROWS, computed, first_rows
from masgrad.data.source import Source, Stream
from masgrad.data.views import View
from masgrad.types import Rows

Assemble = Callable[[dict[str, Any]], Any]
"""From the chunks of some arrays, by their names, to a block of a stream."""


@dataclass(frozen=True)
class ArrayShard:
    """A chunk of each array.

    Args:
        number: of the chunks.
    """

    number: int

    @property
    def name(self) -> str:
        return f"chunk {self.number}"


class DaskArrays(View):
    """Arrays of Dask, chunk by chunk.

    Args:
        stream: the chunks, checked one after the other.
        chunks: of the arrays by their names, as delayed objects.
        assemble: a block of them.
        names: of the columns of X.
    """

    source: Stream

    def __init__(
        self,
        stream: Stream,
        chunks: list[Any],
        assemble: Assemble,
        names: tuple[str, ...],
    ):
        super().__init__(stream)
        self.chunks, self.assemble, self.names, self.where = chunks, assemble, names, ""

    @property
    def shards(self) -> list[ArrayShard]:
        return [ArrayShard(number) for number in range(len(self.chunks))]

    def outline(self) -> Source:
        other = self._over(lambda: iter(()))
        other.chunks, other.spread = [], None
        return other

    def part(self, shard: ArrayShard, data: dict[str, Any]) -> Source:
        other = self._over(partial(_one, self.assemble, data))
        other.where = f" of {shard.name}"
        return other

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return self.source.blocks(rng)

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        """Some rows of a few chunks come first."""
        return self._over(partial(self._from_heads, rng)).source.blocks()

    def pieces(self) -> Iterable[Any]:
        return self.source.pieces()

    def place(self, row: int) -> str:
        return self.source.place(row) + self.where

    def _over(self, start: Callable[[], Iterator[Any]]) -> "DaskArrays":
        """The same stream of other chunks."""
        other = copy.copy(self)
        other.source = copy.copy(self.source)
        other.source.start = start
        return other

    def _from_heads(self, rng: np.random.Generator) -> Iterator[Any]:
        order = rng.permutation(len(self.chunks)).tolist()
        few = order[:FEW_PARTITIONS]
        for number in few:
            yield self.assemble(computed(first_rows(self.chunks[number])))
        for number in order:
            start = FEW_ROWS if number in few else 0
            chunk = computed(self.chunks[number])
            yield self.assemble({name: part[start:] for name, part in chunk.items()})


def chunk_by_chunk(chunks: list[Any], assemble: Assemble) -> Callable[[], Iterator[Any]]:
    """A function that starts a stream of the chunks."""
    return lambda: (assemble(computed(chunk)) for chunk in chunks)


def _one(assemble: Assemble, chunk: dict[str, Any]) -> Iterator[Any]:
    yield assemble(chunk)

"""Other views of a source's rows."""

import copy
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any

import numpy as np

from masgrad.data.arrays import joined, pick
from masgrad.data.source import Arrays, Source
from masgrad.types import Rows


class View(Source):
    """The rows of another source, seen in another way.

    Args:
        source: the rows.
    """

    def __init__(self, source: Source):
        self.source = source
        self.rereadable, self.ordered = source.rereadable, source.ordered
        self.count, self.names, self.groupings = source.count, source.names, source.groupings
        self.shards, self.spread = source.shards, source.spread

    def outline(self) -> Source:
        return self._of(self.source.outline())

    def part(self, shard: Any, data: Any) -> Source:
        return self._of(self.source.part(shard, data))

    def _of(self, source: Source) -> Source:
        """The same view of another source."""
        other = copy.copy(self)
        other.source, other.shards, other.spread = source, None, None
        return other

    def place(self, row: int) -> str:
        return self.source.place(row)


class Together(View):
    """The rows of a source in longer blocks: sums by group cost less in blocks as long as groups
    are many.

    Args:
        source: the rows.
        many: its blocks that make one.

    Example:
        >>> source = Arrays((np.zeros((5, 1)), np.arange(5.0)), block=2)
        >>> [len(y) for _, y in Together(source, 2).blocks()]
        [4, 1]
    """

    def __init__(self, source: Source, many: int):
        super().__init__(source)
        self.many = many

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        assert rng is None
        for piece in self.pieces():
            rows = self.made(piece)
            if rows is not None:
                yield rows

    def pieces(self) -> Iterable[Any]:
        if isinstance(self.source, Arrays):
            yield from self.source.starts[:: self.many]
            return
        pieces = iter(self.source.pieces())
        while some := list(islice(pieces, self.many)):
            yield some

    def made(self, piece: Any) -> Rows | None:
        if isinstance(self.source, Arrays):
            return self.source.at(piece, self.many)
        rows = [block for block in map(self.source.made, piece) if block is not None]
        if len(rows) < 2:
            return rows[0] if rows else None
        return pick(lambda *parts: joined(parts), *rows)

"""Pieces of the rows of a single read, each of which can be summed more than once.

Those of an array stay where they are; those of a stream are held in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.source import Arrays
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.single.pools import ArrayRows, HeldRows
from masgrad.fitting.sources import Sample, size_in_bytes
from masgrad.types import Rows

PARTS = Parts(constants=True)


@dataclass(frozen=True)
class Piece:
    """The rows of a segment, which can be summed more than once.

    Args:
        read: the local model of the rows at a point.
        first_rows: that many of the rows, or all of them, as blocks.
        blocks: all of the rows.
    """

    read: Callable[[np.ndarray], LocalModel]
    first_rows: Callable[[int | None], HeldRows | ArrayRows]
    blocks: Callable[[], Iterable[Rows]]


Pieces = Callable[[int], Piece | None]
"""From a number of rows to the next piece of about that length; None at the end."""


def pieces(objective: Objective, reader: Reader, sample: Sample, memory: int) -> Pieces:
    """Pieces of what remains after the pilot rows; of a stream, none takes more memory."""
    remaining = sample.remaining
    if isinstance(remaining, np.ndarray):
        return pieces_of_array(objective, reader, remaining)
    assert remaining is not None
    return pieces_of_blocks(objective, reader, remaining, memory)


def pieces_of_array(objective: Objective, reader: Reader, starts: np.ndarray) -> Pieces:
    """Pieces of the blocks of an array that begin at these rows."""
    source, begin = reader.source, 0
    assert isinstance(source, Arrays)

    def next_piece(rows: int) -> Piece | None:
        nonlocal begin
        end = begin + max(1, round(rows / source.block))
        part, begin = starts[begin:end], end
        if not len(part):
            return None

        def read(phi: np.ndarray) -> LocalModel:
            return reader.read_slices(objective, phi, part, PARTS)

        def first_rows(count: int | None) -> ArrayRows:
            every = ArrayRows(source, part)
            return ArrayRows(source, part[: _blocks_of(every.ends, count)])

        return Piece(read, first_rows, lambda: source.slices(part))

    return next_piece


def pieces_of_blocks(
    objective: Objective, reader: Reader, blocks: Iterator[Rows], memory: int
) -> Pieces:
    """Pieces of blocks as they come; those of one piece are held in memory."""

    def next_piece(rows: int) -> Piece | None:
        first = next(blocks, None)
        if first is None:
            return None
        held = Held(first, blocks, rows, memory)

        def read(phi: np.ndarray) -> LocalModel:
            return reader.read_blocks(objective, phi, held, rows, PARTS)

        def first_rows(count: int | None) -> HeldRows:
            every = HeldRows(tuple(held if count is None else held.blocks))
            return HeldRows(every.blocks[: _blocks_of(every.ends, count)])

        return Piece(read, first_rows, lambda: held.blocks)

    return next_piece


def _blocks_of(ends: Sequence[int] | np.ndarray, count: int | None) -> int | None:
    """The number of blocks with the first `count` rows: a read may have been interrupted."""
    return None if count is None else int(np.searchsorted(ends, count, side="right"))


class Held:
    """Blocks that come once, until they have enough rows or take enough memory; they are kept."""

    def __init__(self, first: Rows, more: Iterator[Rows], rows: int, memory: int):
        self.blocks, self.more = [first], more
        self.rows = rows - count_rows(first)
        self.memory = memory - size_in_bytes(first)

    def __iter__(self) -> Iterator[Rows]:
        yield from self.blocks
        while self.rows > 0 and self.memory > 0:
            block = next(self.more, None)
            if block is None:
                return
            self.blocks.append(block)
            self.rows -= count_rows(block)
            self.memory -= size_in_bytes(block)
            yield block

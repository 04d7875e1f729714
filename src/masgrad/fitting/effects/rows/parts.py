"""Reads of rows in long parts, of which sums by level cost least."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from masgrad.data.arrays import BLOCK
from masgrad.data.source import Arrays, Source
from masgrad.fitting.effects.part import PART_BYTES, PART_ROWS
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition, Cut, Pieces
from masgrad.fitting.sources import join
from masgrad.types import Rows

Done = TypeVar("Done")


def gathered_parts(
    reader: Reader, work: Callable[[Rows], Done], take: Callable[[Any, Done], None], state: Any
) -> Any:
    """The state, once it has taken the results of `work` on parts of all rows, in order."""
    return reader.gathered(work, take, state, cut=LONG_PARTS)


def total_of_parts(reader: Reader, work: Callable[[Rows], Any], addition: Addition) -> Any:
    """The results of `work` on parts of all rows, added in their order."""
    return reader.total(work, addition, cut=LONG_PARTS)


def _long_parts(source: Source) -> Pieces:
    return _parts_of(source, _rows_of_parts(source))


LONG_PARTS = Cut(_long_parts)
"""Parts of as many rows as there are levels, if these are very many and memory allows."""


def _rows_of_parts(source: Source) -> int:
    levels = max((grouping.size for grouping in source.groupings), default=0)
    return max(PART_ROWS, min(levels, PART_BYTES // (8 * (len(source.names) + 2))))


def _parts_of(source: Source, rows: int) -> Pieces:
    """Pieces of a source, and what makes a part of about so many rows of each."""
    if isinstance(source, Arrays):
        many = -(-rows // source.block)
        return source.starts[::many], partial(source.at, together=many)
    many = -(-rows // getattr(source, "block", BLOCK))

    def made(pieces: list[Any]) -> Rows | None:
        blocks = [block for piece in pieces if (block := source.made(piece)) is not None]
        return join(blocks) if blocks else None

    return _batches(source.pieces(), many), made


def _batches(pieces: Iterable[Any], many: int) -> Iterator[list[Any]]:
    each = iter(pieces)
    while batch := list(islice(each, many)):
        yield batch

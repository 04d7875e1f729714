"""Totals over rows: how rows are cut into pieces, and how what each piece gives is added.

Additions are associative up to rounding, so that shards of the rows can be added on their own, and
their totals joined in the order of the shards.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from masgrad.checkpoints.pieces import pieces_after
from masgrad.data.arrays import count_rows, leaves
from masgrad.data.regression import observations, offset_of, total_weight, weight_of
from masgrad.data.source import Arrays, Source
from masgrad.fitting.objective.objective import Objective, Parts, response_range
from masgrad.models.gram import left_product
from masgrad.models.model import RowSums, add
from masgrad.types import Rows

MARK = 1265 / 2048
"""The value from which responses are measured in marks: no usual one, and exact in binary, so that
sums over whole numbers are exact in any order."""

Pieces = tuple[Iterable[Any], Callable[[Any], Rows | None]]
"""Pieces of a source, and what makes rows of each, in any thread."""


class Cut(NamedTuple):
    """How a source is cut into pieces.

    Args:
        pieces: of a source.
        is_local: whether the pieces are rows of this process, and not of the source.
    """

    pieces: Callable[[Source], Pieces]
    is_local: bool = False


def _blocks(source: Source) -> Pieces:
    return source.pieces(), source.made


def _long_blocks(source: Source) -> Pieces:
    if isinstance(source, Arrays):
        many = source.together
        return source.starts[::many], partial(source.at, together=many)
    return _blocks(source)


ALL_BLOCKS = Cut(_blocks)
"""The blocks of a source as they are."""

LONG_BLOCKS = Cut(_long_blocks)
"""As many blocks together as are best summed as one."""


def these(pieces: Iterable[Any], make: Callable[[Any], Rows | None] = lambda rows: rows) -> Cut:
    """The cut into some blocks, whatever the source."""
    return Cut(lambda _: (pieces, make), is_local=True)


def after(cut: Cut, done: int) -> Cut:
    """The pieces of a cut without the first ones, which are done."""
    if not done:
        return cut

    def pieces_of(source: Source) -> Pieces:
        pieces, make = cut.pieces(source)
        return pieces_after(pieces, done), make

    return cut._replace(pieces=pieces_of)


def skip_local(cut: Cut, source: Source) -> None:
    """Let rows of this process pass that are not needed: some come once, and are kept by others."""
    if cut.is_local:
        for _ in cut.pieces(source)[0]:
            pass


class Numbered(NamedTuple):
    """Rows of a piece, and the number of the first of them among all rows."""

    rows: Rows
    begin: int


def length_of(piece: Rows | Numbered) -> int:
    """The number of rows of a piece."""
    return count_rows(piece.rows if isinstance(piece, Numbered) else piece)


def numbered(cut: Cut) -> Cut:
    """The same pieces, whose rows come with the number of the first."""

    def pieces_of(source: Source) -> Pieces:
        pieces, make = cut.pieces(source)
        begin = 0 if cut.is_local else source.begin

        def made(piece: tuple[int, Any]) -> Numbered | None:
            rows = make(piece[1])
            return None if rows is None else Numbered(rows, piece[0])

        return _with_begins(pieces, begin), made

    return cut._replace(pieces=pieces_of)


def _with_begins(pieces: Iterable[Any], begin: int) -> Iterator[tuple[int, Any]]:
    """Pieces after the number of their first row: they are blocks, or tell where they begin."""
    seen = 0
    for piece in pieces:
        told = piece[0] if isinstance(piece, tuple) else piece
        if isinstance(told, int):
            yield begin + told, piece
        else:
            yield begin + seen, piece
            seen += count_rows(piece)


class Addition(NamedTuple):
    """How parts are added.

    Args:
        add: a part to a total, which may change.
        begin: a total of no rows; None if the first part is the first total.
        join: two totals, as `add` does if None.
        pack: a total, to be joined by another process, if that needs more than the total.
    """

    add: Callable[[Any, Any], Any]
    begin: Callable[[], Any] | None = None
    join: Callable[[Any, Any], Any] | None = None
    pack: Callable[[Any], Any] | None = None

    def plus(self, total: Any, part: Any) -> Any:
        """The total with another part; None is the total of no rows."""
        if total is None and self.begin is None:
            return part
        return self.add(self.begin() if total is None else total, part)  # pyright: ignore

    def joined(self, total: Any, later: Any) -> Any:
        """The total of rows and of those that follow, which another process has added."""
        if later is None or (total is None and self.pack is None):
            return later if total is None else total
        if total is None and self.begin is not None:
            total = self.begin()
        return (self.join or self.add)(total, later)


class BlockSums(NamedTuple):
    """Sums over blocks at one point.

    Args:
        rows: their number.
        weight: of the rows.
        sums: before they are transformed to phi.
        constants: sums without theta (`constants_of`).
        range: of the responses; None without a linear predictor.
    """

    rows: int
    weight: float
    sums: RowSums
    constants: np.ndarray
    range: tuple[float, float] | None

    def plus(self, other: "BlockSums") -> "BlockSums":
        """The sums over the rows of both."""
        span = None
        if self.range is not None and other.range is not None:
            span = min(self.range[0], other.range[0]), max(self.range[1], other.range[1])
        return BlockSums(
            self.rows + other.rows,
            self.weight + other.weight,
            add(self.sums, other.sums),
            self.constants + other.constants,
            span,
        )


def constants_of(objective: Objective, rows: Rows) -> np.ndarray:
    """Sums over rows without theta: terms of the likelihood, (2,), and marks, (1 + p,)."""
    return np.concatenate([objective.constants(rows), _marks(rows, objective.linear)])


def _marks(rows: Rows, linear: bool) -> np.ndarray:
    """Sums by which the same rows are known again, whatever point, blocks and engine they have.

    Of a linear predictor these are sums of w and w x, in the units of theta, where w is
    a ((y - c)^2 + offset^2); of other losses that of a (sum over j of (z_j - c) / j)^2 alone, where
    z are all numbers of a row.
    """
    a = weight_of(rows)
    with np.errstate(all="ignore"):
        if not linear:
            n = count_rows(rows)
            each = [np.asarray(z, np.float64).reshape(n, -1) for z in leaves(observations(rows))]
            z = np.hstack(each)
            w = np.square((z - MARK) @ (1 / np.arange(1.0, z.shape[1] + 1)))
            return np.array([w.sum() if a is None else a @ w])
        w, offset = np.square(rows[1] - MARK), offset_of(rows)
        w = w if offset is None else w + np.square(offset)
        w = w if a is None else a * w
        return np.append(w.sum(), left_product(w, rows[0]))


def summer(objective: Objective, phi: np.ndarray, parts: Parts) -> Callable[[Rows], BlockSums]:
    """What sums over a block at phi."""
    sums_over = objective.block_summer(phi, parts)

    def work(rows: Rows) -> BlockSums:
        known = constants_of(objective, rows) if parts.constants else np.zeros(2)
        span = response_range(rows) if objective.linear else None
        return BlockSums(count_rows(rows), total_weight(rows), sums_over(rows), known, span)

    return work

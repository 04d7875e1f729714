"""Where rows come from, block by block, in bounded memory: what `fit` reads.

A source yields blocks of about BLOCK rows, in order or, with a generator, in a random order that is
as good as the medium allows: chunks from all over an array, row groups and a shuffle buffer for a
file. Values are checked by whoever sums over them: a number that is not finite shows in the sums,
and only then is looked for.
"""

import abc
import copy
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np

from masgrad.cores import prefetch
from masgrad.data.arrays import BLOCK, MOST_ROWS, count_rows, pick
from masgrad.data.designs.sparse_rows import SparseRows
from masgrad.data.designs.structured import Structured
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.regression import groups_of
from masgrad.types import Rows

CHUNK_ROWS = 1024
"""Consecutive rows of an array that stay together when it is read in a random order."""

FEWEST_SUMS = 8
"""Number of sums that a read of sparse rows is made of at least."""


class Source(abc.ABC):
    """Blocks of rows.

    Attributes:
        rereadable: whether the rows can be read again.
        count: number of rows, if known in advance.
        names: names of the parameters, which are the columns of X in a regression, or ().
        ordered: whether rows come in the order of storage, so that a drift deserves a warning.
        compact: whether X is coded or sparse, so that many rows take little room.
        groupings: of the rows, one for each column of their codes; of a stream they are known once
            its first block is read.
        begin: the number of its first row, if it is a shard of others.
        shards: what workers of a cluster read of it; None if this process reads it all.
        spread: what sums over the rows where they are, shard by shard; None if this process does.
    """

    rereadable: bool = True
    count: int | None = None
    names: tuple[str, ...] = ()
    ordered: bool = False
    compact: bool = False
    groupings: Sequence[Grouping] = ()
    begin: int = 0
    shards: Any = None
    spread: Any = None

    @abc.abstractmethod
    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        """Yield every row once, in float64 blocks; in a random order if `rng` is given."""

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        """Blocks for a sample: the caller reads only the first few."""
        return self.blocks()

    def pieces(self) -> Iterable[Any]:
        """What the blocks of `blocks()` are made of, by `made`, which any thread may call."""
        return self.blocks()

    def made(self, piece: Any) -> Rows | None:
        """The block of a piece; None if it holds no rows of positive weight."""
        return piece

    def place(self, row: int) -> str:
        """The name of a row in messages, numbered from 0 in the order of `blocks()`."""
        return f"row {row}"

    def watch(self, watch: Any) -> None:
        """Have a `Watch` see the blocks of a function or an iterator, if they come from one."""
        del watch

    def state(self) -> Any:
        """What reads have told of the medium, for `restore`; None if they tell nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Know what was known when the state was taken."""
        assert state is None

    def outline(self) -> "Source":
        """The source without its rows: what a worker is told of it."""
        raise NotImplementedError

    def part(self, shard: Any, data: Any) -> "Source":
        """The rows of a shard, seen as an outline says; `data` are those that were sent."""
        raise NotImplementedError

    def beginning_at(self, begin: int) -> "Source":
        """The same rows, numbered from here on."""
        other = copy.copy(self)
        other.begin = begin
        return other

    def read_by(self, spread: Any) -> "Source":
        """The same rows, summed where they are."""
        other = copy.copy(self)
        other.spread = spread
        return other

    def named(self, names: tuple[str, ...]) -> "Source":
        """The same rows for a loss whose parameters have names of their own."""
        if names == self.names:
            return self
        other = copy.copy(self)
        other.names = names
        return other


class Arrays(Source):
    """Rows in memory or memory-mapped; only the current block is copied.

    Args:
        rows: a pytree of arrays.
        names: names of the columns of X.
        block: rows per block.
        real: whether integers are converted to floats.
        kept: the row numbers in the user's data, if some rows were dropped.
        groupings: of the rows.
    """

    def __init__(
        self,
        rows: Rows,
        names: tuple[str, ...] = (),
        block: int = BLOCK,
        real: bool = True,
        kept: np.ndarray | None = None,
        groupings: Sequence[Grouping] = (),
    ):
        self.rows, self.names, self.block, self.real = rows, names, block, real
        self.groupings = groupings
        self.kept, first = kept, rows[0] if isinstance(rows, tuple) else None
        self.compact = isinstance(first, SparseRows) and first.thin
        self.count: int = count_rows(rows)  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def has_rare_entries(self) -> bool:
        """Whether the usual number of pilot rows may have a few entries alone in a column."""
        first = self.rows[0] if isinstance(self.rows, tuple) else None
        return self.compact and (not isinstance(first, SparseRows) or first.very_thin)

    def outline(self) -> "Arrays":
        other = copy.copy(self)
        other.rows = other.kept = other.spread = None
        return other

    def part(self, shard: Any, data: Any) -> "Arrays":
        other = copy.copy(self)
        other.rows, other.count = data, count_rows(data)
        return other

    def place(self, row: int) -> str:
        return f"row {row if self.kept is None else int(self.kept[row])}"

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        if rng is None:
            return self.slices(self.starts)
        many = self.count > 16 * self.block
        return prefetch(self._shuffled(rng)) if many else self._shuffled(rng)

    def pieces(self) -> Iterable[int]:
        return self.starts

    def made(self, piece: int) -> Rows:
        return self.at(piece)

    def slices(self, starts) -> Generator[Rows]:
        """The blocks that start at these rows."""
        return (self.at(start) for start in starts)

    def at(self, start: int, together: int = 1) -> Rows:
        """The block that starts at this row, or so many blocks."""
        return self._tree(lambda a: a[start : start + together * self.block])

    @property
    def starts(self) -> range:
        """The first row of each block."""
        return range(0, self.count, self.block)

    @property
    def together(self) -> int:
        """Blocks that are best summed as one: of sparse rows p^2 products cost as much for a few.

        Several sums remain, so that the order of rows can be judged.
        """
        if not self.compact:
            return 1
        return max(1, min(MOST_ROWS // self.block, len(self.starts) // FEWEST_SUMS))

    @property
    def chunk(self) -> int:
        """Consecutive rows kept together in a random order; a block has several such chunks."""
        return min(CHUNK_ROWS, max(1, self.block // 4)) if self.count > self.block else 1

    def _shuffled(self, rng: np.random.Generator) -> Generator[Rows]:
        chunk = self.chunk
        chunks = rng.permutation(-(-self.count // chunk))
        many = max(1, self.block // chunk)
        for start in range(0, len(chunks), many):
            which = chunks[start : start + many]
            index = (which[:, None] * chunk + np.arange(chunk)).ravel()
            yield self.take(index[index < self.count])

    def take(self, index: np.ndarray) -> Rows:
        return self._tree(lambda a: np.take(a, index, axis=0))

    def _tree(self, part: Callable[[np.ndarray], np.ndarray]) -> Rows:
        codes = groups_of(self.rows)
        if codes is None:
            return pick(lambda a: as_float(part(a), self.real), self.rows)
        bare = pick(lambda a: as_float(part(a), self.real), self.rows._replace(groups=None))
        return bare._replace(groups=part(codes))

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """`size` rows drawn at random without replacement; all rows in order if there are fewer."""
        if size >= self.count:
            return self._tree(lambda a: a[:])
        return self.take(rng.choice(self.count, size, replace=False))


def as_float(a: np.ndarray, real: bool = True) -> np.ndarray:
    """Convert to float64; integers, which may be indices, only if `real`."""
    if isinstance(a, Structured):
        return a
    return np.asarray(a, np.float64) if real or a.dtype.kind == "f" else a


def shuffle(blocks: Iterable[Rows], size: int, rng: np.random.Generator) -> Generator[Rows]:
    """Shuffle blocks through a buffer of at most `size` blocks."""
    held = []
    for block in blocks:
        if len(held) < size:
            held.append(block)
        else:
            chosen = int(rng.integers(size))
            out, held[chosen] = held[chosen], block
            yield out
    for chosen in rng.permutation(len(held)):
        yield held[chosen]

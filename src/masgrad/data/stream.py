"""Streams: blocks of rows that a function starts anew, or that come once."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from masgrad.cores import prefetch
from masgrad.data.arrays import BLOCK, count_rows
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.left_out import LeftOut, Tally
from masgrad.data.regression import Regression, Weighted
from masgrad.data.source import Arrays, Source
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows


class Block(NamedTuple):
    """One block of the rows of a stream.

    Args:
        X: the design (n, p); for other losses than regressions the rows themselves.
        y: responses, (n,); None for other losses.
        weights: (n,).
        offset: a known part of the linear predictor, (n,).
        clusters: the key of each row's cluster, (n,); several arrays in a list, or by name in a
            dictionary, for several groupings.
        time: the time of each row, (n,).
        unit: the unit of a panel to which each row belongs, (n,).

    Example:
        >>> import numpy as np, masgrad as mg
        >>> def blocks():
        ...     rng = np.random.default_rng(0)
        ...     for k in range(20):
        ...         X, firm = rng.normal(size=(500, 2)), rng.integers(100, size=500)
        ...         y = X @ [1.0, 2.0] + np.sin(firm) + rng.normal(size=500)
        ...         yield mg.Block(X, y, clusters=firm)
        >>> r = mg.fit(mg.Linear(), mg.Stream(blocks))
        >>> r.cov_type, r.df
        ('CR1', 99)
    """

    X: Any
    y: Any = None
    weights: Any = None
    offset: Any = None
    clusters: Any = None
    time: Any = None
    unit: Any = None

    @property
    def data(self) -> Any:
        """(X, y), or the rows of another loss."""
        return self.X if self.y is None else (self.X, self.y)

    @property
    def groups(self) -> dict[str, Any]:
        """What rows are grouped by, by role."""
        return {"clusters": self.clusters, "unit": self.unit, "time": self.time}


class Stream(Source):
    """Blocks from a function that returns a new iterator at every call, so that they can be reread.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> def blocks():
        ...     rng = np.random.default_rng(0)
        ...     for _ in range(10):
        ...         X = rng.normal(size=(500, 2))
        ...         yield X, X @ [1.0, 2.0] + rng.normal(size=500)
        >>> mg.fit(mg.Linear(), mg.Stream(blocks)).params.round(1)
        array([1., 2.])
    """

    ordered = True

    def __init__(
        self,
        start: Callable[[], Iterator[Rows]],
        rereadable: bool = True,
        block: int = BLOCK,
        *,
        check: Callable[[Rows, Tally], Rows | None] = lambda rows, tally: rows,
        real: bool = True,
        groupings: Sequence[Grouping] = (),
        left_out: LeftOut | None = None,
    ):
        if not callable(start):
            raise InputTypeError(
                f"Stream needs a function that returns an iterator of blocks, got {start!r:.80}"
            )
        self.start, self.rereadable, self.block = start, rereadable, block
        self.check, self.real, self.dropped = check, real, False
        self.groupings, self.left_out = groupings, left_out

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return prefetch(self._blocks())

    def _blocks(self) -> Generator[Rows]:
        if self.left_out is None:
            yield from self._checked(Tally())
            return
        with self.left_out.read() as tally:
            yield from self._checked(tally)

    def _checked(self, tally: Tally) -> Generator[Rows]:
        row = 0
        for block in self.start():
            if is_empty(block):
                continue
            try:
                rows = self.check(block, tally)
            except (InputError, InputTypeError) as error:
                raise type(error)(f"block that begins at row {row}: {error}") from None
            if rows is not None:
                yield from Arrays(rows, block=self.block, real=self.real).blocks()
            given = _length(block, rows) if self.left_out is None else tally.given - row
            kept = 0 if rows is None else count_rows(rows)
            row, self.dropped = row + given, self.dropped or given > kept

    def watch(self, watch: Any) -> None:
        self.start = watch.over(self.start)

    def state(self) -> Any:
        return self.dropped

    def restore(self, state: Any) -> None:
        self.dropped = state

    def place(self, row: int) -> str:
        others = "of weight 0" if self.left_out is None else "that were left out"
        return f"row {row}" + f" (rows {others} not counted)" * self.dropped


def is_empty(block: Any) -> bool:
    """Whether all arrays of a block have zero rows."""
    heights = list(_heights(tuple(block) if isinstance(block, list) else block))
    return bool(heights) and not any(heights)


def _heights(part: Any) -> Iterator[int]:
    """The number of rows of each array or list; 1 for a scalar."""
    if isinstance(part, tuple | Mapping):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from _heights(inner)
    elif part is not None:
        yield len(part) if isinstance(part, list) else (*np.shape(part), 1)[0]


def _length(block: Any, rows: Rows | None) -> int:
    """The number of rows of a block as given, including rows of weight 0."""
    if rows is None or isinstance(rows, Weighted) or isinstance(block, Mapping):
        return next(_heights(block))
    return len(block[1]) if isinstance(rows, Regression) else count_rows(rows)

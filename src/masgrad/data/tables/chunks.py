"""An iterator of data frames, such as `pd.read_csv(path, chunksize=...)`, as one table.

Types are those of the first frame. Categories must be declared by its types: levels that the first
frame happens to hold need not be all, and the others cannot be looked at beforehand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.groupings.keys import Keys
from masgrad.data.tables.complete import Complete
from masgrad.data.tables.frames import Memory, as_frame
from masgrad.data.tables.levels import Coder, Found, check_levels
from masgrad.data.tables.medium import Columns, Medium, kind_of
from masgrad.errors import InputError, InputTypeError


class Chunks(Medium):
    """Data frames one after another.

    Args:
        start: a function that returns the iterator.
        rereadable: whether it may be called again.
        columns: the columns to read.
    """

    where = "the first data frame"

    def __init__(
        self, start: Callable[[], Iterator[Any]], rereadable: bool, columns: Sequence[str]
    ):
        self.start, self.rereadable, self.needed = start, rereadable, columns
        frames = _with_rows(start())
        first = next(frames, None)
        if first is None:
            raise InputError("the iterator holds no data frame with rows; at least one is needed")
        self.first = Memory(first, columns)
        self.types = self.first.types
        self.rest = None if rereadable else chain([first], frames)
        self.weight: str | None = None
        self.missing = False

    def watch(self, watch: Any) -> None:
        self.start = watch.over(self.start)
        self.rest = None if self.rest is None else watch.through(self.rest)

    def state(self) -> Any:
        return self.weight

    def restore(self, state: Any) -> None:
        self.weight = state

    def find(self, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """The declared levels, each reported at row 0."""
        self.weight = weight
        for name in names:
            if self.declared(name) is None:
                raise InputError(
                    f"column {name!r} is a category, and an iterator of data frames cannot be "
                    "searched for its levels; declare them: "
                    f"frame[{name!r}].astype(pd.CategoricalDtype([...])), or give files"
                )
        levels = {name: self.declared(name) or () for name in names}
        return {n: Found(dict.fromkeys(held, 0), rows=2 * len(held)) for n, held in levels.items()}

    def check(self, levels: Mapping[str, Sequence[Any]], weight: str | None, missing: bool) -> None:
        """Defer the check: each frame is checked when it is read."""
        self.weight, self.missing = weight, missing

    def declared(self, name: str) -> Sequence[Any] | None:
        return self.first.declared(name)

    def frames(self) -> Iterator[tuple[int, Memory]]:
        """Each frame with the number of its first row, without rows that are not complete."""
        if self.complete is None:
            yield from self._frames()
            return
        with self.complete.left_out.read() as tally:
            for row, chunk in self._frames():
                chunk.keep(self.complete, tally)
                if chunk.count:
                    yield row, chunk

    def _frames(self) -> Iterator[tuple[int, Memory]]:
        row = 0
        for frame in _with_rows(self.start()) if self.rest is None else self.rest:
            chunk = Memory(frame, self.needed)
            self._check_types(chunk, row)
            rows = chunk.count
            yield row, chunk
            row += rows

    def stored_row(self, row: int, complete: Complete) -> int:
        for start, chunk in self.frames():
            if row < chunk.count:
                return start + chunk.stored(row)
            row -= chunk.count
        return row

    def _check_types(self, chunk: Memory, row: int) -> None:
        for name, kind in chunk.types.items():
            here, first = kind_of(kind), kind_of(self.types[name])
            if here != first:
                raise InputTypeError(
                    f"column {name!r} is {first} in the first data frame and {here} in the one "
                    f"that begins at row {row}; convert it to one type"
                )

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        for _, chunk in self.frames():
            yield from chunk.batches(None, columns)

    def blocks(
        self,
        rng: np.random.Generator | None,
        size: int,
        numbers: Sequence[str],
        lookups: Mapping[str, Coder],
    ) -> Iterator[Columns]:
        known = {name: coder for name, coder in lookups.items() if not isinstance(coder, Keys)}
        levels = {name: tuple(lookup) for name, lookup in known.items()}
        for row, chunk in self.frames():
            found = chunk.find(tuple(levels), self.weight)
            check_levels(found, levels, partial(_place_in, chunk, row), self.missing)
            yield from chunk.blocks(None, size, numbers, lookups)


def _place_in(chunk: Memory, start: int, row: int) -> str:
    """The name of a row of a frame that begins at another one."""
    return f"row {start + chunk.stored(row)}"


def _with_rows(frames: Iterator[Any]) -> Iterator[Any]:
    """The frames that are not empty; a filter may leave empty ones."""
    return (frame for frame in frames if len(as_frame(frame)))

"""Columns of a table on their way to blocks: from Arrow to NumPy, cut to size, shuffled."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows

Columns = Mapping[str, np.ndarray]


def as_columns(batch: pa.RecordBatch) -> Columns:
    """NumPy views of Arrow's columns; copies where there are nulls, which become NaN, and bools."""
    return {name: _as_numpy(batch.column(name)) for name in batch.schema.names}


def _as_numpy(column: pa.Array) -> np.ndarray:
    column = column.cast(pa.float64()) if pa.types.is_boolean(column.type) else column
    return column.to_numpy(zero_copy_only=False)


def cut(batches: Iterable[Columns], size: int) -> Iterator[Columns]:
    """The same rows, `size` at a time: blocks do not depend on how the file was written."""
    held: list[Columns] = []
    lacking = size
    for batch in batches:
        start, length = 0, len(next(iter(batch.values())))
        while length - start >= lacking:
            yield _join([*held, _slice(batch, start, start + lacking)])
            start, held, lacking = start + lacking, [], size
        if start < length:
            held.append(_slice(batch, start, length))
            lacking -= length - start
    if held:
        yield _join(held)


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column[start:stop] for name, column in columns.items()}


def _join(pieces: list[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def shuffle(blocks: Iterable[Rows], size: int, rng: np.random.Generator) -> Generator[Rows]:
    """The blocks in a random order, at most `size` of them held."""
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


def check_columns(where: str, needed: Iterable[str], present: list[str]) -> None:
    for name in needed:
        if name not in present:
            said = ", ".join(map(str, present[:20])) + (", ..." if len(present) > 20 else "")
            raise InputError(f"{where} has no column {name!r}; it has {said}")
        if present.count(name) > 1:
            raise InputError(f"{where} has two columns {name!r}; rename one of them")


def not_numeric(where: str, name: str, kind: Any) -> InputTypeError:
    return InputTypeError(
        f"{where}: column {name!r} is not numeric ({kind}); leave it out, or encode it"
    )


def no_rows(paths: list[Path]) -> InputError:
    said = str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return InputError(f"{said}: no rows; at least one observation is needed")

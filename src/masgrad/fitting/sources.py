"""The data of a fit as a source of rows, and the sample of them that is kept in memory.

Arrays, tables, files, streams and simulators become a `Source`. The sample (the pilot rows) is
drawn at random from arrays; from anything else it is the first rows.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.arrays import (
    count_rows,
    is_simulator,
    joined,
    leaves,
    pick,
)
from masgrad.data.groupings.given import ArrayGroups, Asked
from masgrad.data.left_out import LeftOut
from masgrad.data.regression import (
    ROLES,
    ColumnSizes,
    design_effect,
)
from masgrad.data.shards.collections import holds_dask, is_dask_frame
from masgrad.data.source import Arrays, Source
from masgrad.data.tables.paths import is_csv, is_paths
from masgrad.errors import InputError
from masgrad.fitting.rows.loss import loss_source
from masgrad.fitting.rows.regression import regression_arrays, regression_checker
from masgrad.fitting.rows.streams import is_a_file, stream_of
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.types import Rows

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms

PILOT_ROWS = 1 << 15
"""Rows of the sample: the more there are, the fewer reads follow, since they predict what a local
model misses."""

IN_MEMORY = 8
"""Size of an array that is its own sample, in sizes of a sample that is a copy."""

FEWEST_PILOT_ROWS = 1024
"""Rows of the sample whatever the memory."""


@dataclass(frozen=True)
class Sample:
    """Pilot rows, which are kept in memory.

    Args:
        rows: the pilot rows.
        complete: whether they are all the rows.
        remaining: for a single read, the other blocks: of an array where they begin, of a stream
            the blocks themselves.
        columns: sizes of the columns of the design in phi; None if they are not known.
    """

    rows: Rows
    complete: bool
    remaining: np.ndarray | Iterator[Rows] | None = None
    columns: ColumnSizes | None = None

    @property
    def has_rare_columns(self) -> bool:
        """Whether a few of the rows carry some column of the design."""
        return self.columns is not None and not self.columns.are_represented

    @cached_property
    def design_effect(self) -> float:
        """Variance of a sum of weighted rows over that of as many rows of weight 1."""
        return design_effect(self.rows)


class Numbered(Iterator[Rows]):
    """Blocks that come once, with where they begin: known of regression rows that are still held.

    Args:
        blocks: the blocks.
        begin: the number of rows before them.
    """

    def __init__(self, blocks: Iterator[Rows], begin: int):
        self.blocks, self.begin = blocks, begin
        self.held: deque[tuple[weakref.ref[np.ndarray], int]] = deque()

    def __next__(self) -> Rows:
        block = next(self.blocks)
        while self.held and self.held[0][0]() is None:
            self.held.popleft()
        if isinstance(block, tuple) and len(block) > 1 and isinstance(block[1], np.ndarray):
            self.held.append((weakref.ref(block[1]), self.begin))
        self.begin += count_rows(block)
        return block

    def begin_of(self, rows: Rows) -> int:
        """The number of the first row of a block, by its responses."""
        return next((begin for y, begin in self.held if y() is rows[1]), 0)


def as_source(
    model: Model,
    data: Any,
    formula: str | None,
    memory: int,
    block: int | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    groups: Sequence[Asked] = (),
    left_out: LeftOut | None = None,
    client: Any = None,
    remember: Callable[[str, Callable[[], Any]], Any] = lambda name, compute: compute(),
) -> "tuple[Source, Terms | None]":
    """The source of rows, and the terms of the formula if there is one.

    Args:
        model: what is fitted.
        data: arrays, a table, files, a stream or an iterator.
        formula: for tables and files.
        memory: bytes that reading may take.
        block: rows of a block; by default as many as suit the data.
        weights: frequencies of the rows: an array, or the name of a table's column.
        offset: known part of the linear predictor: an array or the name of a column.
        exposure: its logarithm is added to the offset.
        groups: clusters and the like: arrays, or names of columns.
        left_out: which rows are left out, and where they are counted.
        client: of the cluster that reads the rows; None if this process does.
        remember: what a function returns, or has returned before it was interrupted.
    """
    roles = dict(zip(ROLES, (weights, offset, exposure), strict=True))
    check_bad_rows(data, left_out)
    about: dict[str, Any] = {"groups": groups, "left_out": left_out, "client": client}
    about |= {"remember": remember}
    source, terms = _rows(model, data, formula, memory, block, roles, **about)
    if not isinstance(model, GLM):
        source = source.named(model.names_of(source.names))
    return source, terms


def _rows(
    model: Model,
    data: Any,
    formula: str | None,
    memory: int,
    block: int | None,
    roles: dict[str, Any],
    *,
    groups: Sequence[Asked],
    left_out: LeftOut | None,
    client: Any,
    remember: Callable[[str, Callable[[], Any]], Any],
) -> "tuple[Source, Terms | None]":
    carried = [role for role, value in roles.items() if value is not None]
    refused = [] if isinstance(model, GLM) else [r for r in carried if r != "weights"]
    if refused or (carried and not (isinstance(model, GLM) or model.takes_any_rows)):
        role = (refused or carried)[0]
        raise InputError(f"{role} needs a regression; {type(model).__name__} takes none")
    if formula is not None:
        from masgrad.data.table_source import learn_table  # pyarrow

        about: dict[str, Any] = {"left_out": left_out, "client": client, "remember": remember}
        return learn_table(data, formula, memory, block, roles, groups, **about)
    if is_simulator(data):
        raise InputError("a Simulator has no end; say how many rows: data.stream(rows=1_000_000)")
    missing = left_out if left_out is not None and left_out.missing else None
    arrays = holds_dask(data) and not is_dask_frame(data)
    if arrays:
        from masgrad.fitting.rows import dask_arrays  # for such data alone

        beside: dict[str, Any] = {"left_out": missing, "client": client, "memory": memory}
        if isinstance(model, GLM):
            return dask_arrays.dask_regression(model, data, block, roles, groups, **beside), None
        return dask_arrays.dask_rows(model, data, block, roles["weights"], groups, **beside), None
    if not isinstance(model, GLM):
        about: dict[str, Any] = {"groups": groups, "left_out": left_out, "client": client}
        return loss_source(model, data, memory, block, roles["weights"], **about), None
    if is_dask_frame(data):
        raise InputError(
            "a Dask data frame needs a formula, mg.glm('y ~ a + b', data), or X and y of it: "
            "(data[['a', 'b']], data['y'])"
        )
    if is_paths(data):
        raise is_a_file(data)
    if isinstance(data, Source | Iterator):
        if carried:
            raise InputError(
                f"{carried[0]} goes with each block of a stream; yield (X, y, weights, offset), "
                "where either may be None"
            )
        if groups:
            raise InputError(
                f"{groups[0].role} go with each block of a stream: yield "
                f"mg.Block(X, y, {groups[0].role}=keys)"
            )
        coded = ArrayGroups()
        check = regression_checker(model, coded, missing is not None)
        about = {"groupings": coded.groupings, "left_out": missing}
        return stream_of(data, check, block, real=True, **about), None
    return regression_arrays(model, data, block, roles, groups, left_out=missing), None


def check_bad_rows(data: Any, left_out: LeftOut | None) -> None:
    """Refuse to skip bad rows of anything but CSV files."""
    if left_out is not None and left_out.bad and not is_csv(data):
        raise InputError(
            "on_bad_rows='skip' is for CSV files, whose rows may have other fields than the "
            f"header; these data are {f'{data!r:.60}' if is_paths(data) else type(data).__name__}: "
            "leave it out"
        )


def take_sample(source: Source, single: bool, memory: int, rng: np.random.Generator) -> Sample:
    """The pilot rows.

    Args:
        source: all rows.
        single: whether the other rows are read once, after these.
        memory: bytes that they may take, unless that is less than `FEWEST_PILOT_ROWS` rows.
        rng: for the choice from an array, and among row groups.
    """
    if isinstance(source, Arrays):
        return _from_array(source, single, memory, rng)
    blocks = source.blocks() if single else source.first_blocks(rng)
    first, rows, size = [], 0, 0
    for block in blocks:
        first.append(block)
        rows, size = rows + count_rows(block), size + size_in_bytes(block)
        if rows >= PILOT_ROWS or (size >= memory and rows >= FEWEST_PILOT_ROWS):
            break
    else:
        if not first:
            raise InputError("the data hold no rows; at least one observation is needed")
        return Sample(join(first), True)
    if single:
        return Sample(join(first), False, Numbered(blocks, rows))
    blocks.close()
    return Sample(join(first), False)


def _from_array(source: Arrays, single: bool, memory: int, rng: np.random.Generator) -> Sample:
    one = size_in_bytes(pick(lambda a: a[:1], source.rows))
    most = PILOT_ROWS * (4 if source.has_rare_entries and source.count > 16 * PILOT_ROWS else 1)
    keep = min(most, max(FEWEST_PILOT_ROWS, memory // max(one, 1)))
    if source.count <= most and isinstance(leaves(source.rows)[0], np.ndarray):  # no copy
        keep = max(keep, IN_MEMORY * memory // max(one, 1))
    if keep >= source.count or not single:
        return Sample(source.sample(keep, rng), keep >= source.count)
    starts = rng.permutation(np.arange(0, source.count, source.block))
    first = -(-keep // source.block)
    rows = join(list(source.slices(starts[:first])))
    return Sample(rows, first >= len(starts), starts[first:])


def first_rows(rows: Rows, size: int) -> Rows:
    """The first rows of a sample."""
    return pick(lambda a: a[:size], rows)


def random_rows(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Some rows of a sample at random, in their order: neighbouring rows may be alike."""
    if count_rows(rows) <= size:
        return rows
    chosen = np.sort(rng.choice(count_rows(rows), size, replace=False))
    return pick(lambda a: a[chosen], rows)


def size_in_bytes(rows: Rows) -> int:
    """Bytes that rows take."""
    return sum(a.nbytes for a in leaves(rows))


def join(blocks: list[Rows]) -> Rows:
    """The rows of several blocks."""
    return pick(lambda *parts: joined(parts), *blocks)

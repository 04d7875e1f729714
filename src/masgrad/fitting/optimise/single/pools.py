"""Rows of a single read that stay in memory, and those of them that must not be left to chance.

A segment's rows are kept as they came. If there are too many, most of them are dropped at random,
so that each of the others, in whatever segment, stands for as many. Rows of high leverage are told
apart before that.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.designs.structured import Structured
from masgrad.data.regression import weight_of
from masgrad.data.source import Arrays
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.sources import join, size_in_bytes
from masgrad.models.glm import add_offset
from masgrad.types import Rows

FEWEST_KEPT = 64
"""Rows of a segment that are never dropped, so that they have a sampling error."""

HIGH_LEVERAGE = 0.05
"""Share of what is known of a column that `factor` rows like this one would bring: such a row is
too important to be left to chance."""

MOST_HIGH = 0.25
"""Share of the rows that may be used for their leverage."""


@dataclass(frozen=True)
class HeldRows:
    """Blocks of rows in memory, numbered from 0.

    Args:
        blocks: the blocks.
        shared: whether someone else holds them as well, so that they take no memory of their own.
    """

    blocks: tuple[Rows, ...]
    shared: bool = False

    @cached_property
    def ends(self) -> np.ndarray:
        """The number of rows up to the end of each block."""
        return np.cumsum([count_rows(block) for block in self.blocks])

    @property
    def count(self) -> int:
        return int(self.ends[-1])

    @cached_property
    def bytes_held(self) -> int:
        return 0 if self.shared else sum(size_in_bytes(block) for block in self.blocks)

    def parts(self, index: np.ndarray) -> tuple[Rows, ...]:
        """The rows of these numbers, which ascend, as parts of the blocks."""
        cuts = np.searchsorted(index, self.ends)
        begins, firsts = [0, *cuts[:-1]], [0, *self.ends[:-1]]
        return tuple(
            pick(lambda a, i=index[low:high] - first: a[i], block)
            for block, low, high, first in zip(self.blocks, begins, cuts, firsts, strict=True)
            if high > low
        )


@dataclass(frozen=True)
class ArrayRows:
    """Blocks of an array that begin at some of its rows; they take no memory of ours."""

    source: Arrays
    starts: np.ndarray

    @property
    def blocks(self) -> tuple[Rows, ...]:
        return tuple(self.source.slices(self.starts))

    @cached_property
    def ends(self) -> np.ndarray:
        return np.cumsum(np.minimum(self.source.block, self.source.count - self.starts))

    @property
    def count(self) -> int:
        return int(self.ends[-1])

    @property
    def bytes_held(self) -> int:
        return 0

    def parts(self, index: np.ndarray) -> tuple[Rows, ...]:
        """The rows of these numbers."""
        which = np.searchsorted(self.ends, index, side="right")
        begins = np.concatenate([[0], self.ends[:-1]])
        return (self.source.take(self.starts[which] + index - begins[which]),)


@dataclass(frozen=True)
class Pool:
    """The rows of a segment that are in memory.

    Args:
        rows: the rows, or a random part of those that are not of high leverage.
        factor: number of rows of the segment that each of them stands for.
        numbers: of the rows of high leverage among them, in order.
        high: rows of high leverage; none of them is ever dropped.
    """

    rows: HeldRows | ArrayRows
    factor: float = 1.0
    numbers: np.ndarray | None = None
    high: Rows | None = None

    @cached_property
    def others(self) -> int:
        """Number of rows in memory that are not of high leverage."""
        return self.rows.count - (0 if self.numbers is None else len(self.numbers))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Rows, ...]:
        """Parts with so many rows at random, without those of high leverage."""
        index = np.sort(rng.choice(self.others, size, replace=False, shuffle=False))
        if self.numbers is not None:  # the k-th of the others has the number k + those before it
            before = self.numbers - np.arange(len(self.numbers))
            index = index + np.searchsorted(before, index, side="right")
        return self.rows.parts(index)

    def has_means(self, objective: Objective, phi: np.ndarray) -> bool:
        """Whether every row has a mean at phi."""
        with np.errstate(all="ignore"):
            losses = (objective.losses(phi, block) for block in self.rows.blocks)
            return not objective.bounded or all(np.isfinite(some).all() for some in losses)

    def size_at(self, factor: float) -> int:
        """Number of rows that are left if each stands for `factor` rows."""
        return min(self.others, max(FEWEST_KEPT, int(self.others * self.factor / factor)))

    def thinned(self, factor: float, rng: np.random.Generator) -> "Pool":
        """A random part of the pool, each row of which stands for `factor` rows.

        It is one block: a few rows of each block that was read would take long to look through.
        """
        size = self.size_at(factor)
        if size == self.others:
            return self
        rows = HeldRows((join(list(self.draw(size, rng))),))
        return Pool(rows, self.factor * self.others / size, None, self.high)


# Leverage.


def with_high_leverage(
    objective: Objective, pool: Pool, local: LocalModel, known: LocalModel, size: int
) -> Pool:
    """The pool, its rows of high leverage told apart.

    The largest entries of the columns mostly exclude that there are any.

    Args:
        objective: the loss.
        pool: rows of a segment.
        local: the local model of the segment.
        known: the local model of all rows, of whose columns such a row has a large share.
        size: number of the other rows that are used.
    """
    told = pool.high is not None or pool.factor > 1  # of thinned rows none stands for itself
    if objective.family is None or told or size >= pool.others:
        return pool
    H = (known if objective.convex else known.expected()).hessian
    bar = HIGH_LEVERAGE * size / (pool.factor * pool.others)
    if (np.square(local.max_weighted_x) * _inverse(np.diag(H))).max() < bar:
        return pool
    per_unit = _inverse(np.column_stack([np.diag(H), np.diag(known.meat)]))
    shares = [_shares(objective, local.point, block, per_unit) for block in pool.rows.blocks]
    each = np.concatenate(shares)
    most = max(1, int(MOST_HIGH * len(each)))
    limit = np.partition(each, -most)[-most] if len(each) > most else 0.0
    numbers = np.flatnonzero(each > max(bar, float(limit)))
    high = join(list(pool.rows.parts(numbers))) if len(numbers) else None
    return replace(pool, numbers=numbers, high=high)


def _shares(objective: Objective, phi: np.ndarray, rows: Rows, per_unit: np.ndarray) -> np.ndarray:
    """The largest share of a column's H and M that each row brings."""
    family, a = objective.family, weight_of(rows)
    assert family is not None
    with np.errstate(all="ignore"):
        t = add_offset(objective.predictors(phi, rows), rows)
        r, w = family.slope_and_curvature(t, rows[1])
        sizes = np.column_stack([np.abs(w), r * r] if a is None else [a * np.abs(w), a * r * r])
        each = _row_peaks(objective, rows, per_unit)
        return np.nan_to_num((sizes * np.column_stack(each)).sum(1), nan=np.inf)


def _row_peaks(objective: Objective, rows: Rows, units: np.ndarray) -> list[np.ndarray]:
    """The largest unit u^2 of each row, over its standardised features u, for columns of units."""
    X, c = rows[0], objective.coordinates
    if isinstance(X, Structured) and not c.transforms_rows:
        return [X.row_peaks(c.centre, c.scale, unit) for unit in units.T]
    squares = np.square(objective.standardised(rows))
    return [(squares * unit).max(1) for unit in units.T]


def _inverse(sizes: np.ndarray) -> np.ndarray:
    """1 / size; very large for what nothing is known of."""
    return 1 / np.maximum(sizes, np.maximum(1e-12 * sizes.max(0), 1e-300))

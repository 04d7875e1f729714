"""Reads of rows with effects: sums by level at a point, part by part.

The first read begins at the responses themselves, pulled halfway to their mean (for least squares
at 0), and the step from there is one of Fisher scoring. Every other read is at a point (b, a).
Parts are summed by threads and added in their order, so that the number of threads changes no
digit.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from masgrad.data.arrays import BLOCK
from masgrad.data.source import Arrays, Source
from masgrad.fitting.effects.part import PART_BYTES, PART_ROWS, part_of
from masgrad.fitting.effects.rows.design import EffectDesign, EffectRows
from masgrad.fitting.effects.rows.kept import RowFacts
from masgrad.fitting.effects.rows.nesting import LevelClusters, Nesting
from masgrad.fitting.effects.rows.recession import (
    Look,
    boundary,
    carried,
    rectified,
    sums_of,
)
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.effects.total import total_of
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.levels.sums import pace_of
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.objective.reader import Parting, Reader
from masgrad.fitting.optimise.start import pulled_predictors
from masgrad.fitting.sources import join
from masgrad.models.families.family import Family
from masgrad.models.glm import squared_residuals
from masgrad.types import Rows

Done = TypeVar("Done")


class Facts:
    """What the first read learns beside its sums.

    Args:
        room: bytes that the facts of rows may take; beyond that they are read again when needed.
        nesting: of effects in clusters.
    """

    def __init__(self, room: int, nesting: Nesting):
        self.room, self.nesting = room, nesting
        self.rows: list[RowFacts] | None = []
        self.largest: np.ndarray | float = 0.0
        self.responses, self.used = (np.inf, -np.inf), 0

    def add(
        self,
        rows: RowFacts,
        largest: np.ndarray | float,
        y: tuple[float, float],
        clusters: list[LevelClusters],
    ) -> None:
        """Take in those of a part."""
        self.nesting.add(clusters)
        self.used += rows.nbytes
        if self.rows is not None:
            self.rows.append(rows)
        if self.used > self.room:
            self.rows = None
        self.largest = np.maximum(self.largest, largest)
        low, high = self.responses
        self.responses = min(low, y[0]), max(high, y[1])


class EffectRead(NamedTuple):
    """Sums over rows at one point.

    Args:
        sums: by level, of the working responses z = t - l' / l'': weighted least squares of them is
            a Newton step.
        rows: number of rows.
        weight: of the rows.
        loss: sum of their losses.
        squares: Pearson's X^2, for families with a dispersion.
        constants: terms of the deviance and of the likelihood in y alone, if asked for.
        pace: the largest l'' / |l'| of rows whose response is at a boundary.
    """

    sums: EffectSums
    rows: int
    weight: float
    loss: float
    squares: float
    constants: np.ndarray
    pace: float

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.sums.products).all())


class _Part(NamedTuple):
    """Sums over a part of the rows: by level, and weight, loss, X^2 and the two constants."""

    sums: EffectSums
    rows: int
    scalars: np.ndarray
    pace: float = 0.0
    first: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class EffectReader:
    """Reads of a source whose rows have effects.

    Args:
        reader: the source, the threads and the monitor.
        design: the columns and the groupings.
        family: of the responses; Fisher's information replaces H if it says so (`scoring`).
    """

    reader: Reader
    design: EffectDesign
    family: Family

    def first_read(self, mean: float, facts: Facts) -> EffectRead:
        """The sums of the first step; `mean` is about that of the responses."""
        begin = self._squares if is_least_squares(self.family) else self._start

        def work(block: Rows) -> _Part:
            rows = self.design.rows(block)
            low, high = float(rows.y.min()), float(rows.y.max())
            part = begin(rows, mean)
            admitted = low >= self.family.lowest and high <= self.family.highest  # NaN is neither
            if not (admitted and np.isfinite(part.sums.products).all()):
                raise BadBlock(block)
            largest = rows.largest() if self.family.separable else 0.0
            of_rows = RowFacts.of(rows.codes, rows.y, rows.weight, self.family)
            clusters = facts.nesting.of_rows(rows.groups)
            return part._replace(first=(of_rows, largest, (low, high), clusters))

        return self._read(work, facts)

    def read(self, at: Vector, objective: Objective | None = None) -> EffectRead:
        """The sums over all rows at a point, with the constants if the objective is given."""

        def work(block: Rows) -> _Part | None:
            rows = self.design.rows(block)
            if not len(rows.y):
                return None
            part = self._newton(rows, at)
            if objective is not None:
                part.scalars[3:] = objective.constants(rows.without_levels)
            return part

        return self._read(work)

    def target(
        self, at: Vector, step: Vector, fit: Vector | None, holding: Sequence[Vector]
    ) -> Look:
        """Sums of the rectifier's next target, after a fit; at first, of rows carried by a step."""

        def work(block: Rows) -> Look | None:
            rows = self.design.rows(block)
            if not len(rows.y):
                return None
            s = boundary(self.family, rows.y)
            if fit is not None:
                held = (self.design.moves(rows, other) for other in holding)
                target = rectified(s, self.design.moves(rows, fit), held)
            else:
                with np.errstate(all="ignore"):
                    t = self.design.predictors(rows, at)
                    r, w = self.family.slope_and_curvature(t, rows.y)
                    own = np.nan_to_num(np.abs(r) / w, posinf=0.0)  # of a mean at its limit
                target = carried(s, self.design.moves(rows, step), own)
            return sums_of(rows.X, rows.centre, rows.codes, target)

        seen = list(each_part(self.reader, work))
        sums = total_of((part.sums for part in seen), lambda: self.design.sizes)
        return Look(sums, max(part.top for part in seen), max(part.wrong for part in seen))

    def _squares(self, rows: EffectRows, mean: float) -> _Part:
        """Least squares of the responses, about their mean."""
        z = rows.y - mean if rows.offset is None else rows.y - rows.offset - mean
        sums = part_of(rows.X, rows.codes, rows.weight, z, centre=rows.centre)
        total = float(rows.weighted(rows.y) @ rows.y)
        scalars = np.array([sums.weight, sums.squares / 2, sums.squares, -total / 2, 0.0])
        return _Part(sums, len(z), scalars)

    def _start(self, rows: EffectRows, mean: float) -> _Part:
        """Fisher scoring from the responses, pulled to their mean."""
        t = pulled_predictors(self.family, rows.y, mean)
        w = rows.weighted(self.family.information(t))
        z = t if rows.offset is None else t - rows.offset
        sums = part_of(rows.X, rows.codes, w, z, centre=rows.centre)
        return _Part(sums, len(z), np.array([_weight(rows), np.nan, np.nan, 0.0, 0.0]))

    def _newton(self, rows: EffectRows, at: Vector) -> _Part:
        family, y = self.family, rows.y
        with np.errstate(all="ignore"):
            t = self.design.predictors(rows, at)
            value, r, w = family.local(t, y)
            squares = 0.0
            if family.dispersed:
                squares = float(rows.weighted(squared_residuals(family, t, r)).sum())
            own = t if rows.offset is None else t - rows.offset
            score = rows.weighted(w * own - r)
            sums = part_of(rows.X, rows.codes, rows.weighted(w), score=score, centre=rows.centre)
            loss = float(rows.weighted(value).sum())
            scalars = np.array([_weight(rows), loss, squares, 0.0, 0.0])
            return _Part(sums, len(y), scalars, pace_of(family, y, r, w))

    def _read(self, work: Callable[[Rows], _Part | None], facts: Facts | None = None) -> EffectRead:
        rows, scalars, pace = 0, np.zeros(5), 0.0

        def each() -> Iterator[EffectSums]:
            nonlocal rows, scalars, pace
            for part in each_part(self.reader, work):
                rows, scalars = rows + part.rows, scalars + part.scalars
                pace = max(pace, part.pace)
                if facts is not None and part.first is not None:
                    facts.add(*part.first)
                yield part.sums

        known = tuple(grouping.size for grouping in self.design.groupings)
        sums = total_of(each(), lambda: self.design.sizes, known)
        weight, loss, squares = map(float, scalars[:3])
        return EffectRead(sums, rows, weight, loss, squares, scalars[3:], pace)


def is_least_squares(family: Family) -> bool:
    """Whether the first step ends at the optimum."""
    return family.name == "gaussian" and family.canonical


def each_part(reader: Reader, work: Callable[[Rows], Done | None]) -> Iterator[Done]:
    """Results of `work` on parts of all rows, in order; rows are counted."""
    parts = parts_of(reader.source, _rows_of_parts(reader.source))
    return (done for done in reader.each_block(work, parts=parts) if done is not None)


def _weight(rows: EffectRows) -> float:
    return float(len(rows.y) if rows.weight is None else rows.weight.sum())


def _rows_of_parts(source: Source) -> int:
    """Rows of a part: as many as there are levels, if these are very many and memory allows."""
    levels = max((grouping.size for grouping in source.groupings), default=0)
    return max(PART_ROWS, min(levels, PART_BYTES // (8 * (len(source.names) + 2))))


def parts_of(source: Source, rows: int = PART_ROWS) -> Parting:
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

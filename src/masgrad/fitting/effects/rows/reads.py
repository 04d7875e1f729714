"""Reads of rows with effects: sums by level at a point, part by part.

The first read begins at the responses themselves, pulled halfway to their mean (for least squares
at 0), and the step from there is one of Fisher scoring. Every other read is at a point (b, a).
Parts are summed by threads and added in their order, so that the number of threads changes no
digit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.designs.group_sums import sums_of_rows
from masgrad.errors import InputError
from masgrad.fitting.effects.part import met_levels, part_of
from masgrad.fitting.effects.rows.design import EffectDesign, EffectRows
from masgrad.fitting.effects.rows.facts import Facts
from masgrad.fitting.effects.rows.growing import Growing, Part
from masgrad.fitting.effects.rows.kept import RowFacts
from masgrad.fitting.effects.rows.nesting import Nesting
from masgrad.fitting.effects.rows.parts import total_of_parts
from masgrad.fitting.effects.tables import ByLevel, EffectSums
from masgrad.fitting.effects.total import Room
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.levels.sums import pace_of
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.fitting.optimise.scoring import pulled_predictors
from masgrad.models.families.family import Family
from masgrad.models.glm import squared_residuals
from masgrad.types import Rows

Weights = Callable[[EffectRows], np.ndarray | None]
"""Of rows in the sums of a read."""


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


@dataclass(frozen=True)
class EffectReader:
    """Reads of a source whose rows have effects.

    Args:
        reader: the source, the threads and the monitor.
        design: the columns and the groupings.
        family: of the responses; Fisher's information replaces H if it says so (`scoring`).
        most_pairs: pairs of levels beyond which products with them are reads.
    """

    reader: Reader
    design: EffectDesign
    family: Family
    most_pairs: float = np.inf

    def first_read(self, mean: float, room: int) -> tuple[EffectRead, Facts]:
        """The sums of the first step; `mean` is about that of the responses.

        Facts of rows are kept if they take no more bytes than there is room for.
        """
        nesting = Nesting(self.reader.source.groupings)
        squares = is_least_squares(self.family)
        begin = self._squares if squares else self._start
        weights = partial(self._start_weights, mean=mean)

        def work(block: Rows) -> Part | None:
            rows = self.design.rows(block)
            if not len(rows.y):
                return None
            low, high = float(rows.y.min()), float(rows.y.max())
            part = begin(rows, mean)
            admitted = low >= self.family.lowest and high <= self.family.highest  # NaN is neither
            if not (admitted and np.isfinite(part.sums.products).all()):
                raise BadBlock(block)
            largest = rows.largest() if self.family.separable else 0.0
            of_rows = RowFacts.of(rows.codes, rows.y, rows.weight, self.family)
            clusters = nesting.of_rows(rows.groups)
            return part._replace(first=(of_rows, largest, (low, high), clusters))

        spread = self.reader.source.spread
        facts = Facts(room, nesting, 1 if spread is None else spread.count)
        sums, done = self._total(work, _own_weights if squares else weights, facts)
        assert done.facts is not None
        return _record(sums, done), done.facts

    def read(self, at: Vector, objective: Objective | None = None) -> EffectRead:
        """The sums over all rows at a point, with the constants if the objective is given."""

        def work(block: Rows) -> Part | None:
            rows = self.design.rows(block)
            if not len(rows.y):
                return None
            part = self._newton(rows, at)
            if objective is not None:
                part.scalars[3:] = objective.constants(rows.without_levels)
            return part

        return _record(*self._total(work, partial(self._curvature, at=at)))

    def _squares(self, rows: EffectRows, mean: float) -> Part:
        """Least squares of the responses, about their mean."""
        z = rows.y - mean if rows.offset is None else rows.y - rows.offset - mean
        sums = part_of(rows.X, rows.codes, rows.weight, z, centre=rows.centre)
        total = float(rows.weighted(rows.y) @ rows.y)
        scalars = np.array([sums.weight, sums.squares / 2, sums.squares, -total / 2, 0.0])
        return Part(sums, len(z), scalars, np.zeros(1))

    def _start(self, rows: EffectRows, mean: float) -> Part:
        """Fisher scoring from the responses, pulled to their mean."""
        t = pulled_predictors(self.family, rows.y, mean)
        z = t if rows.offset is None else t - rows.offset
        w = self._start_weights(rows, mean)
        sums = part_of(rows.X, rows.codes, w, z, centre=rows.centre)
        scalars = np.array([_weight(rows), np.nan, np.nan, 0.0, 0.0])
        return Part(sums, len(z), scalars, np.zeros(1))

    def _start_weights(self, rows: EffectRows, mean: float) -> np.ndarray:
        t = pulled_predictors(self.family, rows.y, mean)
        return rows.weighted(self.family.information(t))

    def _curvature(self, rows: EffectRows, at: Vector) -> np.ndarray:
        """l'' at a point, weighted."""
        with np.errstate(all="ignore"):
            t = self.design.predictors(rows, at)
            return rows.weighted(self.family.slope_and_curvature(t, rows.y)[1])

    def _newton(self, rows: EffectRows, at: Vector) -> Part:
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
            return Part(sums, len(y), scalars, np.array([pace_of(family, y, r, w)]))

    def total(
        self, work: Callable[[EffectRows], Part], weights: Weights
    ) -> tuple[EffectSums, Growing]:
        """The sums over the kept rows, which have these weights."""

        return self._total(self._on_kept(work), weights)

    def added(self, work: Callable[[EffectRows], Any], addition: Addition) -> Any:
        """The results of `work` on the kept rows, part by part, added."""
        return total_of_parts(self.reader, self._on_kept(work), addition)

    def _on_kept(self, work: Callable[[EffectRows], Any]) -> Callable[[Rows], Any]:
        def of_block(block: Rows) -> Any:
            rows = self.design.rows(block)
            return work(rows) if len(rows.y) else None

        return of_block

    def _total(
        self, work: Callable[[Rows], Part | None], weights: Weights, facts: Facts | None = None
    ) -> tuple[EffectSums, Growing]:
        room = Room(tuple(grouping.size for grouping in self.design.groupings), self.most_pairs)
        addition = Addition(Growing.plus, partial(Growing, room, facts), Growing.join)
        done = total_of_parts(self.reader, work, addition)
        if done is None:
            raise InputError("the data hold no rows; at least one observation is needed")
        return done.sums.sums(self.design.sizes, partial(self._products, weights)), done

    def _products(self, weights: Weights, x: ByLevel) -> ByLevel:
        """D_k'W (sum over l of D_l x_l), for rows with these weights."""

        def work(block: Rows) -> list[tuple[np.ndarray | None, np.ndarray]] | None:
            rows = self.design.rows(block)
            if not len(rows.y):
                return None
            t = x[0].take(rows.codes[:, 0], axis=0, mode="clip")
            for k, of_level in enumerate(x[1:], 1):
                t += of_level.take(rows.codes[:, k], axis=0, mode="clip")
            w, found = weights(rows), []
            w = np.ones(len(t)) if w is None else w
            for codes in rows.codes.T:
                levels, place, size = met_levels(np.ascontiguousarray(codes))
                found.append((levels, sums_of_rows(place, size, w, t)))
            return found

        addition = Addition(_with_levels, lambda: [np.zeros_like(part) for part in x], _both)
        return total_of_parts(self.reader, work, addition)


def _record(sums: EffectSums, done: Growing) -> EffectRead:
    weight, loss, squares = map(float, done.scalars[:3])
    pace = float(done.maxima[0])
    return EffectRead(sums, done.rows, weight, loss, squares, done.scalars[3:], pace)


def _with_levels(total: ByLevel, part: list[tuple[np.ndarray | None, np.ndarray]]) -> ByLevel:
    """The total with the sums of some levels; None are those from the first."""
    for sums, (levels, new) in zip(total, part, strict=True):
        sums[slice(0, len(new)) if levels is None else levels] += new
    return total


def _both(a: ByLevel, b: ByLevel) -> ByLevel:
    return [mine + others for mine, others in zip(a, b, strict=True)]


def is_least_squares(family: Family) -> bool:
    """Whether the first step ends at the optimum."""
    return family.name == "gaussian" and family.canonical


def _own_weights(rows: EffectRows) -> np.ndarray | None:
    return rows.weight


def _weight(rows: EffectRows) -> float:
    return float(len(rows.y) if rows.weight is None else rows.weight.sum())

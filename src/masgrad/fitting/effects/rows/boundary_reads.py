"""Reads for the search of a recession direction: of interior rows, and of those at the boundary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masgrad.fitting.effects.part import part_of
from masgrad.fitting.effects.rows.design import EffectRows
from masgrad.fitting.effects.rows.growing import Part
from masgrad.fitting.effects.rows.interior import Directions, Sides, less_means
from masgrad.fitting.effects.rows.reads import EffectReader
from masgrad.fitting.effects.rows.recession import Look, Target, boundary, carried
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.objective.totals import Addition

Fits = Callable[[Vector], np.ndarray]
"""What the predictors of some rows are in a fit."""

Choose = Callable[[EffectRows, np.ndarray, Fits], Target]
"""The target of rows with these sides."""


@dataclass(frozen=True)
class BoundaryReader:
    """Reads of rows by their sides.

    Args:
        effects: reads the rows.
    """

    effects: EffectReader

    def sums_inside(self, means: Sequence[np.ndarray]) -> EffectSums:
        """Sums over interior rows of columns less the means of their levels."""

        def inside(rows: EffectRows) -> np.ndarray:
            return (boundary(self.effects.family, rows.y) == 0).astype(np.float64)

        def work(rows: EffectRows) -> Part:
            sums = part_of(less_means(rows, means), rows.codes, inside(rows))
            return Part(sums, len(rows.y), np.zeros(1), np.zeros(1))

        return self.effects.total(work, inside)[0]

    def sides(self, means: Sequence[np.ndarray]) -> Sides:
        """Products of such columns over interior rows, and over those at the boundary."""

        def work(rows: EffectRows) -> np.ndarray:
            X, inner = less_means(rows, means), boundary(self.effects.family, rows.y) == 0
            return np.stack([np.dot(part.T, part) for part in (X[inner], X[~inner])])

        return Sides(*self.effects.added(work, Addition(np.add)))

    def target(self, along: Directions, choose: Choose) -> Look:
        """Sums of a target of the rectifier, fitted by some directions and the effects."""

        def seen(rows: EffectRows) -> tuple[np.ndarray, Target]:
            Z = along.columns(rows)

            def fitted(fit: Vector) -> np.ndarray:
                return Z @ fit.columns + self.effects.design.effects_of(rows, fit.levels)

            return Z, choose(rows, boundary(self.effects.family, rows.y), fitted)

        def work(rows: EffectRows) -> Part:
            Z, on = seen(rows)
            sums = part_of(Z, rows.codes, on.weights, on.u)
            return Part(sums, len(rows.y), np.zeros(1), np.array([on.top, on.wrong]))

        sums, done = self.effects.total(work, lambda rows: seen(rows)[1].weights)
        return Look(sums, *map(float, done.maxima))

    def carried(self, at: Vector, step: Vector, rows: EffectRows, s: np.ndarray) -> Target:
        """The rectifier's first target: rows that a step carries to their boundary."""
        with np.errstate(all="ignore"):
            t = self.effects.design.predictors(rows, at)
            r, w = self.effects.family.slope_and_curvature(t, rows.y)
            own = np.nan_to_num(np.abs(r) / w, posinf=0.0)  # of a mean at its limit
        return carried(s, self.effects.design.moves(rows, step), own)

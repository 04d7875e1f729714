"""Rows less the regression of their columns on the effects.

    x~ = x - sum over k of U_k[level],    offset~ = offset + sum over k of (a_k + U_k beta)[level]

so that x~'beta + offset~ is the fitted predictor. Over such rows the plain loss of a linear
predictor has the gradient 0 at beta, the Hessian S of the slopes alone, and gradients that are the
scores of the slopes with the effects estimated: every sandwich of it is one of the fit.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.data.arrays import count_rows, empty_columns
from masgrad.data.regression import Regression
from masgrad.data.source import Source
from masgrad.data.views import View
from masgrad.fitting.effects.rows.design import EffectDesign
from masgrad.fitting.levels.arrow import Vector
from masgrad.types import Rows


@dataclass(frozen=True)
class Projection:
    """What is taken from the columns of rows, by level, and added to their offsets.

    Args:
        design: the columns that have a slope, and the groupings.
        tables: [U_k, a_k + U_k beta], (L_k, q + 1) for each grouping; that of the first has the
            centre of the columns in it.
    """

    design: EffectDesign
    tables: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, design: EffectDesign, means: Iterable[np.ndarray], at: Vector) -> "Projection":
        """From U, (L_k, q) for each grouping, and the estimate."""
        pairs = zip(means, design.split(at.levels), strict=True)
        tables = [np.column_stack([U, a + U @ at.columns]) for U, a in pairs]
        tables[0][:, :-1] += design.centre
        return cls(design, tuple(tables))

    def rows(self, block: Rows) -> Rows:
        """The kept rows of a block, projected; columns without a slope are 0."""
        design, rows = self.design, self.design.rows(block)
        taken = self.tables[0].take(rows.codes[:, 0], axis=0, mode="clip")
        for k, table in enumerate(self.tables[1:], 1):
            taken += table.take(rows.codes[:, k], axis=0, mode="clip")
        if rows.centre is None:  # it is taken already
            taken[:, :-1] -= design.centre
        X = empty_columns(len(rows.y), design.width)
        if len(design.columns) == design.width:
            np.subtract(rows.X, taken[:, :-1], out=X)
        else:
            X[:] = 0.0
            X[:, design.columns] = rows.X - taken[:, :-1]
        offset = taken[:, -1] if rows.offset is None else rows.offset + taken[:, -1]
        return Regression(X, rows.y, rows.weight, offset, rows.groups)


class ProjectedSource(View):
    """The kept rows of a source, projected.

    Args:
        source: all rows.
        projection: of them.
    """

    def __init__(self, source: Source, projection: Projection):
        super().__init__(source)
        self.projection, kept = projection, projection.design.kept
        self.count = None if kept is None else kept.rows

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return self._of_each(self.source.blocks(rng))

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        return self._of_each(self.source.first_blocks(rng))

    def pieces(self) -> Iterable[Any]:
        return self.source.pieces()

    def made(self, piece: Any) -> Rows | None:
        block = self.source.made(piece)
        rows = None if block is None else self.projection.rows(block)
        return None if rows is None or not count_rows(rows) else rows

    def _of_each(self, blocks: Iterable[Rows]) -> Generator[Rows]:
        for block in blocks:
            rows = self.projection.rows(block)
            if count_rows(rows):
                yield rows

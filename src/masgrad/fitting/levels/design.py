"""Rows as a fit with very many levels sees them: other columns, centred and scaled, and a level.

    x'theta = z'b + g_level,    z = (x - centre) / scale

Every level has a coefficient g of its own and there is no intercept, so that no level is special
while a fit runs. The user's coefficients follow: b / scale of the columns, g - g_base of a level,
and g_base - centre'(b / scale) of the intercept.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.designs.coded import CodedDesign
from masgrad.data.formula.many_levels import ManyLevels
from masgrad.data.regression import offset_of, only, weight_of
from masgrad.fitting.levels.arrow import Vector
from masgrad.types import Rows


class LevelRows(NamedTuple):
    """Rows with their level: the other columns, codes, responses, weights and offsets."""

    X: CodedDesign
    codes: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None

    def predictors(self, at: Vector) -> np.ndarray:
        t = self.X.times(at.columns) + at.levels.take(self.codes)
        return t if self.offset is None else t + self.offset

    def weighted(self, values: np.ndarray) -> np.ndarray:
        return values if self.weight is None else self.weight * values

    def chosen(self, kept: np.ndarray) -> "LevelRows":
        if kept.all():
            return self
        X, codes, y, weight, offset = self
        return LevelRows(X[kept], codes[kept], y[kept], only(weight, kept), only(offset, kept))


@dataclass(frozen=True)
class LevelDesign:
    """The columns beside the levels, and their units.

    Args:
        many: the category.
        width: number of columns of X in all.
        columns: those beside the category and the intercept, (q,), in ascending order.
        centre: of these columns, (q,).
        scale: of these columns, (q,).
        live: mask of the levels that have an estimate, (L,).
    """

    many: ManyLevels
    width: int
    columns: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    live: np.ndarray

    @classmethod
    def of(cls, many: ManyLevels, width: int) -> "LevelDesign":
        """The design in the user's units."""
        columns = np.flatnonzero(_beside(many, width))
        q = len(columns)
        return cls(many, width, columns, np.zeros(q), np.ones(q), np.ones(many.levels_count, bool))

    def only(self, kept: np.ndarray) -> "LevelDesign":
        """The design without some of its columns."""
        parts = (self.columns[kept], self.centre[kept], self.scale[kept])
        return replace(self, **dict(zip(("columns", "centre", "scale"), parts, strict=True)))

    @property
    def left_out(self) -> np.ndarray:
        """Mask of the columns of X that have no coefficient, (p,)."""
        beside = _beside(self.many, self.width)
        beside[self.columns] = False
        return beside

    def rows(self, block: Rows) -> LevelRows:
        """The rows of a block that belong to live levels."""
        X, codes = self.split(block[0])
        rows = LevelRows(X, codes, block[1], weight_of(block), offset_of(block))
        return rows if self.live.all() else rows.chosen(self.live[codes])

    def split(self, X: CodedDesign) -> tuple[CodedDesign, np.ndarray]:
        """The standardised columns, and the level of each row."""
        group = next(g for g in X.groups if g.start == self.many.start)
        beside = X.only(self.columns)
        at = beside.at
        numbers = beside.numbers - self.centre[at]
        numbers /= self.scale[at]
        return CodedDesign(numbers, at, beside.groups), group.codes

    def base(self) -> int | None:
        """The code of the base level, if there is one."""
        return None if self.many.intercept is None else self.many.size

    def theta(self, at: Vector) -> np.ndarray:
        """The user's coefficients, (p,); NaN for columns that were left out."""
        theta, size = np.full(self.width, np.nan), self.many.size
        slopes, base = at.columns / self.scale, self.base()
        theta[self.columns] = slopes
        if base is None:
            theta[self.many.columns] = at.levels - self.centre @ slopes
        else:
            with np.errstate(invalid="ignore"):  # of a level and the base, both infinite
                theta[self.many.columns] = at.levels[:size] - at.levels[base]
            theta[self.many.intercept] = at.levels[base] - self.centre @ slopes
        return theta

    def combination(self, R: np.ndarray) -> tuple[np.ndarray, Any]:
        """Combinations R theta (k, p) as c (k, q) of columns and a sparse e (k, L) of levels."""
        from scipy import sparse  # heavy

        levels = R[:, self.many.columns]
        if self.many.intercept is not None:
            base = R[:, self.many.intercept] - levels.sum(1)
            levels = np.column_stack([levels, base])
        shift = levels.sum(1)[:, None] * self.centre
        return (R[:, self.columns] - shift) / self.scale, sparse.csr_array(levels)


def _beside(many: ManyLevels, width: int) -> np.ndarray:
    """Mask of the columns beside a category and the intercept, (p,)."""
    beside = np.ones(width, bool)
    beside[many.columns] = False
    if many.intercept is not None:
        beside[many.intercept] = False
    return beside

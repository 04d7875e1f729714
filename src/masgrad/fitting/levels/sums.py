"""Sums over rows with very many levels: gradient, H and M as arrow matrices, block by block.

Blocks are summed by threads and added in their order, so that the number of threads changes no
digit. A block costs n q^2 products for the corner, n q additions for the border, and L q additions
for the total.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masgrad.data.designs.group_sums import sums
from masgrad.fitting.levels.arrow import Arrow, Vector
from masgrad.fitting.levels.design import LevelDesign, LevelRows
from masgrad.fitting.objective.objective import BadBlock
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.models.families.family import Family
from masgrad.models.glm import squared_residuals
from masgrad.types import Rows


class LevelSums(NamedTuple):
    """Sums over rows at one point.

    Args:
        rows: their number.
        weight: of the rows.
        loss: sum of their losses.
        gradient: G.
        hessian: H.
        meat: sum of g g', if asked for.
        information: the expected H, if asked for.
        squares: Pearson's X^2, for families with a dispersion.
        pace: the largest l'' / |l'| of rows whose response is at a boundary.
    """

    rows: int
    weight: float
    loss: float
    gradient: Vector
    hessian: Arrow
    meat: Arrow | None
    information: Arrow | None
    squares: float
    pace: float

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.gradient.columns).all())

    def plus(self, other: "LevelSums") -> "LevelSums":
        """The sums over the rows of both."""
        return LevelSums(
            self.rows + other.rows,
            self.weight + other.weight,
            self.loss + other.loss,
            self.gradient.plus(other.gradient),
            self.hessian.plus(other.hessian),
            _both(self.meat, other.meat),
            _both(self.information, other.information),
            self.squares + other.squares,
            max(self.pace, other.pace),
        )

    def only(self, kept: np.ndarray) -> "LevelSums":
        """The sums without some of the columns."""
        meat, expected = self.meat, self.information
        return self._replace(
            gradient=Vector(self.gradient.columns[kept], self.gradient.levels),
            hessian=self.hessian.only(kept),
            meat=None if meat is None else meat.only(kept),
            information=None if expected is None else expected.only(kept),
        )


def _both(a: Arrow | None, b: Arrow | None) -> Arrow | None:
    return None if a is None or b is None else a.plus(b)


@dataclass(frozen=True)
class LevelReader:
    """Reads of a source whose rows have very many levels.

    Args:
        reader: the source, the threads and the monitor.
        design: the columns beside the levels.
        family: of the responses; Fisher's information replaces H if it says so (`scoring`).
    """

    reader: Reader
    design: LevelDesign
    family: Family

    def read(self, at: Vector, meat: bool = False, information: bool = False) -> LevelSums:
        """The sums over all rows at a point."""

        def work(block: Rows) -> LevelSums | None:
            rows = self.design.rows(block)
            return self._sums(rows, at, meat, information) if len(rows.y) else None

        total = self.reader.total(work, Addition(LevelSums.plus))
        assert total is not None
        return total

    def _sums(self, rows: LevelRows, at: Vector, meat: bool, information: bool) -> LevelSums:
        X, codes, y, a, _ = rows
        family, size = self.family, self.design.many.levels_count

        def arrow(w: np.ndarray) -> Arrow:
            return Arrow.of(X, codes, size, rows.weighted(w))

        with np.errstate(all="ignore"):
            t = rows.predictors(at)
            value, r, w = family.local(t, y)
            slope = rows.weighted(r)
            squares = squared_residuals(family, t, r) if family.dispersed else np.zeros(1)
            return LevelSums(
                len(y),
                float(len(y) if a is None else a.sum()),
                float(rows.weighted(value).sum()),
                Vector(X.left(slope), sums(codes, size, slope)),
                arrow(w),
                arrow(r * r) if meat else None,
                arrow(family.information(t)) if information else None,
                float(rows.weighted(squares).sum()) if family.dispersed else 0.0,
                pace_of(family, y, r, w),
            )


def pace_of(family: Family, y: np.ndarray, r: np.ndarray, w: np.ndarray) -> float:
    """The largest l'' / |l'| of rows at a boundary: one over their own Newton step."""
    if not family.separable:
        return 0.0
    edge = ((y == family.lowest) | (y == family.highest)) & (r != 0)
    return float(np.abs(w[edge] / r[edge]).max(initial=0.0))


def check_block(rows: LevelRows, family: Family, block: Rows) -> None:
    """Refuse a block with values that are not finite, or responses outside the family's range."""
    low, high = float(rows.y.min()), float(rows.y.max())
    admitted = low >= family.lowest and high <= family.highest  # NaN is neither
    if not (rows.X.is_finite() and np.isfinite(low) and np.isfinite(high) and admitted):
        raise BadBlock(block)

"""Rows as a fit with effects sees them: columns about their centre, and a level of each grouping.

    t = (x - centre)'b + sum over groupings of a_k[level],    beta = b

The centre is taken so that sums of squares do not cancel; the first grouping's effects take it up.
Where columns hardly vary within levels, their regression on the effects is taken from them as well,
row by row (`shifts`), and the effects take that up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.arrays import pick
from masgrad.data.designs.coded import CodedDesign
from masgrad.data.designs.structured import Structured
from masgrad.data.groupings.grouping import Grouping, places_of_role
from masgrad.data.regression import Regression, groups_of, offset_of, weight_of
from masgrad.fitting.effects.rows.kept import Kept
from masgrad.fitting.effects.rows.recession import Recession
from masgrad.fitting.levels.arrow import Vector
from masgrad.models.families.family import Family
from masgrad.types import Rows


class EffectRows(NamedTuple):
    """Rows with their levels: columns, responses, weights, offsets and codes.

    Of a dense `X` the centre is still to be taken, unless it is None.
    """

    X: np.ndarray | Structured
    centre: np.ndarray | None
    y: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    codes: np.ndarray
    groups: np.ndarray

    def times(self, b: np.ndarray) -> np.ndarray:
        """(x - centre)'b."""
        t = self.X @ b
        return t if self.centre is None else t - self.centre @ b

    def centred(self) -> np.ndarray:
        """x - centre, written out."""
        if isinstance(self.X, Structured):
            return self.X.dense()
        return self.X if self.centre is None else self.X - self.centre

    @property
    def without_levels(self) -> Rows:
        """The rows of a regression."""
        return Regression(self.X, self.y, self.weight, self.offset)  # pyright: ignore

    def weighted(self, values: np.ndarray) -> np.ndarray:
        return values if self.weight is None else self.weight * values

    def largest(self) -> np.ndarray:
        """The largest |x - centre| of each column, (p,)."""
        if isinstance(self.X, Structured):
            return self.X.largest(np.ones(len(self.y)))
        centre = 0.0 if self.centre is None else self.centre
        return np.maximum(self.X.max(0) - centre, centre - self.X.min(0))


@dataclass(frozen=True)
class EffectDesign:
    """The columns that have a slope, and the groupings whose levels have effects.

    Args:
        width: number of columns of X in all.
        columns: those that have a slope, (q,).
        groupings: of the effects.
        places: their columns among the codes of rows.
        centre: of these columns, (q,); 0 of those that are not written out.
        kept: the rows that are kept, once they are known.
        shifts: the columns' regression on the effects that is taken from them, (L_k, q) for each
            grouping; None for none.
        recessions: directions along which rows are separated, which are not kept.
    """

    width: int
    columns: np.ndarray
    groupings: tuple[Grouping, ...]
    places: tuple[int, ...]
    centre: np.ndarray
    kept: Kept | None = None
    shifts: tuple[np.ndarray, ...] | None = None
    recessions: tuple[Recession, ...] = ()

    @classmethod
    def of(cls, groupings: Sequence[Grouping], sample: Rows) -> "EffectDesign":
        """The design of a source's rows, centred as some rows are."""
        places, X = tuple(places_of_role(groupings, "effects")), sample[0]
        p = X.shape[1]
        centre = np.zeros(p)
        with np.errstate(all="ignore"):
            if isinstance(X, CodedDesign):
                centre[X.at] = X.numbers.mean(0)
            else:
                centre = np.asarray(X.mean(0))
        centre = np.where(np.isfinite(centre), centre, 0.0)
        return cls(p, np.arange(p), tuple(groupings[k] for k in places), places, centre)

    def only(self, chosen: np.ndarray) -> "EffectDesign":
        """The design without some of its columns; `chosen` (q,) is a mask."""
        shifts = None if self.shifts is None else tuple(U[:, chosen] for U in self.shifts)
        return replace(
            self, columns=self.columns[chosen], centre=self.centre[chosen], shifts=shifts
        )

    def shifted(self, means: Sequence[np.ndarray]) -> "EffectDesign":
        """The design with more of the columns' regression on the effects taken from them."""
        before = self.shifts
        shifts = means if before is None else [a + b for a, b in zip(before, means, strict=True)]
        return replace(self, shifts=tuple(shifts))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels of each grouping, when all rows have been read."""
        return tuple(grouping.size for grouping in self.groupings)

    def codes(self, rows: Rows) -> np.ndarray:
        """The levels of rows, (n, K)."""
        codes = groups_of(rows)
        assert codes is not None
        return codes if self.places == tuple(range(codes.shape[1])) else codes[:, self.places]

    def _kept(self, rows: Rows) -> Rows:
        """The rows that are kept."""
        codes = self.codes(rows)
        mask = None if self.kept is None else self.kept.mask(codes)
        for direction in self.recessions:
            live = ~direction.separated(rows[0], rows[1], codes)
            mask = live if mask is None else mask & live
        if mask is None or mask.all():
            return rows
        chosen = np.flatnonzero(mask)
        return pick(lambda a: _only(a, chosen), rows)

    def rows(self, block: Rows) -> EffectRows:
        """The rows of a block that are kept."""
        block = self._kept(block)
        groups, X, centre = groups_of(block), block[0], self.centre
        assert groups is not None
        if isinstance(X, CodedDesign):
            X = X if len(self.columns) == self.width else X.only(self.columns)
            X, centre = CodedDesign(X.numbers - centre[X.at], X.at, X.groups), None
        else:
            X = X if len(self.columns) == self.width else X[:, self.columns]
        rows = EffectRows(
            X,
            centre,
            block[1],
            weight_of(block),
            offset_of(block),
            self.codes(block),
            groups,
        )
        return rows if self.shifts is None else self._shifted(rows)

    def _shifted(self, rows: EffectRows) -> EffectRows:
        assert self.shifts is not None
        X = rows.centred()
        for k, U in enumerate(self.shifts):
            X = X - U.take(rows.codes[:, k], axis=0, mode="clip")
        return rows._replace(X=X, centre=None)

    def split(self, levels: np.ndarray) -> list[np.ndarray]:
        """Values by level of all groupings, one after the other, by grouping."""
        return np.split(levels, np.cumsum(self.sizes)[:-1])

    def predictors(self, rows: EffectRows, at: Vector) -> np.ndarray:
        """The linear predictors of rows."""
        t = self.moves(rows, at)
        return t if rows.offset is None else t + rows.offset

    def moves(self, rows: EffectRows, step: Vector) -> np.ndarray:
        """The changes of the linear predictors of rows over a step."""
        return rows.times(step.columns) + self.effects_of(rows, step.levels)

    def effects_of(self, rows: EffectRows, levels: np.ndarray) -> np.ndarray:
        """The sums of the effects of rows, by level of all groupings one after the other."""
        first, *others = self.split(levels)
        t = first.take(rows.codes[:, 0], mode="clip")
        for k, effects in enumerate(others, 1):
            t += effects.take(rows.codes[:, k], mode="clip")
        return t

    def recession(self, along: Vector, family: Family) -> Recession:
        """A direction of slopes and effects, of all columns as the user has them."""
        slopes, effects = np.zeros(self.width), self.effects(along)
        slopes[self.columns] = along.columns
        if self.kept is not None:  # of levels that are left out nothing is known
            live = zip(self.kept.live, effects, strict=True)
            effects = tuple(np.where(kept, values, np.nan) for kept, values in live)
        return Recession(slopes, effects, family.lowest, family.highest)

    def effects(self, at: Vector) -> tuple[np.ndarray, ...]:
        """The effects beside x'beta, with x as the user has it, (L_k,) for each grouping."""
        found = self.split(at.levels)
        if self.shifts is not None:
            found = [a - U @ at.columns for a, U in zip(found, self.shifts, strict=True)]
        return (found[0] - self.centre @ at.columns, *found[1:])


def _only(a: Any, rows: np.ndarray) -> Any:
    """Some rows of an array, or of a design; take frees the interpreter for other threads."""
    if not isinstance(a, np.ndarray):
        return a[rows]
    if a.ndim == 2 and a.flags.f_contiguous:
        return a.T.take(rows, axis=1, mode="clip").T
    return a.take(rows, axis=0, mode="clip")

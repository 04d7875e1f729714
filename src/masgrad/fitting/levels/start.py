"""The first read: units of the columns, the responses of each level, and a start from them.

A level whose responses are all at one end of their range (all 0 or all 1 of a binomial family, all
0 of counts) has an infinite coefficient: the likelihood rises for ever along it, whatever the other
coefficients are. Its rows have no part in the others, and are left out from here on.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from masgrad.data.designs.coded import CodedDesign
from masgrad.data.designs.group_sums import sums
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.levels.design import LevelDesign, LevelRows
from masgrad.fitting.levels.sums import check_block
from masgrad.fitting.objective.objective import Objective, response_range
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.models.families.family import Family
from masgrad.types import Rows


class Totals(NamedTuple):
    """Sums over rows: by level, of columns, and of terms in y alone.

    Args:
        rows: their number.
        counts: rows of each level, (L,).
        weights: their weights, (L,).
        responses: sums of weighted responses, (L,).
        offsets: sums of weighted offsets, (L,).
        inner: rows of each level above the lowest and below the highest response, (2, L).
        mean: of the columns, (q,); 0 of dummies, which keep their units.
        squares: sums of squares about the mean, (q,); the number of rows for dummies.
        ends: smallest and largest value of each column, (2, q).
        span: smallest and largest response.
    """

    rows: int
    counts: np.ndarray
    weights: np.ndarray
    responses: np.ndarray
    offsets: np.ndarray
    inner: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    ends: np.ndarray
    span: tuple[float, float]

    @classmethod
    def of(cls, rows: LevelRows, size: int, family: Family) -> "Totals":
        X, codes, y, _, offset = rows
        one = np.ones(len(y))
        mean, squares = np.zeros(X.shape[1]), np.full(X.shape[1], float(len(y)))
        mean[X.at] = X.numbers.mean(0)
        squares[X.at] = np.square(X.numbers - mean[X.at]).sum(0)
        inside = (y > lowest_mean(family)) * 1.0, (y < family.highest) * 1.0
        known = np.zeros(size) if offset is None else sums(codes, size, rows.weighted(offset))
        return cls(
            len(y),
            sums(codes, size, one),
            sums(codes, size, rows.weighted(one)),
            sums(codes, size, rows.weighted(y)),
            known,
            np.array([sums(codes, size, one) for one in inside]),
            mean,
            squares,
            _ends(X),
            response_range((X, y)),
        )

    def plus(self, other: "Totals") -> "Totals":
        """The totals of both, columns about their common mean."""
        rows, step = self.rows + other.rows, other.mean - self.mean
        share = other.rows / rows
        between = step**2 * self.rows * share
        return Totals(
            rows,
            self.counts + other.counts,
            self.weights + other.weights,
            self.responses + other.responses,
            self.offsets + other.offsets,
            self.inner + other.inner,
            self.mean + share * step,
            self.squares + other.squares + between,
            np.array(
                [np.minimum(self.ends[0], other.ends[0]), np.maximum(self.ends[1], other.ends[1])]
            ),
            (min(self.span[0], other.span[0]), max(self.span[1], other.span[1])),
        )


def lowest_mean(family: Family) -> float:
    """The lowest response, or the end of the means' range for Gaussian responses."""
    positive = family.name == "gaussian" and family.link != "identity"
    return 0.0 if positive else family.lowest


def _ends(X: CodedDesign) -> np.ndarray:
    """The smallest and the largest value of each column, (2, q); 0 and 1 of dummies."""
    ends = np.array([np.zeros(X.shape[1]), np.ones(X.shape[1])])
    ends[0, X.at], ends[1, X.at] = X.numbers.min(0), X.numbers.max(0)
    return ends


@dataclass(frozen=True)
class LevelStart:
    """Where a fit with very many levels begins.

    Args:
        design: in units of the rows, without levels that have no estimate.
        point: each level at its own mean.
        totals: of all rows.
        sides: -1 and 1 for separated levels, NaN for levels without rows, 0 for others, (L,).
        constants: terms of the deviance and of the likelihood that depend on y alone.
    """

    design: LevelDesign
    point: Vector
    totals: Totals
    sides: np.ndarray
    constants: np.ndarray

    def largest(self, design: LevelDesign) -> np.ndarray:
        """The largest |z| of each column of a design, (q,)."""
        ends = self.totals.ends[:, np.isin(self.design.columns, design.columns)]
        return np.abs((ends - design.centre) / design.scale).max(0)


def first_read(reader: Reader, design: LevelDesign, objective: Objective) -> LevelStart:
    """Read the rows once, and begin at the mean response of each level."""
    family, size = objective.family, design.many.levels_count
    assert family is not None

    def work(block: Rows) -> tuple[Totals, np.ndarray]:
        rows = design.rows(block)
        check_block(rows, family, block)
        return Totals.of(rows, size, family), objective.constants(block)

    found = reader.total(work, Addition(_plus))
    if found is None:
        raise InputError("the data hold no rows; at least one observation is needed")
    total, constants = found
    sides = _sides(total, family, objective, design)
    spread = np.sqrt(total.squares / total.rows)
    written = np.isfinite(spread) & (spread > 1e-12 * np.abs(total.mean))
    scaled = replace(
        design,
        centre=total.mean,
        scale=np.where(written, spread, np.maximum(np.abs(total.mean), 1.0)),
        live=sides == 0,
    )
    point = Vector(np.zeros(len(design.columns)), _level_start(total, family, sides == 0))
    return LevelStart(scaled, point, total, sides, constants)


def _plus(a: tuple[Totals, np.ndarray], b: tuple[Totals, np.ndarray]) -> tuple[Totals, np.ndarray]:
    return a[0].plus(b[0]), a[1] + b[1]


def _sides(total: Totals, family: Family, objective: Objective, design: LevelDesign) -> np.ndarray:
    """Which levels have no estimate, and to which side they go."""
    low, high = total.inner == 0
    empty = total.counts == 0
    base = design.base()
    if base is not None and empty[base]:
        level = design.many.category.levels[design.many.category.base]
        raise IdentificationError(
            f"no row has the base level {level!r} of {design.many.category.column}, from which the "
            "others are measured; choose another: C(column, Treatment(level))"
        )
    at_end = (low | high) & ~empty
    if family.name == "gaussian" and at_end.any():
        raise InputError(
            f"{int(at_end.sum()):,} levels of {design.many.category.column} have no response above "
            f"0, and every mean of the gaussian family with the {family.link} link is: the fit "
            "improves for ever as their means fall to 0; use link='identity', or join levels"
        )
    if at_end.any() and family.separable is False and np.isfinite(family.domain).any():
        raise optimum_on_border(objective)
    sides = np.where(at_end & family.separable, np.where(low, -1.0, 1.0), 0.0)
    if (sides != 0).all():
        raise InputError(
            f"every level of {design.many.category.column} has responses of one kind alone, at the "
            "end of their range: no level has an estimate; group its levels"
        )
    return np.where(empty, np.nan, sides)


def _level_start(total: Totals, family: Family, live: np.ndarray) -> np.ndarray:
    """Predictors of the levels' means, each drawn to the mean of all by one observation."""
    every = total.responses[live].sum() / total.weights[live].sum()
    with np.errstate(all="ignore"):
        means = (total.responses + every) / (total.weights + 1.0)
        own = np.asarray(family.predictor(means), np.float64)
        common = float(family.predictor(np.array(every)))
        offsets = np.nan_to_num(total.offsets / total.weights)
    return np.where(live, np.where(np.isfinite(own), own, common) - offsets, 0.0)

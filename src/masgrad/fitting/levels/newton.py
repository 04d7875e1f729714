"""Damped Newton steps over reads, with the levels eliminated.

Every read sums the gradient and H at a point, and the loss of all rows decides whether the step to
it is kept or halved. The length of a step in standard errors of the worst contrast is

    decrement = sqrt(G' H^-1 G / dispersion)

Reads end once it is small, and no row at the end of its range is carried by its own Newton step:
in separated rows every Newton step does that, however short it is in standard errors
(`identification/rank.py`). Where the loss is not convex steps are Fisher's scoring.

A level of a few rows may be where its curvature vanishes, such as that of a Poisson mean near 0,
and a step g / d of its own would end nowhere. So d is at least |g| / 4 in a step, unless the loss
is quadratic; as g vanishes this changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.errors import IdentificationError
from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.identification.rank import KEEPS_SIGN, listed
from masgrad.fitting.levels.arrow import COLLINEAR, Eliminated, Vector, eliminate, schur_complement
from masgrad.fitting.levels.design import LevelDesign
from masgrad.fitting.levels.sums import LevelSums
from masgrad.fitting.objective.objective import Objective
from masgrad.models.gram import scaled_spectrum

NEAR = 1.0
"""Decrement from which the next read sums M as well: it is likely to be the last."""

LEAST_FALL = 1e-4
"""Share of the fall that the gradient promises, without which a step is halved."""

ROUNDING = 1e-12
"""Relative rise of a sum of losses that is rounding."""

MOST_HALVINGS = 30

READS_IN_DOUBT = 10
"""Reads after the decrement is small in which the steps may still carry a row."""

WITHIN_SHARE = 1e-10
"""Share of a column's variation within levels below which it does not vary there."""

LONGEST = 4.0
"""Longest move of a level in a step, in units of its predictor, beyond that of the columns."""

Read = Callable[[Vector, bool], LevelSums]
"""Sums at a point, with M or without it."""


@dataclass(frozen=True)
class LevelEstimate:
    """Where the reads ended.

    Args:
        point: the estimate.
        sums: there, or a short step before it.
        decrement: of the last point that was read.
        correction: decrement of the last step but one.
        reads: number of reads.
    """

    point: Vector
    sums: LevelSums
    decrement: float
    correction: float
    reads: int


def decrement_of(sums: LevelSums, step: Vector, dispersed: bool, floor: float) -> float:
    """The length of a Newton step in standard errors of the worst contrast.

    It is 0 where X^2 is below `floor`, what rounding errors leave of a perfect fit.
    """
    if dispersed and sums.squares <= floor:
        return 0.0
    unit = sums.squares / sums.weight if dispersed else 1.0
    return float(np.sqrt(max(-sums.gradient.dot(step), 0.0) / unit))


def newton_step(sums: LevelSums, bread: Eliminated) -> Vector:
    """-H^-1 G."""
    found = bread.solve(sums.gradient)
    return Vector(-found.columns, -found.levels)


@dataclass(frozen=True)
class LevelNewton:
    """Newton steps for the mean loss of rows with very many levels.

    Args:
        objective: the loss.
        design: the columns, for messages.
        names: of all columns of X.
        largest: the largest |z| of each column, (q,).
        floor: X^2 that rounding errors leave.
        tolerance: decrement at which reads end.
        most_reads: number of reads.
        exact: whether one step is exact, for least squares.
    """

    objective: Objective
    design: LevelDesign
    names: tuple[str, ...]
    largest: np.ndarray
    floor: float
    tolerance: float
    most_reads: int
    exact: bool

    def minimise(self, read: Read, point: Vector, sums: LevelSums) -> LevelEstimate:
        """The optimum, from a point with its sums."""
        correction, reads, doubts, dispersed = np.inf, 1, 0, self.objective.dispersed
        while True:
            damped = self._damped(sums)
            step = newton_step(sums, self._bread(damped, first=reads == 1))
            length = decrement_of(sums, step, dispersed, self.floor) + _held_back(sums, damped)
            settled = self._is_settled(sums, step)
            if length <= self.tolerance and settled:
                point = point.plus(step)
                break
            doubts += length <= self.tolerance
            if doubts > READS_IN_DOUBT:
                raise self._separated(step.columns)
            if reads >= self.most_reads:
                break
            meat = self.exact or length <= NEAR
            point, sums, more = self._descend(lambda at, m=meat: read(at, m), point, sums, step)
            reads, correction = reads + more, length
        return LevelEstimate(point, sums, length, min(correction, 1e300), reads)

    def _descend(
        self, read: Callable[[Vector], LevelSums], point: Vector, sums: LevelSums, step: Vector
    ) -> tuple[Vector, LevelSums, int]:
        """The step, halved until the loss of all rows falls; and the reads that it took."""
        slope, share = sums.gradient.dot(step), 1.0
        slack = ROUNDING * (abs(sums.loss) + sums.weight)
        for reads in range(1, MOST_HALVINGS + 1):
            there = point.plus(step, share)
            found = read(there)
            lower = found.loss <= sums.loss + LEAST_FALL * share * slope + slack
            if lower and np.isfinite(found.gradient.columns).all():
                return there, found, reads
            share /= 2
        raise optimum_on_border(self.objective) if self.objective.bounded else self._no_descent()

    def _no_descent(self) -> IdentificationError:
        return IdentificationError(
            "the loss falls along no Newton step: it has no minimum that could be found, or "
            "columns are nearly collinear; rescale or drop columns, or choose another link"
        )

    def _is_settled(self, sums: LevelSums, step: Vector) -> bool:
        """Whether no row at a boundary is carried by its own Newton step: an optimum exists."""
        farthest = np.abs(step.levels).max(initial=0.0) + self.largest @ np.abs(step.columns)
        return float(farthest) * sums.pace < KEEPS_SIGN

    def _damped(self, sums: LevelSums) -> LevelSums:
        """The sums with d large enough for no level to move far by itself."""
        if self.exact or self.objective.bounded:
            return sums
        d = np.maximum(sums.hessian.diagonal, np.abs(sums.gradient.levels) / LONGEST)
        return sums._replace(hessian=sums.hessian._replace(diagonal=d))

    def _bread(self, sums: LevelSums, first: bool) -> Eliminated:
        """H, eliminated; an error that names columns if it is singular."""
        found = eliminate(sums.hessian)
        if found is not None:
            return found
        S = schur_complement(sums.hessian)
        if not np.isfinite(S).all():
            raise self._no_descent()
        size, values, Q = scaled_spectrum(S)
        if values[0] > COLLINEAR:
            raise self._no_descent()
        if not first and sums.pace:  # it was regular: information has vanished on the way
            raise self._separated(Q[:, 0] / size)
        raise IdentificationError(
            f"columns {self._listed(Q[:, 0], 1e-3)} determine one another (collinear), beside the "
            f"levels of {self.design.many.category.column}: their coefficients cannot be told "
            "apart; drop one of them"
        )

    def _separated(self, direction: np.ndarray) -> IdentificationError:
        """The error for rows that columns separate, beyond levels with responses of one kind."""
        column = self.design.many.category.column
        along = self._listed(self.largest * direction) or column
        return IdentificationError(
            f"the responses are separated along {along}: the likelihood rises for ever in some "
            f"direction beside those of single levels of {column}; drop the column, or join levels"
        )

    def _listed(self, loads: np.ndarray, share: float = 0.1) -> str:
        """The columns with the largest loads."""
        chosen = np.zeros(len(self.names), bool)
        chosen[self.design.columns[np.abs(loads) > share * np.abs(loads).max(initial=0.0)]] = True
        return listed(chosen, self.names)


def _held_back(sums: LevelSums, damped: LevelSums) -> float:
    """The length of what damping has taken from the levels' own steps g / d."""
    held = damped.hessian.diagonal > sums.hessian.diagonal
    g, d = sums.gradient.levels[held], sums.hessian.diagonal[held]
    with np.errstate(divide="ignore"):
        return float(np.sqrt((g * g / d).sum()))


def varies_within(sums: LevelSums) -> np.ndarray:
    """Mask of the columns that vary within levels, (q,)."""
    within, whole = np.diag(schur_complement(sums.hessian)), np.diag(sums.hessian.corner)
    return within > WITHIN_SHARE * whole

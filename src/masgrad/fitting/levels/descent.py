"""Damped Newton steps over reads of rows with a coefficient for each level.

Every read sums the gradient and H at a point, and the loss of all rows decides whether the step to
it is kept or halved. Reads end once a step is short in standard errors of the worst contrast, and
no row at the end of its range is carried by its own Newton step: in separated rows every Newton
step does that, however short it is in standard errors (`identification/rank.py`).

How H is solved, with one category's levels eliminated or with those of several groupings, is up to
`LevelNewton` and to `EffectNewton`.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from masgrad.errors import IdentificationError
from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.identification.rank import KEEPS_SIGN
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.objective.objective import Objective

NEAR = 1.0
"""Length of a step from which the next read sums M as well: it is likely to be the last."""

LEAST_FALL = 1e-4
"""Share of the fall that the gradient promises, without which a step is halved."""

ROUNDING = 1e-12
"""Relative rise of a sum of losses that is rounding."""

MOST_HALVINGS = 30

READS_IN_DOUBT = 10
"""Reads after steps are short in which they may still carry a row."""


class PointSums(Protocol):
    """Sums over rows at a point."""

    @property
    def weight(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def squares(self) -> float: ...
    @property
    def pace(self) -> float: ...
    @property
    def is_finite(self) -> bool: ...


Read = Callable[[Vector, bool], Any]
"""Sums at a point, with M or without it."""


class Step(NamedTuple):
    """A Newton step.

    Args:
        step: -H^-1 G.
        length: in standard errors of the worst contrast.
        slope: of the loss along the step, G'step.
    """

    step: Vector
    length: float
    slope: float


@dataclass(frozen=True)
class LevelEstimate:
    """Where the reads ended.

    Args:
        point: the estimate.
        sums: there, or a short step before it.
        decrement: of the last point that was read.
        correction: decrement of the last step but one.
        reads: number of reads.
        doubt: the step from there, if it carries a row to its boundary, however short it is: the
            rows may be separated.
        settled: whether reads ended because the step is short.
    """

    point: Vector
    sums: Any
    decrement: float
    correction: float
    reads: int
    doubt: Vector | None = None
    settled: bool = True


@dataclass(frozen=True)
class Descent(abc.ABC):
    """Newton steps for the mean loss of rows with a coefficient for each level.

    Args:
        objective: the loss.
        largest: the largest |z| of each column, (q,).
        floor: X^2 that rounding errors leave.
        tolerance: length at which reads end.
        most_reads: number of reads.
        exact: whether one step is exact, for least squares.
        mean_weight: of the rows, if weights are no frequencies; 1 if they are.
    """

    objective: Objective
    largest: np.ndarray
    floor: float
    tolerance: float
    most_reads: int
    exact: bool
    mean_weight: float

    doubtful: ClassVar[float] = 0.0
    """Length of a step, beside the tolerance, below which it should carry no row."""

    @abc.abstractmethod
    def step_from(self, sums: Any, first: bool, point: Vector) -> Step:
        """-H^-1 G at a point, an error that names columns if H is singular there.

        `first` says whether the sums are the first.
        """

    @abc.abstractmethod
    def separated(self, step: Vector) -> IdentificationError:
        """The error for rows that are separated along a step."""

    @abc.abstractmethod
    def farthest(self, step: Vector) -> float:
        """A bound on the change of a row's predictor over a step."""

    def length_of(self, sums: PointSums, slope: float) -> float:
        """The length of a Newton step, by the slope along it, in standard errors of the worst
        contrast, sqrt(-slope / unit): whatever the scale of weights that are no frequencies.

        It is 0 where X^2 is below `floor`, what rounding errors leave of a perfect fit.
        """
        dispersed = self.objective.dispersed
        if dispersed and sums.squares <= self.floor:
            return 0.0
        unit = self.mean_weight * (sums.squares / sums.weight if dispersed else 1.0)
        return float(np.sqrt(max(-slope, 0.0) / unit))

    def minimise(
        self, read: Read, point: Vector, sums: Any, patience: int = READS_IN_DOUBT
    ) -> LevelEstimate:
        """The optimum, from a point with its sums; doubts end it after `patience` short steps."""
        correction, reads, doubts = np.inf, 1, 0
        while True:
            found = self.step_from(sums, reads == 1, point)
            step, length = found.step, found.length
            settled = self.farthest(step) * sums.pace < KEEPS_SIGN
            if length <= self.tolerance and settled:
                point = point.plus(step)
                break
            doubtful = not settled and length <= max(self.tolerance, self.doubtful)
            doubts += doubtful
            if doubts > patience or reads >= self.most_reads:
                doubt = step if doubtful else None
                last = min(correction, 1e300)
                return LevelEstimate(point, sums, length, last, reads, doubt, settled=False)
            meat = self.exact or length <= NEAR
            point, sums, more = self._descend(lambda at, m=meat: read(at, m), point, sums, found)
            reads, correction = reads + more, length
        return LevelEstimate(point, sums, length, min(correction, 1e300), reads)

    def _descend(
        self, read: Callable[[Vector], Any], point: Vector, sums: Any, step: Step
    ) -> tuple[Vector, Any, int]:
        """The step, halved until the loss of all rows falls; and the reads that it took."""
        share = 1.0
        slack = ROUNDING * (abs(sums.loss) + sums.weight)
        for reads in range(1, MOST_HALVINGS + 1):
            there = point.plus(step.step, share)
            found = read(there)
            lower = found.loss <= sums.loss + LEAST_FALL * share * step.slope + slack
            if lower and found.is_finite:
                return there, found, reads
            share /= 2
        raise optimum_on_border(self.objective) if self.objective.bounded else self.no_descent()

    def no_descent(self) -> IdentificationError:
        return IdentificationError(
            "the loss falls along no Newton step: it has no minimum that could be found, or "
            "columns are nearly collinear; rescale or drop columns, or choose another link"
        )

"""Newton steps with the levels of one category eliminated.

A level of a few rows may be where its curvature vanishes, such as that of a Poisson mean near 0,
and a step g / d of its own would end nowhere. So d is at least |g| / 4 in a step, unless the loss
is quadratic; as g vanishes this changes nothing. Where the loss is not convex steps are Fisher's
scoring.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.errors import IdentificationError
from masgrad.fitting.identification.rank import listed
from masgrad.fitting.levels.arrow import COLLINEAR, Eliminated, Vector, eliminate, schur_complement
from masgrad.fitting.levels.descent import Descent, Step
from masgrad.fitting.levels.design import LevelDesign
from masgrad.fitting.levels.sums import LevelSums
from masgrad.models.gram import scaled_spectrum

WITHIN_SHARE = 1e-10
"""Share of a column's variation within levels below which it does not vary there."""

LONGEST = 4.0
"""Longest move of a level in a step, in units of its predictor, beyond that of the columns."""


def newton_step(sums: LevelSums, bread: Eliminated) -> Vector:
    """-H^-1 G."""
    found = bread.solve(sums.gradient)
    return Vector(-found.columns, -found.levels)


@dataclass(frozen=True)
class LevelNewton(Descent):
    """Newton steps for the mean loss of rows with very many levels.

    Args:
        design: the columns, for messages.
        names: of all columns of X.
    """

    design: LevelDesign
    names: tuple[str, ...]

    def step_from(self, sums: LevelSums, first: bool, point: Vector) -> Step:
        del point
        damped = self._damped(sums)
        step = newton_step(sums, self._bread(damped, first))
        slope = sums.gradient.dot(step)
        length = self.length_of(sums, slope) + _held_back(sums, damped)
        return Step(step, length, slope)

    def separated(self, step: Vector) -> IdentificationError:
        return self._separated(step.columns)

    def farthest(self, step: Vector) -> float:
        return float(np.abs(step.levels).max(initial=0.0) + self.largest @ np.abs(step.columns))

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
            raise self.no_descent()
        size, values, Q = scaled_spectrum(S)
        if values[0] > COLLINEAR:
            raise self.no_descent()
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

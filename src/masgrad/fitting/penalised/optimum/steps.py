"""Proximal Newton steps of a local model, and what pilot rows say that the model misses.

    w' = prox_{1,H}(w - H^-1 b(w))

The gradient that a local model misses a step away, g(phi + step) - g(phi) - H step, is summed over
the pilot rows and counted for all (`third_order.py` does so without a penalty). A step that
allows for it is a fixed point: the minimum of the local model, the penalty, and what is missed at
that minimum. It is found by repetition, which contracts where H changes by less than itself along
the step; elsewhere nothing is predicted.

Steps and falls are judged in standard errors: step' H step, and twice N times the fall of the
objective, over the dispersion, so that the units of y do not matter.
"""

from typing import NamedTuple

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.uncertainty.likelihood import dispersion
from masgrad.penalties.minimise import minimise
from masgrad.types import Rows

NEAR = 0.01
"""Distance to the fixed point, in standard errors (root mean square), at which repetition ends."""

CONTRACTION, MOST_REPETITIONS = 0.75, 20
"""Largest ratio of two successive changes, and the largest number of them."""


class Step(NamedTuple):
    """A step over a local model.

    Args:
        psi: its end.
        fall: of the mean objective, as the local model has it.
        missed: the gradient that the local model misses there, summed over all rows.
        correction: what `missed` has changed of psi, in standard errors; infinite if unknown.
    """

    psi: np.ndarray
    fall: float
    missed: np.ndarray | float = 0.0
    correction: float = np.inf

    def end(self, space: PenaltyCoordinates, local: LocalModel) -> LocalModel:
        """The local model there."""
        there = local.at(space.phi(self.psi))
        return there.with_same_hessian(gradient=there.gradient + self.missed)


def squared_unit(objective: Objective, local: LocalModel) -> float:
    """N times the loss that is half of one squared standard error: the dispersion, or 1."""
    return dispersion(objective.model, local, 0) or 1.0


def newton_step(space: PenaltyCoordinates, local: LocalModel, psi: np.ndarray) -> Step:
    """To the minimum of the local model with the penalty, which is sought from psi."""
    model, level = space.quadratic(local), space.intercept(space.psi(local.point))
    old = psi - level
    new = minimise(space.penalty, model, old)
    slopes = model.slope(old) + model.slope(new)  # two values would share most of their digits
    fall = float((old - new) @ slopes) / 2 + space.value(old) - space.value(new)
    return Step(new + level, max(fall, 0.0) if np.isfinite(fall) else np.inf)


def predicted_step(
    objective: Objective, space: PenaltyCoordinates, local: LocalModel, step: Step, rows: Rows
) -> Step | None:
    """The step with what the local model misses on these pilot rows; None if none is found.

    Args:
        objective: the loss, with the curvatures that the local model has.
        space: the penalty, and the coordinates in which it acts.
        local: of all rows, where they were read.
        step: of the local model alone.
        rows: pilot rows.
    """
    share, near = local.count / total_weight(rows), NEAR * np.sqrt(len(step.psi))
    unit = squared_unit(objective, local)
    psi, first, last = step.psi, 0.0, np.inf
    for _ in range(MOST_REPETITIONS):
        missed = share * objective.missed_gradient(local.point, space.phi(psi) - local.point, rows)
        if not np.isfinite(missed).all():
            return None
        changed = local.with_same_hessian(gradient=local.gradient + missed)
        new = newton_step(space, changed, psi).psi
        moved = space.phi(new - psi)
        size = float(np.sqrt(max(moved @ local.hessian @ moved / unit, 0.0)))
        psi, first = new, first or size
        if size <= near:
            return Step(psi, step.fall, missed, first)
        if size > CONTRACTION * last:
            return None
        last = size
    return None

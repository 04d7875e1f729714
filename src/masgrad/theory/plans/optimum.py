"""The minimum of the mean loss of rows in memory, for a survey: found as `mg.fit` finds it."""

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import NotConvex
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.optimise.nonconvex.start import check_minimum, is_flat, lowest_minimum
from masgrad.fitting.optimise.start import coordinates_of
from masgrad.fitting.options import Options
from masgrad.models.model import Model
from masgrad.types import Rows, float64


@float64
def local_minimum(model: Model, rows: Rows, start: np.ndarray | None = None) -> np.ndarray:
    """A minimiser of the mean loss over checked rows, (p,).

    Paper: strongly Morse - H is positive definite at what is returned, or an error is raised

    Args:
        model: the loss.
        rows: in memory.
        start: where the descent begins; without one it is 0, and several random points of a loss
            that has several optima, of which the lowest is returned.

    Raises:
        InputError: if there is no minimum at the end, or H is singular there.
    """
    objective = Objective(model, coordinates_of(model, rows, start))
    try:
        with np.errstate(all="ignore"):
            found = lowest_minimum(objective, rows, Options(start=start), np.random.default_rng(0))
        check_minimum(found.initial_curvature, found.local_model)
    except (NotConvex, BadBlock):
        raise InputError(
            "no minimum was found from this start: the mean loss falls without end, is not finite, "
            "or has kinks that stop the search; give optimum= and region=, or another theta0"
        ) from None
    if is_flat(found.local_model):
        raise InputError(
            "the mean loss has no strict minimum where the search ended: H is singular there; give "
            "optimum= and region=, or another theta0"
        )
    return objective.coordinates.theta(found.local_model.point)

"""Scores of single rows in phi: weighted gradients, with the slope of a ridge."""

import numpy as np

from masgrad.data.regression import weight_of
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.row_gradients import row_gradients
from masgrad.models.glm import add_offset
from masgrad.types import Rows


def scores_of(objective: Objective, phi: np.ndarray, rows: Rows) -> np.ndarray:
    """The score of every row at phi, (n, p); they sum to the gradient of the objective."""
    G, a = _of_loss(objective, phi, rows), weight_of(rows)
    slope = objective.ridge.slope(phi)
    if not np.ndim(slope):
        return G
    return G + (slope if a is None else np.outer(a, slope))


def _of_loss(objective: Objective, phi: np.ndarray, rows: Rows) -> np.ndarray:
    if objective.family is None:
        return row_gradients(objective, phi, rows)
    U, a = objective.features(rows), weight_of(rows)
    r = objective.family.slope(add_offset(U @ phi, rows), rows[1])
    return (r if a is None else a * r)[:, None] * U

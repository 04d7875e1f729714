"""Gradients of single rows of a loss without a linear predictor, in phi."""

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import weight_of
from masgrad.fitting.objective.objective import Objective
from masgrad.types import Rows


def row_gradients(objective: Objective, phi: np.ndarray, rows: Rows) -> np.ndarray:
    """The gradient of every row in phi, times its weight, (n, p)."""
    theta, a = objective.coordinates.theta(phi), weight_of(rows)
    G = np.concatenate([objective.model.row_gradients(theta, block) for block in blocks(rows)])
    G = G @ objective.coordinates.matrix
    return G if a is None else a[:, None] * G

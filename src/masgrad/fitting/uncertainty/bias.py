"""The bias that p / N causes: that of a maximum likelihood estimate, to first order.

    E[theta^] - theta*  ~  -H^-1 sum_i  w_i x_i q_i mu''_i / (2 mu'_i),   q_i = scale x_i' H^-1 x_i

(Cox & Snell 1968, for any link; scale is the dispersion). It is of order p / N, but grows with the
signal: a logistic fit with strong effects can be biased by more than its standard error at
p / N = 0.005.
"""

import numpy as np

from masgrad.data.arrays import blocks, every_few, is_structured, pick
from masgrad.data.regression import total_weight, weight_of
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.models.families.family import Family
from masgrad.models.glm import add_offset
from masgrad.types import Rows

BIAS_ROWS = 8192
"""Pilot rows over which the bias is summed."""


def bias(objective: Objective, local: LocalModel, pilot: Rows) -> np.ndarray | None:
    """The bias of phi, from rows that represent the others; None if it is 0 or not known."""
    family = objective.family
    if family is None or (family.canonical and family.link == "identity"):
        return None
    pilot, total = pick(lambda a: every_few(a, BIAS_ROWS), pilot), np.zeros_like(local.point)
    for rows in blocks(pilot):
        total += _block(objective, family, local, rows)
    scale = local.squares / max(local.count - len(total), 1) if family.dispersed else 1.0
    return -local.solve(total) * (scale * local.count / total_weight(pilot))


def _block(objective: Objective, family: Family, local: LocalModel, rows: Rows) -> np.ndarray:
    J, a, phi = objective.coordinates.matrix, weight_of(rows), local.point
    if is_structured(rows) and not objective.coordinates.transforms_rows:
        U = rows[0]
        t = add_offset(U @ (J @ phi), rows)
        q = np.square(U @ (J @ np.linalg.cholesky(local.inverse()))).sum(1)
    else:
        U, J = objective.features(rows), np.eye(len(phi))
        t = add_offset(U @ phi, rows)
        if local.factor:
            q = np.square(local.factor.whitened(U.T)).sum(0)
        else:
            q = np.square(U @ np.linalg.cholesky(local.inverse())).sum(1)
    with np.errstate(all="ignore"):
        pull = family.information(t) * q * _bend(family, t) / 2
    pull = np.where(np.isfinite(pull), pull, 0.0)
    return (pull if a is None else a * pull) @ U @ J


def _bend(family: Family, t: np.ndarray) -> np.ndarray:
    """mu'' / mu', by differences."""
    h = 1e-4 * np.maximum(np.abs(t), 1.0) if np.isinf(family.domain).all() else 1e-4 * np.abs(t)
    up, here, down = family.mean(t + h), family.mean(t), family.mean(t - h)
    return 2 * (up - 2 * here + down) / ((up - down) * h)

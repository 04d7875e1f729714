"""The first-order bias of a maximum likelihood estimate: what p / N does to it.

    E[theta^] - theta*  ~  -H^-1 sum_i  w_i x_i q_i mu''_i / (2 mu'_i),   q_i = scale x_i' H^-1 x_i

(Cox & Snell 1968, for any link; scale is the dispersion). It is of order p / N, but grows with the
signal: a logistic fit with strong effects can be biased by more than its standard error at
p / N = 0.005.
"""

import numpy as np

from masgrad.data.arrays import blocks, pick
from masgrad.data.regression import total_weight, weight_of
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.models.family import Family
from masgrad.models.glm import add_offset
from masgrad.types import Rows

ENOUGH = 8192
"""Kept rows that are looked at."""


def bias(problem: Problem, local: Quadratic, kept: Rows) -> np.ndarray | None:
    """The bias of phi, from rows that stand for the others; None without a likelihood."""
    family = problem.family
    if family is None or (family.canonical and family.link == "identity"):
        return None
    half, kept = np.linalg.cholesky(local.inverse()), pick(lambda a: a[:ENOUGH], kept)
    total = np.zeros_like(local.point)
    for rows in blocks(kept):
        total += _block(problem, family, local.point, half, rows)
    scale = local.squares / max(local.count - len(total), 1) if family.dispersed else 1.0
    return -local.solve(total) * (scale * local.count / total_weight(kept))


def _block(
    problem: Problem, family: Family, phi: np.ndarray, half: np.ndarray, rows: Rows
) -> np.ndarray:
    U, a = problem.features(rows), weight_of(rows)
    t = add_offset(U @ phi, rows)
    q = np.square(U @ half).sum(1)
    with np.errstate(all="ignore"):
        pull = family.information(t) * q * _bend(family, t) / 2
    pull = np.where(np.isfinite(pull), pull, 0.0)
    return (pull if a is None else a * pull) @ U


def _bend(family: Family, t: np.ndarray) -> np.ndarray:
    """mu'' / mu', by differences."""
    h = 1e-4 * np.maximum(np.abs(t), 1.0) if np.isinf(family.domain).all() else 1e-4 * np.abs(t)
    up, here, down = family.mean(t + h), family.mean(t), family.mean(t - h)
    return 2 * (up - 2 * here + down) / ((up - down) * h)

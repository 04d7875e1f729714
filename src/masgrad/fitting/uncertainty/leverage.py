"""HC3: gradients divided by 1 - leverage.

Leverages are those of the expected H at the estimate: at most 1, which observed curvatures do not
ensure. A row of leverage 1 alone determines some direction. Its residual is 0, so that HC3 has 0/0
there: it is left out, and the covariance of coefficients that depend on it is NaN.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import weight_of
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import ALL_BLOCKS, Addition, these
from masgrad.fitting.sources import Sample
from masgrad.models.glm import add_offset
from masgrad.models.gram import ZERO_EIGENVALUE
from masgrad.types import Rows

FULL_LEVERAGE = 1e-8
"""Distance of a leverage from 1 that is 0 to rounding."""


def leveraged_meat(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    local: LocalModel,
    B: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of g g' / (1 - h)^2 with h the leverage of a row, the meat of HC3; and a mask.

    B is a basis of the directions of phi that have an estimate. The mask has the coefficients of
    theta that depend on a row of leverage 1, which is left out.
    """
    if not B.shape[1]:
        return np.zeros_like(local.meat), np.zeros(len(local.point), bool)
    expected = _expected_hessian(objective, reader, sample, local.point)
    part = replace(local, point=local.point @ B, hessian=B.T @ expected @ B)
    size, values, Q = part.spectrum
    seen = values > ZERO_EIGENVALUE
    half = B @ (Q[:, seen] / np.sqrt(values[seen]) / size[:, None])
    influence = objective.coordinates.matrix @ half @ half.T
    scale = np.sqrt(np.square(objective.coordinates.matrix @ half).sum(1))[:, None]

    def work(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        Z, alone = _leveraged_block(objective, local.point, half, rows)
        moved = np.abs(influence @ alone.T)
        length = np.sqrt(np.square(alone @ half).sum(1))
        return Z.T @ Z, (moved > FULL_LEVERAGE * scale * length).any(1)

    return _total(reader, sample, work, lambda a, b: (a[0] + b[0], a[1] | b[1]))


def _total(
    reader: Reader, sample: Sample, work: Callable[[Rows], Any], add: Callable[[Any, Any], Any]
) -> Any:
    """The results of `work` on all rows, added."""
    workers = reader.threads_for(reader.source.count)
    cut = these(blocks(sample.rows)) if sample.complete else ALL_BLOCKS
    return reader.total(work, Addition(add), workers, cut)


def _expected_hessian(
    objective: Objective, reader: Reader, sample: Sample, phi: np.ndarray
) -> np.ndarray:
    """The expected H of all rows at phi."""
    assert objective.family is not None
    family = objective.family

    def work(rows: Rows) -> np.ndarray:
        U, a = objective.features(rows), weight_of(rows)
        w = family.information(add_offset(U @ phi, rows))
        return U.T @ ((w if a is None else a * w)[:, None] * U)

    return _total(reader, sample, work, np.add)


def _leveraged_block(
    objective: Objective, phi: np.ndarray, half: np.ndarray, rows: Rows
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients over 1 - h, row by row; and the rows in phi whose h is 1."""
    assert objective.family is not None
    U, a = objective.features(rows), weight_of(rows)
    t = add_offset(U @ phi, rows)
    r = objective.family.slope(t, rows[1])
    h = objective.family.information(t) * np.square(U @ half).sum(1)
    if a is not None:  # a frequency is so many rows, each with the leverage of one
        r, h = (r * a, h * a) if objective.squared else (r * np.sqrt(a), h)
    left = 1.0 - h
    alone = left <= FULL_LEVERAGE
    return U * np.where(alone, 0.0, r / np.where(alone, 1.0, left))[:, None], U[alone]

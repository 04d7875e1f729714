"""The first step of Fisher scoring, from the responses themselves: least squares of their link."""

from collections.abc import Iterable
from functools import reduce

import numpy as np

from masgrad.data.regression import offset_of, weight_of
from masgrad.fitting.objective.objective import Objective
from masgrad.models.families.family import Family
from masgrad.types import Rows


def pulled_predictors(family: Family, y: np.ndarray, mean: float) -> np.ndarray:
    """The link of responses pulled halfway to their mean."""
    pulled = (y + mean) / 2
    pulled = pulled if family.lowest > -np.inf else np.maximum(pulled, 0.1 * mean)
    return np.asarray(family.predictor(pulled))


def scoring_start(
    objective: Objective, parts: Iterable[tuple[Rows, float]], mean: float
) -> np.ndarray:
    """Weighted least squares of the link of responses pulled halfway to their mean.

    Args:
        objective: with a linear predictor.
        parts: blocks of rows, and how many rows each row of a block stands for.
        mean: of the responses.
    """
    both = (scoring_sums(objective, mean, rows, factor) for rows, factor in parts)
    return solved(reduce(np.add, both))


def scoring_sums(objective: Objective, mean: float, rows: Rows, factor: float = 1.0) -> np.ndarray:
    """U'W U and U'W t of a block, beside each other, (p, p + 1)."""
    family = objective.family
    assert family is not None
    y, a, offset = rows[1], weight_of(rows), offset_of(rows)
    t = pulled_predictors(family, y, mean)
    w = family.information(t) * (factor if a is None else factor * a)
    U = objective.features(rows)
    return U.T @ (w[:, None] * np.column_stack([U, t if offset is None else t - offset]))


def solved(sums: np.ndarray) -> np.ndarray:
    """The solution of normal equations (A, b) beside each other; NaN if there is none."""
    A, b = sums[:, :-1], sums[:, -1]
    finite = np.isfinite(A).all()
    return np.linalg.lstsq(A, b, rcond=1e-12)[0] if finite else np.full(len(A), np.nan)

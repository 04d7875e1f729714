"""Rows of a regression that carry more than (X, y): a frequency and a known part of the predictor.

A row of weight 2 is a row twice, one of weight 0 is none at all: whoever makes blocks drops those.
The linear predictor is x'theta + offset.
"""

from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.types import Rows


class Regression(NamedTuple):
    """X (n, p), y (n,), and frequencies and offsets, each (n,) or None."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    offset: np.ndarray | None = None


def weight_of(rows: Rows) -> np.ndarray | None:
    """Frequencies of the rows, where they carry some."""
    return rows.weight if isinstance(rows, Regression) else None


def offset_of(rows: Rows) -> np.ndarray | None:
    """The known part of the rows' linear predictors, where there is one."""
    return rows.offset if isinstance(rows, Regression) else None


def with_design(rows: Rows, X: np.ndarray) -> Rows:
    """The same rows with another X."""
    return rows._replace(X=X) if isinstance(rows, Regression) else (X, rows[1])


def clump(rows: Rows) -> float:
    """Variance of a sum of weighted rows over that of as many rows of weight 1."""
    weight = weight_of(rows)
    return 1.0 if weight is None else float(weight @ weight / weight.sum())


def mass(rows: Rows) -> float:
    """Observations that the rows stand for: the sum of their frequencies."""
    weight = weight_of(rows)
    return count_rows(rows) if weight is None else float(weight.sum())

"""Intervals of HAC and Driscoll-Kraay errors with fixed-b critical values."""

from typing import TYPE_CHECKING

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.uncertainty.serial.fixed_b import fixed_b_quantile

if TYPE_CHECKING:
    from masgrad.fitting.results.inference import Tested


def fixed_b_intervals(result: "Tested", alpha: float) -> np.ndarray:
    """The intervals, (p, 2), with b = (L + 1) / T of the fit."""
    if result.serial is None:
        raise InputError(
            "method='fixed-b' is for errors with lags; fit with cov_type='HAC' or 'DK' first"
        )
    if result.serial.b is None:
        raise InputError(
            "fixed-b values are known for rows in time order, or sums by time, and these errors "
            "have lags within units, or times of an update; use method='pointwise'"
        )
    of = result.coefficients
    half = fixed_b_quantile(1 - alpha, result.serial.b) * of.se
    middle = np.where(np.isinf(half), 0.0, of.estimate)
    return np.column_stack([middle - half, middle + half])

"""The landscape: a model over data as the theory sees it, b, Sigma and H at one theta at a time.

The host's counterpart of a `Field`. Rows are summed over, least-squares moments are asked, and a
simulator's closed form is differentiated for H; a simulator without one is its reference rows.
"""

from collections.abc import Callable

import jax
import numpy as np

from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.moments import Moments, row_moments
from masgrad.data.simulate import Simulator
from masgrad.models.model import Model
from masgrad.types import Rows

ENDLESS = 2**52
"""The count of a simulator's rows: so many that no divisor matters."""

Landscape = Callable[[np.ndarray], Moments]


def landscape(model: Model, data: Rows | Simulator | LeastSquaresMoments) -> Landscape:
    """theta -> moments, prepared once; the data have been checked. Call it in float64."""
    if isinstance(data, LeastSquaresMoments):
        return data.moments
    if isinstance(data, Simulator) and data.moments is not None:
        return _closed_form(data.moments)
    rows = model.rows(data.reference_rows() if isinstance(data, Simulator) else data)
    return lambda theta: row_moments(model, theta, rows)


def _closed_form(moments: Callable) -> Landscape:
    hessian = jax.jit(jax.jacfwd(lambda theta: moments(theta)[0]))

    def at(theta: np.ndarray) -> Moments:
        b, cov = (np.asarray(a, np.float64) for a in moments(theta))
        H = np.asarray(hessian(theta), np.float64)
        return Moments(ENDLESS, b, cov * (ENDLESS - 1), (H + H.T) / 2, theta)

    return at

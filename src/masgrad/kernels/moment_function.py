"""Moments of a model over data as the theory asks for them: b, Sigma and H at one theta at a time.

The host's counterpart of a `Field`. Rows are summed over, least-squares moments are asked, and a
simulator's closed form is differentiated for H; a simulator without one is its reference rows.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import equinox as eqx
import jax
import numpy as np

from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.moments import PARTS, Moments, row_moments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.models.model import Model
from masgrad.types import Array, Part, Rows

SIMULATED_ROWS = 2**52
"""Nominal number of rows of a simulator: large enough that no divisor matters."""


class MomentFunction(Protocol):
    """A function from theta to moments with at least the requested parts."""

    def __call__(self, theta: np.ndarray, parts: Sequence[Part] = PARTS) -> Moments: ...


def moment_function(model: Model, data: Rows | Simulator | LeastSquaresMoments) -> MomentFunction:
    """theta -> moments, prepared once; the data have been checked. Call it in float64."""
    if isinstance(data, LeastSquaresMoments):
        return lambda theta, parts=PARTS: data.moments(theta)
    if isinstance(data, Simulator) and data.moments is not None:
        return _closed_form(data.moments)
    rows = model.rows(data.reference_rows() if isinstance(data, Simulator) else data)
    return lambda theta, parts=PARTS: row_moments(model, theta, rows, parts)


def _closed_form(moments: Callable) -> MomentFunction:
    def at(theta: np.ndarray, parts: Sequence[Part] = PARTS) -> Moments:
        del parts
        b, cov, H = (np.asarray(a, np.float64) for a in _differentiated(moments, theta))
        if not all(np.isfinite(a).all() for a in (b, cov, H)):
            raise InputError(f"the simulator's moments are not finite at theta = {theta}")
        return Moments(SIMULATED_ROWS, b, cov * (SIMULATED_ROWS - 1), (H + H.T) / 2, theta)

    return at


@eqx.filter_jit
def _differentiated(moments: Callable, theta: Array) -> tuple[Array, Array, Array]:
    """b, Sigma, and H as the derivative of b."""
    return *moments(theta), jax.jacfwd(lambda x: moments(x)[0])(theta)

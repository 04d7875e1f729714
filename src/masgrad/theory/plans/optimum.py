"""A local minimum of the mean loss for any model: where a survey's region ends.

A trust region with the rows' own H (SciPy's trust-exact) descends from the start, also where H is
indefinite. It may end at a saddle, for instance at equal means of a mixture: there the search goes
on from a point below it along the most negative curvature. Newton's steps bring the minimum to
rounding, and show where there is none: they do not shrink on a loss that falls without end.
"""

import numpy as np
from scipy.optimize import minimize

from masgrad.covariance.moments import row_moments
from masgrad.covariance.root import EIGENVALUE_FLOOR
from masgrad.errors import InputError
from masgrad.models.model import Model
from masgrad.types import Rows, float64

SADDLES = 20
"""The most saddles that are left before the search is given up."""
SETTLED = 1e-8
"""Length of Newton's step at a minimum, relative to 1 + |theta|."""
REACH = 4.0 ** -np.arange(12)
"""Lengths tried along a direction of negative curvature, relative to 1 + |theta|."""


@float64
def local_minimum(model: Model, rows: Rows, start: np.ndarray) -> np.ndarray:
    """The minimiser of the mean loss over checked rows that a start leads to, (p,).

    Paper: strongly Morse - H is positive definite at what is returned, or an error is raised

    Raises:
        InputError: if the search ends where H is not positive definite, or does not end.
    """
    theta: np.ndarray | None = start
    for _ in range(SADDLES):
        theta = _descend(model, rows, theta)
        values, vectors = np.linalg.eigh(_hessian(model, rows, theta))
        if values[0] > EIGENVALUE_FLOOR * values[-1]:
            theta = _polish(model, rows, theta)
            if theta is not None:
                return theta
            break
        theta = _below(model, rows, theta, vectors[:, 0])
        if theta is None:
            break
    raise InputError(
        "no strict minimum of the mean loss was found from this start: H is singular where the "
        "search ended, or the loss falls without end; give optimum= and region=, or another theta0"
    )


def _descend(model: Model, rows: Rows, start: np.ndarray) -> np.ndarray:
    """A point where the gradient is small."""
    size = np.abs(row_moments(model, start, rows, ("mean",)).mean).max()
    found = minimize(
        lambda theta: model.risk(theta, rows),
        start,
        jac=lambda theta: row_moments(model, theta, rows, ("mean",)).mean,
        hess=lambda theta: _hessian(model, rows, theta),
        method="trust-exact",
        options={"gtol": 1e-7 * min(1.0, size) if size > 0 else 1e-7, "maxiter": 500},
    )
    return found.x


def _hessian(model: Model, rows: Rows, theta: np.ndarray) -> np.ndarray:
    return row_moments(model, theta, rows, ("hessian",)).hessian


def _below(
    model: Model, rows: Rows, saddle: np.ndarray, direction: np.ndarray
) -> np.ndarray | None:
    """The lowest of the points on either side of a saddle; None if none is below it."""
    lengths = (1 + np.linalg.norm(saddle)) * np.concatenate([REACH, -REACH])
    points = saddle + lengths[:, None] * direction
    risks = np.array([model.risk(theta, rows) for theta in points])
    risks = np.where(np.isfinite(risks), risks, np.inf)
    lowest = int(risks.argmin())
    return points[lowest] if risks[lowest] < model.risk(saddle, rows) else None


def _polish(model: Model, rows: Rows, theta: np.ndarray) -> np.ndarray | None:
    """Newton's steps from next to a minimum; None if they do not settle at one."""
    for _ in range(5):
        m = row_moments(model, theta, rows, ("hessian",))
        if not np.linalg.eigvalsh(m.hessian)[0] > 0:
            return None
        step = np.linalg.solve(m.hessian, m.mean)
        theta = theta - step
        if np.linalg.norm(step) < SETTLED * (1 + np.linalg.norm(theta)):
            return theta
    return None

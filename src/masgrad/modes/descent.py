"""Two ways down: to a minimum of the surface, and to a zero of its gradient.

A minimum is found by the descent of a fit (`fitting/optimise/nonconvex`), so that a share of starts
is that of `mg.fit`. A stationary point of any signature is a zero of the gradient, found by
Levenberg and Marquardt's method (SciPy's) with H as its Jacobian: it minimises |gradient|^2, whose
zeros saddles are as well as minima.
"""

import warnings

import numpy as np
from scipy.optimize import root

from masgrad.fitting.objective.objective import BadBlock
from masgrad.fitting.optimise.nonconvex.minimum import minimum_of
from masgrad.modes.surface import Surface

MOST_STEPS = 400
"""Evaluations of a search for a zero."""


def descend(surface: Surface, phi: np.ndarray) -> np.ndarray:
    """The end of a descent from phi: a minimum, if there is one below."""
    try:
        return minimum_of(surface, phi).point
    except BadBlock:  # the loss is not finite at the start
        return phi


def to_zero_gradient(surface: Surface, phi: np.ndarray) -> np.ndarray:
    """Where |gradient|^2 is smallest near phi: a stationary point if it is 0 there."""

    def gradient(at: np.ndarray) -> np.ndarray:
        return np.nan_to_num(surface.gradient(at), nan=1e30, posinf=1e30, neginf=-1e30)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        options = {"xtol": 1e-14, "ftol": 1e-14, "maxiter": MOST_STEPS}
        return root(gradient, phi, jac=surface.hessian, method="lm", options=options).x

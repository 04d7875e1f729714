"""Two ways down: to a minimum of the surface, and to a zero of its gradient.

A minimum is found by a trust region on the quadratic model with the exact Hessian, which leaves
saddles along negative curvature. A stationary point of any signature is a zero of the gradient,
found by Levenberg and Marquardt's method with H as its Jacobian: it minimises |gradient|^2, whose
zeros saddles are as well as minima. Both are SciPy's.
"""

import warnings

import numpy as np
from scipy.optimize import minimize, root

from masgrad.modes.surface import Surface

MOST_STEPS = 400
"""Steps of a descent, and evaluations of a search for a zero."""

SMALL_GRADIENT = 1e-6
"""Gradient in phi at which a descent ends; the zero near it is then found to rounding."""

LARGEST_RADIUS = 1e4
"""Largest step of a descent in phi."""


def descend(surface: Surface, phi: np.ndarray) -> np.ndarray:
    """The end of a descent from phi: near a minimum, if there is one below."""
    options = {
        "gtol": SMALL_GRADIENT,
        "maxiter": MOST_STEPS,
        "initial_trust_radius": max(1.0, 0.1 * float(np.linalg.norm(phi))),
        "max_trust_radius": LARGEST_RADIUS,
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of steps into infinite losses, which are taken back
        done = minimize(
            surface.value_and_gradient,
            phi,
            jac=True,
            hess=surface.hessian,
            method="trust-exact",
            options=options,
        )
    return done.x


def to_zero_gradient(surface: Surface, phi: np.ndarray) -> np.ndarray:
    """Where |gradient|^2 is smallest near phi: a stationary point if it is 0 there."""

    def gradient(at: np.ndarray) -> np.ndarray:
        return np.nan_to_num(surface.gradient(at), nan=1e30, posinf=1e30, neginf=-1e30)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        options = {"xtol": 1e-14, "ftol": 1e-14, "maxiter": MOST_STEPS}
        return root(gradient, phi, jac=surface.hessian, method="lm", options=options).x

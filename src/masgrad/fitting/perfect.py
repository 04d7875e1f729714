"""Responses that are a function of the columns: residuals are rounding, and so would be errors.

Squared residuals over the variance function, averaged with the weights of H, are tr M / tr H. They
have no unit but for the Gaussian family, where they have that of y^2.
"""

import numpy as np

from masgrad.errors import PerfectFitWarning, say
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic

ROUNDING = 1e-28
"""Squared residuals of a few dozen units in the last place."""

SUSPECT = 1e-12
"""M may be from a point before the last step; then kept rows tell what is left at the estimate."""


def is_perfect(problem: Problem, local: Quadratic) -> bool:
    """Whether the fit leaves nothing but rounding, of which the user is warned."""
    if problem.family is None or problem.ridge.matrix is not None:
        return False
    unit = -2 * local.constants[0] / local.count if problem.family.name == "gaussian" else 1.0
    perfect = _residual(local) <= SUSPECT * unit and (
        _residual(problem.quadratic(local.point, problem.kept)) <= ROUNDING * unit
    )
    if perfect:
        say(
            PerfectFitWarning,
            "every response is fitted to rounding: standard errors are 0, and z and p-values mean "
            "nothing (NaN); is the response constant, or computed from the columns?",
        )
    return perfect


def _residual(local: Quadratic) -> float:
    return float(np.trace(local.meat) / np.trace(local.hessian))

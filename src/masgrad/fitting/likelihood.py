"""Log-likelihood, information criteria, deviance and dispersion, where they have a meaning.

From sums that the last read made anyway: the loss, moved to the estimate with the quadratic, and
what y alone adds to it. The dispersion is Pearson's X^2 / (N - p), and enters the likelihoods of
the gamma and inverse Gaussian families; a Gaussian likelihood is at its maximum, RSS / N. As in
statsmodels, AIC counts the p coefficients and not the dispersion.
"""

from typing import TYPE_CHECKING

import numpy as np

from masgrad.models.canonical import Gaussian
from masgrad.models.family import Family, Tally
from masgrad.models.glm import GLM

if TYPE_CHECKING:
    from masgrad.fitting.result import Result


def family_of(result: "Result") -> Family | None:
    return result.model.family if isinstance(result.model, GLM) else None


def tally(result: "Result") -> Tally | None:
    """Sums over all rows, or None where there is no likelihood, or a read was not finished."""
    local, family = result.local, family_of(result)
    if family is None or not np.isfinite(local.constants).all():
        return None
    if isinstance(family, Gaussian):  # a sum of squares, without the cancellation of y^2
        return Tally(local.squares / 2, 0.0, 0.0, local.count)
    saturated, base = map(float, local.constants)
    return Tally(local.loss, saturated, base, local.count)


def estimated(result: "Result") -> int:
    """Coefficients that have an estimate."""
    return len(result.theta) - result.free.shape[1]


def dispersion(result: "Result") -> float | None:
    family = family_of(result)
    if family is None:
        return None
    if not family.dispersed:
        return 1.0
    left = result.local.count - estimated(result)
    return float(result.local.squares / left) if left > 0 else None


def deviance(result: "Result") -> float | None:
    sums = tally(result)
    return None if sums is None else max(float(sums.deviance), 0.0)  # rounding, if there is none


def log_likelihood(result: "Result") -> float | None:
    sums, family, scale = tally(result), family_of(result), dispersion(result)
    if sums is None or family is None or not scale:  # a perfect fit has an infinite density
        return None
    with np.errstate(all="ignore"):
        value = family.log_likelihood(sums, scale)
    return None if value is None or not np.isfinite(value) else float(value)


def criterion(result: "Result", price: float) -> float | None:
    """-2 log-likelihood and a price for each coefficient."""
    value = log_likelihood(result)
    return None if value is None else price * estimated(result) - 2 * value

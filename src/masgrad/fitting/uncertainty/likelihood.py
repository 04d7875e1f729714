"""Log-likelihood, deviance and dispersion of a model that has them.

They follow from sums of the last read: the loss, moved to the estimate with the local model, and
the constants of y. The dispersion is Pearson's X^2 / (N - p), and enters the likelihoods of the
gamma and inverse Gaussian families; a Gaussian likelihood is at its maximum, RSS / N. As in
statsmodels, AIC counts the p coefficients and not the dispersion.

For families with a dispersion a cheap last read (`deviance_pass`) sums the loss and X^2 at the
estimate itself: an error of 1e-4 in the dispersion of 200,000 rows is an error of 10 in their
likelihood.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, NO_RIDGE, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.models.families.canonical import Gaussian
from masgrad.models.families.family import Family, LikelihoodSums
from masgrad.models.glm import GLM
from masgrad.models.model import Model


def family_of(model: Model | None) -> Family | None:
    return model.family if isinstance(model, GLM) else None


def of_observations(local: LocalModel, options: Options, interrupted: bool) -> LocalModel:
    """The sums as a record keeps them; no likelihood is known after a read that was not finished.

    Nor is there one of weights that are no frequencies: they represent as many rows as there are.
    """
    if interrupted:
        return replace(local, constants=np.full_like(local.constants, np.nan))
    if options.weights_type == "frequency":
        return local
    return replace(local, constants=without_likelihood(local.constants), count=local.rows)


def without_likelihood(constants: np.ndarray) -> np.ndarray:
    """The constants with marks of the rows, and no terms of a likelihood."""
    return np.append([np.nan, np.nan], constants[2:])


def likelihood_sums(model: Model | None, local: LocalModel) -> LikelihoodSums | None:
    """Sums over all rows; None without a likelihood, or if a read was not finished."""
    family = family_of(model)
    if family is None or not np.isfinite(local.constants[:2]).all():
        return None
    if isinstance(family, Gaussian):  # a sum of squares does not cancel as y^2 would
        return LikelihoodSums(local.squares / 2, 0.0, 0.0, local.count)
    saturated, base = map(float, local.constants[:2])
    return LikelihoodSums(local.loss, saturated, base, local.count)


def dispersion(model: Model | None, local: LocalModel, free: int) -> float | None:
    """Pearson's X^2 / (N - p) with p the number of free parameters; 1 if the family has none."""
    family = family_of(model)
    if family is None:
        return None
    if not family.dispersed:
        return 1.0
    return float(local.squares / (local.count - free)) if local.count > free else None


def deviance(model: Model | None, local: LocalModel) -> float | None:
    """Twice the gap between the saturated log-likelihood and this one, at dispersion 1."""
    sums = likelihood_sums(model, local)
    return None if sums is None else max(float(sums.deviance), 0.0)  # below 0 it is rounding


def log_likelihood(model: Model | None, local: LocalModel, free: int) -> float | None:
    """The log-likelihood at the estimate; None if the family has none in closed form."""
    sums, family = likelihood_sums(model, local), family_of(model)
    scale = dispersion(model, local, free)
    if sums is None or family is None or not scale:  # a perfect fit has an infinite density
        return None
    with np.errstate(all="ignore"):
        value = family.log_likelihood(sums, scale)
    return None if value is None or not np.isfinite(value) else float(value)


def needs_deviance_pass(
    objective: Objective, reader: Reader, sample: Sample, open_ended: bool
) -> bool:
    """Whether X^2 is moved to the estimate inexactly, and rows may be read once more."""
    family = objective.family
    if family is None or not family.dispersed or family.canonical or sample.complete:
        return False
    again = reader.source.rereadable and not reader.monitor.interrupted
    return again and objective.prior is None and open_ended


def deviance_pass(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> LocalModel:
    """The local model with the loss and X^2 of all rows at its point."""
    objective = replace(objective, ridge=NO_RIDGE)
    with reader.unobserved() as quiet:
        read = partial(quiet.read_sample, sample=sample) if sample.complete else quiet.read
        here = read(objective, local.point, parts=GRADIENT)
        reader.tick(here.rows)
        interrupted = quiet.monitor.interrupted
    return local if interrupted else replace(local, loss=here.loss, squares=here.squares)

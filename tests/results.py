"""Results made by hand, for what needs no fit."""

import numpy as np

import masgrad as mg
from masgrad.fitting.fitted import FitInfo
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.results.result import Result


def made(theta, cov, names=(), df=None, free=None):
    """A result with this estimate and covariance, about nothing."""
    p = len(theta)
    zero, unit = np.zeros(p), np.eye(p)
    free = np.empty((p, 0)) if free is None else free
    return Result(
        mg.Linear(), np.asarray(theta, float), np.asarray(cov, float), 100, tuple(names), "robust",
        FitInfo(2, 1e6, 0.1, 1e-4, 2.0), identity(p), LocalModel(100, zero, zero, unit, unit),
        free, np.abs(free).sum(1) > 0, df=df,
    )  # fmt: skip


def spread(rng, p):
    L = rng.normal(size=(p, p))
    return L @ L.T / p

"""M in single precision, where standard errors do not notice.

For least squares H is known in full before M is read, and M decides over standard errors alone. In
single precision its product takes half of the time. An entry of M is then off by less than 2e-6 of
sqrt(M_ii M_jj), since the terms of the diagonal do not cancel (below 4e-7 as a rule; 1.9e-6 was
the largest seen, where single rows dominate); and the variance of a coefficient, v'M v with v a
column of H^-1, by about as much times

    amplification = (sum of v_i^2 M_ii) / v'M v,

which is 1 if columns are uncorrelated, and large if they are collinear or far from 0. H predicts it
before M is read, M being about proportional to H; the sums of all rows confirm it or send for
double precision.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.arrays import is_structured
from masgrad.data.designs.structured import Structured
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.models.gram import FEWEST_CACHED_ROWS, Factor, SinglePrecision

LARGEST_AMPLIFICATION = 10.0
"""With errors of 2e-6 it would change variances by 2e-5, and standard errors by 1e-5."""

LARGEST_CONDITION = 1e3
"""Condition number of the scaled H and M up to which no contrast loses its digits."""

SIZES = (1e-12, 1e12)
"""Root mean squares of gradients whose squares float32 can hold."""


class MeatAlone(SinglePrecision):
    """Products for M, and none for H."""

    def grams(self, X: np.ndarray | Structured, w: np.ndarray, v: np.ndarray) -> Any:
        """None, X' diag(v) X and no peak; None if single precision overflows."""
        if isinstance(X, Structured):
            return None
        roots, total = np.sqrt(v).astype(np.float32), np.zeros((X.shape[1],) * 2)
        for start in range(0, len(X), FEWEST_CACHED_ROWS):
            piece = slice(start, start + FEWEST_CACHED_ROWS)
            Z = X[piece].astype(np.float32)
            Z *= roots[piece, None]
            total += np.dot(Z.T, Z)
        return (None, total, 0.0) if np.isfinite(total.trace()) else None


def with_narrow_meat(
    objective: Objective, local: LocalModel, sample: Sample, options: Options
) -> Objective | None:
    """The objective of least squares with M in single precision; None if that would not serve.

    Args:
        objective: least squares.
        local: at the estimate, with H of all rows.
        sample: pilot rows.
        options: which may ask for double precision.
    """
    c, unit = objective.coordinates, local.squares / local.count
    if options.precision == "double" or options.passes in ("converge", "newton"):
        return None
    if c.transforms_rows or not unit > 0:
        return None
    if sample.complete or is_structured(sample.rows) or not _is_well_conditioned(local.factor):
        return None
    V, moments = c.cov(local.inverse()), np.diag(c.raw_moment(local.hessian))
    sizes = np.sqrt(moments / local.count * unit)
    if not ((sizes > SIZES[0]) & (sizes < SIZES[1])).all():
        return None
    if not amplification(V, moments, np.diag(V)) <= LARGEST_AMPLIFICATION:
        return None
    return replace(objective, single=MeatAlone(np.zeros(len(V), np.float32), None))


def narrow_meat_serves(objective: Objective, local: LocalModel) -> bool:
    """Whether M of all rows, summed in single precision, is good enough for standard errors."""
    if not _is_well_conditioned(local.meat_factor):
        return False
    c = objective.coordinates
    V, moments = c.cov(local.inverse()), np.diag(c.raw_moment(local.meat))
    variances = np.diag(c.cov(local.sandwich()))
    return amplification(V, moments, variances) <= LARGEST_AMPLIFICATION


def amplification(V: np.ndarray, moments: np.ndarray, variances: np.ndarray) -> float:
    """By how much relative errors of M's entries grow in the variances of theta.

    Args:
        V: H^-1 in the units of theta, (p, p).
        moments: the diagonal of M, (p,).
        variances: the diagonal of V M V, (p,).
    """
    return float((np.square(V) @ moments / variances).max())


def _is_well_conditioned(found: Factor | None) -> bool:
    return found is not None and found.condition <= LARGEST_CONDITION

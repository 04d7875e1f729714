"""The sampling error of an estimate from kept rows, of which each stands for several."""

from collections.abc import Sequence

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.regression import weight_of
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.optimise.single.kept_rows import Segment, Stratum
from masgrad.fitting.sources import join
from masgrad.models.glm import add_offset
from masgrad.types import Rows

ERROR_GROUPS = 32
"""Groups of a random stratum whose spread gives the sampling error."""


def sampling_errors(
    objective: Objective, segments: Sequence[Segment], total: LocalModel
) -> np.ndarray | None:
    """Errors of the minimum by the choice of the random rows, by groups, (groups, p).

    Strata are independent: the k-th group is the k-th of each. None without random rows.
    """
    found = None
    for segment in segments:
        for stratum in segment.strata:
            if stratum.factor == 1:
                continue
            each = _group_errors(objective, segment, stratum, total)
            found = each if found is None else found + each
    return found


def _group_errors(
    objective: Objective, segment: Segment, stratum: Stratum, total: LocalModel
) -> np.ndarray:
    """Deviations of the groups of a stratum; rows that are in use have no sampling error."""
    rows = join(list(stratum.rows))
    order = np.random.default_rng(0).permutation(stratum.count)  # neighbours may be alike
    groups = pick(lambda a: a[order], rows)
    sums = _group_sums(objective, segment, groups, total.point)
    away = total.solve((sums - sums.mean(0)).T).T
    rest = 1 - 1 / stratum.factor if stratum.factor > 1 else 1.0  # pilot rows for fewer old ones
    return away * stratum.factor * np.sqrt(ERROR_GROUPS * rest)


def _group_sums(objective: Objective, segment: Segment, rows: Rows, phi: np.ndarray) -> np.ndarray:
    """Gradients that random rows bring at phi, summed over groups, (groups, p)."""
    begin, cuts = segment.local.point, np.arange(ERROR_GROUPS) * count_rows(rows) // ERROR_GROUPS
    family, a = objective.family, weight_of(rows)
    if family is None:
        ends = [*cuts[1:], count_rows(rows)]
        groups = [pick(lambda a, i=i, j=j: a[i:j], rows) for i, j in zip(cuts, ends, strict=True)]
        return np.array([objective.missed_gradient(begin, phi - begin, g) for g in groups])
    t, y = add_offset(objective.predictors(phi, rows), rows), rows[1]
    slopes = family.slope_and_curvature(t, y)[0]
    if segment.controlled:
        t0 = add_offset(objective.predictors(begin, rows), rows)
        r, w = family.slope_and_curvature(t0, y)
        slopes = slopes - r - w * (t - t0)
    weighted = slopes if a is None else a * slopes
    return np.add.reduceat(weighted[:, None] * objective.features(rows), cuts)

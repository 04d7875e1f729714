"""Losses with many optima, as those of a mixture or a network.

The sample's optima are found from several starts, those of equal risk are one mode or permutations
of it, and the lowest is taken; what follows is about that mode alone. It needs the landscape to be
strongly Morse there: H positive definite at the optimum, which the correcting reads check.
"""

from collections.abc import Iterable

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.optimise.nonconvex.loss import LossOfRows
from masgrad.fitting.optimise.nonconvex.minimum import minimum_of
from masgrad.types import Rows

EQUAL_RISK = 1e-4
"""Difference of risks, relative to their range, up to which they belong to one mode."""


def lowest_mode(
    objective: Objective, few: Rows, starts: Iterable[np.ndarray]
) -> tuple[np.ndarray, str]:
    """The lowest end of descents on a few rows, and a note on the others."""
    ends = [end for start in starts if (end := _end(objective, few, start)) is not None]
    if not ends:
        raise BadBlock(few)
    risks = np.array([end.loss / end.count for end in ends])
    same = risks <= risks.min() + EQUAL_RISK * (np.abs(risks.min()) + np.ptp(risks))
    others = "." if same.all() else ", the others higher."
    note = f"{same.sum()} of {len(ends)} starts ended at this risk ({count_rows(few)} rows)"
    return min(ends, key=lambda end: end.loss).point, note + others


def _end(objective: Objective, rows: Rows, start: np.ndarray) -> LocalModel | None:
    """The minimum from a start; None if the loss is not finite there."""
    try:
        return minimum_of(LossOfRows(objective, rows), start)
    except BadBlock:
        return None

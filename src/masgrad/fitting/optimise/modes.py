"""Losses with many optima, as those of a mixture or a network.

The sample's optima are found from several starts, those of equal risk are one mode or permutations
of it, and the lowest is taken; what follows is about that mode alone. It needs the landscape to be
strongly Morse there: H positive definite at the optimum, which the correcting reads check.
"""

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.optimise.masgrad import warm_up
from masgrad.types import Rows

EQUAL_RISK = 1e-4
"""Difference of risks, relative to their range, up to which they belong to one mode."""


def lowest_mode(
    objective: Objective, few: Rows, starts: int, rng: np.random.Generator
) -> tuple[np.ndarray, str]:
    """The lowest end of descents on a few rows, and a note on the others."""
    ends, coordinates = [], objective.coordinates
    for _ in range(starts):
        theta = objective.model.random_theta(few, rng)
        end = warm_up(objective, few, coordinates.phi(theta), masgrad_steps=20, most=60)
        ends.append((objective.losses(end.point, few).mean(), coordinates.theta(end.point)))
    risks = np.array([risk for risk, _ in ends])
    same = risks <= risks.min() + EQUAL_RISK * (np.abs(risks.min()) + np.ptp(risks))
    note = (
        f"{int(same.sum())} of {starts} starts ended at this risk ({count_rows(few)} rows), the "
        "others higher."
    )
    return min(ends, key=lambda end: end[0])[1], note

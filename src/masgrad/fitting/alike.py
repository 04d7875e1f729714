"""Whether some rows can stand for others.

Kept rows predict what a quadratic misses on all rows, and new rows what it misses on old ones. They
can if they have information where the others have, and if their gradients agree.
"""

import numpy as np

from masgrad.fitting.quadratic import SINGULAR, Quadratic
from masgrad.fitting.watch import SURPRISE

LEAST = 0.25
"""Share of the others' information, row by row, that stand-ins must have in every direction."""


def informs(some: Quadratic, all_rows: Quadratic) -> bool:
    """Whether H of some rows is not small in any direction in which H of all rows is not."""
    size, values, Q = all_rows.spectrum
    seen = values > SINGULAR
    whiten = Q[:, seen] / np.sqrt(values[seen]) / size[:, None]
    share = whiten.T @ some.hessian @ whiten * (all_rows.count / some.count)
    return bool(seen.any() and np.linalg.eigvalsh(share)[0] > LEAST)


def tension(some: Quadratic, design_effect: float = 1.0) -> float:
    """How the rows' gradient at a point compares with its noise, in its own deviations.

    It is about chi-squared if the point is the optimum of rows like these. They pull away where the
    order of rows is not random, or where responses are separated and no row is ever content.
    """
    p = len(some.point)
    pull = some.errors(some.solve(some.gradient)) ** 2 / design_effect
    return float((pull - p) / np.sqrt(2.0 * p))


def agrees(new: Quadratic, prior: Quadratic, design_effect: float = 1.0) -> bool:
    """Whether new rows look like those of a prior, seen from the prior's optimum."""
    if not (informs(new, prior) and informs(prior, new)):
        return False
    here = new.at(prior.point)
    grown = np.sqrt(1 + new.count / prior.count)  # the prior's optimum has an error of its own
    scaled = Quadratic(new.count, here.point, here.gradient / grown, new.hessian, new.meat)
    return tension(scaled, design_effect) < SURPRISE

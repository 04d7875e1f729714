"""Steps over gradient reads that learn: BFGS from the H of pilot rows.

A step with H of n pilot rows leaves about 2 sqrt(p / n) of itself. Gradients of all rows at two
points tell H along the way between them, so later steps are corrected there, and what is left falls
as with conjugate gradients (the two-loop recursion of Nocedal, 1980).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel

Change = tuple[np.ndarray, np.ndarray]
"""The way between two points, and the change of the gradient over it."""


def changes_between(models: Sequence[LocalModel]) -> list[Change]:
    """Ways between the points of consecutive gradients, where the loss is seen to be convex."""
    found = [(b.point - a.point, b.gradient - a.gradient) for a, b in pairwise(models)]
    return [(s, y) for s, y in found if s @ y > 0]


def secant_step(total: LocalModel, changes: Sequence[Change]) -> np.ndarray:
    """The step from `total`, with its H corrected by the changes, earliest first."""
    q, shares = total.gradient, []
    for s, y in reversed(changes):
        shares.append((s @ q) / (s @ y))
        q = q - shares[-1] * y
    step = total.solve(q)
    for (s, y), share in zip(changes, reversed(shares), strict=True):
        step = step + (share - (y @ step) / (s @ y)) * s
    return -step

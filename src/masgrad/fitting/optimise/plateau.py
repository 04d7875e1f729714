"""Plateaus of losses that are not convex: ends of a path that are no optimum.

A row with a log link whose mean is far out has neither a gradient nor a curvature (inverse
Gaussian: mean to infinity; Gaussian: to 0). If only such rows carry a column, both vanish along it.
"""

from collections.abc import Callable

import numpy as np

from masgrad.fitting.identification.rank import FULL_RANK
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.models.gram import scaled_spectrum

FLAT, SUSPECT = 1e-8, 1e-4
"""Curvature along a direction, as a share of the largest, below which there is none; and smallest
eigenvalue of the scaled H below which that is looked into."""

FLAT_STEPS = np.outer([1.0, -1.0], np.geomspace(1e-3, 100.0, 80)).ravel()
MOST_FLAT = 8
"""Steps along a flat direction that are compared, and directions in which they are."""


def may_be_flat(local: LocalModel) -> bool:
    """Whether it is worth looking for directions in which the loss is flat."""
    return bool(local.eigenvalues[0] <= SUSPECT)


def flat_directions(local: LocalModel, moment: np.ndarray) -> np.ndarray:
    """Directions of phi along which X varies and the loss, not being convex, does not, (p, k).

    The means of some rows are so far out there that neither their gradient nor their curvature is
    left: no estimate, though both vanish.

    Args:
        local: the local model of all rows at the estimate.
        moment: E[x x'] in phi.
    """
    size, values, Q = scaled_spectrum(moment)
    seen = values > FULL_RANK
    white = Q[:, seen] / np.sqrt(values[seen]) / size[:, None]
    curvatures, axes = np.linalg.eigh(white.T @ local.hessian @ white)
    sizes = np.abs(curvatures)
    return white @ axes[:, sizes < FLAT * sizes.max(initial=0.0)]


def off_plateau(
    falls: Callable[[np.ndarray, np.ndarray], np.ndarray], phi: np.ndarray, flat: np.ndarray
) -> np.ndarray:
    """The lowest of many points along flat directions.

    Args:
        falls: of the loss of all rows, from a point to others.
        phi: where the loss is flat.
        flat: the directions, (p, k); along each E[(x'd)^2] is 1, so that the few rows on which it
            depends have linear predictors that change by more.
    """
    for direction in flat.T[:MOST_FLAT]:
        ends = phi + FLAT_STEPS[:, None] * direction
        fall = falls(phi, ends)
        phi = ends[int(np.argmax(fall))] if fall.max() > 0 else phi
    return phi

"""Symmetries of a loss: parameters that mean the same model.

The components of a mixture, and the hidden units of a network, may change places; a unit with an
odd activation may change the sign of all its weights. One of the equal points represents the
others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.types import Array


@dataclass(frozen=True, eq=False)
class Exchangeable:
    """Units that may change places and, with `flips`, each the sign of all its parameters.

    Called with theta, it gives the representative: units in the order of their first parameter
    (then of the others), and with flips the last parameter of each unit positive.

    Args:
        units: indices of the parameters of each unit, (units, k), in the same order for all.
        flips: whether a unit may change its sign, as a tanh unit with its output weight may.

    Example:
        >>> import masgrad as mg
        >>> two_units = mg.Exchangeable([[0, 2], [1, 3]], flips=True)  # (w, a) of a tanh(w x)
        >>> two_units([5.0, 1.0, -2.0, 3.0])
        array([-5.,  1.,  2.,  3.])
    """

    units: np.ndarray
    flips: bool = False

    def __init__(self, units: Any, flips: bool = False):
        indices = np.asarray(units)
        if indices.ndim != 2 or not np.issubdtype(indices.dtype, np.integer):
            raise InputError(
                f"units={units!r:.60}; indices of the parameters of each unit are needed, "
                "such as [[0, 2], [1, 3]]"
            )
        if len(np.unique(indices)) < indices.size or indices.min(initial=0) < 0:
            raise InputError(f"units={units!r:.60}: an index is negative, or there twice")
        object.__setattr__(self, "units", indices)
        object.__setattr__(self, "flips", bool(flips))

    def __call__(self, theta: Array) -> np.ndarray:
        theta = np.array(theta, dtype=np.float64)
        values = theta[self.units]
        if self.flips:
            values = np.where(values[:, -1:] < 0, -values, values)
        theta[self.units] = values[np.lexsort(values.T[::-1])]
        return theta

    def neighbours(self, theta: np.ndarray) -> Iterator[np.ndarray]:
        """The equals of theta with two units exchanged, or with the sign of one changed."""
        for a, b in combinations(self.units, 2):
            other = theta.copy()
            other[a], other[b] = theta[b], theta[a]
            yield other
        for a in self.units if self.flips else ():
            other = theta.copy()
            other[a] = -theta[a]
            yield other

    def nearest(self, theta: Array, to: Array, scale: Array = 1.0) -> np.ndarray:
        """The equal of theta that is nearest to another point, in units of `scale`."""
        from scipy.optimize import linear_sum_assignment  # heavy, and every fit loads this file

        theta, other = np.array(theta, dtype=np.float64), np.asarray(to, dtype=np.float64)
        size = np.broadcast_to(np.asarray(scale, dtype=np.float64), theta.shape)[self.units]
        signs = (1.0, -1.0) if self.flips else (1.0,)
        values, wanted = theta[self.units], other[self.units]
        away = (np.array([s * values for s in signs])[:, None] - wanted[:, None]) / size[:, None]
        cost = np.square(away).sum(-1)  # (signs, places, units)
        _, chosen = linear_sum_assignment(cost.min(0))
        sign = np.array(signs)[cost.argmin(0)[np.arange(len(chosen)), chosen]]
        theta[self.units] = sign[:, None] * values[chosen]
        return theta

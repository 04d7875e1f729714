"""The mean loss over rows in memory, as a surface above the coordinates phi.

It is the objective of a fit with its rows: value, gradient and Hessian are means over them. Where a
loss overflows the value is infinite, which a descent takes for a step too far.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Objective, Parts
from masgrad.fitting.objective.row_gradients import row_gradients
from masgrad.types import Rows

HESSIAN = Parts(meat=False)


@dataclass(frozen=True)
class Surface:
    """Mean loss, gradient and Hessian as functions of phi.

    Args:
        objective: the loss and its coordinates.
        rows: over which means are taken.
    """

    objective: Objective
    rows: Rows

    def value(self, phi: np.ndarray) -> float:
        """The mean loss; infinite where it overflows."""
        local = self._summed(phi, GRADIENT)
        return np.inf if local is None else local.loss / local.count

    def gradient(self, phi: np.ndarray) -> np.ndarray:
        """The gradient of the mean loss, (p,); infinite where it overflows."""
        local = self._summed(phi, GRADIENT)
        return np.full_like(phi, np.inf) if local is None else local.gradient / local.count

    def hessian(self, phi: np.ndarray) -> np.ndarray:
        """The Hessian of the mean loss, (p, p)."""
        local = self._summed(phi, HESSIAN)
        return np.eye(len(phi)) if local is None else local.hessian / local.count

    def local_model(self, phi: np.ndarray) -> LocalModel:
        """Sums over the rows at phi, with those of g g'."""
        return self.objective.local_model(phi, self.rows)

    def falls(self, phi: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """By how much the loss falls from phi to each of the ends, summed over the rows."""
        return self.objective.falls(phi, ends, self.rows)

    def row_gradients(self, phi: np.ndarray) -> np.ndarray:
        """The gradient of every row in phi, times the row's weight, (n, p)."""
        return row_gradients(self.objective, phi, self.rows)

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return total_weight(self.rows)

    @property
    def units(self) -> np.ndarray:
        """theta = units phi, (p, p)."""
        return self.objective.coordinates.matrix

    def theta(self, phi: np.ndarray) -> np.ndarray:
        """Parameters in the units of the user."""
        return self.objective.coordinates.theta(phi)

    def phi(self, theta: np.ndarray) -> np.ndarray:
        """Their coordinates."""
        return self.objective.coordinates.phi(theta)

    def _summed(self, phi: np.ndarray, parts: Parts) -> LocalModel | None:
        try:
            with np.errstate(all="ignore"):
                return self.objective.local_model(phi, self.rows, parts)
        except BadBlock:
            return None

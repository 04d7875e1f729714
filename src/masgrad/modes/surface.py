"""The mean loss over rows in memory, as a surface above the coordinates phi.

It is the objective of a fit with its rows: value, gradient and Hessian are means over them. Where a
loss overflows the value is infinite, which a descent takes for a step too far.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Parts
from masgrad.fitting.optimise.nonconvex.loss import LossOfRows

HESSIAN = Parts(meat=False)


@dataclass(frozen=True)
class Surface(LossOfRows):
    """Mean loss, gradient and Hessian as functions of phi, beside the sums that a descent takes."""

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

"""The coordinates in which a penalty acts, and a fit runs: psi = phi / unit.

A frame centres columns against a constant one, k, and scales all of them. Its phi_j is s_j theta_j
for every other coefficient, so that psi_j = theta_j and the penalty is what the user asked for,
while psi_k is the level at the centre of the columns, which no penalty acts on.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting import frame as frames
from masgrad.fitting.frame import Frame
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.penalties import minimise
from masgrad.penalties.penalty import Penalty, Scaled
from masgrad.penalties.structured import Nuclear
from masgrad.types import Rows


@dataclass(frozen=True)
class Lens:
    """The penalty with a constant column left free, the units, and the frame."""

    penalty: Penalty
    frame: Frame
    unit: np.ndarray

    @classmethod
    def of(cls, problem: Problem, penalty: Penalty) -> "Lens":
        frame = problem.frame
        if frame.constant is None:
            return cls(penalty, frame, frame.scale)
        unit = frame.scale.copy()
        unit[frame.constant] = 1.0
        return cls(penalty.without(frame.constant, len(unit)), frame, unit)

    def with_lam(self, lam: float) -> "Lens":
        assert isinstance(self.penalty, Scaled)
        return replace(self, penalty=self.penalty.with_lam(lam))

    def phi(self, psi: np.ndarray) -> np.ndarray:
        return self.unit * psi

    def psi(self, phi: np.ndarray) -> np.ndarray:
        return phi / self.unit

    def theta(self, psi: np.ndarray) -> np.ndarray:
        """In the user's units; what is 0 stays exactly 0."""
        theta = self.frame.theta(self.phi(psi))
        others = np.arange(len(psi)) != self.frame.constant
        return np.where(others, psi, theta) + 0.0  # no -0

    def level(self, psi: np.ndarray) -> np.ndarray:
        """psi where it is not penalised for being a constant's, 0 elsewhere."""
        return np.where(np.arange(len(psi)) == self.frame.constant, psi, 0.0)

    def quadratic(self, local: Quadratic) -> minimise.Quadratic:
        """A and c of the mean loss near the local model's point, in psi less the point's level.

        A mean response of 1e9 would otherwise swallow what the other columns say.
        """
        A = local.hessian * np.outer(self.unit, self.unit) / local.count
        b = local.gradient * self.unit / local.count
        psi = self.psi(local.point)
        return minimise.Quadratic(A, A @ (psi - self.level(psi)) - b)

    def value(self, psi: np.ndarray) -> float:
        """The penalty."""
        return float(self.penalty.value(psi))


def penalised_frame(model: Model, rows: Rows, penalty: Penalty) -> Frame:
    """Scales, and centres against a constant column; a matrix and other losses are left alone."""
    if isinstance(penalty, Nuclear) or not isinstance(model, GLM):
        return frames.identity(model.dim(rows))
    frame = frames.of_design(rows[0])
    if frame.constant is None and frame.far:
        far = int(np.argmax(np.abs(frame.centre / frame.scale)))
        raise InputError(
            f"column {far} of X is {abs(frame.centre[far] / frame.scale[far]):.2g} standard "
            "deviations from 0, and there is no constant column to centre it against: add a column "
            "of ones, or subtract the mean"
        )
    return frame

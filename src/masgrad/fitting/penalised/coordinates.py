"""The coordinates in which a penalty acts and a penalised fit runs: psi = phi / unit.

`Coordinates` centre columns against a constant one, k, and scale all of them. Their phi_j is
s_j theta_j for every other coefficient, so that psi_j = theta_j and the penalty is what the user
asked for, while psi_k is the intercept at the centre of the columns, which is not penalised.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.objective.coordinates import (
    LARGEST_SHIFT,
    Coordinates,
    identity,
    of_columns,
    of_design,
)
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.penalties import minimise
from masgrad.penalties.penalty import Penalty, Scaled
from masgrad.penalties.structured import Nuclear
from masgrad.types import Rows


@dataclass(frozen=True)
class PenaltyCoordinates:
    """The penalty with a constant column left free, the units, and the coordinates phi."""

    penalty: Penalty
    coordinates: Coordinates
    unit: np.ndarray

    @classmethod
    def of(cls, coordinates: Coordinates, penalty: Penalty) -> "PenaltyCoordinates":
        if coordinates.constant is None:
            return cls(penalty, coordinates, coordinates.scale)
        unit = coordinates.scale.copy()
        unit[coordinates.constant] = 1.0
        return cls(penalty.without(coordinates.constant, len(unit)), coordinates, unit)

    def with_lam(self, lam: float) -> "PenaltyCoordinates":
        assert isinstance(self.penalty, Scaled)
        return replace(self, penalty=self.penalty.with_lam(lam))

    def phi(self, psi: np.ndarray) -> np.ndarray:
        return self.unit * psi

    def psi(self, phi: np.ndarray) -> np.ndarray:
        return phi / self.unit

    def theta(self, psi: np.ndarray) -> np.ndarray:
        """theta in the user's units; exact zeros remain."""
        theta = self.coordinates.theta(self.phi(psi))
        others = np.arange(len(psi)) != self.coordinates.constant
        return np.where(others, psi, theta) + 0.0  # no -0

    def intercept(self, psi: np.ndarray) -> np.ndarray:
        """The intercept's component of psi; the others are 0."""
        return np.where(np.arange(len(psi)) == self.coordinates.constant, psi, 0.0)

    def quadratic(self, local: LocalModel) -> minimise.Quadratic:
        """The mean loss near the model's point, in psi less the intercept at that point.

        With the intercept, a mean response of 1e9 would leave no digits for the other columns.
        """
        A = local.hessian * np.outer(self.unit, self.unit) / local.count
        b = local.gradient * self.unit / local.count
        psi = self.psi(local.point)
        return minimise.Quadratic(A, A @ (psi - self.intercept(psi)) - b)

    def value(self, psi: np.ndarray) -> float:
        """The penalty at psi."""
        return float(self.penalty.value(psi))


def penalised_coordinates(model: Model, rows: Rows, penalty: Penalty) -> Coordinates:
    """Coordinates that scale columns and centre them against a constant one.

    Those of a matrix and of other losses are theta itself.
    """
    if isinstance(penalty, Nuclear) or not isinstance(model, GLM):
        return identity(model.dim(rows))
    found = of_design(rows[0])
    if found.constant is not None or not found.transforms_rows:
        return found
    shift = np.abs(found.centre / found.scale)
    far = int(np.argmax(shift))
    if shift[far] > LARGEST_SHIFT:
        raise InputError(
            f"column {far} of X is {shift[far]:.2g} standard "
            "deviations from 0, and there is no constant column to centre it against: add a column "
            "of ones, or subtract the mean"
        )
    return of_columns(rows[0])

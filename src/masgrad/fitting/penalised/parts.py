"""Sets of rows along a path of penalised optima.

Sums       a local quadratic model: all there is of least squares
InMemory   the rows themselves
AllRows    rows that are read again for every optimum
"""

import abc
from dataclasses import dataclass

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.start import valid_start
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.optimum.over_reads import Reads
from masgrad.fitting.penalised.optimum.proximal_newton import optimum_in_memory
from masgrad.fitting.penalised.optimum.steps import newton_step
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

ROUGH_FALL = 1e-3
"""N times the fall of the objective at which a point of a path is near enough to be judged."""


class Part(abc.ABC):
    """A set of rows."""

    @property
    @abc.abstractmethod
    def count(self) -> float:
        """Total weight of the rows."""

    @abc.abstractmethod
    def start(self, space: PenaltyCoordinates) -> np.ndarray:
        """Start of a path, as psi."""

    @abc.abstractmethod
    def optimum(self, space: PenaltyCoordinates, psi: np.ndarray) -> tuple[np.ndarray, float]:
        """The penalised optimum, from a start, and the mean loss there."""

    @abc.abstractmethod
    def risk(self, space: PenaltyCoordinates, psi: np.ndarray) -> float:
        """The mean loss."""

    @abc.abstractmethod
    def gradient(self, space: PenaltyCoordinates, psi: np.ndarray) -> np.ndarray:
        """Gradient of the mean loss in psi."""


@dataclass(frozen=True)
class Sums(Part):
    """A local quadratic model; of least squares the loss is half a sum of squares."""

    local_model: LocalModel
    squared: bool

    @property
    def count(self) -> float:
        return self.local_model.count

    def start(self, space: PenaltyCoordinates) -> np.ndarray:
        return space.psi(self.local_model.point)

    def optimum(self, space: PenaltyCoordinates, psi: np.ndarray) -> tuple[np.ndarray, float]:
        psi = newton_step(space, self.local_model, psi).psi
        return psi, self.risk(space, psi)

    def risk(self, space: PenaltyCoordinates, psi: np.ndarray) -> float:
        moved = self.local_model.at(space.phi(psi))
        return (moved.squares / 2 if self.squared else moved.loss) / self.count

    def gradient(self, space: PenaltyCoordinates, psi: np.ndarray) -> np.ndarray:
        return self.local_model.at(space.phi(psi)).gradient * space.unit / self.count


@dataclass(frozen=True)
class InMemory(Part):
    """Rows themselves."""

    objective: Objective
    rows: Rows

    @property
    def count(self) -> float:
        return total_weight(self.rows)

    def start(self, space: PenaltyCoordinates) -> np.ndarray:
        return space.psi(valid_start(self.objective, self.rows))

    def optimum(self, space: PenaltyCoordinates, psi: np.ndarray) -> tuple[np.ndarray, float]:
        psi = optimum_in_memory(self.objective, space, self.rows, psi, ROUGH_FALL)[0]
        return psi, self.risk(space, psi)

    def risk(self, space: PenaltyCoordinates, psi: np.ndarray) -> float:
        return float(self.objective.losses(space.phi(psi), self.rows).sum()) / self.count

    def gradient(self, space: PenaltyCoordinates, psi: np.ndarray) -> np.ndarray:
        total = sum(
            self.objective.block_sums(space.phi(psi), block, GRADIENT).gradient
            for block in blocks(self.rows)
        )
        return total * space.unit / self.count


@dataclass(frozen=True)
class AllRows(Part):
    """Rows that are too many to keep: two to four reads for every optimum."""

    objective: Objective
    reader: Reader
    sample: Sample
    options: Options

    @property
    def count(self) -> float:
        p = self.objective.model.dim(self.sample.rows)
        return self.reader.read(self.objective, np.zeros(p), GRADIENT).count

    def start(self, space: PenaltyCoordinates) -> np.ndarray:
        return InMemory(self.objective, self.sample.rows).start(space)

    def optimum(self, space: PenaltyCoordinates, psi: np.ndarray) -> tuple[np.ndarray, float]:
        reads = Reads(self.objective, self.reader, self.options, self.sample.rows)
        found = reads.optimum(space, psi)
        return found.psi, found.local_model.loss / found.local_model.count

    def risk(self, space: PenaltyCoordinates, psi: np.ndarray) -> float:
        local = self.reader.read(self.objective, space.phi(psi), Parts(meat=False))
        return local.loss / local.count

    def gradient(self, space: PenaltyCoordinates, psi: np.ndarray) -> np.ndarray:
        local = self.reader.read(self.objective, space.phi(psi), GRADIENT)
        return local.gradient * space.unit / local.count


@dataclass(frozen=True)
class Split:
    """All rows and, for cross-validation, pairs of the rows that are fitted and those left out.

    `top` is the lam at which a path of local models begins: they hold near their own point.
    """

    whole: Part
    folds: tuple[tuple[Part, Part], ...] = ()
    top: float | None = None

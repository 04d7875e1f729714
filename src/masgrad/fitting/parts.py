"""Some of the rows, as far as a path of penalised optima needs them.

Sums       a local quadratic model: all there is of least squares
InMemory   the rows themselves
AllRows    rows that are read again for every optimum
"""

import abc
from dataclasses import dataclass

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import total_weight
from masgrad.fitting.begin import begin
from masgrad.fitting.estimate import Plan, Sample
from masgrad.fitting.lens import Lens
from masgrad.fitting.problem import Problem
from masgrad.fitting.proximal import descend, newton, over_reads
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.watch import Watch
from masgrad.types import Rows

ROUGH = 1e-3
"""N times the fall of the objective at which a point of a path is near enough to be judged."""


class Part(abc.ABC):
    """Some rows."""

    @property
    @abc.abstractmethod
    def count(self) -> float:
        """Observations that they stand for."""

    @abc.abstractmethod
    def start(self, lens: Lens) -> np.ndarray:
        """psi to begin at."""

    @abc.abstractmethod
    def optimum(self, lens: Lens, psi: np.ndarray) -> tuple[np.ndarray, float]:
        """Their penalised optimum, from a start, and the mean loss there."""

    @abc.abstractmethod
    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        """Their mean loss."""

    @abc.abstractmethod
    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        """Its gradient in psi."""


@dataclass(frozen=True)
class Sums(Part):
    """A local quadratic model; of least squares the loss is half a sum of squares."""

    local: Quadratic
    squared: bool

    @property
    def count(self) -> float:
        return self.local.count

    def start(self, lens: Lens) -> np.ndarray:
        return lens.psi(self.local.point)

    def optimum(self, lens: Lens, psi: np.ndarray) -> tuple[np.ndarray, float]:
        psi = newton(lens, self.local, psi)[0]
        return psi, self.risk(lens, psi)

    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        moved = self.local.at(lens.phi(psi))
        return (moved.squares / 2 if self.squared else moved.loss) / self.count

    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        return self.local.at(lens.phi(psi)).gradient * lens.unit / self.count


@dataclass(frozen=True)
class InMemory(Part):
    """Rows themselves."""

    problem: Problem
    rows: Rows

    @property
    def count(self) -> float:
        return total_weight(self.rows)

    def start(self, lens: Lens) -> np.ndarray:
        return lens.psi(begin(self.problem, self.rows))

    def optimum(self, lens: Lens, psi: np.ndarray) -> tuple[np.ndarray, float]:
        psi = descend(self.problem, lens, self.rows, psi, ROUGH)[0]
        return psi, self.risk(lens, psi)

    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        return float(self.problem.losses(lens.phi(psi), self.rows).sum()) / self.count

    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        total = sum(
            self.problem.block_sums(lens.phi(psi), block, hessian=False, meat=False).gradient
            for block in blocks(self.rows)
        )
        return total * lens.unit / self.count


@dataclass(frozen=True)
class AllRows(Part):
    """Rows that are too many to keep: two to four reads for every optimum."""

    problem: Problem
    sample: Sample
    plan: Plan
    watch: Watch

    @property
    def count(self) -> float:
        return float(self.problem.length or total_weight(self.sample.rows))

    def start(self, lens: Lens) -> np.ndarray:
        return InMemory(self.problem, self.sample.rows).start(lens)

    def optimum(self, lens: Lens, psi: np.ndarray) -> tuple[np.ndarray, float]:
        found = over_reads(self.problem, lens, psi, self.plan, self.watch)
        return found.psi, found.local.loss / found.local.count

    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        local = self.problem.read(lens.phi(psi), self.watch, meat=False)
        return local.loss / local.count

    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        local = self.problem.read(lens.phi(psi), self.watch, hessian=False, meat=False)
        return local.gradient * lens.unit / local.count


@dataclass(frozen=True)
class Split:
    """All rows, and for cross-validation pairs of those that are fitted and those left out.

    `top` is where a path begins, if not where everything is 0: local models hold near their point.
    """

    whole: Part
    folds: tuple[tuple[Part, Part], ...] = ()
    top: float | None = None

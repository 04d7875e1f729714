"""A loss as a descent asks for it: local models at points, and falls of the loss between them.

Its rows are in memory, or all rows are read for every answer.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.row_gradients import row_gradients
from masgrad.fitting.sources import Sample
from masgrad.types import Rows


class Loss(Protocol):
    """A sum of losses over rows, as a function of phi."""

    def local_model(self, phi: np.ndarray) -> LocalModel:
        """Sums at phi, with H and M.

        Raises:
            BadBlock: if they are not finite.
        """
        ...

    def falls(self, phi: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """By how much the loss falls from phi to each of the ends, (K, p)."""
        ...

    def row_gradients(self, phi: np.ndarray) -> np.ndarray:
        """The gradients of rows in memory, a random part or all, times their weights, (n, p)."""
        ...

    @property
    def weight(self) -> float:
        """The total weight of these rows."""
        ...

    @property
    def units(self) -> np.ndarray:
        """theta = units phi, (p, p)."""
        ...


@dataclass(frozen=True)
class LossOfRows:
    """Of rows in memory."""

    objective: Objective
    rows: Rows

    def local_model(self, phi: np.ndarray) -> LocalModel:
        return self.objective.local_model(phi, self.rows)

    def falls(self, phi: np.ndarray, ends: np.ndarray) -> np.ndarray:
        return self.objective.falls(phi, ends, self.rows)

    def row_gradients(self, phi: np.ndarray) -> np.ndarray:
        return row_gradients(self.objective, phi, self.rows)

    @property
    def weight(self) -> float:
        return total_weight(self.rows)

    @property
    def units(self) -> np.ndarray:
        return self.objective.coordinates.matrix


class Interrupted(Exception):
    """Ctrl-C ended a read, whose sums are of a part of the rows."""


@dataclass(frozen=True)
class LossOverReads:
    """Of all rows, which are read for every answer; `reads` lists where, None for falls."""

    objective: Objective
    reader: Reader
    sample: Sample
    reads: list[np.ndarray | None] = field(default_factory=list)

    def local_model(self, phi: np.ndarray) -> LocalModel:
        self._begin(phi)
        local = self.reader.read(self.objective, phi)
        self._check()
        return local

    def falls(self, phi: np.ndarray, ends: np.ndarray) -> np.ndarray:
        self._begin(None)
        falls = self.reader.falls(self.objective, self.sample, phi, ends)
        self._check()
        return falls

    def row_gradients(self, phi: np.ndarray) -> np.ndarray:
        return row_gradients(self.objective, phi, self.sample.rows)

    @property
    def weight(self) -> float:
        return total_weight(self.sample.rows)

    @property
    def units(self) -> np.ndarray:
        return self.objective.coordinates.matrix

    def _begin(self, phi: np.ndarray | None) -> None:
        self.reads.append(phi)
        self.reader.restart()

    def _check(self) -> None:
        if self.reader.monitor.interrupted:
            raise Interrupted

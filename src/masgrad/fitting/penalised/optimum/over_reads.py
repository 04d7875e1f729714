"""Proximal Newton steps over reads of all rows, one for each read.

Pilot rows predict what the local model of a read misses at the end of its step, so that the next
read is made nearer to the optimum, and the last step leaves less. The objective falls from read to
read: a step after which it rises is halved, and nothing is predicted any more.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.optimum.steps import (
    Step,
    newton_step,
    predicted_step,
    squared_unit,
)
from masgrad.types import Rows

SMALL_FALL = 25.0
"""Fall of N times the objective over the dispersion at which reads end, in squares of the
tolerance; the step that is still made leaves less."""

SMALL_CORRECTION = 0.01
"""What the pilot rows change of a last step, in tolerances: beyond it they may be wrong."""


@dataclass(frozen=True)
class Optimum:
    """A penalised optimum, and the local model of the loss there.

    Args:
        psi: the optimum.
        local_model: G and H there; M is NaN unless it was read.
        reads: of all rows.
        fall: N times the fall of the objective that the last step predicted.
        last_read: the local model where all rows were read last, before the step to psi.
    """

    psi: np.ndarray
    local_model: LocalModel
    reads: int
    fall: float
    last_read: LocalModel | None = None


@dataclass(frozen=True)
class Reads:
    """Reads of all rows on the way to a penalised optimum.

    Args:
        objective: the loss.
        reader: for all rows.
        options: how many reads may be made, and how near is near.
        pilot: rows that predict what a local model misses, if any do.
        constants: of the likelihood, if they are known.
        meat: whether M is read with H.
    """

    objective: Objective
    reader: Reader
    options: Options
    pilot: Rows | None = None
    constants: np.ndarray | None = None
    meat: bool = False

    def optimum(
        self,
        space: PenaltyCoordinates,
        psi: np.ndarray,
        before: Optimum | None = None,
        is_enough: Callable[[LocalModel, Step], bool] | None = None,
    ) -> Optimum:
        """The optimum, from a start.

        A read that Ctrl-C cuts short is discarded for the one before it.

        Args:
            space: the penalty, and the coordinates in which it acts.
            psi: the start.
            before: an optimum with another penalty, from which the start was predicted; a start at
                which the objective is larger than where all rows were read last is moved towards
                there. The loss at that optimum itself is only predicted.
            is_enough: whether reads may end with a step of this local model even before the
                options say so.
        """
        most, done = self.options.most_reads, None
        here, step, last, constants = psi, np.zeros_like(psi), np.inf, self.constants
        pilot = self.pilot if self.objective.linear else None
        if before is not None and (read := before.last_read) is not None:
            here = space.psi(read.point)
            step, last = psi - here, read.loss / read.count + space.value(here)
        for reads in range(1, most + 1):
            at = here + step
            try:
                local = self._read(space.phi(at), constants)
            except BadBlock:  # an exponential may overflow; bad rows fail at the start
                if not np.isfinite(last) or reads == most:
                    raise
                step, pilot = step / 4, None
                continue
            stopped, constants = self.reader.monitor.interrupted, local.constants
            if done is not None and stopped:
                return done
            value = local.loss / local.count + space.value(at)
            rises = value > last + 1e-12 * abs(last) and self.objective.linear
            if rises and reads < most and not stopped:
                step, pilot = step / 2, None
                continue
            found = self._step(space, local, at, pilot)
            N, end = local.count, found.end(space, local)
            done = Optimum(found.psi, end, reads, N * found.fall, last_read=local)
            if self._is_last(local, found) or reads == most or stopped:
                return done
            if is_enough is not None and is_enough(local, found):
                return done
            here, step, last = at, found.psi - at, value
        raise AssertionError("the last read returns")

    def _read(self, phi: np.ndarray, constants: np.ndarray | None) -> LocalModel:
        """The local model of all rows at phi; H is the expected one if the loss is not convex."""
        self.reader.restart()
        parts = Parts(meat=self.meat, constants=constants is None)
        local = self.reader.read(self.objective.scoring(), phi, parts)
        return local if constants is None else replace(local, constants=constants)

    def _step(
        self, space: PenaltyCoordinates, local: LocalModel, at: np.ndarray, pilot: Rows | None
    ) -> Step:
        """The step from a read, with what the pilot rows predict."""
        step = newton_step(space, local, at)
        if pilot is None:
            return step
        return predicted_step(self.objective.scoring(), space, local, step, pilot) or step

    def _is_last(self, local: LocalModel, step: Step) -> bool:
        tolerance = self.options.tolerance
        fall = local.count * step.fall / squared_unit(self.objective, local)
        small = fall <= SMALL_FALL * tolerance**2
        return small or step.correction <= SMALL_CORRECTION * tolerance

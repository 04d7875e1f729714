"""What a penalised fit is made of: a slot that quadratic penalties and those with kinks fill."""

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.fitting.fitted import Fitted
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.path import PenaltyPath
from masgrad.fitting.sources import Sample


class NoEstimate(Exception):
    """There is no estimate without the penalty; the message says why."""


@dataclass(frozen=True)
class Shrunken:
    """The penalised estimate.

    Args:
        theta: in the user's units, (p,).
        found: the estimate of a smooth objective, or the optimum with a penalty that has kinks.
        reads: of all rows, that of a path included.
        note: what the penalty left, in words.
        space: the penalty at the lam that was given or chosen, if it has kinks.
        path: on which lam was chosen, if it was.
    """

    theta: np.ndarray
    found: Any
    reads: int
    note: str
    space: PenaltyCoordinates | None = None
    path: PenaltyPath | None = None


class PenalisedMethod(abc.ABC):
    """The stages of a fit with a penalty, in their order."""

    objective: Objective

    @abc.abstractmethod
    def shrink(self) -> Shrunken:
        """The penalised estimate of all rows."""

    @abc.abstractmethod
    def without_penalty(self, shrunken: Shrunken) -> tuple[Estimate, Reader, Sample]:
        """The estimate without the penalty, from there; the reader and the sample behind it.

        `NoEstimate` or an `IdentificationError` if the data alone do not identify theta, or the
        fit was interrupted.
        """

    @abc.abstractmethod
    def alone(self, shrunken: Shrunken, why: str) -> Fitted:
        """The record of the penalised estimate, if there is none without the penalty."""

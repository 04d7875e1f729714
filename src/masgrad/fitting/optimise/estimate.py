"""Where the reads of a fit end, and when they may."""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.identification.rank import Separation
from masgrad.fitting.objective.local_model import LocalModel


@dataclass(frozen=True)
class Estimate:
    """Where the reads ended.

    Args:
        local_model: of the last read, expanded at the estimate.
        reads: number of reads.
        gradient_reads: how many of them summed gradients and losses alone.
        correction: length of the last step, in standard errors of the worst contrast.
        remainder: bound on the distance to the optimum, in standard errors: of every coefficient,
            and in the root mean square over contrasts.
        score_statistic: of the pilot rows at the estimate, in standard deviations.
        max_residual_shift: change of residuals from where M was summed to the estimate, in units of
            their noise.
        separation: what is known about separated rows, if the path gave reason to ask.
        points: where the reads were made.
        stages: labels and points of the stages of the fit.
        average_discarded: whether MasGrad's average was worse than its start.
        one_step: whether this is one step from a penalised optimum, and no optimum itself.
        single_read: whether most rows were read once, at running estimates.
        notes: for the result.
    """

    local_model: LocalModel
    reads: int
    correction: float
    remainder: float
    score_statistic: float = 0.0
    max_residual_shift: float = 0.0
    separation: Separation | None = None
    points: tuple[np.ndarray, ...] = ()
    stages: tuple[tuple[str, np.ndarray], ...] = ()
    average_discarded: bool = False
    one_step: bool = False
    single_read: bool = False
    notes: tuple[str, ...] = ()
    gradient_reads: int = 0


@dataclass(frozen=True)
class StoppingRule:
    """When reads end.

    Args:
        remainder: largest predicted remainder, in standard errors.
        step: largest last step, in standard errors.
        most: largest number of reads.
    """

    remainder: float
    step: float
    most: int

"""The penalised optimum: proximal Newton steps, on pilot rows and then over reads of all rows.

    w' = prox_{1,H}(w - H^-1 b(w))

This is MadProx with H in the place of V, as a correcting read's step is MasGrad's: near the optimum
the square root of the condition number is no longer needed, and each read brings H with it. For
least squares one read determines the whole loss. Other losses begin at the optimum of the pilot
rows, where steps are shortened until the objective falls.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.line_search import Proposal, descend
from masgrad.fitting.optimise.start import intercept_start, valid_start
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.sources import Sample
from masgrad.models.canonical import Gaussian
from masgrad.penalties.minimise import minimise
from masgrad.types import Rows

SMALL_FALL = 1e-12
"""Fall of N times the objective at which rows in memory have converged: half a squared s.e."""

SMALL_FALL_OF_READS = 25.0
"""The same for reads, in squares of the tolerance; the step that is still made leaves less."""

STEPS_IN_MEMORY = 100


@dataclass(frozen=True)
class Optimum:
    """A penalised optimum, and the local model of the loss there.

    Args:
        psi: the optimum.
        local_model: G and H there; M is NaN.
        reads: of all rows.
        fall: N times the fall of the objective that the last step predicted.
    """

    psi: np.ndarray
    local_model: LocalModel
    reads: int
    fall: float


def is_quadratic(objective: Objective) -> bool:
    """Whether one local model is the whole loss."""
    return isinstance(objective.family, Gaussian)


def penalised_optimum(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    space: PenaltyCoordinates,
    options: Options,
    *,
    start: np.ndarray | None = None,
    known: LocalModel | None = None,
    constants: np.ndarray | None = None,
) -> Optimum:
    """The penalised optimum of all rows.

    Paper: MadProx - theta' = prox(theta - A b) in the metric of A^-1, with A = H^-1

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        space: the penalty, and the coordinates in which it acts.
        options: how many reads may be made, and how near is near.
        start: psi to begin at; for least squares it does not matter.
        known: the sums of least squares, if a path has read them.
        constants: of the likelihood, if they are known.
    """
    if is_quadratic(objective):
        return _least_squares(objective, reader, sample, space, known)
    psi = space.psi(valid_start(objective, sample.rows)) if start is None else start
    psi, fall = optimum_in_memory(objective, space, sample.rows, psi)
    if sample.complete:
        parts = Parts(meat=False, constants=constants is None)
        local = reader.read_sample(objective, space.phi(psi), sample, parts)
        local = local if constants is None else replace(local, constants=constants)
        return Optimum(psi, local, 1, fall)
    return optimum_over_reads(objective, reader, space, psi, options, constants)


def _least_squares(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    space: PenaltyCoordinates,
    known: LocalModel | None,
) -> Optimum:
    """The optimum of least squares, whose local model is the whole loss."""
    phi, parts = centre(objective, sample.rows), Parts(meat=False, constants=True)
    if known is not None:
        local = known
    elif sample.complete:
        local = reader.read_sample(objective, phi, sample, parts)
    else:
        local = reader.read(objective, phi, parts)
    psi, _ = newton_step(space, local, space.psi(phi))
    return Optimum(psi, local.at(space.phi(psi)), 1, 0.0)


def centre(objective: Objective, rows: Rows) -> np.ndarray:
    """phi at the mean response, where squares are small; 0 without a constant column."""
    start = intercept_start(objective, rows)
    return np.zeros(objective.model.dim(rows)) if start is None else start


def optimum_in_memory(
    objective: Objective,
    space: PenaltyCoordinates,
    rows: Rows,
    psi: np.ndarray,
    small_fall: float = SMALL_FALL,
) -> tuple[np.ndarray, float]:
    """The penalised optimum of rows in memory, and N times the fall of the last step."""
    scored, count = objective.scoring(), total_weight(rows)

    def value(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            risk = float(objective.losses(space.phi(at), rows).sum() / count)
        return (risk if np.isfinite(risk) else np.inf) + space.value(at)

    def propose(at: np.ndarray, _: int) -> Proposal:
        local = scored.local_model(space.phi(at), rows, Parts(meat=False))
        new, fall = newton_step(space, local, at)
        return Proposal(new, fall, last=count * fall <= small_fall)

    psi, fall = descend(value, propose, psi, STEPS_IN_MEMORY)
    return psi, count * fall


def newton_step(
    space: PenaltyCoordinates, local: LocalModel, psi: np.ndarray
) -> tuple[np.ndarray, float]:
    """The minimum of the local model with the penalty, and the fall of the objective to it."""
    model, level = space.quadratic(local), space.intercept(space.psi(local.point))
    new = minimise(space.penalty, model, psi - level)
    fall = model.value(psi - level) + space.value(psi) - model.value(new) - space.value(new)
    return new + level, max(fall, 0.0) if np.isfinite(fall) else np.inf


def optimum_over_reads(
    objective: Objective,
    reader: Reader,
    space: PenaltyCoordinates,
    psi: np.ndarray,
    options: Options,
    constants: np.ndarray | None = None,
) -> Optimum:
    """Proximal Newton steps, one for each read of all rows; a step that raises the value is halved.

    A read that Ctrl-C cuts short is discarded for the one before it.
    """
    scored, last, done = objective.scoring(), np.inf, None
    here, step = psi, np.zeros_like(psi)
    most, small_fall = options.most_reads, SMALL_FALL_OF_READS * options.tolerance**2
    for reads in range(1, most + 1):
        reader.restart()
        parts, at = Parts(meat=False, constants=constants is None), here + step
        try:
            local = reader.read(scored, space.phi(at), parts)
        except BadBlock:  # an exponential may overflow; bad rows fail at the start
            if done is None or reads == most:
                raise
            step = step / 4
            continue
        if done is not None and reader.monitor.interrupted:
            return done
        constants = local.constants if constants is None else constants
        local = replace(local, constants=constants)
        value = local.loss / local.count + space.value(at)
        if value > last + 1e-12 * abs(last) and reads < most and objective.linear:
            step = step / 2
            continue
        new, fall = newton_step(space, local, at)
        done = Optimum(new, local.at(space.phi(new)), reads, local.count * fall)
        if done.fall <= small_fall or reads == most or reader.monitor.interrupted:
            return done
        here, step, last = at, new - at, value
    raise AssertionError("the last read returns")

"""The penalised optimum: proximal Newton steps, on pilot rows and then over reads of all rows.

    w' = prox_{1,H}(w - H^-1 b(w))

This is MadProx with H in the place of V, as a correcting read's step is MasGrad's: near the optimum
the square root of the condition number is no longer needed, and each read brings H with it
(`over_reads.py`). For least squares one read determines the whole loss. Other losses begin at the
optimum of the pilot rows, where steps are shortened until the objective falls, and these at the
optimum of a few of them: none has to be found more exactly than its rows determine it.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.line_search import Proposal, descend
from masgrad.fitting.optimise.start import intercept_start, valid_start
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.optimum.over_reads import Optimum, Reads
from masgrad.fitting.penalised.optimum.steps import newton_step, squared_unit
from masgrad.fitting.sources import Sample, random_rows
from masgrad.models.families.canonical import Gaussian
from masgrad.types import Rows

SMALL_FALL = 1e-12
"""Fall of N times the objective over the dispersion, half of a squared standard error, at which
rows in memory have converged."""

PILOT_DISTANCE = 0.1
"""Distance to the optimum of pilot rows, in their standard errors (root mean square), from which
the last step over them is made: other rows follow."""

FEW_ROWS, FEW_ROWS_PER_COLUMN = 4096, 20
"""Pilot rows that are taken first, if they are a quarter of all of them at most."""

STEPS_IN_MEMORY = 100


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
    if start is None:
        start = _start_of_few(objective, space, sample.rows)
    if not sample.complete:
        psi = pilot_optimum(objective, space, sample.rows, start)
        return Reads(objective, reader, options, sample.rows, constants).optimum(space, psi)
    psi, fall = optimum_in_memory(objective, space, sample.rows, start)
    parts = Parts(meat=False, constants=constants is None)
    local = reader.read_sample(objective, space.phi(psi), sample, parts)
    local = local if constants is None else replace(local, constants=constants)
    return Optimum(psi, local, 1, fall)


def pilot_optimum(
    objective: Objective, space: PenaltyCoordinates, rows: Rows, psi: np.ndarray
) -> np.ndarray:
    """The optimum of pilot rows, as nearly as other rows need it."""
    small_fall = len(psi) * PILOT_DISTANCE**2 / 2
    return optimum_in_memory(objective, space, rows, psi, small_fall)[0]


def _start_of_few(objective: Objective, space: PenaltyCoordinates, rows: Rows) -> np.ndarray:
    """The optimum of a few of these rows, or a valid start if that is lower over all of them."""
    start = space.psi(valid_start(objective, rows))
    size = max(FEW_ROWS, FEW_ROWS_PER_COLUMN * len(start))
    if 4 * size > count_rows(rows):
        return start
    few = random_rows(rows, size, np.random.default_rng(0))
    psi = pilot_optimum(objective, space, few, start)
    value = objective_value(objective, space, rows)
    return psi if value(psi) < value(start) else start


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
    psi = newton_step(space, local, space.psi(phi)).psi
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

    def propose(at: np.ndarray, _: int) -> Proposal:
        local = scored.local_model(space.phi(at), rows, Parts(meat=False))
        step = newton_step(space, local, at)
        small = count * step.fall <= small_fall * squared_unit(objective, local)
        return Proposal(step.psi, step.fall, last=small)

    value = objective_value(objective, space, rows)
    psi, fall = descend(value, propose, psi, STEPS_IN_MEMORY)
    return psi, count * fall


def objective_value(
    objective: Objective, space: PenaltyCoordinates, rows: Rows
) -> Callable[[np.ndarray], float]:
    """The mean loss of rows in memory plus the penalty, as a function of psi."""
    count = total_weight(rows)

    def value(psi: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            risk = float(objective.losses(space.phi(psi), rows).sum() / count)
        return (risk if np.isfinite(risk) else np.inf) + space.value(psi)

    return value

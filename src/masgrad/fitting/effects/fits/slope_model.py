"""The slopes' loss at the estimate, as sums over rows less their effects.

Over such rows the loss is that of a plain linear predictor at its optimum (`ProjectedSource`), so
that covariances of every kind follow as they do without effects.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.fitting.effects.fits.estimate import Estimated
from masgrad.fitting.effects.rows.projected import ProjectedSource, Projection
from masgrad.fitting.fit import objective_of
from masgrad.fitting.objective.coordinates import of_scale
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.task import Task


@dataclass(frozen=True)
class SlopeModel:
    """The slopes' loss at the estimate.

    Args:
        objective: of all columns; those without a slope are 0 in the rows.
        source: the rows less their effects.
        local: of all of them, at the estimate.
    """

    objective: Objective
    source: ProjectedSource
    local: LocalModel


def model_of_read(task: Task, reader: Reader, found: Estimated) -> SlopeModel:
    """The slopes' loss by a read of the projected rows, of which H is known for least squares."""
    objective, source, phi = _at_estimate(task, reader, found)
    known = found.is_least_squares
    with reader.unobserved(source) as quiet:
        local = quiet.read(objective, phi, Parts(hessian=not known, constants=not known))
        if quiet.monitor.interrupted:  # sums of some rows are no errors of all
            raise KeyboardInterrupt
    reader.tick(local.rows)
    if known:
        H = _hessian(found, objective)
        local = replace(local, hessian=H, constants=found.constants)
    return SlopeModel(objective, source, local)


def model_of_sums(task: Task, reader: Reader, found: Estimated) -> SlopeModel:
    """The slopes' loss from the sums that gave the estimate, without M."""
    objective, source, phi = _at_estimate(task, reader, found)
    stage, kept, p = found.stage, found.stage.kept, found.stage.design.width
    squares = max(found.squares_left, 0.0) if found.is_least_squares else stage.read.squares
    loss = squares / 2 if found.is_least_squares else stage.read.loss - found.decrement**2 / 2
    local = LocalModel(
        kept.weight,
        phi,
        np.zeros(p),
        _hessian(found, objective),
        np.full((p, p), np.nan),
        squares,
        loss=loss,
        rows=kept.rows,
        constants=found.constants,
    )
    return SlopeModel(objective, source, local)


def _hessian(found: Estimated, objective: Objective) -> np.ndarray:
    """S in phi, of all columns."""
    design, J = found.stage.design, objective.coordinates.matrix
    H = np.zeros((design.width, design.width))
    H[np.ix_(design.columns, design.columns)] = found.stage.done.within
    return J.T @ H @ J


def _at_estimate(
    task: Task, reader: Reader, found: Estimated
) -> tuple[Objective, ProjectedSource, np.ndarray]:
    """The slopes' objective, the projected rows, and the estimate."""
    stage = found.stage
    design, S = stage.design, stage.done.within
    scale, theta = np.ones(design.width), np.zeros(design.width)
    scale[design.columns] = np.sqrt(np.diag(S) / stage.read.weight)
    theta[design.columns] = found.point.columns
    objective = objective_of(task, of_scale(scale))
    projection = Projection.of(design, stage.done.effects_of_x, found.point)
    source = ProjectedSource(reader.source, projection)
    return objective, source, objective.coordinates.phi(theta)

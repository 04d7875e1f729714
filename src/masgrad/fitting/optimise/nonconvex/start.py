"""Where the fit of a loss that need not be convex begins: at a minimum of its first rows.

It is found from the user's start, or from 0, or is the lowest of those from several random starts.
"""

from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import is_finite, leaves
from masgrad.data.regression import observations
from masgrad.errors import InputError
from masgrad.fitting.identification.checks import check_curvature
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.optimise.nonconvex.loss import Loss, LossOfRows
from masgrad.fitting.optimise.nonconvex.minimum import minimum_of
from masgrad.fitting.optimise.nonconvex.several_starts import lowest_mode
from masgrad.fitting.options import Options
from masgrad.fitting.sources import random_rows
from masgrad.models.model import Model
from masgrad.models.symmetry import Exchangeable
from masgrad.types import Rows

SEVERAL_STARTS = 10
"""Random starts for a loss that is known to have several optima."""

MODE_ROWS, FIRST_ROWS = 1 << 12, 1 << 13
"""Rows on which starts are tried, and rows of the first descent."""

NO_GRADIENT = 0.1
"""Gradient at a minimum, in its standard errors."""

FARTHEST = 10.0
"""How much further a random start may move gradients along one parameter than along the others."""

LOST_CURVATURE = 1e-9
"""Share of the first curvature below which a loss that keeps falling has no minimum."""


class Minimum(NamedTuple):
    """The local model at a minimum, the largest curvature at the start, and notes."""

    local_model: LocalModel
    initial_curvature: float
    notes: tuple[str, ...]


def lowest_minimum(
    objective: Objective, rows: Rows, options: Options, rng: np.random.Generator
) -> Minimum:
    """A minimum of the loss of some rows, then of all of them."""
    phi, notes = _first_point(objective, rows, options, rng)
    some = random_rows(rows, FIRST_ROWS, rng)
    before = _largest_curvature(_at_start(objective, some, phi))
    end = minimum_of(LossOfRows(objective, some), phi)
    if some is not rows:
        end = _of_all(LossOfRows(objective, rows), [end.point, phi])
    end.newton()  # NotConvex, if the loss fell for ever along a negative curvature
    check_curvature(end)
    return Minimum(end, before, notes)


def _at_start(objective: Objective, rows: Rows, phi: np.ndarray) -> LocalModel:
    """The local model at the start; an error if it is not finite there, as a logarithm at 0."""
    try:
        return objective.local_model(phi, rows)
    except BadBlock:
        if not all(map(is_finite, leaves(rows))):
            raise
        theta = np.array2string(objective.coordinates.theta(phi), precision=4, threshold=6)
        raise InputError(
            f"the loss, or a derivative, is not finite at the start {theta}; give start= a point "
            "at which it is"
        ) from None


def check_minimum(initial_curvature: float, local: LocalModel) -> None:
    """Refuse a loss that falls for ever, like an exponential: its curvature is lost on the way.

    At a minimum, which may be as flat beside a start in other units, the gradient is 0.
    """
    lost = _largest_curvature(local) < LOST_CURVATURE * initial_curvature
    if lost and not _score(local) < NO_GRADIENT:
        raise InputError(
            "from this start the loss keeps falling, and its curvature is gone: it has no minimum "
            "there; try start= or starts="
        )


def is_flat(local: LocalModel) -> bool:
    """Whether the loss is flat in some direction at its minimum."""
    return local.null_directions.shape[1] > 0


def check_identified(local: LocalModel, most_reads: int) -> None:
    """Refuse a loss that is flat at its minimum, if its rows cannot be read until it is reached.

    Beside the minimum an eigenvalue that is 0 there is not, and would give an interval to
    parameters that have none.
    """
    flat = local.null_directions.shape[1]
    if flat:
        raise InputError(
            f"the loss is flat in {flat} of {len(local.point)} directions of theta at the minimum "
            f"of the first rows, and with {most_reads} read{'s' * (most_reads > 1)} flat "
            "directions are not told from others; use data that can be read again and "
            'passes="auto", reparametrise, or add a ridge to the loss'
        )


def _first_point(
    objective: Objective, rows: Rows, options: Options, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The user's start, or 0, or the lowest end of descents from random starts.

    Of ends that are equal because units change places it is the one with the units in order.
    """
    model, coordinates = objective.model, objective.coordinates
    several = options.starts or (SEVERAL_STARTS if model.several_optima else 0)
    if options.start is not None or not several:
        return single_start(objective, rows, options), ()
    few = random_rows(rows, MODE_ROWS, rng)
    starts = (random_start(model, coordinates, few, rng) for _ in range(several))
    phi, note = lowest_mode(objective, few, starts)
    units = model.units(few)
    if units is None:
        return phi, (note,)
    return coordinates.phi(Exchangeable(units)(coordinates.theta(phi))), (note,)


def single_start(objective: Objective, rows: Rows, options: Options) -> np.ndarray:
    """The user's start, or the model's."""
    if options.start is None:
        return objective.initial_point(rows)
    return objective.coordinates.phi(objective.model.theta(options.start, rows))


def random_start(
    model: Model, coordinates: Coordinates, rows: Rows, rng: np.random.Generator
) -> np.ndarray:
    """A random point of phi; of a loss of one's own nearer to 0 where gradients there are large.

    So columns in large units have small coefficients.
    """
    theta = model.random_theta(observations(rows), rng)
    if model.takes_any_rows:
        theta = theta * np.minimum(1.0, FARTHEST * coordinates.scale.min() / coordinates.scale)
    return coordinates.phi(theta)


def _of_all(loss: Loss, starts: list[np.ndarray]) -> LocalModel:
    """The minimum from the first of the starts at which the sums of all rows are finite."""
    for phi in starts[:-1]:
        try:
            return minimum_of(loss, phi)
        except BadBlock:
            continue
    return minimum_of(loss, starts[-1])


def _largest_curvature(local: LocalModel) -> float:
    return float(np.abs(local.hessian).max()) / local.count


def _score(local: LocalModel) -> float:
    """(G'M^-1 G)^1/2: the gradient in its standard errors, also where both have become tiny."""
    size = np.sqrt(np.diag(local.meat))
    if (size[local.gradient != 0] == 0).any():  # squares have underflown
        return np.inf
    size = np.where(size > 0, size, 1.0)
    along = local.gradient / size
    return float(np.sqrt(along @ np.linalg.pinv(local.meat / size / size[:, None]) @ along))

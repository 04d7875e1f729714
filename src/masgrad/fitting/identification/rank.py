"""The null space of a fit: directions of theta that the data do not determine.

A direction of phi in which H vanishes is not identified. For a linear predictor the cause is in X
(an empty column, collinear columns) or in y: along a direction that separates the responses the
loss falls for ever, and the information about the linear predictor goes to 0. Collinear columns are
an error: no number for either of them would mean anything.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from masgrad.errors import IdentificationError
from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.identification.separation import is_complete, recession_directions
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import LocalModel, is_empty
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.sources import Sample
from masgrad.models.glm import GLM

SMALL_LOADING = 1e-3
"""Share of a direction's largest loading up to which a parameter does not move along it."""


@dataclass(frozen=True)
class NullSpace:
    """Directions of phi without an estimate.

    Args:
        coordinates: theta = J phi.
        empty: indices of columns that are 0 in every row.
        recession: directions along which the loss falls for ever, (p, k).
        flat: directions in which a loss without a linear predictor does not change, (p, k).
        unused: indices of parameters on which no such loss depends; their axes are flat.
    """

    coordinates: Coordinates
    empty: np.ndarray
    recession: np.ndarray
    flat: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    unused: np.ndarray = field(default_factory=lambda: np.array([], int))

    @cached_property
    def directions(self) -> np.ndarray:
        """All of them, (p, k)."""
        axes = np.eye(len(self.coordinates.matrix))
        parts = [axes[:, self.empty], self.recession, self.flat]
        return np.hstack([part for part in parts if part.size] or [axes[:, :0]])

    @property
    def size(self) -> int:
        return self.directions.shape[1]

    @cached_property
    def not_identified(self) -> np.ndarray:
        """Mask of the parameters that move along one of the directions."""
        return moved_along(self.coordinates, self.directions)

    @cached_property
    def is_empty(self) -> np.ndarray:
        """Mask of the empty columns."""
        return np.isin(np.arange(len(self.coordinates.matrix)), self.empty)

    @cached_property
    def without_value(self) -> np.ndarray:
        """Mask of the parameters that have no estimate at all (NaN)."""
        return self.is_empty | np.isin(np.arange(len(self.is_empty)), self.unused)

    def separated(self) -> np.ndarray:
        """Indices of the parameters along which responses are separated."""
        return np.flatnonzero(moved_along(self.coordinates, self.recession))


def moved_along(coordinates: Coordinates, directions: np.ndarray) -> np.ndarray:
    """Mask of the entries of theta that change along directions of phi, beyond rounding."""
    if not directions.size:
        return np.zeros(len(coordinates.matrix), bool)
    loads = np.abs(coordinates.matrix @ directions) * coordinates.scale[:, None]
    return (loads > SMALL_LOADING * loads.max(0)).any(1)


def null_space(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    local: LocalModel,
    recession: np.ndarray | None = None,
) -> NullSpace:
    """What is not identified at an estimate; `recession` are directions that are known already."""
    p, nothing = len(local.point), np.array([], int)
    if not objective.linear:
        unused = is_empty(local.hessian)
        flat = local.null_directions[:, _beyond(local.null_directions, unused)]
        flat = flat / np.maximum(np.linalg.norm(flat, axis=0), np.finfo(float).tiny)
        flat, unused = np.hstack([np.eye(p)[:, unused], flat]), np.flatnonzero(unused)
        return NullSpace(objective.coordinates, nothing, np.empty((p, 0)), flat, unused)
    recession = np.empty((p, 0)) if recession is None else recession
    empty = nothing
    if local.null_directions.shape[1]:
        moment = _design_moment(objective, reader, sample, local)
        empty = _empty_columns(objective.coordinates, moment, reader.source.names)
    if local.null_directions.shape[1] > len(empty) and not recession.size:  # the cause is in y
        recession = recession_directions(objective, reader, sample, local)
        if objective.bounded and not recession.size:
            raise optimum_on_border(objective)
    if recession.size and is_complete(objective, reader, sample, local):
        recession = np.delete(np.eye(p), empty, axis=1)
    return NullSpace(objective.coordinates, empty, recession)


def _design_moment(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> np.ndarray:
    """E[x x'] in phi, over all rows if they can be read again."""
    squares, zero = Objective(GLM("gaussian"), objective.coordinates), np.zeros_like(local.point)
    if not reader.source.rereadable:
        total = squares.local_model(zero, sample.rows, Parts(meat=False))
    else:
        with reader.unobserved() as quiet:
            total = quiet.read(squares, zero, Parts(meat=False))
    return total.hessian / total.count


def _empty_columns(
    coordinates: Coordinates, moment: np.ndarray, names: tuple[str, ...]
) -> np.ndarray:
    """Indices of the empty columns; any other singularity of X is an error."""
    empty, nothing = is_empty(moment), np.full_like(moment, np.nan)
    for j in np.flatnonzero(empty):
        if coordinates.constant is not None and coordinates.centre[j] != 0:
            raise IdentificationError(
                f"column {label(names, j)} is constant, as column "
                f"{label(names, coordinates.constant)} is; drop one of them"
            )
    null = LocalModel(1, moment[0], moment[0], moment, nothing).null_directions
    for direction in null[:, _beyond(null, empty)].T:
        together = moved_along(coordinates, direction[:, None])
        collinear = [label(names, j) for j in np.flatnonzero(together)]
        raise IdentificationError(
            f"columns {', '.join(collinear)} determine one another (collinear): their coefficients "
            "cannot be told apart; drop one of them"
        )
    return np.flatnonzero(empty)


def _beyond(null: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Mask of the null directions that involve columns which are not empty."""
    return np.abs(null[~empty]).max(0, initial=0.0) > 1e-8 * np.abs(null).max(0, initial=0.0)


def listed(chosen: np.ndarray, names: tuple[str, ...]) -> str:
    """Names of the parameters under a mask, the first five of them."""
    index = np.flatnonzero(chosen)
    more = f" and {len(index) - 5} more" if len(index) > 5 else ""
    return ", ".join(names[j] if names else f"theta[{j}]" for j in index[:5]) + more


def label(names: tuple[str, ...], j: Any) -> str:
    """How to name a column."""
    return repr(names[j]) if names else f"{j}"

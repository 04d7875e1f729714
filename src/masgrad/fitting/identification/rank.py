"""The null space of a fit: directions of theta that the data do not determine.

A direction of phi in which H vanishes is not identified. For a linear predictor the cause is in X
(an empty column, collinear columns) or in y (separated responses, `separation.py`). Collinear
columns are an error: no number for either of them would mean anything.

That an optimum exists is proved by the Newton step of any point at which H is positive definite.
The step h makes sum_i (l'_i + l''_i x_i'h) x_i = 0. If all these residuals of rows at their
boundary keep the sign of l'_i, no recession direction d is possible: sum_i (...) x_i'd would be
below 0. So in every separated sample each Newton step carries some row by its own step |l'| / l''
or more, 1 for a logistic or Poisson loss, however far the path has come.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.errors import IdentificationError
from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.objective.coordinates import Coordinates, moved_along
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.sources import Sample, random_rows
from masgrad.models.glm import add_offset
from masgrad.models.gram import is_empty
from masgrad.types import Rows

SMALL_NULL_LOADING = 1e-6
"""The share of `moved_along` for null spaces of rows, which are known to many digits."""

BORDER = 1e-9
"""Cosine between a row and a direction up to which the row lies on the border."""

FULL_RANK = 1e-10
"""Smallest eigenvalue of the scaled H at which a Newton step proves that an optimum exists."""

KEEPS_SIGN = 0.9
"""Share of a row's own Newton step below which its residual keeps its sign beyond rounding."""

FIRST_ASKED, FIRST_ASKED_PER_COLUMN, STEPS_ASKED = 4096, 50, 3
"""Pilot rows that are asked first whether an optimum exists, and Newton steps on them."""

FEWEST_ASKED_PER_COLUMN = 3
"""Fewer rows than this for each column are likely to be separated by chance (Cover 1965)."""

Holds = Callable[[Callable[[Rows], bool]], bool]
"""Whether a test holds for every block of some rows."""


@dataclass(frozen=True)
class Separation:
    """What is known about directions along which the likelihood rises for ever.

    Args:
        found: True if the rows are separated, False if an optimum exists, None if undecided.
        recession: verified directions of phi, (p, m); each holds for the rows that those before it
            leave on the border.
        null: basis of the directions that the rows on the border of all of them leave free, (p, k).
        empty: indices of columns that are 0 in every row.
        rows: number of rows on the border.
        signs: of the coefficients' limits, (p,): 1, -1, NaN if recession directions disagree, and 0
            if the coefficient is finite; None if they were not asked for.
    """

    found: bool | None
    recession: np.ndarray
    null: np.ndarray
    empty: np.ndarray = field(default_factory=lambda: np.array([], int))
    rows: int = 0
    signs: np.ndarray | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the rows on the border determine nothing."""
        return bool(self.found) and self.null.shape[1] + len(self.empty) == len(self.null)

    def on_border(self, U: np.ndarray) -> np.ndarray:
        """Mask of the rows U (n, p) of the design in phi that are not separated."""
        size = np.linalg.norm(U, axis=1, keepdims=True) * np.linalg.norm(self.recession, axis=0)
        return (np.abs(U @ self.recession) <= BORDER * size).all(1)


@dataclass(frozen=True)
class NullSpace:
    """Directions of phi without an estimate.

    Args:
        coordinates: theta = J phi.
        empty: indices of columns that are 0 in every row.
        separation: what is known about recession directions, if that was asked.
        flat: directions in which a loss without a linear predictor does not change, (p, k).
        unused: indices of parameters on which no such loss depends; their axes are flat.
    """

    coordinates: Coordinates
    empty: np.ndarray
    separation: Separation | None = None
    flat: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    unused: np.ndarray = field(default_factory=lambda: np.array([], int))

    @property
    def is_separated(self) -> bool:
        return self.separation is not None and self.separation.found is True

    @property
    def is_undecided(self) -> bool:
        """Whether neither an optimum nor a recession direction was found."""
        return self.separation is not None and self.separation.found is None

    @cached_property
    def recession(self) -> np.ndarray:
        """Directions that only separated rows determine, or rows that may be, (p, k)."""
        return np.empty((self._p, 0)) if self.separation is None else self.separation.null

    @property
    def limits(self) -> np.ndarray:
        """Directions along which the estimate goes to its limit, if it was asked for, (p, m)."""
        known = self.separation is not None and self.separation.signs is not None
        return self.separation.recession if known else np.empty((self._p, 0))  # pyright: ignore

    @cached_property
    def directions(self) -> np.ndarray:
        """All of them, (p, k)."""
        axes = np.eye(self._p)
        parts = [axes[:, self.empty], self.recession, self.flat]
        return np.hstack([part for part in parts if part.size] or [axes[:, :0]])

    @property
    def size(self) -> int:
        return self.directions.shape[1]

    @property
    def _p(self) -> int:
        return len(self.coordinates.matrix)

    @cached_property
    def not_identified(self) -> np.ndarray:
        """Mask of the parameters that move along one of the directions."""
        return self.is_empty | self.separated | self._moved_along(self.flat)

    @cached_property
    def is_empty(self) -> np.ndarray:
        """Mask of the empty columns."""
        return np.isin(np.arange(self._p), self.empty)

    @cached_property
    def without_value(self) -> np.ndarray:
        """Mask of the parameters that have no estimate at all (NaN)."""
        return self.is_empty | np.isin(np.arange(self._p), self.unused)

    @cached_property
    def separated(self) -> np.ndarray:
        """Mask of the parameters that only separated rows determine."""
        return self._moved_along(self.recession)

    def _moved_along(self, directions: np.ndarray) -> np.ndarray:
        return moved_along(self.coordinates, directions, SMALL_NULL_LOADING)

    def theta(self, phi: np.ndarray) -> np.ndarray:
        """The estimate: infinite along recession directions, NaN if it has no value."""
        theta = self.coordinates.theta(phi)
        if self.separation is not None and self.separation.signs is not None:
            with np.errstate(invalid="ignore"):
                theta = np.where(self.separated, self.separation.signs * np.inf, theta)
        return np.where(self.without_value, np.nan, theta)


def null_space(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    local: LocalModel,
    separation: Separation | None = None,
) -> NullSpace:
    """What is not identified at an estimate; `separation` is what is known already."""
    p, nothing = len(local.point), np.array([], int)
    if not objective.linear:
        unused = is_empty(local.hessian)
        flat = local.null_directions[:, _beyond(local.null_directions, unused)]
        flat = flat / np.maximum(np.linalg.norm(flat, axis=0), np.finfo(float).tiny)
        flat, unused = np.hstack([np.eye(p)[:, unused], flat]), np.flatnonzero(unused)
        return NullSpace(objective.coordinates, nothing, None, flat, unused)
    if separation is not None and separation.found:
        return NullSpace(objective.coordinates, separation.empty, separation)
    empty = nothing
    if local.null_directions.shape[1]:
        moment = reader.design_moment(objective, sample)
        empty = empty_columns(objective.coordinates, moment, reader.source.names)
        if local.null_directions.shape[1] > len(empty) and objective.bounded:
            raise optimum_on_border(objective)
    if separation is not None:  # then all that is known of its directions is there
        empty = empty[~moved_along(objective.coordinates, separation.null)[empty]]
    return NullSpace(objective.coordinates, empty, separation)


# That an optimum exists.


def has_optimum(objective: Objective, local: LocalModel, holds: Holds, empty: int = 0) -> bool:
    """Whether the Newton step of all rows proves that an optimum exists; some columns are empty.

    `holds` says whether a test holds for every block of the rows.
    """
    if local.deficiency(FULL_RANK) > empty:
        return False
    here, step = local.point, local.newton()
    return holds(lambda rows: bool((advances(objective, here, step, rows) < KEEPS_SIGN).all()))


def sides(objective: Objective, rows: Rows) -> np.ndarray:
    """-1 and 1 for rows at the lower and upper boundary of the response, 0 for others."""
    assert objective.family is not None
    return (rows[1] == objective.family.highest) * 1.0 - (rows[1] == objective.family.lowest)


def advances(objective: Objective, phi: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
    """How far a step carries each row to its boundary, in Newton steps of that row alone.

    0 for interior rows, and for those whose gradient has vanished: the others decide.
    """
    assert objective.family is not None
    s, t = sides(objective, rows), add_offset(objective.predictors(phi, rows), rows)
    with np.errstate(all="ignore"):
        r, w = objective.family.slope_and_curvature(t, rows[1])
        found = s * objective.predictors(step, rows) * w / np.abs(r)
    return np.where((s == 0) | (r == 0), 0.0, found)


def sample_has_optimum(
    objective: Objective, sample: Sample, phi: np.ndarray, known: LocalModel | None = None
) -> bool:
    """Whether pilot rows prove that an optimum exists; of all rows, H at phi may be known."""
    p, rows = len(phi), sample.rows
    if not sample.complete and count_rows(rows) < FEWEST_ASKED_PER_COLUMN * p:
        return False
    # more rows only remove directions
    few = random_rows(rows, max(FIRST_ASKED, FIRST_ASKED_PER_COLUMN * p), np.random.default_rng(0))
    if sample.complete and few is rows and known is not None:
        here = known.with_gradient(objective.local_model(phi, rows, GRADIENT))
        if has_optimum(objective, here, lambda test: all(map(test, blocks(rows)))):
            return True
    return _proves(objective, few, phi) or (few is not rows and _proves(objective, rows, phi))


def _proves(objective: Objective, rows: Rows, phi: np.ndarray) -> bool:
    """Whether one of a few Newton steps over these rows is a proof."""
    for _ in range(STEPS_ASKED):
        try:
            local = objective.local_model(phi, rows, Parts(meat=False))
        except BadBlock:  # an exponential overflows there
            return False
        if local.deficiency(FULL_RANK):
            return False
        if has_optimum(objective, local, lambda test: test(rows)):
            return True
        phi = phi + local.newton()
    return False


# The design.


def empty_columns(
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

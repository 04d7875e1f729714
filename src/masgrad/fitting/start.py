"""Where a fit begins: units for theta, and the optimum of a first sample.

Linear predictors begin at zero, or where `begin` finds a mean for every row. A mixture or a network
has many optima: from several starts the sample's optima are found, those of one risk are one mode
or permutations of it, and the lowest is taken. What follows is about that mode alone. It needs the
landscape to be strongly Morse there: H positive definite at the optimum, which the correcting reads
check.
"""

from typing import Any

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.errors import InputError
from masgrad.fitting.begin import begin
from masgrad.fitting.frame import Frame, of_design, of_scale
from masgrad.fitting.kinks import check_curvature
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.warmup import warm_up
from masgrad.models.glm import GLM
from masgrad.models.mixture import GaussianMixture
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork
from masgrad.types import Rows

FEW = 1024
"""Rows on which random starts are tried."""

WARM = 8192
"""Rows of the first descent; its end is a good start for more of them."""

TIE = 1e-4
"""Risks that differ by less, relative to their range, are those of one mode or its permutations."""

PATIENT = 300
"""Steps of a warm-up where the loss need not be convex."""


def frame_of(model: Model, rows: Rows, start: Any) -> Frame:
    """Units of X for a linear predictor, else of the gradient at the start."""
    if isinstance(model, GLM):
        return of_design(rows[0])
    theta = np.zeros(model.dim(rows)) if start is None else model.theta(start, rows)
    few = head(rows, FEW)
    size = np.sqrt(np.square(model.row_gradients(theta, few)).mean(0))
    return of_scale(np.where(np.isfinite(size) & (size > 0), size, 1.0))


def best_start(
    problem: Problem, rows: Rows, start: Any, starts: int, rng: np.random.Generator
) -> Quadratic:
    """The local model at an optimum of these rows."""
    model, frame = problem.model, problem.frame
    if problem.prior is not None:
        return problem.quadratic(problem.prior.point, rows)
    own = None if start is None else frame.phi(model.theta(start, rows))
    if own is None and isinstance(model, GaussianMixture | ReluNetwork):
        phi = frame.phi(lowest(problem, some(rows, FEW, rng), starts, rng))
    else:
        phi = begin(problem, rows, own)
    steps, most = (8, 40) if problem.linear else (20, PATIENT)
    before = problem.quadratic(phi, some(rows, FEW, rng))
    if not problem.linear:
        check_curvature(before)
    problem.curvature = curvature(before)
    first = warm_up(problem, some(rows, WARM, rng), phi, steps, most)
    return first if count_rows(rows) <= WARM else warm_up(problem, rows, first.point, 0, most)


def curvature(local: Quadratic) -> float:
    return float(np.abs(local.hessian).max()) / local.count


def check_minimum(problem: Problem, local: Quadratic) -> None:
    """A loss that falls for ever, like an exponential, has lost its curvature on the way."""
    if not problem.linear and curvature(local) < 1e-9 * problem.curvature:
        raise InputError("the loss keeps falling, and its curvature is gone: it has no minimum")


def head(rows: Rows, size: int) -> Rows:
    return pick(lambda a: a[:size], rows)


def some(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Rows from all over, since those of a file or a table may have an order."""
    if count_rows(rows) <= size:
        return rows
    chosen = np.sort(rng.choice(count_rows(rows), size, replace=False))
    return pick(lambda a: a[chosen], rows)


def lowest(problem: Problem, few: Rows, starts: int, rng: np.random.Generator) -> np.ndarray:
    """Where the descents on a few rows end lowest; a note says how many ended elsewhere."""
    ends = []
    for _ in range(starts):
        theta = random_start(problem.model, few, rng)
        end = warm_up(problem, few, problem.frame.phi(theta), steps=20, most=60)
        ends.append((problem.losses(end.point, few).mean(), problem.frame.theta(end.point)))
    risks = np.array([risk for risk, _ in ends])
    same = int((risks <= risks.min() + TIE * (np.abs(risks.min()) + np.ptp(risks))).sum())
    problem.notes.append(
        f"{same} of {starts} starts ended at this risk ({count_rows(few)} rows), the others higher."
    )
    return min(ends, key=lambda end: end[0])[1]


def random_start(model: Model, rows: Rows, rng: np.random.Generator) -> np.ndarray:
    """Means at rows of the data; weights N(0, 1)."""
    if isinstance(model, GaussianMixture):
        few = count_rows(rows) < model.components
        return np.sort(rng.choice(rows, model.components, replace=few))
    return rng.normal(size=model.dim(rows))

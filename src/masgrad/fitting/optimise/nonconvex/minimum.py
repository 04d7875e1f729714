"""A minimum of a loss that need not be convex, from any start.

Steps are those of a trust region (`trust_region.py`) in MasGrad's metric: the length of a step s is
(s'Vs)^1/2, V the root of the covariance of the rows' gradients, so that steepest descent is
MasGrad's direction V^-1 b. Far away, where the loss is linear and H vanishes, steps are MasGrad's
and double as long as the loss falls; near a minimum they are Newton's; at a saddle they lead along
the negative curvature.

An end is a minimum only if no eigenvalue of H is negative. Along an eigenvector whose eigenvalue is
0 the loss may still fall further away: it is compared at some distances, and descends from there.
"""

from typing import NamedTuple

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock
from masgrad.fitting.optimise.nonconvex.flatness import FLAT, MAY_BE_FLAT, Curvatures
from masgrad.fitting.optimise.nonconvex.loss import Loss
from masgrad.fitting.optimise.nonconvex.trust_region import Quadratic

MOST_STEPS = 500
"""Steps of a descent, those that are refused among them."""

LEAST_VARIANCE = 1e-4
"""Variance of gradients along a direction, as a share of the largest, that the metric assumes: a
flat direction has none, and steps along it would be as long as one likes."""

ACCEPTED, GOOD, POOR = 0.1, 0.75, 0.25
"""Fall of the loss, as a share of the predicted one, from which a step is taken, the radius doubled
if the step was that long, and below which the radius becomes a quarter of the step."""

ROUNDING, SURE = 1e-13, 1e-9
"""Predicted fall, as a share of the losses, at which a descent has come to rounding, and beyond
which the difference of their sums is known well enough."""

SMALL_STEP, POLISHINGS = 1e-5, 3
"""Newton step, in standard errors of the rows, at which a descent ends, and such steps after it."""

FLAT_STEPS = np.array([1.0, -1.0, 3.0, -3.0])
"""Distances along a flat direction, in the coordinates' units, at which the loss is compared."""

MOST_FLAT, ESCAPES = 8, 5
"""Flat directions that are tried at an end, and descents that begin again from one of them."""


class Metric(NamedTuple):
    """Coordinates u of a step s = A u in which MasGrad's direction is steepest descent.

    A has norm 1, so that a step of length r moves phi by up to r wherever V is measured.
    """

    half: np.ndarray

    def quadratic(self, local: LocalModel) -> tuple[Quadratic, np.ndarray]:
        """The local model in these coordinates, and the eigenvectors of H as steps."""
        values, Q = np.linalg.eigh(self.half.T @ local.hessian @ self.half)
        axes = self.half @ Q
        return Quadratic(values, axes.T @ local.gradient), axes


def metric_of(local: LocalModel) -> Metric:
    """V^-1/2 of the rows' gradients; variances that are next to 0 are lifted.

    Where the gradient of every row vanishes, as at a product's origin, it is that of phi.
    """
    b = local.gradient / local.count
    values, Q = np.linalg.eigh(local.meat / local.count - np.outer(b, b))
    if values[-1] < np.finfo(float).tiny:
        return Metric(np.eye(len(b)))
    half = Q * np.maximum(values / values[-1], LEAST_VARIANCE) ** -0.25
    return Metric(half / np.linalg.norm(half, 2))


def minimum_of(loss: Loss, phi: np.ndarray) -> LocalModel:
    """The local model at a minimum of the loss, without curvature where that may be 0."""
    local = _descend(loss, loss.local_model(phi))
    for _ in range(ESCAPES):
        lower = lower_along_flat(loss, local)
        if lower is None:
            break
        local = _descend(loss, lower)
    curvatures = Curvatures(loss, local)
    flat = curvatures.flat()
    return curvatures.without(flat) if flat.any() else local


def _descend(loss: Loss, local: LocalModel) -> LocalModel:
    """Steps of a trust region until one is too short to matter.

    The first moves phi, and theta, by up to 1: phi is large where gradients at the start are small.
    """
    radius = min(1.0, 1 / float(np.linalg.norm(loss.units, 2)))
    model, axes = metric_of(local).quadratic(local)
    for _ in range(MOST_STEPS):
        u = model.minimum(radius)
        expected = -model(u)
        if _is_over(model, u, expected, local, axes):
            break
        end = local.point + axes @ u
        fall, there = _at(loss, local, end, expected)
        length = float(np.linalg.norm(u))
        if fall < POOR * expected:
            radius = length / 4
        elif fall > GOOD * expected and length > 0.9 * radius:
            radius = 2 * radius
        if there is not None and fall > ACCEPTED * expected:
            local, (model, axes) = there, metric_of(there).quadratic(there)
    return _polished(loss, local)


def _polished(loss: Loss, local: LocalModel) -> LocalModel:
    """Newton steps below the rounding of losses, as long as the gradient shrinks.

    Eigenvalues that should be 0 are as small as the gradient is.
    """
    for _ in range(POLISHINGS):
        model, axes = metric_of(local).quadratic(local)
        seen = model.values > FLAT * model.values[-1]
        step = axes[:, seen] @ (-model.slope[seen] / model.values[seen])
        try:
            there = loss.local_model(local.point + step)
        except BadBlock:
            break
        if not np.linalg.norm(axes.T @ there.gradient) < 0.5 * np.linalg.norm(model.slope):
            break
        local = there
    return local


def _is_over(
    model: Quadratic, u: np.ndarray, expected: float, local: LocalModel, axes: np.ndarray
) -> bool:
    """Whether what is left is rounding, or a Newton step far below a standard error."""
    if expected <= ROUNDING * abs(local.loss):
        return True
    newton = model.values[0] > 0 and np.array_equal(u, -model.slope / model.values)
    return newton and local.wald_norm(axes @ u) < SMALL_STEP


def _at(
    loss: Loss, begin: LocalModel, end: np.ndarray, expected: float
) -> tuple[float, LocalModel | None]:
    """The fall of the loss over a step, and the local model at its end if the loss did fall."""
    try:
        there = loss.local_model(end)
    except BadBlock:  # sums overflow there
        return -np.inf, None
    fall = begin.loss - there.loss
    if expected < SURE * abs(begin.loss):  # near the rounding of sums rows are compared
        fall = float(loss.falls(begin.point, end[None])[0])
    return (fall, there) if fall > 0 else (-np.inf, None)


def lower_along_flat(loss: Loss, local: LocalModel) -> LocalModel | None:
    """The local model at the lowest of some points along directions in which H vanishes."""
    curvatures = Curvatures(loss, local)
    axes = curvatures.axes[:, curvatures.values <= MAY_BE_FLAT]
    for direction in (axes / np.linalg.norm(axes, axis=0)).T[:MOST_FLAT]:
        ends = local.point + FLAT_STEPS[:, None] * direction
        falls = loss.falls(local.point, ends)
        best = int(np.argmax(falls))
        if falls[best] > np.sqrt(ROUNDING) * max(abs(local.loss), 1e-300):
            return loss.local_model(ends[best])
    return None

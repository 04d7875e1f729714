"""How far to step, and when to stop: three watches over Newton's steps.

A Newton step minimises a quadratic, and the loss is one only nearby. Steps are shortened beforehand
by how far they move the linear predictors, and afterwards if the loss rises again along them.
"""

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.types import Rows

ROUNDING = 1e-6
"""A step, in standard errors, that need not be watched."""


SEVERAL = 8
"""Rows that must share in a rare column for it to shorten steps."""


def damping(problem: Problem, step: np.ndarray, kept: Rows) -> float:
    """log(1 + d) / d for a step that moves most linear predictors by up to d > 1, else 1.

    The curvature of a logistic or Poisson loss changes by at most a factor e^d over such a step
    (generalised self-concordance; Bach 2010). Predictors of a few outlying rows may move further:
    what goes wrong then is seen at the next read.
    """
    if not problem.separable:
        return 1.0
    moved = np.concatenate([np.abs(problem.features(rows) @ step) for rows in blocks(kept)])
    d = float(np.quantile(moved, 0.95))
    d = d if problem.spread else max(d, _rare(problem, step, kept))
    return float(np.log1p(d) / d) if d > 1 else 1.0


def _rare(problem: Problem, step: np.ndarray, kept: Rows) -> float:
    """How far predictors of the rows move that carry a rare but even column, such as a dummy."""
    U = problem.features(kept)
    squares = np.square(U)
    weight = np.maximum(squares.sum(0), np.finfo(float).tiny)
    even = np.abs(U).max(0) * weight < 1.5 * (squares * np.abs(U)).sum(0)
    even &= weight**2 > SEVERAL * np.square(squares).sum(0)  # not one outlier
    moved = np.abs(U @ step) @ squares / weight
    return float(moved[even].max(initial=0.0))


def on_plateau(problem: Problem, total: Quadratic) -> bool:
    """Whether some direction of phi, in which columns are of size 1, has next to no information."""
    if not problem.separable:
        return False
    return total.null.shape[1] > 0 or np.linalg.eigvalsh(total.hessian)[0] < 1.0


class Path:
    """The line of the last step, along which it is shortened where it went too far."""

    def __init__(self):
        self.start = self.step = np.zeros(0)
        self.slope = self.share = self.size = 0.0

    @property
    def begun(self) -> bool:
        return len(self.step) > 0

    def forward(self, total: Quadratic, step: np.ndarray) -> np.ndarray:
        """The point a step from where the total was taken."""
        self.start, self.step, self.slope = total.point, step, float(total.gradient @ step)
        self.size, self.null = total.errors(step), total.null.shape[1]
        return self.start + step

    def overshot(self, total: Quadratic) -> bool:
        """Whether the loss rises along the step, steeply or where its curvature is gone.

        On a plateau the next Newton step would lead back beyond the start, and further each time.
        """
        if not self.begun or self.size < ROUNDING:
            return False
        rise, bend = float(total.gradient @ self.step), float(self.step @ total.hessian @ self.step)
        self.share = min(0.5, self.slope / (self.slope - rise)) if rise > 0 else 0.25
        lost = total.null.shape[1] > self.null
        return lost or (rise > 0 and (rise > 0.5 * abs(self.slope) or bend < rise))

    def shorten(self, share: float | None = None) -> np.ndarray:
        """Where the slope would be 0 if it changed linearly, and at most halfway."""
        share = max(0.05, self.share) if share is None else share
        self.step, self.slope = self.step * share, self.slope * share
        return self.start + self.step


class Steady:
    """Newton's steps in one direction and of one length: those of a loss that falls for ever.

    Towards an optimum they shrink. Where responses are separated the loss is an exponential, and
    each step adds 1 to the linear predictor.
    """

    def __init__(self):
        self.last, self.count = None, 0

    def after(self, step: np.ndarray) -> bool:
        """Whether three steps in a row were alike, this one included."""
        last, self.last = self.last, step
        if last is None:
            return False
        lengths = np.linalg.norm(step), np.linalg.norm(last)
        same = step @ last > 0.99 * lengths[0] * lengths[1] and 0.7 < lengths[0] / lengths[1] < 1.4
        self.count = self.count + 1 if same else 0
        return self.count >= 2

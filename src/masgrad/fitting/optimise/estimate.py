"""Steps over reads, and where they end: the estimate there, whether it may be the last."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masgrad.fitting.identification.rank import Separation
from masgrad.fitting.objective.clusters.sums import ClusterWay
from masgrad.fitting.objective.local_model import LocalModel, merged
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.optimise.third_order import Prediction, distance, update_moments
from masgrad.fitting.sources import Sample
from masgrad.models.families.canonical import Gaussian

NEGLIGIBLE_STEP = 1e-6
"""Length of a step, in standard errors, that needs no line search."""

FEW_COLUMNS = 32
"""Columns up to which H and M cost so little that every read in memory sums them."""

SUFFICIENT_DECREASE = 0.1
"""Share of the predicted fall that a step must bring (Armijo's rule)."""

ROUNDING = 1e-11
"""Relative change of a sum of losses that may be rounding."""

MAX_RESIDUAL_SHIFT = 0.2
"""Change of a row's residual, in units of its noise, that a last step may cause."""

SAME_MOMENTS = 1e-8
"""The same, for each root of p, up to which H, M and standard errors remain as they are."""

ERROR_CHANGE = 0.005
"""Relative change of a standard error over the last step that pilot rows are trusted to tell."""

NEXT_STEP = 3.0
"""What may be left after a step, in units of what is expected to be missed of the next."""

FALLS = 1e-3
"""Gradient along a direction without curvature, in units of the rows' own, that is not rounding."""

SLOW = 0.25
"""Share of a step, left after it, at which H is too far off for another step with it."""


Read = Callable[[Objective, np.ndarray, Parts], LocalModel]
"""The local model of all rows, of an objective at a point."""


@dataclass(frozen=True)
class Estimate:
    """Where the reads ended.

    Args:
        local_model: of the last read, expanded at the estimate.
        reads: number of reads.
        gradient_reads: how many of them summed gradients and losses alone.
        correction: length of the last step, in standard errors of the worst contrast.
        remainder: bound on the distance to the optimum, in standard errors, as in `FitInfo`.
        score_statistic: of the pilot rows at the estimate, in standard deviations.
        max_residual_shift: change of residuals since M was summed, in units of their noise.
        separation: what is known about separated rows, if there was reason to ask.
        points: where the reads were made.
        stages: labels and points of the stages of the fit.
        average_discarded: whether MasGrad's average was worse than its start.
        one_step: whether this is one step from a penalised optimum, and no optimum itself.
        single_read: whether most rows were read once, at running estimates.
        notes: for the result.
        clusters: sums by cluster that a single read has taken.
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
    clusters: tuple[ClusterWay, ...] = ()


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


@dataclass(frozen=True)
class NewtonStep:
    """A step from where `total` was taken, and what is predicted at its end.

    Args:
        parts: local models of all rows, the prior's last.
        total: of all of them; its H is the expected one if `scored`.
        full_step: to the minimum of `total`.
        share: of that step which is taken.
        predict: from parts and total what is left at the end, which takes a look at pilot rows.
        scored: whether the step is one of Fisher scoring.
        of_pilot: whether H and M are those of pilot rows, in proportion.
    """

    parts: list[LocalModel]
    total: LocalModel
    full_step: np.ndarray
    share: float
    predict: Callable[[list[LocalModel], LocalModel], Prediction]
    scored: bool = False
    of_pilot: bool = False

    @cached_property
    def prediction(self) -> Prediction:
        """Computed once, if it is asked for: most steps are too long to be the last."""
        return self.predict(self.parts, self.total)

    @property
    def step(self) -> np.ndarray:
        return self.full_step * self.share

    @property
    def way(self) -> np.ndarray:
        """From where M and H were summed to the step's end."""
        return self.total.point - self.total.moments_point + self.step

    @property
    def vanishes(self) -> bool:
        """Whether the step is below the rounding of the point itself (noiseless rows)."""
        return bool(np.abs(self.step).max() <= 1e-13 * np.abs(self.total.point).max())


@dataclass(frozen=True)
class Trial:
    """A step from where a local model of all rows was taken, before the loss at its end is known.

    Args:
        start: the local model at the start; its H may be the expected one.
        step: the step.
    """

    start: LocalModel
    step: np.ndarray

    @property
    def end(self) -> np.ndarray:
        return self.start.point + self.step

    @property
    def predicted_fall(self) -> float:
        """What the local model says of the loss."""
        return -float(
            self.start.gradient @ self.step + self.step @ self.start.hessian @ self.step / 2
        )

    def is_accepted(self, end: LocalModel) -> bool:
        """Whether the loss of all rows fell about as predicted.

        If the fall is within rounding of the loss, the length of the next step decides: it is
        shorter than this one.
        """
        fall, predicted = self.start.loss - end.loss, self.predicted_fall
        scale = abs(self.start.loss) + abs(end.loss) + end.count
        if self.start.wald_norm(self.step) < NEGLIGIBLE_STEP and fall > -ROUNDING * scale:
            return True  # a long step may be short in standard errors, where there is no curvature
        if predicted > ROUNDING * scale:
            return fall >= SUFFICIENT_DECREASE * predicted
        slope = float(end.gradient @ self.step)
        return fall > -ROUNDING * scale and abs(slope) <= 2 * max(predicted, 0.0)


def meat_later(objective: Objective, sample: Sample) -> bool:
    """Whether M, half of a read, is summed only where the steps end: rows are in memory."""
    wide = len(objective.coordinates.matrix) > FEW_COLUMNS
    return wide and sample.complete and objective.convex and objective.prior is None


def with_new_gradient(objective: Objective, old: LocalModel, new: LocalModel) -> LocalModel:
    """A gradient read with H of an earlier one, which for least squares is that of any point."""
    found = old.with_gradient(new)
    exact = isinstance(objective.family, Gaussian) and not old.has_meat
    return found.with_same_hessian(moments_at=None) if exact else found


def with_meat(objective: Objective, read: Read, step: NewtonStep) -> NewtonStep:
    """The step, with M of all rows where it begins if that was left for later."""
    if step.total.has_meat:
        return step
    new = read(objective, step.total.point, Parts(hessian=False))
    if new.count < step.total.count:  # Ctrl-C ended the read, and rows in memory serve
        return with_meat(objective, read, step)
    total = step.total.with_same_hessian(meat=new.meat * (step.total.count / new.count))
    return replace(step, parts=[total], total=total)


# Where a step ends.


def after(
    objective: Objective, sample: Sample, step: NewtonStep, before: NewtonStep | None
) -> Estimate:
    """The estimate, should this step, after the one before, be the last."""
    total, prediction = step.total, step.prediction
    there, size = total.point + step.step + prediction.extra_step, total.wald_norm(step.step)
    moved = size > NEGLIGIBLE_STEP or total.moments_at is not None
    moved = moved and not (sample.complete and _stays(objective, step))
    moved = moved or objective.prior is not None  # its M is of another point
    if prediction.trusted and moved and not step.scored:
        local = update_moments(objective, total, prediction.parts, there, sample.rows)
    else:
        local = total.at(there)
    local = prediction.at_end(local)
    remainder = prediction.bound
    if step.share < 1:
        remainder = distance(objective, total, step.full_step)
    foreseen = before is None or sample.complete or before.share < 1
    if before is not None and not (foreseen or before.scored or before.of_pilot):
        remainder = max(remainder, NEXT_STEP * _next_missed_step(objective, step, before))
    remainder = 0.0 if step.vanishes and objective.prior is None else remainder
    prior = None if prediction.trusted else objective.prior  # else its M and H were moved
    shift = 0.0
    if prior is not None:
        shift = prior.max_residual_shift(there - prior.point, objective.dispersed)
    return Estimate(local, 0, size, remainder, max_residual_shift=shift)


def at_start(objective: Objective, step: NewtonStep) -> Estimate:
    """The estimate at the start of a step along which the loss did not fall."""
    total = step.total if step.scored else merged(step.parts)
    size = total.wald_norm(step.full_step)
    return Estimate(total, 0, size, distance(objective, total, step.full_step))


def falls_where_flat(local: LocalModel) -> bool:
    """Whether the loss falls along a direction in which H vanishes: this is no optimum.

    A row whose mean is far from its response, on the wrong side, has a gradient without curvature.
    The gradient is compared with those of the rows that carry the direction.
    """
    if not local.null_directions.size:
        return False
    basis = np.linalg.qr(local.null_directions)[0]
    sizes = np.sqrt(np.maximum(np.square(basis).T @ np.diag(local.meat), 0.0))
    return bool((np.abs(basis.T @ local.gradient) > FALLS * sizes).any())


def may_be_last(objective: Objective, rule: StoppingRule, step: NewtonStep) -> bool:
    """Whether a step ends near enough to the optimum, and to where M and H were summed."""
    return ends_near(objective, rule, step) and step.prediction.remainder <= rule.remainder


def ends_near(objective: Objective, rule: StoppingRule, step: NewtonStep) -> bool:
    """Whether a whole Newton step ends near where M and H were summed."""
    return step.share == 1 and not step.scored and _is_near(objective, rule, step)


def gradient_may_suffice(objective: Objective, rule: StoppingRule, step: NewtonStep) -> bool:
    """Whether the gradient alone may be worth reading at the end of a step, if H and M settle.

    The next step is one with this H (a chord step), and pilot rows show what it misses.
    """
    if objective.prior is not None or not ends_near(objective, rule, step):
        return False
    if not step.prediction.trusted:
        return False
    total, left = step.total, step.prediction.extra_step
    return total.rms_wald_norm(left) <= SLOW * total.rms_wald_norm(step.step)


def _is_near(objective: Objective, rule: StoppingRule, step: NewtonStep) -> bool:
    """Whether the step's end is near where M and H were summed."""
    shift = step.total.max_residual_shift(step.way, objective.dispersed)
    near = _stays(objective, step) or step.total.wald_norm(step.way) <= rule.step
    return near and shift < MAX_RESIDUAL_SHIFT


def _stays(objective: Objective, step: NewtonStep) -> bool:
    """Whether M and H, if another read of them is dear, need not be moved to the step's end."""
    p = len(step.way)  # residuals add the steps of all parameters
    shift = step.total.max_residual_shift(step.way, objective.dispersed)
    return p > FEW_COLUMNS and shift <= SAME_MOMENTS * np.sqrt(p)


def _next_missed_step(objective: Objective, step: NewtonStep, before: NewtonStep) -> float:
    """Length of what will be missed of the step after this one, if pilot rows foresee as before.

    Newton's steps have the square of each other's length, chord steps shrink in proportion. Of this
    one they foresaw a part; where a curvature hangs on rows that are not among them, they foresee
    nothing.
    """
    total = step.total
    new, old = (distance(objective, total, of.step) for of in (step, before))
    missed = distance(objective, total, step.step - before.prediction.extra_step)
    order = 2 if total.moments_at is None else 1
    return missed * min(new / old, 1.0) ** order if old > 0 else 0.0

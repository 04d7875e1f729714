"""Where a step ends: the estimate there, whether it may be the last, and what to read next."""

import numpy as np

from masgrad.fitting.objective.local_model import error_change, merged
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.optimise.estimate import Estimate, StoppingRule
from masgrad.fitting.optimise.line_search import NEGLIGIBLE_STEP, NewtonStep
from masgrad.fitting.optimise.third_order import distance, update_moments
from masgrad.fitting.sources import Sample

MAX_RESIDUAL_SHIFT = 0.2
"""Change of a row's residual, in units of its noise, that a last step may cause."""

ERROR_CHANGE = 0.005
"""Relative change of a standard error over the last step that pilot rows are trusted to tell."""

NEXT_STEP = 3.0
"""What may be left after a step, in units of what is expected to be missed of the next."""

RATE_MARGIN, SLOWEST_RATE = 10.0, 0.1
"""Factor by which Newton's next step may exceed what its rate says, and the largest share of the
one before that a step may have for a rate to be seen."""

SLOW = 0.25
"""Share of a step, left after it, at which H is too far off for another step with it."""


def after(
    objective: Objective, sample: Sample, step: NewtonStep, before: NewtonStep | None
) -> Estimate:
    """The estimate, should this step, after the one before, be the last."""
    total, prediction = step.total, step.prediction
    there, size = total.point + step.step + prediction.extra_step, total.wald_norm(step.step)
    moved = size > NEGLIGIBLE_STEP or objective.prior is not None  # its M is of another point
    if prediction.trusted and (moved or total.moments_at is not None) and not step.scored:
        local = update_moments(objective, total, prediction.parts, there, sample.rows)
    else:
        local = total.at(there)
    local = prediction.at_end(local)
    damped = distance(objective, total, step.full_step)
    remainder = min(prediction.bound, by_rate(objective, step, before))
    remainder = remainder if step.share == 1 else damped
    if before is not None and before.share == 1 and not (before.scored or before.of_pilot):
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


def may_be_last(
    objective: Objective, rule: StoppingRule, step: NewtonStep, before: NewtonStep | None
) -> bool:
    """Whether a step ends near enough to the optimum, and to where M and H were summed."""
    left = min(step.prediction.remainder, by_rate(objective, step, before))
    predicted = left <= rule.remainder
    return predicted and step.share == 1 and not step.scored and _is_near(objective, rule, step)


def by_rate(objective: Objective, step: NewtonStep, before: NewtonStep | None) -> float:
    """A bound on the step after this one where pilot rows predict nothing, by Newton's rate.

    A step has the square of the length of the one before, times a constant that two steps show.
    """
    steps = (step,) if before is None else (step, before)
    plain = all(s.share == 1 and not s.scored and not s.of_pilot for s in steps)
    at_point = all(s.total.moments_at is None for s in steps)
    if before is None or step.prediction.trusted or not (plain and at_point):
        return np.inf
    new, old = (distance(objective, step.total, s.step) for s in steps)
    return RATE_MARGIN * new * (new / old) ** 2 if new < SLOWEST_RATE * old else np.inf


def gradient_suffices(
    objective: Objective, rule: StoppingRule, step: NewtonStep, end: Estimate
) -> bool:
    """Whether the gradient alone is worth reading at the end of a step: H and M have settled.

    The next step is one with this H (a chord step), and pilot rows show what it misses.
    """
    if step.share < 1 or step.scored or not step.prediction.trusted or objective.prior is not None:
        return False
    total, left = step.total, step.prediction.extra_step
    if total.rms_wald_norm(left) > SLOW * total.rms_wald_norm(step.step):
        return False
    return _is_near(objective, rule, step) and error_change(end.local_model, total) < ERROR_CHANGE


def _is_near(objective: Objective, rule: StoppingRule, step: NewtonStep) -> bool:
    """Whether the step's end is near where M and H were summed."""
    total = step.total
    way = total.point - total.moments_point + step.step
    shift = total.max_residual_shift(way, objective.dispersed)
    return total.wald_norm(way) <= rule.step and shift < MAX_RESIDUAL_SHIFT


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

"""Correcting reads: g, M and H at a point, and the Newton step to the optimum.

A step from an average that is a few standard errors away leaves a remainder of second order, which
is predicted (`third_order.py`) before another read is spent on it. Steps may go too far, or never
end (`line_search.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.identification.rank import Separation
from masgrad.fitting.identification.separation import find_separation
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.line_search import (
    NEGLIGIBLE_STEP,
    LineSearch,
    damping,
    diverges,
)
from masgrad.fitting.optimise.third_order import (
    Prediction,
    predict_remainder,
    update_moments,
)
from masgrad.fitting.sources import Sample

MAX_RESIDUAL_SHIFT = 0.2
"""Change of a row's residual, in units of its noise, that a last step may cause."""

READS_BEFORE_DOUBT = 12
"""Steps after which separated responses are looked for, even if they do not look alike."""

SCORING_SHARE = 0.999
"""Share of a step of Fisher scoring that is taken; below 1, so that it is never the last."""

ERROR_CHANGE = 0.005
"""Relative change of a standard error over the last step that pilot rows are trusted to tell."""

Read = Callable[[np.ndarray, Parts], LocalModel]
"""The local model of all rows at a point."""


@dataclass(frozen=True)
class Estimate:
    """Where the reads ended.

    Args:
        local_model: of the last read, expanded at the estimate.
        reads: number of reads.
        correction: length of the last step, in standard errors of the worst contrast.
        remainder: predicted distance to the optimum, in standard errors, root mean square over
            contrasts.
        score_statistic: of the pilot rows at the estimate, in standard deviations.
        max_residual_shift: change of residuals from where M was summed to the estimate, in units of
            their noise.
        separation: what is known about separated rows, if the path gave reason to ask.
        points: where the reads were made.
        stages: labels and points of the stages of the fit.
        average_discarded: whether MasGrad's average was worse than its start.
        one_step: whether this is one step from a penalised optimum, and no optimum itself.
        single_read: whether most rows were read once, at running estimates.
        notes: for the result.
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
    """A step from where `total` was taken, and what is predicted at its end."""

    total: LocalModel
    full_step: np.ndarray
    share: float
    prediction: Prediction

    @property
    def step(self) -> np.ndarray:
        return self.full_step * self.share

    @property
    def vanishes(self) -> bool:
        """Whether the step is below the rounding of the point itself (noiseless rows)."""
        return bool(np.abs(self.step).max() <= 1e-13 * np.abs(self.total.point).max())


@dataclass(frozen=True)
class Newton:
    """Newton's method over reads.

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        read: the local model of all rows at a point.
        ordered: whether rows are known to be ordered, so that pilot rows predict nothing.
        fallback: where to begin again if the first point is on a plateau, where Newton's steps are
            of no use.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    read: Read
    ordered: Callable[[LocalModel], bool] = lambda total: False
    fallback: np.ndarray | None = None

    def minimise(self, phi: np.ndarray, rule: StoppingRule) -> Estimate:
        """Read and step until the rule is met, or steps are seen never to end."""
        search, points, steps, constants, known = None, [], [], None, None
        for reads in range(1, rule.most + 1):
            points.append(phi)
            found = self._parts_at(phi, constants)
            last = reads == rule.most or self.reader.monitor.interrupted
            retreat = None if last else self._retreat(found, search, first=reads == 1)
            if isinstance(retreat, LineSearch):
                search, phi = retreat, retreat.end
                continue
            if retreat is not None:
                phi = retreat
                continue
            if isinstance(found, BadBlock):
                raise found
            constants = found[0].constants
            step = self._step(found)
            steps.append(step.full_step)
            if known is None and (diverges(steps) or len(steps) == READS_BEFORE_DOUBT):
                known = find_separation(self.objective, self.reader, self.sample, step.total)
            end = replace(self._end(step, reads), points=tuple(points), separation=known)
            separated = known is not None and known.found
            if last or separated or step.vanishes or self._met(rule, step, end):
                return end
            search = LineSearch.along(step.total, step.step)
            phi = search.end
        raise AssertionError("the last read returns")

    def _parts_at(
        self, phi: np.ndarray, constants: np.ndarray | None
    ) -> list[LocalModel] | BadBlock:
        """Local models at phi, the prior's last; or a block whose sums were not finite."""
        try:
            total = self.read(phi, Parts(constants=constants is None))
        except BadBlock as bad:
            return bad
        total = total if constants is None else replace(total, constants=constants)
        return with_prior(self.objective, total)

    def _retreat(
        self, found: list[LocalModel] | BadBlock, search: LineSearch | None, first: bool
    ) -> LineSearch | np.ndarray | None:
        """Where to read instead of stepping on, if the last step went too far."""
        fallback = self.fallback if first else None
        if isinstance(found, BadBlock):  # an exponential may overflow; bad rows will fail again
            return search.shortened(0.25) if search is not None else fallback
        total = reduce(LocalModel.merge, found)
        if fallback is not None and on_plateau(self.objective, total):
            return fallback
        overshot = search is not None and search.overshot(total)
        return search.interpolated(total) if overshot else None  # pyright: ignore

    def _step(self, parts: list[LocalModel]) -> NewtonStep:
        total = reduce(LocalModel.merge, parts)
        try:
            full, share = total.newton(), 1.0
        except NotConvex:
            total, share = self._with_expected(total), SCORING_SHARE
            full = total.newton()
        share *= damping(self.objective, full, self.sample)
        there, ordered = total.point + full * share, self.ordered(total)
        prediction = predict_remainder(self.objective, parts, total, there, self.sample, ordered)
        return NewtonStep(total, full, share, prediction)

    def _with_expected(self, total: LocalModel) -> LocalModel:
        """The total with the expected H of the pilot rows, for a step of Fisher scoring."""
        scored, rows = self.objective.scoring(), self.sample.rows
        if scored is self.objective:
            raise NotConvex("H has a negative eigenvalue")
        H = scored.local_model(total.point, rows).hessian
        return replace(total, hessian=H * (total.count / total_weight(rows)))

    def _end(self, step: NewtonStep, reads: int) -> Estimate:
        """The estimate, should this step be the last."""
        objective, total, prediction = self.objective, step.total, step.prediction
        there, size = total.point + step.step + prediction.extra_step, total.wald_norm(step.step)
        moved = size > NEGLIGIBLE_STEP or objective.prior is not None  # its M is of another point
        if prediction.trusted and moved:
            local = update_moments(objective, total, prediction.parts, there, self.sample.rows)
        else:
            local = total.at(there)
        damped = total.rms_wald_norm(step.full_step)
        remainder = prediction.remainder_with_prior if step.share == 1 else damped
        remainder = 0.0 if step.vanishes and objective.prior is None else remainder
        prior = None if prediction.trusted else objective.prior  # else its M and H were moved
        shift = 0.0
        if prior is not None:
            shift = prior.max_residual_shift(there - prior.point, objective.dispersed)
        return Estimate(local, reads, size, remainder, max_residual_shift=shift)

    def _met(self, rule: StoppingRule, step: NewtonStep, end: Estimate) -> bool:
        shift = step.total.max_residual_shift(step.step, self.objective.dispersed)
        small = step.total.wald_norm(step.step) <= rule.step
        near = step.share == 1 and shift < MAX_RESIDUAL_SHIFT
        predicted = step.prediction.remainder <= rule.remainder
        return near and predicted and small and _same_errors(end.local_model, step.total)


def _same_errors(local: LocalModel, before: LocalModel) -> bool:
    """Whether standard errors changed little over the last step."""
    new, old = (np.diag(q.sandwich()) for q in (local, before))
    positive = old > 0
    return bool((np.abs(new[positive] / old[positive] - 1) < 2 * ERROR_CHANGE).all())


def on_plateau(objective: Objective, total: LocalModel) -> bool:
    """Whether some direction of phi, in which columns have size 1, has next to no information."""
    if not objective.separable:
        return False
    return total.null_directions.shape[1] > 0 or np.linalg.eigvalsh(total.hessian)[0] < 1.0


def with_prior(objective: Objective, *parts: LocalModel) -> list[LocalModel]:
    """The local models of parts of the rows, and that of earlier rows if there is one."""
    return list(parts) if objective.prior is None else [*parts, objective.prior]

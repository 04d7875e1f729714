"""Correcting reads: g, M and H at a point, and the Newton step to the optimum.

A step from an average that is a few standard errors away leaves a remainder of second order, which
is predicted (`third_order.py`) before another read is spent on it. Steps may go too far, or never
end (`line_search.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.identification.separation import recession_directions
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.line_search import (
    NEGLIGIBLE_STEP,
    ROUNDING,
    SHARES,
    Trial,
    best_share,
    damping,
    diverges,
)
from masgrad.fitting.optimise.third_order import (
    Prediction,
    predict_remainder,
    update_moments,
)
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

MAX_RESIDUAL_SHIFT = 0.2
"""Change of a row's residual, in units of its noise, that a last step may cause."""

READS_BEFORE_DOUBT = 12
"""Reads after which linear programming looks for separated responses."""

SCORING_SHARE = 0.999
"""Share of a step of Fisher scoring that is taken; below 1, so that it is never the last."""

ERROR_CHANGE = 0.005
"""Relative change of a standard error over the last step that pilot rows are trusted to tell."""

SURPRISE = 10.0
"""Standard errors by which the mean loss of all rows exceeds that of the pilot rows if these are
unlike the others."""

TOWARDS_FIRST = np.array([0.0, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0])
"""Shares of the way from a safe point to a doubtful first one that are compared."""

Read = Callable[[Objective, np.ndarray, Parts], LocalModel]
"""The local model of all rows, of an objective at a point."""


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
        recession: directions along which steps would never end, (p, k), or None.
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
    recession: np.ndarray | None = None
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
    """A step from where `total` was taken, and what is predicted at its end.

    Args:
        parts: local models of all rows, the prior's last.
        total: of all of them; its H is the expected one if `scored`.
        full_step: to the minimum of `total`.
        share: of that step which is taken.
        prediction: at the end.
        scored: whether the step is one of Fisher scoring.
    """

    parts: list[LocalModel]
    total: LocalModel
    full_step: np.ndarray
    share: float
    prediction: Prediction
    scored: bool = False

    @property
    def step(self) -> np.ndarray:
        return self.full_step * self.share

    @property
    def trial(self) -> Trial:
        return Trial(self.total, self.step)

    @property
    def vanishes(self) -> bool:
        """Whether the step is below the rounding of the point itself (noiseless rows)."""
        return bool(np.abs(self.step).max() <= 1e-13 * np.abs(self.total.point).max())


@dataclass(frozen=True)
class Newton:
    """Newton's method over reads.

    The loss of all rows falls from each point that is kept to the next. A step after which it did
    not fall is shortened by a read that compares shares of it; where the observed H has a negative
    eigenvalue, or its step leads nowhere, steps are those of Fisher scoring, whose H is summed over
    all rows. A first point may be a poor one, if the rows from which it came are unlike the others:
    then it is moved towards a safe one.

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        read: the local model of all rows, of an objective at a point.
        ordered: whether rows are known to be ordered, so that pilot rows predict nothing.
        safe: a point at which the loss is moderate, such as the mean response for every row.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    read: Read
    ordered: Callable[[LocalModel], bool] = lambda total: False
    safe: np.ndarray | None = None

    def minimise(self, starts: Sequence[np.ndarray], rule: StoppingRule) -> Estimate:
        """Read and step until the rule is met, or steps are seen never to end.

        Args:
            starts: where to begin; later ones serve if the sums at an earlier one overflow.
            rule: when to stop.
        """
        path = _Path(list(starts), rule.most, lambda: self.reader.monitor.interrupted)
        for phi in path:
            found = self._parts_at(phi, path.constants)
            if path.step is None:
                elsewhere = self._elsewhere(found, phi, path)
            else:
                elsewhere = self._shortened(found, path.step, path)
            if elsewhere is not None:
                path.go_on(elsewhere)
                continue
            if isinstance(found, BadBlock):
                if path.step is None:
                    raise found
                break
            if path.step is not None and not path.step.trial.is_accepted(merged(found)):
                break
            step = path.take(self._step(found))
            end = self._end(step, path.reads, diverges(path.steps))
            if path.is_over or end.recession is not None or step.vanishes:
                return path.ended(end)
            if self._met(rule, step, end):
                if self._is_inside(end):
                    return path.ended(end)
                if not (share := self._share(step)):
                    raise optimum_on_border(self.objective)
                step = path.replace_step(replace(step, share=share))
                path.reads += 1
            if path.reads >= READS_BEFORE_DOUBT and not path.doubted:
                path.doubted = True
                if (flat := self._separating(step.total)).size:
                    return path.ended(replace(end, recession=flat))
            path.go_on(step.trial.end)
        assert path.step is not None
        if self.objective.bounded and not path.is_over:
            raise optimum_on_border(self.objective)
        return path.ended(self._stay(path.step, path.reads))

    # The points that are read.

    def _parts_at(
        self, phi: np.ndarray, constants: np.ndarray | None
    ) -> list[LocalModel] | BadBlock:
        """Local models at phi, the prior's last; or a block whose sums were not finite."""
        try:
            total = self.read(self.objective, phi, Parts(constants=constants is None))
        except BadBlock as bad:
            return bad
        total = total if constants is None else replace(total, constants=constants)
        return with_prior(self.objective, total)

    def _elsewhere(
        self, found: list[LocalModel] | BadBlock, phi: np.ndarray, path: "_Path"
    ) -> np.ndarray | None:
        """Where to begin instead of at phi, if that was no good; None if it was."""
        if path.is_over:
            return None
        if isinstance(found, BadBlock):
            return path.next_start()
        total = merged(found)
        if self.safe is None or path.compared or not self._is_doubtful(total, self.safe):
            return None
        path.compared = True
        path.reads += 1
        ends = self.safe + TOWARDS_FIRST[:, None] * (phi - self.safe)
        best = int(np.argmax(self._falls(self.safe, ends)))
        return None if TOWARDS_FIRST[best] == 1 else ends[best]

    def _is_doubtful(self, total: LocalModel, safe: np.ndarray) -> bool:
        """Whether the first point may be a poor one: its losses exceed those of the pilot rows.

        A loss that is not convex may be low on the sample alone, and on a plateau steps are of no
        use.
        """
        if not self.objective.convex or on_plateau(self.objective, total):
            return True
        rows = self.sample.rows
        usual = [self._usual_loss(point, rows) for point in (total.point, safe)]
        return not total.loss / total.count <= min(usual)  # NaN included

    def _usual_loss(self, phi: np.ndarray, rows: Rows) -> float:
        """The mean loss of the pilot rows, and several times its sampling error."""
        losses, n = self.objective.losses(phi, rows), total_weight(rows)
        with np.errstate(all="ignore"):
            return (losses.sum() + SURPRISE * losses.std() * np.sqrt(len(losses))) / n

    def _shortened(
        self, found: list[LocalModel] | BadBlock, step: NewtonStep, path: "_Path"
    ) -> np.ndarray | None:
        """Where to read instead of going on, if the loss did not fall over the last step.

        None if it fell, or if it falls for no share of the step.
        """
        fell = not isinstance(found, BadBlock) and step.trial.is_accepted(merged(found))
        if fell or path.is_over:
            return None
        if not step.scored and not self.objective.convex and self.objective.linear:
            step = path.replace_step(self._scoring_step(step.parts))
            path.reads += 1
        share = self._share(step)
        path.reads += 1
        if not share:
            return None
        return path.replace_step(replace(step, share=share)).trial.end

    def _share(self, step: NewtonStep) -> float:
        """The share of a step along which the loss of all rows falls most; 0 if it does not."""
        ends = step.total.point + SHARES[:, None] * step.full_step
        return best_share(self._falls(step.total.point, ends))

    def _falls(self, phi: np.ndarray, ends: np.ndarray) -> np.ndarray:
        falls = self.reader.falls(self.objective, self.sample, phi, ends)
        prior = self.objective.prior
        if prior is not None:
            falls = falls + [prior.at(phi).loss - prior.at(end).loss for end in ends]
        return falls

    def _is_inside(self, end: Estimate) -> bool:
        """Whether all rows have a mean at the estimate; asked only where some might not."""
        if not self.objective.bounded or self.reader.monitor.interrupted:
            return True
        phi = end.local_model.point
        return bool(np.isfinite(self._falls(phi, phi[None])[0]))

    # Steps.

    def _step(self, parts: list[LocalModel]) -> NewtonStep:
        total = merged(parts)
        try:
            return self._step_along(parts, total, total.newton())
        except NotConvex:
            return self._scoring_step(parts)

    def _scoring_step(self, parts: list[LocalModel]) -> NewtonStep:
        """A step with the expected H of all rows."""
        scored, total = self.objective.scoring(), merged(parts)
        if scored is self.objective:
            total.newton()  # its error says how H is not convex
        self.reader.restart()
        expected = self.read(scored, total.point, Parts(meat=False))
        old = [] if self.objective.prior is None else [self.objective.prior.hessian]
        total = replace(total, hessian=sum(old, expected.hessian))
        return self._step_along(parts, total, total.newton() * SCORING_SHARE, scored=True)

    def _step_along(
        self, parts: list[LocalModel], total: LocalModel, full: np.ndarray, scored: bool = False
    ) -> NewtonStep:
        share = damping(self.objective, full, self.sample)
        there, ordered = total.point + full * share, self.ordered(total)
        prediction = predict_remainder(self.objective, parts, total, there, self.sample, ordered)
        return NewtonStep(parts, total, full, share, prediction, scored)

    def _end(self, step: NewtonStep, reads: int, divergent: bool) -> Estimate:
        """The estimate, should this step be the last."""
        objective, total, prediction = self.objective, step.total, step.prediction
        flat = self._without_information(total) if divergent else None
        there, size = total.point + step.step + prediction.extra_step, total.wald_norm(step.step)
        moved = size > NEGLIGIBLE_STEP or objective.prior is not None  # its M is of another point
        if prediction.trusted and moved and flat is None and not step.scored:
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
        return Estimate(local, reads, size, remainder, max_residual_shift=shift, recession=flat)

    def _stay(self, step: NewtonStep, reads: int) -> Estimate:
        """The estimate at the start of a step along which the loss did not fall."""
        total = merged(step.parts)
        size = total.wald_norm(step.full_step)
        return Estimate(total, reads, size, total.rms_wald_norm(step.full_step))

    def _without_information(self, total: LocalModel) -> np.ndarray | None:
        flat = recession_directions(self.objective, self.reader, self.sample, total)
        return flat if flat.size else None

    def _separating(self, total: LocalModel) -> np.ndarray:
        return recession_directions(
            self.objective, self.reader, self.sample, total, by_programming=True
        )

    def _met(self, rule: StoppingRule, step: NewtonStep, end: Estimate) -> bool:
        shift = step.total.max_residual_shift(step.step, self.objective.dispersed)
        small = step.total.wald_norm(step.step) <= rule.step
        near = step.share == 1 and not step.scored and shift < MAX_RESIDUAL_SHIFT
        predicted = step.prediction.remainder <= rule.remainder
        return near and predicted and small and _same_errors(end.local_model, step.total)


class _Path:
    """The points of one minimisation, as they are read, and the step that is on trial."""

    def __init__(self, starts: list[np.ndarray], most: int, interrupted: Callable[[], bool]):
        self.starts, self.most, self.interrupted = starts, most, interrupted
        self.next: np.ndarray | None = starts.pop(0)
        self.points: list[np.ndarray] = []
        self.steps: list[np.ndarray] = []
        self.step: NewtonStep | None = None
        self.constants: np.ndarray | None = None
        self.reads = 0
        self.compared = self.doubted = False

    def __iter__(self) -> Iterator[np.ndarray]:
        while self.next is not None:
            phi, self.next = self.next, None
            self.reads += 1
            self.points.append(phi)
            yield phi

    @property
    def is_over(self) -> bool:
        """Whether no other read may follow."""
        return self.reads >= self.most or self.interrupted()

    def go_on(self, phi: np.ndarray) -> None:
        self.next = phi

    def next_start(self) -> np.ndarray | None:
        return self.starts.pop(0) if self.starts else None

    def take(self, step: NewtonStep) -> NewtonStep:
        """Keep the point that was read, and put the step from there on trial."""
        self.constants = step.total.constants
        self.steps.append(step.full_step)
        return self.replace_step(step)

    def replace_step(self, step: NewtonStep) -> NewtonStep:
        self.step = step
        return step

    def ended(self, end: Estimate) -> Estimate:
        return replace(end, reads=self.reads, points=tuple(self.points))


def merged(parts: list[LocalModel]) -> LocalModel:
    """The local model of all parts."""
    return reduce(LocalModel.merge, parts)


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

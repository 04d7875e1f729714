"""Correcting reads: g, M and H at a point, and the Newton step to the optimum.

What a step leaves is predicted (`third_order.py`) before another read is spent on it. Steps may go
too far, or never end (`line_search.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from masgrad.fitting.identification.checks import optimum_on_border
from masgrad.fitting.identification.separation import find_separation
from masgrad.fitting.objective.local_model import LocalModel, NotConvex, error_change, merged
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import (
    ERROR_CHANGE,
    Estimate,
    NewtonStep,
    Read,
    StoppingRule,
    after,
    at_start,
    ends_near,
    gradient_may_suffice,
    may_be_last,
    meat_later,
    with_meat,
    with_new_gradient,
)
from masgrad.fitting.optimise.line_search import (
    SHARES,
    Path,
    best_share,
    damping,
    diverges,
)
from masgrad.fitting.optimise.single_precision import Narrow
from masgrad.fitting.optimise.start import is_doubtful
from masgrad.fitting.optimise.third_order import Prediction, predict_remainder
from masgrad.fitting.sources import Sample

READS_BEFORE_DOUBT = 12
"""Steps after which separated responses are looked for, even if they do not look alike."""

SCORING_SHARE = 0.999
"""Share of a step of Fisher scoring that is taken; below 1, so that it is never the last."""

LARGEST_BOUND = 10.0
"""Bound on the remainder, in tolerances, with which reads end."""

LARGEST_UNJUDGED = 0.1
"""Bound on the remainder, in standard errors, of a last step that is not judged by the loss."""

TOWARDS_FIRST = np.array([0.0, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0])
"""Shares of the way from a safe point to a doubtful first one that are compared."""


@dataclass(frozen=True)
class Newton:
    """Newton's method over reads.

    The loss of all rows falls from each point to the next: a step after which it did not fall is
    shortened by a read that compares shares of it. Where the observed H is not positive definite,
    or its step leads nowhere, steps are those of Fisher scoring. A first point may be poor, if the
    rows from which it came are unlike the others: then it is moved towards a safe one.

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        read: the local model of all rows, of an objective at a point.
        unlike: whether pilot rows are known to be unlike the others, and predict nothing.
        safe: a point at which the loss is moderate, such as the mean response for every row.
        narrow: the objective with H and M in single precision, where that serves.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    read: Read
    unlike: Callable[[LocalModel], bool] = lambda total: False
    safe: np.ndarray | None = None
    narrow: Narrow | None = None

    def minimise(
        self, starts: Sequence[np.ndarray], rule: StoppingRule, first: NewtonStep | None = None
    ) -> Estimate:
        """Read and step until the rule is met, or steps are seen never to end.

        Args:
            starts: where to begin; later ones serve if the sums at an earlier one overflow.
            rule: when to stop.
            first: a step that led to the first of the starts.
        """
        objective, known = self.objective, None
        path = Path(list(starts), rule.most, self.reader, first)
        for phi in path:
            found = self._parts_at(phi, path)
            if path.gradient_next and self.reader.monitor.interrupted:
                step = with_meat(objective, self.read, path.last_step)
                return path.ended(after(objective, self.sample, step, path.earlier))
            other = self._instead(found, phi, path)
            if other is not None:
                path.go_to(other)
                continue
            if isinstance(found, BadBlock) and path.step is None:
                raise found
            if isinstance(found, BadBlock) or not self._may_go_on(found, path):
                break
            step = self._step(found)
            if step.scored:
                path.count_read()
            path.take(step)
            long = diverges(path.steps, step.share) or len(path.steps) >= READS_BEFORE_DOUBT
            if long and objective.may_be_separated and path.first_time("separation"):
                known = find_separation(objective, self.reader, self.sample, step.total)
            separated = known is not None and known.found
            if separated or step.vanishes or path.is_over or ends_near(objective, rule, step):
                step = with_meat(objective, self.read, step)
                path.put_on_trial(step)
            may_end = step.vanishes or path.is_over or may_be_last(objective, rule, step)
            if not (separated or may_end):
                path.go_to(path.trial.end, self._gradient_suffices(rule, path))
                continue
            end = replace(after(objective, self.sample, step, path.earlier), separation=known)
            if separated or step.vanishes:
                return path.ended(end)
            if path.is_over:
                return path.ended(replace(self._judged(step, end, path), separation=known))
            bounded = end.remainder <= LARGEST_BOUND * rule.remainder
            same = bounded and error_change(end.local_model, step.total) < ERROR_CHANGE
            if same and path.errors_settle:
                if self._is_inside(end, path):
                    return path.ended(end)
                if not (share := self._share(step, path)):
                    break
                path.put_on_trial(replace(step, share=share))
            path.go_to(path.trial.end, self._gradient_suffices(rule, path, end))
        if self.objective.bounded and not path.is_over:
            raise optimum_on_border(self.objective)
        end = at_start(objective, with_meat(objective, self.read, path.last_step))
        return path.ended(replace(end, separation=known))

    # The points that are read.

    def _may_go_on(self, found: list[LocalModel], path: Path) -> bool:
        """Whether a step from here is better than the one that led here.

        A step with H and M of pilot rows is no estimate; nor can a part of the rows be compared.
        """
        of_pilot = path.step is not None and path.step.of_pilot
        return path.accepts(merged(found)) or (of_pilot and path.is_over)

    def _parts_at(self, phi: np.ndarray, path: Path) -> list[LocalModel] | BadBlock:
        """Local models at phi, the prior's last; or a block whose sums were not finite."""
        constants, step, objective = path.constants, path.step, self.objective
        try:
            if path.gradient_next and step is not None:
                new = self.read(objective, phi, GRADIENT)
                return [with_new_gradient(objective, step.parts[0], new)]
            later = meat_later(objective, self.sample)
            total = self._full_read(phi, Parts(meat=not later, constants=constants is None), path)
        except BadBlock as bad:
            return bad
        total = total if constants is None else replace(total, constants=constants)
        return [total] if objective.prior is None else [total, objective.prior]

    def _full_read(self, phi: np.ndarray, parts: Parts, path: Path) -> LocalModel:
        """H and M as well, in single precision if that serves."""
        if self.narrow is not None and "double precision" not in path.done:
            total = self.read(self.narrow.objective, phi, parts)
            if self.narrow.serves(total) or self.reader.monitor.interrupted:
                return total
            path.first_time("double precision")
            path.count_read()
        return self.read(self.objective, phi, parts)

    def _instead(
        self, found: list[LocalModel] | BadBlock, phi: np.ndarray, path: Path
    ) -> np.ndarray | None:
        """Another point to read, if phi was no good; None if it was, or if there is none."""
        of_pilot = path.step is not None and path.step.of_pilot and path.is_over
        if isinstance(found, BadBlock) and (path.step is None or of_pilot):
            path.put_on_trial(None)
            return path.next_start()
        if path.is_over:
            return None
        if path.step is not None:
            return self._shortened(found, path.step, path)
        assert not isinstance(found, BadBlock)
        safe, total = self.safe, merged(found)
        if safe is None or np.array_equal(phi, safe) or not path.first_time("comparison"):
            return None
        if not is_doubtful(self.objective, self.sample, total, safe):
            return None
        ends = safe + TOWARDS_FIRST[:, None] * (phi - safe)
        best = int(np.argmax(self._falls(safe, ends, path)))
        if TOWARDS_FIRST[best] == 1 or self.reader.monitor.interrupted:
            return None
        return ends[best]

    def _shortened(
        self, found: list[LocalModel] | BadBlock, step: NewtonStep, path: Path
    ) -> np.ndarray | None:
        """Where to read instead of going on, if the loss did not fall over the last step.

        None if it fell, or if it falls for no share of the step.
        """
        if not isinstance(found, BadBlock) and path.accepts(merged(found)):
            return None
        if not step.scored and self.objective.linear and not self.objective.convex:
            step = self._scoring_step(step.parts)
            path.count_read()
        share = self._share(step, path)
        if not share and step.of_pilot:
            path.put_on_trial(None)
            return path.next_start()
        if not share:
            return None
        path.put_on_trial(replace(step, share=share))
        return path.trial.end

    def _share(self, step: NewtonStep, path: Path) -> float:
        """The share of a step along which the loss of all rows falls most; 0 if it does not."""
        ends = step.total.point + SHARES[:, None] * step.full_step
        return best_share(self._falls(step.total.point, ends, path))

    def _falls(self, phi: np.ndarray, ends: np.ndarray, path: Path) -> np.ndarray:
        """By how much the loss of all rows falls from phi to each end: one read."""
        path.count_read()
        falls = self.reader.falls(self.objective, self.sample, phi, ends)
        prior = self.objective.prior
        if prior is not None:
            falls = falls + [prior.at(phi).loss - prior.at(end).loss for end in ends]
        return falls

    def _judged(self, step: NewtonStep, end: Estimate, path: Path) -> Estimate:
        """The estimate after a last step that may have gone too far: the best of some points."""
        doubtful = end.remainder > LARGEST_UNJUDGED or self.objective.bounded
        if not doubtful or self.reader.monitor.interrupted:
            return end
        begin = step.total.point
        ends = np.stack([end.local_model.point, *(begin + SHARES[:, None] * step.full_step)])
        ends = ends if self.safe is None else np.vstack([ends, self.safe])
        falls = self._falls(begin, ends, path)
        best = int(np.argmax(falls))
        if falls[0] > 0 and falls[0] >= falls[best] - 0.1 * abs(falls[best]):
            return end
        if not falls[best] > 0 or self.reader.monitor.interrupted:
            return at_start(self.objective, step)
        path.count_read()
        path.go_to(ends[best])
        found = self._parts_at(ends[best], path)
        step = step if isinstance(found, BadBlock) else self._step(found)
        return at_start(self.objective, with_meat(self.objective, self.read, step))

    def _gradient_suffices(
        self, rule: StoppingRule, path: Path, end: Estimate | None = None
    ) -> bool:
        """Whether the next read may leave out H and M; `end` is the estimate there, if known."""
        step = path.step
        if path.is_over or step is None:
            return False
        if self.sample.complete:  # H of every other read: a gradient costs next to nothing
            wide = meat_later(self.objective, self.sample)
            return wide and step.share == 1 and step.total.moments_at is None
        if not (gradient_may_suffice(self.objective, rule, step) and path.errors_settle):
            return False
        end = end or after(self.objective, self.sample, step, path.earlier)
        return error_change(end.local_model, step.total) < ERROR_CHANGE

    def _is_inside(self, end: Estimate, path: Path) -> bool:
        """Whether all rows have a mean at the estimate; asked only where some might not."""
        if not self.objective.bounded or self.reader.monitor.interrupted:
            return True
        phi = end.local_model.point
        return bool(np.isfinite(self._falls(phi, phi[None], path)[0]))

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
        there, unlike = total.point + full * share, self.unlike(total)

        def predict(parts: list[LocalModel], total: LocalModel) -> Prediction:
            return predict_remainder(self.objective, parts, total, there, self.sample, unlike)

        return NewtonStep(parts, total, full, share, predict, scored)

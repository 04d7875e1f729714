"""The first read: from the optimum of pilot rows to a point near that of all rows, at little cost.

It is one of two.

- *A gradient read.* The gradient of all rows, with H of the pilot rows: of sqrt(N / n) standard
  errors the step leaves a share of about sqrt(p / n), the sampling error of H. Where H is made of
  sums by level, which cost little more than the gradient, that of all rows is summed.
- *MasGrad.* Averaged iterates over a part of the rows, as many as it takes for the correcting read
  to miss less than the tolerance: what a quadratic misses grows as the square of the distance, and
  pilot rows show how fast.

The gradient read is the better one if MasGrad would read a large part of the rows, one batch after
the other; with many millions of rows, or rows that have to be decoded first, MasGrad is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from masgrad.data.arrays import BLOCK, count_rows, is_structured, pick
from masgrad.data.designs.structured import Structured
from masgrad.data.source import Arrays
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import NewtonStep, Read, Trial
from masgrad.fitting.optimise.line_search import damping
from masgrad.fitting.optimise.masgrad import Average, averaged_masgrad
from masgrad.fitting.optimise.secant import changes_between, secant_step
from masgrad.fitting.optimise.single_precision import Narrow
from masgrad.fitting.optimise.start import WARM_UP_ROWS, is_doubtful
from masgrad.fitting.optimise.third_order import (
    Prediction,
    sampling_error,
    third_order_step,
)
from masgrad.fitting.options import TOLERANCE, Options
from masgrad.fitting.sources import PILOT_ROWS, Sample
from masgrad.models.families.canonical import Gaussian
from masgrad.types import Rows

MASGRAD_STEPS = 256
"""Smallest number of MasGrad steps in its read; batches are smaller if there are few rows."""

MASGRAD_ROWS = 96
"""MasGrad reads 96 sqrt(p N) rows at most. After n rows its average is sqrt(p N/n) standard errors
away, all contrasts together, and what the correcting read's quadratic misses from there is of the
order of the square of that over sqrt(N): in each contrast, over sqrt(p) more, the same share of a
standard error for every N and p."""

ROWS_PER_COLUMN = 512
"""MasGrad reads at least so many rows for each column: M moves by a share p / n from there."""

VARIANCE_OF_AVERAGE = 4 / 3
"""Variance of an average in which later iterates weigh more, over that of a plain one."""

SAFE_SHARE = 0.25
"""Share of the tolerance that the correcting read is meant to miss after MasGrad's."""

LARGEST_MASGRAD_SHARE = {True: 0.03, False: 0.5}
"""Share of the rows up to which MasGrad's read is cheaper than a gradient read of all of them, for
rows in memory and for others: MasGrad's steps follow one another."""

ROWS_FOR_CHORD = 16
"""Pilot rows, for each column, with which their H serves for a step."""

LARGE_REMAINDER, MOST_STEPS = {False: 0.3, True: 0.001}, {False: 2, True: 5}
"""Standard errors, left after a step with pilot rows' H, for which another gradient is read, and
the largest number of such steps; of sparse rows (True) a gradient costs next to nothing beside H
and M, which then are summed once, where they are needed."""

UNKNOWN_COUNT = 10**9

NO_WORSE = 2.0
"""Standard errors by which new rows may prefer the start to MasGrad's average."""


@dataclass(frozen=True)
class Beginning:
    """Where correcting reads begin.

    Args:
        starts: the points, best first.
        stages: labels and points of the stages of the fit.
        step: the step that led to the first of the starts, if the gradient of all rows did.
        reads: number of reads.
        gradient_reads: how many of them were of the gradient of all rows.
        discarded: whether MasGrad's average was worse than its start.
    """

    starts: list[np.ndarray]
    stages: list[tuple[str, np.ndarray]] = field(default_factory=list)
    step: NewtonStep | None = None
    reads: int = 0
    gradient_reads: int = 0
    discarded: bool = False


@dataclass(frozen=True)
class FirstRead:
    """Makes the first read.

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        start: the local model at the optimum of some of them.
        safe: a point at which the loss is moderate.
        options: of the fit.
        read: the local model of all rows.
        narrow: the loss with H and M in single precision, if that serves.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    start: LocalModel
    safe: np.ndarray
    options: Options
    read: Read
    narrow: Narrow | None = None

    def beginning(self) -> Beginning:
        """The cheaper of the two, or none.

        If a few rows carry a column, or a batch has fewer rows than columns, MasGrad's average is
        worse than its start, and pilot rows' H misleads: then all reads are correcting ones.
        """
        begin, sample = self.start.point, self.sample
        none = Beginning([begin, self.safe], [("pilot rows", begin)])
        if sample.has_rare_columns:
            return none
        if self.reader.source.spread is not None:  # MasGrad's steps follow one another
            pilot = self._pilot_model(self.reader.source.count or UNKNOWN_COUNT)
            if pilot is None or not self._may_step:
                return none
            return self._gradient_read(none, pilot)
        count, p = self.reader.source.count or UNKNOWN_COUNT, len(begin)
        pilot = self._pilot_model(count)
        largest = LARGEST_MASGRAD_SHARE[isinstance(self.reader.source, Arrays)] * count
        rows = masgrad_rows(count, p, 0.0)
        rows = rows if rows > largest else masgrad_rows(count, p, self._noise(pilot))
        if pilot is not None and self._may_step and rows > largest:
            return self._gradient_read(none, pilot)
        batch = max(256, min(BLOCK, rows // MASGRAD_STEPS))
        return none if batch < p else self._masgrad_read(none, rows, batch)

    @property
    def _may_step(self) -> bool:
        """Whether a step with H of pilot rows is safe: the loss of all rows will judge it."""
        return self.objective.convex and self.objective.prior is None

    def _pilot_model(self, count: int) -> LocalModel | None:
        """The local model of the pilot rows at the start, as if there were `count` of them."""
        objective, rows = self.objective, self.sample.rows
        if not objective.linear or count_rows(rows) < ROWS_FOR_CHORD * len(self.start.point):
            return None
        try:
            summed = objective if self.narrow is None else self.narrow.objective
            same = self.start.rows == count_rows(rows)  # then the start is their optimum
            pilot = self.start if same else summed.local_model(self.start.point, rows)
        except BadBlock:
            return None
        share = count / count_rows(rows)  # weights count in both
        return replace(
            pilot,
            count=pilot.count * share,
            gradient=pilot.gradient * share,
            hessian=pilot.hessian * share,
            meat=pilot.meat * share,
        )

    def _noise(self, pilot: LocalModel | None) -> float:
        """What a correcting read one standard error away would miss, in tolerances.

        It is measured over the step from the optimum of some pilot rows to that of all.
        """
        if pilot is None or self.objective.prior is not None:
            return np.inf
        try:
            step = pilot.newton()
            end = self.start.point + step
            _, deviations = third_order_step(self.objective, pilot, [pilot], end, self.sample.rows)
        except NotConvex:
            return np.inf
        length, missed = pilot.rms_wald_norm(step), 2 * sampling_error(pilot, deviations)
        tolerance = max(self.options.tolerance, TOLERANCE)
        return missed / length**2 / tolerance if length > 0 else np.inf

    # A gradient read.

    def _gradient_read(self, none: Beginning, pilot: LocalModel) -> Beginning:
        """Steps with the gradient of all rows, and H of the pilot rows, until they leave little."""
        begin = pilot.point + self._damped(pilot.newton())
        step, reads, exact = self._step(pilot, begin), 1, self._sums_hessian
        none = replace(none, reads=1, gradient_reads=int(not exact))
        if step is None or is_doubtful(self.objective, self.sample, step.total, self.safe):
            return none
        most = min(MOST_STEPS[is_structured(self.sample.rows)], self.options.most_reads - 1)
        before = [step.total]
        while not exact and reads < most and self._leaves_much(step):
            next_step, reads = self._step(pilot, step.total.point + step.step, before), reads + 1
            if next_step is None or not Trial(step.total, step.step).is_accepted(next_step.total):
                break
            step, before = next_step, [*before, next_step.total]
        end = step.total.point + step.step
        stages = [*none.stages, ("gradient of all rows", end)]
        begun = replace(none, starts=[end, *none.starts], stages=stages, step=step)
        return replace(begun, reads=reads, gradient_reads=0 if exact else reads)

    @property
    def _sums_hessian(self) -> bool:
        """Whether H of all rows is summed as well, because that costs little more."""
        X = self.sample.rows[0]
        return isinstance(X, Structured) and X.gram_is_cheap

    def _step(
        self, pilot: LocalModel, phi: np.ndarray, before: Sequence[LocalModel] = ()
    ) -> NewtonStep | None:
        """The step from phi, after a read there and the ones before; None if that failed."""
        try:
            exact = self._sums_hessian
            read = self.read(self.objective, phi, Parts(meat=False) if exact else GRADIENT)
        except BadBlock:
            return None
        if self.reader.monitor.interrupted:
            return None
        share = read.count / pilot.count
        if share != 1:
            pilot = replace(pilot, hessian=pilot.hessian * share, meat=pilot.meat * share)
        total = pilot.with_gradient(read).with_same_hessian(count=read.count, rows=read.rows)
        total = replace(read, meat=pilot.meat) if exact else total
        known = [*before, total]
        full = secant_step(total, changes_between(known)) if before else total.newton()
        share = damping(self.objective, full, self.sample)
        nothing = Prediction(False, np.zeros_like(full), np.inf, np.inf, [])
        return NewtonStep([total], total, full, share, lambda *_: nothing, of_pilot=True)

    def _leaves_much(self, step: NewtonStep) -> bool:
        """Whether the sampling error of H leaves much of a step; least squares needs no more."""
        if isinstance(self.objective.family, Gaussian):
            return False
        left = np.sqrt(len(step.step) / count_rows(self.sample.rows))
        much = LARGE_REMAINDER[is_structured(self.sample.rows)]
        return left * step.total.rms_wald_norm(step.step) > much

    def _damped(self, step: np.ndarray) -> np.ndarray:
        return damping(self.objective, step, self.sample) * step

    # MasGrad.

    def _masgrad_read(self, none: Beginning, rows: int, batch: int) -> Beginning:
        """MasGrad's average, if it is as good as its start."""
        average = self._average(rows, batch)
        if average is None:
            return replace(none, reads=1)
        begun = replace(none, stages=[*none.stages, ("MasGrad, averaged", average)], reads=1)
        if is_no_worse(self.objective, self.sample.rows, average, self.start.point):
            return replace(begun, starts=[average, *none.starts])
        return replace(begun, discarded=True)

    def _average(self, rows: int, batch: int) -> np.ndarray | None:
        """MasGrad's average over so many rows; None if it ran away or was interrupted."""
        rng, options = np.random.default_rng([self.options.seed, 1]), self.options
        step = partial(averaged_masgrad, self.objective, batch, options.step_size)
        with self.reader.interruptible():
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    return self.reader.folded(step, Average.at(self.start), rng, rows).mean
            except BadBlock:  # it ran away, or a value is missing: then the next read finds it
                return None
        return None


def masgrad_rows(count: int, p: int, noise: float) -> int:
    """Rows that MasGrad reads, of so many.

    `noise` is what a correcting read one standard error away misses, in tolerances.
    """
    most = min(count, MASGRAD_ROWS * np.sqrt(p * count))
    enough = VARIANCE_OF_AVERAGE * count * noise / SAFE_SHARE
    least = max(2 * PILOT_ROWS, ROWS_PER_COLUMN * p)
    return int(min(most, max(enough, least)))


def is_no_worse(objective: Objective, rows: Rows, phi: np.ndarray, start: np.ndarray) -> bool:
    """Whether the average is as good as its start, the optimum of the first of these rows.

    Rows after those are new to both. Batches that lack a column may move the average far along it.
    """
    if not np.isfinite(phi).all():
        return False
    new = pick(lambda a: a[WARM_UP_ROWS:], rows) if count_rows(rows) > 2 * WARM_UP_ROWS else rows
    with np.errstate(all="ignore"):
        fall = objective.losses(start, new) - objective.losses(phi, new)
        noise = fall.std() / np.sqrt(len(fall))
        return bool(np.isfinite(noise) and fall.mean() >= -NO_WORSE * noise)

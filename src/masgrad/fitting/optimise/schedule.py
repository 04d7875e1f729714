"""From a start to an estimate: which reads are made, and in what order.

1. The optimum of a first sample, which is kept (`start.py`).
2. First read (`first_read.py`): a step with the gradient of all rows, or mini-batch MasGrad with
   averaged iterates over as many rows as it takes.
3. Correcting reads until the predicted remainder is below the tolerance.
4. If they end far from an optimum, or where the loss is flat: Newton steps from a safe start.

If all rows are in the sample, Newton steps over them go on to rounding. A loss that is flat at the
pilot rows' minimum is read until its own is reached (`nonconvex/over_reads.py`). Rows that can be
read only once make a single read (`single/one_pass.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from masgrad.fitting.identification.checks import OptimumOnBorder, optimum_on_border
from masgrad.fitting.identification.rank import Separation
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import H_AND_M, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.fitting.optimise.estimate import Estimate, StoppingRule, falls_where_flat
from masgrad.fitting.optimise.first_read import FirstRead
from masgrad.fitting.optimise.newton import LARGEST_UNJUDGED, Newton
from masgrad.fitting.optimise.nonconvex.over_reads import minimum_over_reads
from masgrad.fitting.optimise.nonconvex.start import check_identified, is_flat, single_start
from masgrad.fitting.optimise.plateau import (
    MOST_FLAT,
    flat_directions,
    may_be_flat,
    off_plateau,
)
from masgrad.fitting.optimise.scoring import scoring_sums, solved
from masgrad.fitting.optimise.single.one_pass import single_read
from masgrad.fitting.optimise.single_precision import FEWEST_ROWS, Narrow, narrow
from masgrad.fitting.optimise.start import intercept_start, mean_response
from masgrad.fitting.options import MOST_READS, Options
from masgrad.fitting.sources import Sample
from masgrad.models.families.canonical import Gaussian

TO_ROUNDING = StoppingRule(remainder=1e-10, step=1e-10, most=MOST_READS)
"""When rows in memory have converged, in standard errors."""

CONVERGED_STEP = 0.1
"""Largest last step of "converge", in standard errors."""

STOCHASTIC_READS = 25
"""Reads after which others than plain Newton steps are given up."""


def estimate(
    objective: Objective, reader: Reader, sample: Sample, start: LocalModel, options: Options
) -> Estimate:
    """The estimate; `start` is the local model at the sample's optimum."""
    single = options.passes == 1 or not reader.source.rereadable
    flat = not objective.linear and objective.prior is None and is_flat(start)
    if flat and not sample.complete and (single or not options.open_ended):
        check_identified(start, 1 if single else options.most_reads)
    if single and not sample.complete:
        return single_read(objective, reader, sample, start, options)
    reads = Reads(objective, reader, sample, start, options)
    if flat:
        return minimum_over_reads(objective, reader, sample, start)
    if sample.complete:
        return replace(reads.estimate(), reads=1, gradient_reads=0)  # reading again costs nothing
    if objective.linear or objective.prior is not None or not options.open_ended:
        return polished(objective, reader, reads.by_newton(), options)
    return polished(objective, reader, reads.descending(), options)


def polished(objective: Objective, reader: Reader, done: Estimate, options: Options) -> Estimate:
    """With passes="converge" one more read, at the estimate, and a last step from there.

    H and M are then its own, and what is left is the square of a step below the tolerance.
    """
    local, exact = done.local_model, isinstance(objective.family, Gaussian) and not options.by_rows
    summed_there = done.correction <= options.tolerance and local.moments_at is None
    if options.passes != "converge" or exact or summed_there or objective.prior is not None:
        return done
    far = done.separation is not None or not done.remainder <= options.tolerance
    if far or reader.monitor.interrupted:
        return done
    reader.restart()
    here = reader.read(objective, local.point)
    if reader.monitor.interrupted:
        return done
    step = here.newton()
    size = float(here.wald_norm(step))
    return replace(
        done,
        local_model=replace(here.at(here.point + step), constants=local.constants),
        reads=done.reads + 1,
        correction=size,
        remainder=min(done.remainder, size),
    )


@dataclass(frozen=True)
class Reads:
    """An estimate over several reads of all rows, in memory if the sample is complete.

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        start: the local model at their optimum.
        options: of the fit.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    start: LocalModel
    options: Options

    def by_newton(self) -> Estimate:
        """The estimate, from the start that the user's passes ask for."""
        return self.plain_newton() if self.options.passes == "newton" else self.estimate()

    def descending(self) -> Estimate:
        """The estimate of a loss that need not be convex: by descent, if Newton's steps fail.

        So they may if pilot rows are unlike the others.
        """
        objective, sample = self.objective, self.sample
        try:
            done = self.by_newton()
            if done.remainder <= LARGEST_UNJUDGED or self.reader.monitor.interrupted:
                return done
            others = [done.local_model.point]
        except NotConvex:
            done, others = None, []
        others.append(single_start(objective, sample.rows, self.options))
        again = minimum_over_reads(objective, self.reader, sample, self.start, others)
        return replace(again, reads=again.reads + (0 if done is None else done.reads))

    def estimate(self) -> Estimate:
        """Stochastic or, in memory, plain steps; if they lead nowhere, others from a safe start.

        After earlier rows there is no other start, and a number of reads is kept to.
        """
        more = self.options.open_ended or self.sample.complete
        more, done = more and self.objective.prior is None, None
        try:
            done = self._in_memory() if self.sample.complete else self._first_and_correcting()
            done = self._off_plateau(done) if more else done
            if not more or self._is_sound(done):
                return done
        except (NotConvex, OptimumOnBorder):
            if not more or self.reader.monitor.interrupted:
                raise
        try:
            again = self.plain_newton()
        except (NotConvex, OptimumOnBorder):
            if done is None or self.objective.bounded:
                raise
            return done
        ends = [again] if done is None else [done, again]
        lowest = min(ends, key=lambda end: (not self._is_sound(end), end.local_model.loss))
        return replace(
            lowest,
            reads=sum(end.reads for end in ends),
            gradient_reads=sum(end.gradient_reads for end in ends),
        )

    def plain_newton(self) -> Estimate:
        """Newton's method over all rows from a safe start; pilot rows predict nothing."""
        newton = self._newton(unlike=lambda total: not self.sample.complete)
        starts, before = self._lower_start()
        done = self._off_plateau(self._with_flat(newton.minimise(starts, self._rule(before))))
        if self.objective.bounded and not self._is_sound(done):
            raise optimum_on_border(self.objective)
        stages = (("pilot rows", self.start.point), *_stages(done, before))
        return replace(done, reads=done.reads + before, stages=stages)

    def _lower_start(self) -> tuple[list[np.ndarray], int]:
        """The safe start, after a lower one if there is one, and the reads that it took.

        The first step of Fisher scoring from the responses themselves, pulled to their mean, leaves
        rows of a rare column near their responses, where the loss is about quadratic.
        """
        objective, sample, safe = self.objective, self.sample, self._safe
        every = self.reader.every_row(sample)
        if objective.family is None or objective.prior is not None or every is None:
            return [safe], 0
        work = partial(scoring_sums, objective, mean_response(objective.family, sample.rows))
        with self.reader.unobserved() as quiet, np.errstate(all="ignore"):
            sums = quiet.total(work, Addition(np.add), cut=every, whole=False)
            other = None if sums is None or quiet.monitor.interrupted else solved(sums)
            if other is not None and np.isfinite(other).all():
                fall = self.reader.falls(objective, sample, safe, other[None])[0]
                return ([other, safe] if fall > 0 else [safe]), 2
        return [safe], 1

    def _in_memory(self) -> Estimate:
        """Newton steps from the optimum of a part of the rows."""
        newton = replace(self._newton(unlike=lambda total: False), safe=None)
        return self._with_flat(newton.minimise([self.start.point], TO_ROUNDING))

    def _first_and_correcting(self) -> Estimate:
        """A first read, then correcting ones."""
        narrow = self._narrow()
        first = FirstRead(
            self.objective,
            self.reader,
            self.sample,
            self.start,
            self._safe,
            self.options,
            self._read,
            narrow,
        )
        begun = first.beginning()
        rule = self._rule(begun.reads, STOCHASTIC_READS)
        newton = replace(self._newton(self._drifts), narrow=narrow)
        done = newton.minimise(begun.starts, rule, begun.step)
        return replace(
            self._with_flat(done),
            reads=done.reads + begun.reads,
            gradient_reads=done.gradient_reads + begun.gradient_reads,
            stages=(*begun.stages, *_stages(done, begun.reads)),
            average_discarded=begun.discarded,
        )

    def _narrow(self) -> Narrow | None:
        count = self.reader.source.count
        if count is not None and count < FEWEST_ROWS:
            return None
        return narrow(self.objective, self.sample, self.start.point, self.options)

    def _newton(self, unlike: Callable[[LocalModel], bool]) -> Newton:
        return Newton(self.objective, self.reader, self.sample, self._read, unlike, self._safe)

    def _read(self, objective: Objective, phi: np.ndarray, parts: Parts) -> LocalModel:
        self.reader.restart()
        if self.reader.monitor.interrupted:
            return objective.local_model(phi, self.sample.rows, parts if parts.meat else H_AND_M)
        if self.sample.complete:
            return self.reader.read_sample(objective, phi, self.sample, parts)
        return self.reader.read(objective, phi, parts)

    def _drifts(self, total: LocalModel) -> bool:
        """Whether the rows are not in a random order, so that pilot rows are unlike others."""
        if not self.reader.source.ordered:
            return False
        noise = self.objective.gradient_noise(total, self.sample.design_effect)
        return self.reader.monitor.drift(noise) > DRIFT_LIMIT

    @cached_property
    def _safe(self) -> np.ndarray:
        """The estimate of earlier rows, or the mean response for every row, or else the start."""
        if self.objective.prior is not None:
            return self.objective.prior.point
        safe = intercept_start(self.objective, self.sample.rows)
        return self.start.point if safe is None else safe

    def _rule(self, before: int, most: int = MOST_READS) -> StoppingRule:
        """When the reads end, of which some were made before."""
        if self.sample.complete:
            return TO_ROUNDING
        options = self.options
        most = min(most, options.most_reads)
        longest = CONVERGED_STEP if options.passes in ("converge", "newton") else np.inf
        return StoppingRule(options.tolerance, longest, max(1, most - before))

    def _is_sound(self, done: Estimate) -> bool:
        """Whether reads ended near an optimum, or are known never to, or were interrupted."""
        undecided = done.separation is not None and done.separation.found is not False
        if self.reader.monitor.interrupted or (undecided and self.objective.convex):
            return True
        if falls_where_flat(done.local_model):
            return False
        on_border = self.objective.bounded and done.local_model.null_directions.size > 0
        return done.remainder <= LARGEST_UNJUDGED and not (undecided or on_border)

    def _with_flat(self, done: Estimate) -> Estimate:
        """The estimate, undecided if the loss is flat there along a direction in which X is not."""
        objective, local = self.objective, done.local_model
        known = done.separation is not None or objective.prior is not None
        if known or objective.convex or not objective.linear or self.reader.monitor.interrupted:
            return done
        if not may_be_flat(local):
            return done
        flat = flat_directions(local, self.reader.design_moment(objective, self.sample))
        none = np.empty((len(flat), 0))
        return replace(done, separation=Separation(None, none, flat)) if flat.size else done

    def _off_plateau(self, done: Estimate) -> Estimate:
        """The estimate, after Newton steps from a lower point if it is on a plateau."""
        if self.objective.convex or done.separation is None or self.reader.monitor.interrupted:
            return done
        falls = partial(self.reader.falls, self.objective, self.sample)
        flat, begin = done.separation.null, done.local_model.point
        phi, reads = off_plateau(falls, begin, flat), done.reads + min(flat.shape[1], MOST_FLAT)
        if np.array_equal(phi, begin):
            return replace(done, reads=reads)
        newton = self._newton(unlike=lambda total: not self.sample.complete)
        again = self._with_flat(newton.minimise([phi, begin], self._rule(0)))
        lower = min(done, again, key=lambda end: end.local_model.loss)
        return replace(lower, reads=reads + again.reads)


def _stages(done: Estimate, before: int) -> list[tuple[str, np.ndarray]]:
    return [(f"read {before + i}", at) for i, at in enumerate(done.points) if i]

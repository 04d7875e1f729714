"""A quadratic penalty: part of a smooth objective, so both estimates are those of any fit.

The rows are fitted again without the penalty, from the penalised estimate: for a quadratic loss
that is one step of the full H^-1, whatever lam. If the data alone do not identify theta, intervals
are about the penalised optimum, with HC0: fewer than p degrees of freedom are spent there.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.groupings.grouping import with_role
from masgrad.errors import AccuracyWarning, say
from masgrad.fitting.assemble import assemble
from masgrad.fitting.fit import find_estimate, objective_of, sample_for
from masgrad.fitting.fitted import PENALISED_OPTIMUM, Fitted
from masgrad.fitting.identification.rank import listed, null_space
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import NotConvex
from masgrad.fitting.objective.objective import Objective, Ridge
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.start import coordinates_of
from masgrad.fitting.penalised.method import NoEstimate, PenalisedMethod, Shrunken
from masgrad.fitting.penalised.notes import on_penalty
from masgrad.fitting.sources import Sample, take_sample
from masgrad.fitting.status import LARGEST_REMAINDER, Status
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.diagnostics import FLAT_DIRECTIONS, Diagnostic, Diagnostics
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import ElasticNet

STOPPED = "the fit was stopped before the estimate without the penalty"
TARGET = "The target is the minimiser of mean loss + lam |theta|^2 / 2 over the population"


@dataclass(frozen=True)
class SmoothPenalty(PenalisedMethod):
    """A fit with a quadratic penalty."""

    task: Task
    objective: Objective
    reader: Reader
    sample: Sample
    rng: np.random.Generator

    @classmethod
    def of(
        cls, task: Task, reader: Reader, sample: Sample, rng: np.random.Generator
    ) -> "SmoothPenalty":
        coordinates = coordinates_of(task.model, sample.rows, task.options.start)
        objective = objective_of(task, coordinates)
        return cls(task, objective, reader, sample_for(objective, sample), rng)

    def shrink(self) -> Shrunken:
        done = find_estimate(self.task, self._penalised, self.reader, self.sample, self.rng)
        if done.remainder > LARGEST_REMAINDER:
            far = f"{done.remainder:.2g} standard errors"
            say(AccuracyWarning, f"penalized_params may be {far} from the penalised optimum")
        theta = self.objective.coordinates.theta(done.local_model.point)
        return Shrunken(theta, done, done.reads, on_penalty(self.task.options.penalty, theta))

    @property
    def _penalised(self) -> Objective:
        ridge = ridge_of(self.task.options.penalty, self.objective.coordinates)
        return replace(self.objective, ridge=ridge)

    def without_penalty(self, shrunken: Shrunken) -> tuple[Estimate, Reader, Sample]:
        if self.reader.monitor.interrupted:
            raise NoEstimate(STOPPED)
        objective = self.objective
        options = replace(self.task.options, penalty=None, start=shrunken.theta)
        task = replace(self.task, options=options)
        with self.reader.anew() as reader:
            sample, rng = self._sample_again()
            done = self._estimate(task, reader, sample, rng)
            null = null_space(objective, reader, sample, done.local_model, done.separation)
        if null.size and reader.monitor.interrupted:
            raise NoEstimate(STOPPED)
        if null.size:
            names = listed(null.not_identified, task.source.names)
            raise NoEstimate(f"no estimate without the penalty for {names}")
        return replace(done, reads=done.reads + shrunken.reads), reader, sample

    def _estimate(
        self, task: Task, reader: Reader, sample: Sample, rng: np.random.Generator
    ) -> Estimate:
        """The estimate without the penalty, if the loss has a minimum without it."""
        try:
            return find_estimate(task, self.objective, reader, sample, rng)
        except NotConvex as error:
            if self.objective.linear:
                raise
            raise NoEstimate(f"without the penalty {error}") from None

    def _sample_again(self) -> tuple[Sample, np.random.Generator]:
        """The sample as at first: a single read has used up the blocks that remained of it."""
        task, rng = self.task, np.random.default_rng([self.task.options.seed, 0])
        if self.sample.complete:
            return self.sample, rng
        sample = take_sample(task.source, task.is_single, task.options.memory // 8, rng)
        return sample_for(self.objective, sample), rng

    def alone(self, shrunken: Shrunken, why: str) -> Fitted:
        options = self.task.options
        if options.cov_type == "robust" and not with_role(self.task.source.groupings, "clusters"):
            options = replace(options, cov_type="HC0")
        task = replace(self.task, options=options)
        record = assemble(task, self._penalised, self.reader, self.sample, shrunken.found)
        said = "only the penalty bounds every coefficient."
        found = Diagnostics(
            Diagnostic(d.name, False, said) if d.name in ("separation", FLAT_DIRECTIONS) else d
            for d in record.diagnostics
        )
        interrupted = record.status is Status.INTERRUPTED
        return replace(
            record,
            target=PENALISED_OPTIMUM,
            status=record.status if interrupted else Status.PENALISED_TARGET,
            notes=(*record.notes, f"{TARGET}: {why}."),
            diagnostics=found,
        )


def ridge_of(penalty: Penalty | None, coordinates: Coordinates) -> Ridge:
    """lam |theta|^2 / 2 in phi; the coefficient of a constant column is not penalised."""
    if penalty is None:
        return Ridge()
    assert isinstance(penalty, ElasticNet) and penalty.smooth
    penalty.check(len(coordinates.matrix))
    each = np.ones(len(coordinates.matrix)) if penalty.weights is None else penalty.weights.copy()
    if coordinates.constant is not None:
        each[coordinates.constant] = 0.0
    return Ridge(penalty.lam * coordinates.matrix.T @ (each[:, None] * coordinates.matrix))

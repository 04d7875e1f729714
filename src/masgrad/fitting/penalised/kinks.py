"""A penalty with kinks: L1, groups, nuclear norms, bounds.

The penalised optimum is found by proximal Newton steps (`proximal_newton.py`), at a lam that is
given or chosen on a path (`path.py`); the estimate without the penalty is one step from a light one
(`debias.py`). If the rows alone do not determine theta there is no such step, and no interval.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import AccuracyWarning, InputError, say
from masgrad.fitting.fit import objective_of
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.identification.enough import check_responses, check_sample
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.start import valid_start
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates, penalised_coordinates
from masgrad.fitting.penalised.debias import check_more_rows_than_columns, debias_start, one_step
from masgrad.fitting.penalised.folds import split
from masgrad.fitting.penalised.method import PenalisedMethod, Shrunken
from masgrad.fitting.penalised.notes import on_choice, on_penalty, on_top, without_intervals
from masgrad.fitting.penalised.optimum.over_reads import Optimum
from masgrad.fitting.penalised.optimum.proximal_newton import penalised_optimum
from masgrad.fitting.penalised.parts import Split, Sums
from masgrad.fitting.penalised.path import POINTS, Criterion, PenaltyPath, walk
from masgrad.fitting.penalised.separation import separation_without_penalty
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.models.glm import GLM
from masgrad.penalties.fits import check_fits
from masgrad.penalties.minimise import scale, violation
from masgrad.penalties.penalty import Scaled
from masgrad.progress import Progress

LARGEST_VIOLATION = 1e-6
"""Violation of the conditions of optimality, as a share of the largest gradient, without a word."""


@dataclass(frozen=True)
class Choice:
    """A penalty whose lam is a number.

    Args:
        space: the penalty and the coordinates in which it acts.
        path: on which lam was chosen, if it was.
        known: the sums of least squares, if the path has read them.
    """

    space: PenaltyCoordinates
    path: PenaltyPath | None = None
    known: LocalModel | None = None


@dataclass(frozen=True)
class KinkedPenalty(PenalisedMethod):
    """A fit with a penalty that has kinks."""

    task: Task
    objective: Objective
    reader: Reader
    sample: Sample
    space: PenaltyCoordinates

    @classmethod
    def of(cls, task: Task, reader: Reader, sample: Sample) -> "KinkedPenalty":
        """The fit in the coordinates in which the penalty acts."""
        model, penalty = task.model, task.options.penalty
        check_fits(penalty, model, model.dim(sample.rows))
        check_sample(model, sample)
        if isinstance(model, GLM) and not np.isfinite(sample.rows[0]).all():
            raise BadBlock(sample.rows)
        objective = objective_of(task, penalised_coordinates(model, sample.rows, penalty))
        space = PenaltyCoordinates.of(objective.coordinates, penalty)
        return cls(task, objective, reader, sample, space)

    def shrink(self) -> Shrunken:
        choice, options = self._choose(), self.task.options
        with self.reader.showing(Progress(None, options.progress, "rows")):
            optimum = self.optimum(choice)
        check_responses(self.task.model, self.reader.monitor.response_range)
        _check_optimal(choice.space, optimum)
        theta, path = choice.space.theta(optimum.psi), choice.path
        penalty = options.penalty if path is None else options.penalty.with_lam(path.lam)
        note = on_penalty(penalty, theta) + on_top(choice.space, optimum) + on_choice(path)
        once = not (self.sample.complete or path is None or choice.known is not None)
        return Shrunken(theta, optimum, optimum.reads + once, note, choice.space, path)

    def optimum(self, choice: Choice | None = None) -> Optimum:
        """The penalised optimum, at the penalty's own lam or at the one that was chosen."""
        choice = choice or Choice(self.space)
        return penalised_optimum(
            self.objective,
            self.reader,
            self.sample,
            choice.space,
            self.task.options,
            start=self._own_start(choice.space),
            known=choice.known,
        )

    def without_penalty(self, shrunken: Shrunken) -> tuple[Estimate, Reader, Sample]:
        task, objective, reader, sample = self.task, self.objective, self.reader, self.sample
        assert shrunken.space is not None
        check_more_rows_than_columns(shrunken.found.local_model)
        with reader.showing(Progress(None, task.options.progress, "rows")):
            local = shrunken.found.local_model
            separation = separation_without_penalty(task, objective, reader, sample, local)
            light = debias_start(
                objective, reader, sample, shrunken.space, shrunken.found, task.options
            )
            done = one_step(objective, reader, sample, light, separation, task.options)
        reads = done.reads + shrunken.reads - shrunken.found.reads
        return replace(done, reads=reads), reader, sample

    def alone(self, shrunken: Shrunken, why: str) -> Fitted:
        return without_intervals(self.task, self.objective, self.reader, self.sample, shrunken, why)

    def walk(self, count: int = POINTS) -> tuple[PenaltyPath, Split]:
        """The path of penalised optima, and the sets of rows it was made of."""
        penalty, options = self.space.penalty, self.task.options
        if not isinstance(penalty, Scaled):
            raise InputError(f"{options.penalty!r} has no lam, and no path")
        criterion = Criterion(penalty.criterion or "", self.objective.family)
        if not criterion.name and not penalty.lam > 0:
            raise InputError("lam=0 is no end for a path; give a number > 0")
        with self.reader.showing(Progress(None, options.progress, "rows")):
            parts = split(self.objective, self.reader, self.sample, self.space, criterion, options)
        end = None if criterion.name else float(penalty.lam)
        with Progress(count, options.progress, "lams") as bar:
            path, _ = walk(self.space, parts, criterion, end, count, bar.update)
        return replace(path, names=self.task.source.names), parts

    def _choose(self) -> Choice:
        penalty = self.space.penalty
        if not isinstance(penalty, Scaled) or penalty.criterion is None:
            return Choice(self.space)
        path, parts = self.walk()
        squares = isinstance(parts.whole, Sums) and parts.whole.squared
        known = parts.whole.local_model if squares else None  # pyright: ignore
        return Choice(self.space.with_lam(path.lam), path, known)

    def _own_start(self, space: PenaltyCoordinates) -> np.ndarray | None:
        """The user's own start, as psi."""
        start, objective, rows = self.task.options.start, self.objective, self.sample.rows
        if start is None:
            return None
        own = objective.coordinates.phi(objective.model.theta(start, rows))
        return space.psi(valid_start(objective, rows, own))


def _check_optimal(space: PenaltyCoordinates, found: Optimum) -> None:
    """Check the conditions of optimality at the estimate, over all rows."""
    model, level = space.quadratic(found.local_model), space.intercept(found.psi)
    wrong = violation(space.penalty, model, found.psi - level).max(initial=0.0)
    reference = scale(space.penalty, model)
    rounding = 1e-12 * scale(space.penalty, model._replace(c=model.c + model.A @ level))
    if wrong > max(LARGEST_VIOLATION * reference, rounding):
        say(
            AccuracyWarning,
            f"penalized_params miss the conditions of optimality by {wrong / reference:.2g} of the "
            "largest gradient: bring the columns to one scale",
        )

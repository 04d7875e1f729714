"""A fit without a penalty: sample, coordinates, start, estimate, record.

source -> Sample -> Objective -> Start -> Estimate -> Fitted
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from masgrad.cores import own_cores
from masgrad.data.arrays import blocks, count_rows, is_structured
from masgrad.data.source import Source
from masgrad.fitting.assemble import assemble
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.identification.checks import explain, without_minimum
from masgrad.fitting.identification.enough import (
    check_count,
    check_means,
    check_responses,
    check_sample,
    check_weight,
)
from masgrad.fitting.identification.rank import Separation, sample_has_optimum
from masgrad.fitting.identification.recession import undecided
from masgrad.fitting.identification.separation import NotSeparated, find_separation, with_signs
from masgrad.fitting.objective.coordinates import Coordinates, is_ill_conditioned, rescaled
from masgrad.fitting.objective.factor import orthonormal, orthonormal_with_earlier
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import ALL_BLOCKS, these
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.nonconvex.start import check_minimum
from masgrad.fitting.optimise.schedule import estimate
from masgrad.fitting.optimise.start import WARM_UP_ROWS, coordinates_of, find_start
from masgrad.fitting.sources import FEWEST_PILOT_ROWS, Sample, take_sample
from masgrad.fitting.task import Task, check_task
from masgrad.models.glm import GLM
from masgrad.progress import Progress

NO_MINIMUM = (
    "the search ended where the mean loss still falls, or has kinks, and there is no estimate to "
    "give an interval for; try other starts (starts=10), a ridge, or a smaller model"
)


def fit_source(
    task: Task, coordinates: Coordinates | None = None, prior: LocalModel | None = None
) -> Fitted:
    """Fit a model to a source of rows, after earlier ones if their local model is the prior."""
    check_task(task)
    bar = Progress(_two_reads(task.source), task.options.progress, "rows")
    with reading(task, bar, NO_MINIMUM, task.is_single) as (reader, sample, rng):
        coordinates, prior, reads = coordinates_for(task, reader, sample, coordinates, prior)
        objective = objective_of(task, coordinates, prior)
        sample = sample_for(objective, sample)
        done = find_estimate(task, objective, reader, sample, rng)
        again = sample.complete or not task.is_single
        if again and not (objective.linear or reader.monitor.interrupted):
            objective, done = in_own_units(task, objective, reader, sample, done, rng)
        finish = _assemble_separated if is_separated(done) else assemble
        record = finish(task, objective, reader, sample, done)
    info = replace(record.fit_info, reads=record.fit_info.reads + reads)
    return replace(record, fit_info=info)


def coordinates_for(
    task: Task,
    reader: Reader,
    sample: Sample,
    old: Coordinates | None,
    prior: LocalModel | None,
) -> tuple[Coordinates, LocalModel | None, int]:
    """The coordinates of a fit, the prior in them, and the reads that they cost.

    There is one more read if columns are nearly collinear, unless rows are read once.
    """
    found = old or coordinates_of(task.model, sample.rows, task.options.start)
    earlier = None if prior is None else prior.hessian / prior.count
    if not isinstance(task.model, GLM) or not is_ill_conditioned(found, sample.rows[0], earlier):
        return found, prior, 0
    again = not (sample.complete or task.is_single)
    rows = ALL_BLOCKS if again else these(blocks(sample.rows))
    if prior is None:
        return orthonormal(found, reader, sample, rows), prior, int(again)
    return *orthonormal_with_earlier(found, prior, reader, rows), int(again)


def in_own_units(
    task: Task,
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    rng: np.random.Generator,
) -> tuple[Objective, Estimate]:
    """The fit again from its estimate, in the units of gradients there, if they are others.

    On a plateau there may be no minimum in these; then the first estimate stands.
    """
    local = done.local_model
    own = rescaled(objective.coordinates, local)
    if own is None or objective.prior is not None:
        return objective, done
    start = objective.coordinates.theta(local.point)
    task, again = replace(task, options=replace(task.options, start=start)), objective_of(task, own)
    try:
        found = find_estimate(task, again, reader, sample, rng)
    except NotConvex:
        return objective, done
    reads = done.reads + (0 if sample.complete else found.reads)
    return again, replace(found, reads=reads, notes=done.notes)


def objective_of(
    task: Task, coordinates: Coordinates, prior: LocalModel | None = None
) -> Objective:
    """The mean loss in these coordinates."""
    return Objective(
        task.model,
        coordinates,
        prior=prior,
        with_information=task.needs_information,
        squared=task.options.weights_type != "frequency",
    )


@contextmanager
def reading(
    task: Task, bar: Progress, not_convex: str, single: bool
) -> Iterator[tuple[Reader, Sample, np.random.Generator]]:
    """A reader, a sample, and the generator that drew it; errors name the values behind them.

    `single` says whether the rows after the sample are read once. NumPy is silent on overflow: sums
    and losses that are not finite are looked for where they matter.
    """
    rng = np.random.default_rng([task.options.seed, 0])
    with np.errstate(over="ignore", invalid="ignore"), own_cores(), bar:
        monitor = Monitor(bar)
        sample = take_sample(task.source, single, task.options.memory // 8, rng)
        task.journal.check("sample", sample.rows)
        reader = Reader(task.source, task.options.threads, monitor, task.journal)
        reader.see_sample(sample, linear=isinstance(task.model, GLM))
        try:
            yield reader, sample, rng
        except BadBlock as bad:
            raise explain(task.model, task.source, sample, bad) from None
        except NotConvex as error:
            raise without_minimum(task.model, error, not_convex) from None


def sample_for(objective: Objective, sample: Sample) -> Sample:
    """The sample, with the sizes of the columns of the design."""
    return replace(sample, columns=objective.column_sizes(sample.rows))


def find_estimate(
    task: Task,
    objective: Objective,
    reader: Reader,
    sample: Sample,
    rng: np.random.Generator,
) -> Estimate:
    """The optimum of the objective over all rows."""
    check_count(objective, reader.source, sample)
    if objective.prior is None:
        check_sample(task.model, sample)
    check_means(task, objective, reader, sample)
    done = _optimum(task, objective, reader, sample, rng)
    check_weight(objective, done.local_model)
    if objective.prior is None:
        check_responses(task.model, reader.monitor.response_range)
    return done


def _optimum(
    task: Task, objective: Objective, reader: Reader, sample: Sample, rng: np.random.Generator
) -> Estimate:
    """The optimum, and whether it exists if the responses may be separated."""
    options, every = task.options, task.is_single or sample.complete or sample.has_rare_columns
    every = every or is_structured(sample.rows)  # few of many levels are in a part of them
    most_rows = count_rows(sample.rows) if every else WARM_UP_ROWS
    start = find_start(objective, sample, most_rows, options, rng)
    done = estimate(objective, reader, sample, start.local_model, options)
    if not objective.linear:
        check_minimum(start.initial_curvature, done.local_model)
    done, phi = replace(done, notes=start.notes), done.local_model.point
    known = done.separation is not None and done.separation.found is not None
    if known or reader.monitor.interrupted or not objective.may_be_separated:
        return done
    if _has_no_boundary_rows(objective, reader.monitor.response_range):
        return done
    if sample_has_optimum(objective, sample, phi, done.local_model):
        return replace(done, separation=None)  # whatever the path could not decide
    return replace(done, separation=_separation(objective, reader, sample, done))


def _has_no_boundary_rows(objective: Objective, seen: tuple[float, float]) -> bool:
    """Whether no response is at the end of its range: then nothing can be separated."""
    family = objective.family
    return family is not None and seen[0] > family.lowest and seen[1] < family.highest


def _separation(objective: Objective, reader: Reader, sample: Sample, done: Estimate) -> Separation:
    """Whether the rows are separated, from their local model at the estimate, or else at 0."""
    phi, parts = done.local_model.point, Parts(meat=False)
    if not (sample.complete or reader.source.rereadable):
        return undecided(done.local_model)
    with reader.unobserved(reader.source) as quiet:
        read = partial(quiet.read_sample, sample=sample) if sample.complete else quiet.read
        try:
            local = read(objective, phi, parts=parts)
        except BadBlock:
            local = read(objective, 0 * phi, parts=parts)
        return find_separation(objective, quiet, sample, local)


def is_separated(done: Estimate) -> bool:
    """Whether some rows are known to be separated."""
    return done.separation is not None and done.separation.found is True


def without_separated(
    task: Task, objective: Objective, reader: Reader, sample: Sample, done: Estimate
) -> tuple[Estimate, Reader, Sample]:
    """The estimate of the rows that are not separated, with the separation of all rows.

    Of these rows some may be separated again, along a direction that the others have excluded.
    """
    separation, part, rest, reads = done.separation, reader, sample, done.reads
    passes = "converge" if task.options.open_ended else task.options.passes
    options = replace(task.options, passes=passes)
    while separation is not None and is_separated(done) and not separation.is_complete:
        source = NotSeparated(task.source, objective, separation)
        rest, rng = _sample_of(task, source, sample, objective)
        with reader.anew(source) as border:
            border.see_sample(rest, linear=True)
            again = replace(task, source=source, options=options)
            done, part = _optimum(again, objective, border, rest, rng), border
        reads += 0 if sample.complete else done.reads
        separation = done.separation if is_separated(done) else separation
    return replace(done, reads=reads, separation=separation), part, rest


def _assemble_separated(
    task: Task, objective: Objective, reader: Reader, sample: Sample, done: Estimate
) -> Fitted:
    """The record of a separated fit: estimates are those of the rows that are not separated."""
    rows = done.local_model.rows
    done, part, rest = without_separated(task, objective, reader, sample, done)
    assert done.separation is not None
    separation = with_signs(objective, reader, sample, done.separation)
    if separation.is_complete:  # in the limit every row is fitted
        done = replace(done, local_model=replace(done.local_model, loss=0.0, squares=0.0))
    record = assemble(task, objective, part, rest, replace(done, separation=separation))
    return replace(record, nobs=rows)


def _sample_of(
    task: Task, source: NotSeparated, sample: Sample, objective: Objective
) -> tuple[Sample, np.random.Generator]:
    """The sample of the rows that are not separated, and the generator that drew it."""
    rng = np.random.default_rng([task.options.seed, 0])
    rest = Sample(source.of(sample.rows), sample.complete)
    few = task.is_single or count_rows(rest.rows) < FEWEST_PILOT_ROWS
    if few and not sample.complete:
        rest = take_sample(source, task.is_single, task.options.memory // 8, rng)
    return sample_for(objective, rest), rng


def _two_reads(source: Source) -> int | None:
    """Rows of two reads, for the bar."""
    return None if source.count is None else 2 * source.count

"""A fit without a penalty: sample, coordinates, start, estimate, record.

source -> Sample -> Objective -> Start -> Estimate -> Fitted
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from masgrad.cores import own_cores
from masgrad.data.arrays import blocks, count_rows, is_structured
from masgrad.data.source import Source
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.assemble import assemble
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.identification.checks import explain, no_positive_response, without_minimum
from masgrad.fitting.identification.rank import Separation, sample_has_optimum
from masgrad.fitting.identification.recession import undecided
from masgrad.fitting.identification.separation import NotSeparated, find_separation, with_signs
from masgrad.fitting.objective.coordinates import Coordinates, is_ill_conditioned, rescaled
from masgrad.fitting.objective.factor import orthonormal, orthonormal_with_earlier
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts, response_range
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.nonconvex.start import check_minimum
from masgrad.fitting.optimise.schedule import estimate
from masgrad.fitting.optimise.start import WARM_UP_ROWS, coordinates_of, find_start
from masgrad.fitting.sources import FEWEST_PILOT_ROWS, Sample, take_sample
from masgrad.fitting.task import Task, check_task
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.progress import Progress

NO_MINIMUM = (
    "the reads ended where the mean loss has no minimum, so there is no estimate to give an "
    "interval for; try other starts, or a smaller model"
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
        own = units_of_estimate(task, objective, done)
        if own is not None and not reader.monitor.interrupted:
            reads, objective = reads + done.reads, objective_of(task, own)
            there = replace(task, options=replace(task.options, start=theta_of(coordinates, done)))
            done = find_estimate(there, objective, reader, sample, rng)
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
    rows = task.source.blocks() if again else blocks(sample.rows)
    if prior is None:
        return orthonormal(found, reader, sample, rows), prior, int(again)
    return *orthonormal_with_earlier(found, prior, reader, rows), int(again)


def units_of_estimate(task: Task, objective: Objective, done: Estimate) -> Coordinates | None:
    """Coordinates in the units of gradients at the estimate, if those at the start differ.

    Those of linear predictors do not. Rows that are read once, or after earlier ones, keep theirs.
    """
    if objective.linear or objective.prior is not None or task.is_single:
        return None
    local = done.local_model
    return rescaled(objective.coordinates, local.meat / local.count)


def theta_of(coordinates: Coordinates, done: Estimate) -> np.ndarray:
    return coordinates.theta(done.local_model.point)


def objective_of(
    task: Task, coordinates: Coordinates, prior: LocalModel | None = None
) -> Objective:
    """The mean loss in these coordinates."""
    return Objective(task.model, coordinates, prior=prior, with_information=task.needs_information)


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
        reader = Reader(task.source, task.options.threads, monitor)
        reader.see_sample(sample, linear=isinstance(task.model, GLM))
        try:
            yield reader, sample, rng
        except BadBlock as bad:
            raise explain(task.model, task.source, sample, bad.rows) from None
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
    _check_count(objective, reader.source, sample)
    if objective.prior is None:
        check_sample(task.model, sample)
    _check_means(task, objective, sample)
    done = _optimum(task, objective, reader, sample, rng)
    _check_weight(objective, done.local_model)
    if objective.prior is None:
        check_responses(task.model, reader.monitor.response_range)
    return done


def _check_means(task: Task, objective: Objective, sample: Sample) -> None:
    """Refuse responses that are never positive if means must be: they would fall to 0 for ever.

    If that is so for the pilot rows, other rows are looked at until one is positive.
    """
    family, constant = objective.family, objective.coordinates.constant
    if family is None or family.name != "gaussian" or family.link == "identity":
        return
    if constant is None or objective.prior is not None or not (sample.rows[1] <= 0).all():
        return
    if not (sample.complete or task.source.rereadable):
        return
    if sample.complete:
        none = True
    else:
        with closing(task.source.blocks()) as rest:
            none = all((rows[1] <= 0).all() for rows in rest)
    if none:
        raise no_positive_response(task.terms and task.terms.response, family)


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


def check_sample(model: Model, sample: Sample) -> None:
    """Responses of a complete sample: admitted by the family, and with something to estimate."""
    if sample.complete and isinstance(model, GLM):
        low, high = response_range(sample.rows)
        if not (low >= model.family.lowest and high <= model.family.highest):
            raise BadBlock(sample.rows)
        check_responses(model, (low, high))


def check_responses(model: Model, seen: tuple[float, float]) -> None:
    """Refuse responses that leave the family nothing to estimate; `seen` is their range."""
    if not isinstance(model, GLM):
        return
    (low, high), family = seen, model.family
    if family.name == "bernoulli" and low == high:
        raise InputError(f"every response is {low:g}: with a single class there is nothing to fit")
    if family.lowest == 0 and high == 0:
        raise InputError("every response is 0: the rates have no estimate but 0")


def _check_count(objective: Objective, source: Source, sample: Sample) -> None:
    """Refuse as many parameters as rows, unless there is a penalty."""
    p = objective.model.dim(sample.rows)
    known = count_rows(sample.rows) if sample.complete else source.count
    earlier = 0 if objective.prior is None else objective.prior.rows
    if known is not None and known + earlier <= p and objective.ridge.matrix is None:
        total = f"{known + earlier} row{'s' * (known + earlier != 1)}"
        raise IdentificationError(
            f"{total} cannot estimate {p} parameters with intervals; more rows than parameters are "
            "needed"
        )


def _check_weight(objective: Objective, local: LocalModel) -> None:
    """Refuse weights that sum to no more than the number of parameters."""
    if local.count <= len(local.point) < local.rows and objective.ridge.matrix is None:
        raise IdentificationError(
            f"weights sum to {local.count:g}, and there are {len(local.point)} parameters: weights "
            "are frequencies, the number of rows that each row stands for; multiply them"
        )


def _two_reads(source: Source) -> int | None:
    """Rows of two reads, for the bar."""
    return None if source.count is None else 2 * source.count

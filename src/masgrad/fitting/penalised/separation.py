"""Directions that only the penalty bounds: those of separated responses.

If a part of the rows is not separated, all rows are not either: a few are asked first, then the
pilot rows, and all of them only if these say yes. Mostly the Newton steps of a few rows, from the
estimate that the local model at the penalised optimum predicts, are a proof that these are not
separated (`sample_has_optimum`). Otherwise the estimate of the rows without the penalty shows what
only the penalty bounds.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.source import Arrays, Source
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.fit import find_estimate, is_separated, sample_for, without_separated
from masgrad.fitting.identification.rank import (
    FULL_RANK,
    NullSpace,
    Separation,
    null_space,
    sample_has_optimum,
)
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.sources import Sample, first_rows, random_rows
from masgrad.fitting.task import Task

FIRST_ASKED, FIRST_ASKED_PER_COLUMN = 4096, 20
"""Rows that are asked first."""


def separation_without_penalty(
    task: Task, objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> Separation | None:
    """The separation of the rows without the penalty, or None.

    Args:
        task: what is fitted.
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        local: of all rows at the penalised estimate, from which the search starts.
    """
    if not objective.separable or reader.monitor.interrupted:
        return None
    if _few_have_optimum(objective, sample, local):
        return None
    theta = objective.coordinates.theta(local.point)
    plain = replace(task, options=replace(task.options, penalty=None, start=theta))
    growing = list(_growing(task.source, sample, len(theta)))
    for source, rows in growing:
        part, last = replace(plain, source=source), rows is growing[-1][1]
        null = _null_space(part, objective, reader, rows, refuse=last)
        if null is not None and not (null.not_identified.any() or null.is_undecided):
            return None
        if last:
            assert null is not None
            return _bounded(null)
    raise AssertionError("the last rows return")


def _few_have_optimum(objective: Objective, sample: Sample, local: LocalModel) -> bool:
    """Whether a few pilot rows prove that the rows have an optimum without the penalty."""
    if local.deficiency(FULL_RANK):
        return False
    phi, size = local.point + local.newton(), _first_asked(len(local.point))
    few = random_rows(sample.rows, size, np.random.default_rng(0))
    return sample_has_optimum(objective, Sample(few, True), phi)


def _growing(source: Source, sample: Sample, p: int) -> Iterator[tuple[Source, Sample]]:
    """Ever more of the rows, each time with their sample."""
    few = _first_asked(p)
    if 2 * few < count_rows(sample.rows):
        yield _alone(first_rows(sample.rows, few))
    yield _alone(sample.rows)
    if not sample.complete:
        yield source, sample


def _first_asked(p: int) -> int:
    return max(FIRST_ASKED, FIRST_ASKED_PER_COLUMN * p)


def _alone(rows) -> tuple[Source, Sample]:
    return Arrays(rows), Sample(rows, True)


def _null_space(
    task: Task, objective: Objective, reader: Reader, sample: Sample, refuse: bool
) -> NullSpace | None:
    """The null space of these rows; None if they cannot be fitted, unless that is an error."""
    sample, rng = sample_for(objective, sample), np.random.default_rng([task.options.seed, 0])
    try:
        with reader.unobserved(task.source) as quiet:
            done = find_estimate(task, objective, quiet, sample, rng)
            if is_separated(done):
                done, *_ = without_separated(task, objective, quiet, sample, done)
            return null_space(objective, quiet, sample, done.local_model, done.separation)
    except InputError:
        if refuse:
            raise
        return None


def _bounded(null: NullSpace) -> Separation | None:
    """The separation, unless it leaves nothing to estimate."""
    if null.not_identified.all():
        raise IdentificationError(
            "the responses are separated, and without the penalty there is no estimate"
        )
    return null.separation if null.recession.size or null.is_undecided else None

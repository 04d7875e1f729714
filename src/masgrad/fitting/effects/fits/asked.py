"""What a fit with fixed effects does not do, and the source that it reads."""

from collections.abc import Generator

import numpy as np

from masgrad.data.source import Arrays, Source
from masgrad.errors import InputError
from masgrad.fitting.effects.rows.reads import is_least_squares
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.models.glm import GLM
from masgrad.types import Rows


def check_asked_for(task: Task) -> None:
    """Refuse what a fit with fixed effects does not do, with the reason."""
    model, options, terms = task.model, task.options, task.terms
    assert terms is not None
    if type(model) is not GLM:
        raise InputError(
            f"fixed effects need a regression, and {type(model).__name__} is none; write them as "
            "columns"
        )
    if terms.large:
        category = terms.large[0]
        raise InputError(
            f"{category.name} has {len(category.levels):,} levels and stands before the bar; write "
            f"it as an effect: '| {category.column}'"
        )
    for asked, reason in _reasons(options):
        if asked:
            raise InputError(f"{reason}; leave it out, or the effects")


def _reasons(options: Options) -> tuple[tuple[bool, str], ...]:
    """Options that do not go with fixed effects, and why."""
    return (
        (
            options.penalty is not None,
            "a penalty would draw the slopes alone, and which levels' effects take that up is not "
            "settled: fixed effects have no penalty",
        ),
        (
            options.cov_type == "HC3",
            "cov_type='HC3' needs each row's leverage on all effects, which is not computed: with "
            "fixed effects there are 'HC1' and clusters=",
        ),
        (
            options.method == "chains",
            "method='chains' runs chains of all coefficients, and effects are too many",
        ),
        (options.start is not None, "start= is for slopes and effects, and effects have no names"),
        (options.starts is not None, "starts= is for losses that need not be convex"),
    )


def source_of(task: Task, sample: Sample) -> Source:
    """The rows to read: those of an iterator that are few are in memory already."""
    source = task.source
    if not task.is_single:
        return source
    if sample.complete:
        return Arrays(sample.rows, source.names, groupings=source.groupings)
    assert isinstance(task.model, GLM)
    if task.options.cov_type != "nonrobust" or not is_least_squares(task.model.family):
        once = "passes=1 is one read" if source.rereadable else "an iterator can be read once"
        raise InputError(
            f"{once}, and with fixed effects that serves least squares with "
            "cov_type='nonrobust' alone: other losses, and robust and clustered errors, read the "
            "rows again; give mg.Stream(function) with a function that starts the rows anew, files "
            "or a table, with passes='auto'"
        )
    return Once(source, sample)


class Once(Source):
    """The rows of a sample and those that follow it, to be read once."""

    rereadable = False

    def __init__(self, source: Source, sample: Sample):
        self.source, self.sample = source, sample
        self.names, self.groupings, self.count = source.names, source.groupings, source.count

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        yield self.sample.rows
        rest = self.sample.remaining
        assert rest is not None
        if isinstance(self.source, Arrays):
            yield from self.source.slices(rest)
        else:
            yield from rest  # pyright: ignore[reportReturnType]

    def place(self, row: int) -> str:
        return self.source.place(row)

"""A fit with a category of very many levels: first read, Newton steps, covariance, record.

source -> LevelStart -> LevelEstimate -> LevelsFitted
"""

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from masgrad.cores import own_cores
from masgrad.data.designs.coded import CodedDesign
from masgrad.data.formula.many_levels import ManyLevels, many_levels
from masgrad.data.regression import with_design
from masgrad.data.source import Source
from masgrad.data.views import View
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.identification.checks import explain, without_minimum
from masgrad.fitting.identification.enough import check_responses
from masgrad.fitting.levels.arrow import Vector, eliminate
from masgrad.fitting.levels.assemble import assemble_levels, rounding_squares
from masgrad.fitting.levels.descent import LevelEstimate
from masgrad.fitting.levels.design import LevelDesign
from masgrad.fitting.levels.fitted import LevelsFitted
from masgrad.fitting.levels.newton import LevelNewton, newton_step, varies_within
from masgrad.fitting.levels.start import LevelStart, first_read
from masgrad.fitting.levels.sums import LevelReader, LevelSums
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import CLUSTERED, SERIAL
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task, check_task
from masgrad.models.glm import GLM
from masgrad.progress import Progress
from masgrad.types import Rows

TIGHTER = 0.1
"""Share of the tolerance at which reads end: errors of small levels follow every step."""


def fit_levels(task: Task) -> LevelsFitted:
    """Fit a model by formula in which one category has very many levels."""
    assert task.terms is not None
    many = many_levels(task.terms)
    check_asked_for(task, many)
    check_task(task)
    bar = Progress(None, task.options.progress, "rows")
    with np.errstate(over="ignore", invalid="ignore"), own_cores(), bar:
        reader = Reader(task.source, task.options.threads, Monitor(bar), task.journal)
        try:
            return _fit(task, many, reader)
        except BadBlock as bad:
            beside = Written(task.source)
            rows = beside.of(bad.rows)
            failed = BadBlock(rows, bad.shard)
            raise explain(task.model, beside, Sample(rows, False), failed) from None


def check_asked_for(task: Task, many: ManyLevels) -> None:
    """Refuse what a fit with very many levels does not do."""
    options, category = task.options, many.category
    wanted = {
        f"the loss {type(task.model).__name__}": not isinstance(task.model, GLM),
        "a penalty": options.penalty is not None,
        "cov_type='HC3'": options.cov_type == "HC3",
        "method='chains'": options.method == "chains",
        "start=": options.start is not None,
        "passes=1": options.passes == 1,
        "an iterator, which is read once (mg.Stream can be read again)": not task.source.rereadable,
    }
    of_effects = {
        "clusters=": options.clusters is not None,
        f"cov_type={options.cov_type!r}": options.cov_type in (*CLUSTERED, *SERIAL),
        f"weights_type={options.weights_type!r}": options.weights_type != "frequency",
    }
    refused = [(what, "") for what, asked in wanted.items() if asked]
    has_them = f"'| {category.column}' after the formula has them; "
    refused += [(what, has_them) for what, asked in of_effects.items() if asked]
    if refused:
        what, advice = refused[0]
        raise InputError(
            f"{category.name} has {len(category.levels):,} levels, and a fit with so many has no "
            f"place for {what}; {advice}leave it out, or group the levels"
        )


class Written(View):
    """The columns that are written out, of a source of coded designs: for messages about values."""

    def __init__(self, source: Source):
        super().__init__(source)
        first = next(source.blocks())
        self.names = tuple(source.names[j] for j in first[0].at)

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return (self.of(block) for block in self.source.blocks(rng))

    def of(self, block: Rows) -> Rows:
        """A block with these columns alone."""
        X = block[0]
        assert isinstance(X, CodedDesign)
        return with_design(block, X.numbers)


def _fit(task: Task, many: ManyLevels, reader: Reader) -> LevelsFitted:
    model, options, names = task.model, task.options, task.source.names
    assert isinstance(model, GLM)
    whole = LevelDesign.of(many, len(names))
    objective = Objective(model, identity(len(whole.columns)))
    start = first_read(reader, whole, objective)
    check_responses(model, start.totals.span)
    _check_count(start, len(whole.columns))
    family = model.family
    levels = LevelReader(reader, start.design, family if family.convex else family.scoring())
    point, sums = _begin(levels, start, objective)
    kept = varies_within(sums)
    if not kept.all():
        levels = replace(levels, design=levels.design.only(kept))
        point, sums = Vector(point.columns[kept], point.levels), sums.only(kept)
    newton = LevelNewton(
        objective,
        start.largest(levels.design),
        rounding_squares(model, start.constants),
        tolerance=TIGHTER * options.tolerance,
        most_reads=options.most_reads,
        exact=family.name == "gaussian" and family.canonical,
        mean_weight=1.0,
        design=levels.design,
        names=names,
    )
    done = newton.minimise(levels.read, point, sums)
    if done.doubt is not None and done.reads < newton.most_reads:
        raise newton.separated(done.doubt)
    _check_information(done.sums, levels.design)
    done = _with_moments(newton, replace(levels, family=family), done, task.needs_information)
    return assemble_levels(task, levels.design, start, done, reader)


def _check_count(start: LevelStart, columns: int) -> None:
    """Refuse as many parameters as rows, or as their weights, in levels that have an estimate."""
    live = start.sides == 0
    p, rows = columns + int(live.sum()), int(start.totals.counts[live].sum())
    weight = start.totals.weights[live].sum()
    if min(rows, weight) <= p:
        said = f"{rows} rows" if rows <= p else f"weights that sum to {weight:g}"
        raise IdentificationError(
            f"{said} cannot estimate {p} parameters with intervals; more rows than parameters are "
            "needed"
        )


def _check_information(sums: LevelSums, design: LevelDesign) -> None:
    """Refuse an estimate at which some level's curvature has vanished."""
    none = design.live & ~(sums.hessian.diagonal > 0)
    if none.any():
        raise IdentificationError(
            f"at the estimate {int(none.sum()):,} levels of {design.many.category.column} have "
            "means at a limit of their range to rounding, such as 0 or 1, and no information is "
            "left about them; drop a column that all but separates the responses, or join levels"
        )


def _begin(
    levels: LevelReader, start: LevelStart, objective: Objective
) -> tuple[Vector, LevelSums]:
    """The first point with its sums: levels at their means, or all at the mean of all."""
    sums = levels.read(start.point)
    if np.isfinite(sums.loss) and eliminate(sums.hessian.only(np.array([], int))) is not None:
        return start.point, sums
    total, family = start.totals, levels.family
    mean = np.array(total.responses.sum() / total.weights.sum())
    common = np.where(start.design.live, float(family.predictor(mean)), 0.0)
    point = Vector(start.point.columns, common)
    sums = levels.read(point)
    if not np.isfinite(sums.loss):
        raise without_minimum(
            objective.model,
            InputError("the loss is not finite at the mean response"),
            "look at the offset, or choose another link",
        )
    return point, sums


def _with_moments(
    newton: LevelNewton, levels: LevelReader, done: LevelEstimate, information: bool
) -> LevelEstimate:
    """The estimate with the observed H and with M, by one more read if they are not there."""
    if done.sums.meat is not None and levels.family.convex and not information:
        return done
    sums = levels.read(done.point, True, information)
    bread = eliminate(sums.hessian)
    if bread is None:
        why = InputError("the Hessian is not positive definite at the estimate")
        raise without_minimum(GLM(levels.family), why, "try another link, or group the levels")
    step = newton_step(sums, bread)
    length = newton.length_of(sums, sums.gradient.dot(step))
    return replace(done, sums=sums, decrement=length, reads=done.reads + 1)

"""Slopes and effects: first read, which rows and columns are kept, Newton steps over reads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from masgrad.errors import AccuracyWarning, IdentificationError, InputError, say
from masgrad.fitting.effects.eliminate import Eliminated
from masgrad.fitting.effects.fits.columns import Slopes, only_columns, slopes_of
from masgrad.fitting.effects.fits.counts import Counted
from masgrad.fitting.effects.fits.newton import EffectNewton, Elimination, solution
from masgrad.fitting.effects.rows.design import EffectDesign
from masgrad.fitting.effects.rows.kept import Kept, RowFacts, has_ends, kept_rows
from masgrad.fitting.effects.rows.nesting import Nesting
from masgrad.fitting.effects.rows.reads import (
    EffectRead,
    EffectReader,
    Facts,
    each_part,
    is_least_squares,
)
from masgrad.fitting.identification.enough import check_responses
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.levels.assemble import rounding_squares
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.start import mean_response
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.models.families.family import Family
from masgrad.models.glm import GLM
from masgrad.types import Rows

TIGHTER = 0.1
"""Share of the tolerance at which reads end: it is about all effects, and their errors add up."""

FACTS_SHARE = 4
"""Part of the memory that the levels of rows may take, so that they are not read again."""


@dataclass(frozen=True)
class Stage:
    """Sums over the kept rows, and what they say of the columns.

    Args:
        effects: reads the rows.
        read: the sums of a read.
        done: the columns and the responses without the effects.
        slopes: which of all columns have none.
        largest: the largest |x| of each column with a slope.
        reads: number of reads so far.
        nested: which groupings of effects are nested in clusters, (K,).
    """

    effects: EffectReader
    read: EffectRead
    done: Eliminated
    slopes: Slopes
    largest: np.ndarray
    reads: int
    nested: np.ndarray

    @property
    def design(self) -> EffectDesign:
        return self.effects.design

    @property
    def kept(self) -> Kept:
        assert self.design.kept is not None
        return self.design.kept

    def settled(self) -> "Stage":
        """The stage without the columns that have no slope."""
        found, columns = slopes_of(self.done), self.design.columns
        if found.kept.all():
            return self
        before = self.slopes
        slopes = Slopes(*(part.copy() for part in before))
        for part, new in zip(slopes, found, strict=True):
            part[columns] = new
        if not found.kept.any():
            by = " and ".join(grouping.name for grouping in self.design.groupings)
            raise IdentificationError(
                f"no column varies within {by}: the effects determine all of them, and no slope "
                "can be estimated; leave an effect out, or add a column that varies"
            )
        done = only_columns(self.done, found.kept)
        return replace(
            self,
            effects=replace(self.effects, design=self.design.only(found.kept)),
            read=self.read._replace(sums=done.sums),
            done=done,
            slopes=slopes,
            largest=self.largest[found.kept],
        )


@dataclass(frozen=True)
class Estimated:
    """Slopes and effects.

    Args:
        stage: sums at the last point, with its own family's curvature, without the effects.
        point: the estimate, of the columns that have a slope.
        decrement: length of the step from the last point that was read.
        correction: length of the step before.
        constants: terms of the deviance and of the likelihood in y alone.
        counted: the effects' parameters.
    """

    stage: Stage
    point: Vector
    decrement: float
    correction: float
    constants: np.ndarray
    counted: Counted

    @property
    def is_least_squares(self) -> bool:
        """Whether the first step was exact."""
        return is_least_squares(self.stage.effects.family)

    @property
    def squares_left(self) -> float:
        """What the last step leaves of the squares of working responses."""
        done = self.stage.done
        return done.squares - float(done.within_z @ done.beta(done.within_z))


def find_slopes(task: Task, reader: Reader, sample: Sample) -> Estimated:
    """Slopes and effects of all rows."""
    family = task.model.family  # pyright: ignore
    elimination = Elimination(task.options.threads, task.options.memory)
    mean = mean_response(family, sample.rows)
    stage = _first(task, reader, sample, mean, elimination)
    point = solution(stage.done)
    if is_least_squares(family):
        point.levels[: stage.design.sizes[0]] += mean
        counted = Counted.of(stage.read.sums, stage.kept)
        return Estimated(stage, point, 0.0, 0.0, stage.read.constants, counted)
    return _by_newton(task, stage, point, mean, elimination)


def _first(
    task: Task, reader: Reader, sample: Sample, mean: float, elimination: Elimination
) -> Stage:
    """The first read, and another one where columns hardly vary within levels."""
    family, again = task.model.family, reader.source.rereadable  # pyright: ignore
    steps = family if family.convex and not task.needs_information else family.scoring()
    whole = EffectDesign.of(reader.source.groupings, sample.rows)
    effects = EffectReader(reader, whole, steps)
    nesting = Nesting(reader.source.groupings)
    facts = Facts(task.options.memory // FACTS_SHARE, nesting)
    read, reads = effects.first_read(mean, facts), 1
    check_responses(task.model, facts.responses)
    kept = _kept(task, effects, read, facts)
    effects = replace(effects, design=replace(whole, kept=kept))
    if again and not kept.all and len(whole.groupings) > 2:
        read, reads = effects.first_read(mean, Facts(0, nesting)), 2
    done = elimination.of(read.sums)
    if (weak := done.weak & ~done.constant).any():
        if again:
            effects = replace(effects, design=effects.design.shifted(done.effects_of_x))
            facts = Facts(0, nesting)
            read, reads = effects.first_read(mean, facts), reads + 1
            done = elimination.of(read.sums)
        else:
            _say_weak(reader.source.names, weak)
    largest, nested = np.broadcast_to(facts.largest, whole.width), nesting.nested(kept.live)
    return Stage(effects, read, done, Slopes.all(whole.width), largest, reads, nested).settled()


def _say_weak(names: tuple[str, ...], weak: np.ndarray) -> None:
    said = ", ".join(repr(names[j]) for j in np.flatnonzero(weak)[:5])
    say(
        AccuracyWarning,
        f"column {said} varies within levels by less than 1e-5 of its variation, which sums of a "
        "single read hold to few digits; let the rows be read again (a table, files, mg.Stream)",
    )


def _kept(task: Task, effects: EffectReader, read: EffectRead, facts: Facts) -> Kept:
    """The rows that are kept."""
    design, options = effects.design, task.options
    single = any((table.rows == 1).any() for table in read.sums.levels)
    if not single and not has_ends(effects.family):
        live = tuple(table.rows > 0 for table in read.sums.levels)
        return Kept(live, read.rows, read.weight)
    known = facts.rows
    parts = partial(_facts, effects) if known is None else lambda: known
    kept = kept_rows(parts, design.sizes, options.weights_type == "frequency")
    by = " and ".join(grouping.name for grouping in design.groupings)
    if not kept.rows:
        raise IdentificationError(
            f"no row is left: each is the only one of a level of {by}, or its level has responses "
            "at one end alone; leave an effect out"
        )
    return kept


def _facts(effects: EffectReader) -> Iterator[RowFacts]:
    """What decides whether rows are kept, read again."""

    def work(block: Rows) -> RowFacts:
        rows = effects.design.rows(block)
        return RowFacts.of(rows.codes, rows.y, rows.weight, effects.family)

    return each_part(effects.reader, work)


def _by_newton(
    task: Task, stage: Stage, point: Vector, mean: float, elimination: Elimination
) -> Estimated:
    """Newton steps over reads of the kept rows."""
    model, options = task.model, task.options
    assert isinstance(model, GLM)
    objective = Objective(model, identity(len(stage.design.columns)))
    point, read, reads = _begin(stage.effects, objective, point, mean)
    begun = replace(stage, read=read, done=elimination.of(read.sums), reads=stage.reads + reads)
    stage = begun.settled()
    point = Vector(point.columns[np.isin(begun.design.columns, stage.design.columns)], point.levels)
    newton = EffectNewton(
        objective,
        stage.largest,
        rounding_squares(model, read.constants),
        tolerance=TIGHTER * options.tolerance,
        most_reads=max(options.most_reads - stage.reads, 1),
        exact=False,
        design=stage.design,
        names=stage.effects.reader.source.names,
        elimination=elimination,
        counted=Counted.of(read.sums, stage.kept),
    )
    done = newton.minimise(lambda at, _: stage.effects.read(at), point, stage.read)
    reads = stage.reads + done.reads - 1
    assert elimination.last is not None
    stage = replace(stage, read=done.sums, done=elimination.last, reads=reads)
    found = Estimated(
        stage, done.point, done.decrement, done.correction, read.constants, newton.counted
    )
    observed = not model.family.convex and options.cov_type != "nonrobust"
    return _with_observed(found, model.family, elimination) if observed else found


def _begin(
    effects: EffectReader, objective: Objective, point: Vector, mean: float
) -> tuple[Vector, EffectRead, int]:
    """The first point with its sums: by weighted least squares, or all effects at the mean."""
    if np.isfinite(point.levels).all() and np.isfinite(point.columns).all():
        read = effects.read(point, objective)
        if np.isfinite(read.loss) and np.isfinite(read.sums.products).all():
            return point, read, 1
    levels = np.zeros_like(point.levels)
    levels[: effects.design.sizes[0]] = float(effects.family.predictor(np.array(mean)))
    point = Vector(np.zeros_like(point.columns), levels)
    read = effects.read(point, objective)
    if not np.isfinite(read.loss):
        raise InputError(
            "the loss is not finite at the mean response; look at the offset, or choose another "
            "link"
        )
    return point, read, 2


def _with_observed(found: Estimated, family: Family, elimination: Elimination) -> Estimated:
    """The estimate with the observed curvature, where steps were those of Fisher scoring."""
    stage = found.stage
    effects = replace(stage.effects, family=family)
    read = effects.read(found.point)
    done = elimination.of(read.sums)
    if not (np.diag(done.within) > 0).all():
        raise InputError(
            "the Hessian is not positive definite at the estimate: try another link, "
            "cov_type='nonrobust', or group the levels"
        )
    stage = replace(stage, effects=effects, read=read, done=done, reads=stage.reads + 1)
    return replace(found, stage=stage)

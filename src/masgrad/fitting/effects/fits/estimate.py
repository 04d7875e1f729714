"""Slopes and effects: Newton steps over reads of the rows that are kept.

Where a short step still carries rows to their boundary, a recession direction is looked for; rows
that are separated along it are left out, and the fit begins anew, as long as there is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.effects.eliminate import Eliminated, eliminate
from masgrad.fitting.effects.fits.counts import Counted
from masgrad.fitting.effects.fits.first import Stage, first_stage
from masgrad.fitting.effects.fits.newton import EffectNewton, Elimination, solution
from masgrad.fitting.effects.rows.boundary_reads import BoundaryReader, Fits
from masgrad.fitting.effects.rows.design import EffectRows
from masgrad.fitting.effects.rows.interior import directions
from masgrad.fitting.effects.rows.reads import EffectRead, EffectReader, is_least_squares
from masgrad.fitting.effects.rows.recession import Look, Recession, Target, rectified, rectify
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.levels.assemble import rounding_squares
from masgrad.fitting.levels.descent import LevelEstimate
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.start import mean_response
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.kinds import observations
from masgrad.models.families.family import Family
from masgrad.models.glm import GLM

TIGHTER = 0.1
"""Share of the tolerance at which reads end: it is about all effects, and their errors add up."""

EARLY_DOUBTS = 1
"""Short steps that carry rows, after which a recession direction is looked for."""


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
        separated: number of rows that are separated, and left out.
        product_reads: for products with pairs of levels that do not fit memory.
        settled: whether reads ended since the last step was short, and carried no row.
    """

    stage: Stage
    point: Vector
    decrement: float
    correction: float
    constants: np.ndarray
    counted: Counted
    separated: int = 0
    product_reads: int = 0
    settled: bool = True

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
    stage = first_stage(task, reader, sample, mean, elimination)
    rows, recessions = stage.rows, ()
    while True:
        point = solution(stage.done)
        if is_least_squares(family):
            point.levels[: stage.design.sizes[0]] += mean
            counted = Counted.of(stage.read.sums, stage.kept)
            constants, reads = stage.read.constants, elimination.reads
            return Estimated(stage, point, 0.0, 0.0, constants, counted, product_reads=reads)
        found = _by_newton(task, stage, point, mean, elimination)
        if isinstance(found, Estimated):
            apart = rows - stage.rows
            return replace(found, separated=apart, product_reads=elimination.reads)
        recessions = (*recessions, found)
        stage = first_stage(task, reader, sample, mean, elimination, recessions)


def _by_newton(
    task: Task, stage: Stage, point: Vector, mean: float, elimination: Elimination
) -> Estimated | Recession:
    """Newton steps over reads of the kept rows, or a direction along which rows are separated."""
    model, options = task.model, task.options
    assert isinstance(model, GLM)
    objective = Objective(model, identity(len(stage.design.columns)))
    point, read, reads = _begin(stage.effects, objective, point, mean)
    begun = replace(stage, read=read, done=elimination.of(read.sums), reads=stage.reads + reads)
    stage = begun.settled()
    point = Vector(point.columns[np.isin(begun.design.columns, stage.design.columns)], point.levels)
    kept = stage.kept
    newton = EffectNewton(
        objective,
        stage.largest,
        rounding_squares(model, read.constants),
        tolerance=TIGHTER * options.tolerance,
        most_reads=max(options.most_reads - stage.reads, 1),
        exact=False,
        mean_weight=kept.weight / observations(kept.weight, kept.rows, options),
        design=stage.design,
        names=stage.effects.reader.source.names,
        elimination=elimination,
        counted=Counted.of(read.sums, stage.kept),
    )
    done = newton.minimise(lambda at, _: stage.effects.read(at), point, stage.read, EARLY_DOUBTS)
    reads = stage.reads + done.reads - 1
    if done.doubt is not None:
        found = _recession(task, stage.effects, done)
        if found is not None:
            return found
        if done.reads < newton.most_reads:
            done = newton.minimise(lambda at, _: stage.effects.read(at), done.point, done.sums)
            reads += done.reads - 1
        if done.doubt is not None and done.reads < newton.most_reads:
            raise newton.separated(done.doubt)
    assert elimination.last is not None
    stage = replace(stage, read=done.sums, done=elimination.last, reads=reads)
    found = Estimated(
        stage,
        done.point,
        done.decrement,
        done.correction,
        read.constants,
        newton.counted,
        settled=done.settled or (done.doubt is None and not options.open_ended),
    )
    observed = not model.family.convex and options.cov_type != "nonrobust"
    return _with_observed(found, model.family, elimination) if observed else found


def _recession(task: Task, effects: EffectReader, done: LevelEstimate) -> Recession | None:
    """A direction along which rows are separated that the last step carries, if there is one."""
    step, options, design = done.doubt, task.options, effects.design
    assert step is not None

    def eliminated(sums: EffectSums, start: Eliminated | None = None) -> Eliminated:
        return eliminate(sums, start, threads=options.threads, memory=options.memory)

    shapes = [(size, len(design.columns)) for size in design.sizes]
    reader = BoundaryReader(effects)
    along = directions(reader.sums_inside, reader.sides, eliminated, shapes)

    def read(fit: Vector | None, holding: Sequence[Vector]) -> Look:
        def choose(rows: EffectRows, s: np.ndarray, fitted: Fits) -> Target:
            if fit is None:
                return reader.carried(done.point, step, rows, s)
            return rectified(s, fitted(fit), map(fitted, holding))

        return reader.target(along, choose)

    found = rectify(read, eliminated)
    return None if found is None else design.recession(along.vector(found), effects.family)


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

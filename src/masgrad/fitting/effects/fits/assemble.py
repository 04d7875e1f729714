"""From slopes and effects to the record of a fit: covariance, status, warnings, notes."""

from dataclasses import replace

import numpy as np

from masgrad.errors import (
    AccuracyWarning,
    IdentificationError,
    IdentificationWarning,
    PerfectFitWarning,
    SeparationWarning,
    say,
)
from masgrad.fitting.effects.fits.estimate import Estimated
from masgrad.fitting.effects.fits.uncertainty import slope_errors
from masgrad.fitting.effects.results.fitted import Effects, EffectsFitted
from masgrad.fitting.effects.rows.design import EffectDesign
from masgrad.fitting.fitted import FitInfo
from masgrad.fitting.identification.rank import listed
from masgrad.fitting.levels.assemble import incidental_parameters
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.results.saved.cells import few
from masgrad.fitting.sources import Sample
from masgrad.fitting.status import LARGEST_REMAINDER, Status, first_of
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.kinds import observations
from masgrad.fitting.uncertainty.likelihood import of_observations
from masgrad.models.glm import GLM

LARGE_RESIDUAL = 1e-7
"""Relative residual of the regressions on effects that a warning is given of."""

SMALL_LOADING = 1e-6
"""Share of a direction's largest slope below which a slope is 0."""


def assemble_effects(task: Task, reader: Reader, sample: Sample, found: Estimated) -> EffectsFitted:
    """The record of a fit; its warnings are given here."""
    stage, options, model = found.stage, task.options, task.model
    design, effects = stage.design, _effects(found)
    assert isinstance(model, GLM)
    _check_count(task, found)
    errors = slope_errors(task, reader, sample, found)
    local, coordinates = errors.slopes.local, errors.slopes.objective.coordinates
    most = 10 * options.tolerance if options.open_ended else LARGEST_REMAINDER
    far = found.decrement > most or not found.settled
    _warn(task, found, far, errors.perfect)
    theta = _limits(design)
    theta[design.columns] = found.point.columns
    return EffectsFitted(
        model=model,
        theta=theta,
        cov=coordinates.cov(errors.cov),
        nobs=local.rows,
        names=task.source.names,
        cov_type=errors.cov_type,
        fit_info=FitInfo(
            stage.reads + found.product_reads + errors.reads,
            reader.monitor.rows_per_second,
            found.correction,
            found.decrement,
            local.condition,
        ),
        coordinates=coordinates,
        local_model=of_observations(local, options, reader.monitor.interrupted),
        null_directions=np.eye(design.width)[:, ~stage.slopes.kept],
        not_identified=~stage.slopes.kept,
        status=first_of(
            Status.INTERRUPTED if errors.interrupted else None,
            Status.SEPARATED if found.separated else None,
            None if stage.slopes.kept.all() else Status.NOT_IDENTIFIED,
            Status.PERFECT_FIT if errors.perfect else None,
            Status.READS_USED_UP if far else None,
        ),
        terms=task.terms,
        df=errors.df,
        kind=model.in_words,
        notes=(*errors.notes, *_notes(task, found, effects)),
        has_offset=options.offset is not None or options.exposure is not None,
        effects=effects,
        clusters=errors.clusters,
        serial=errors.serial,
        weights_type=options.weights_type,
        squares_within=stage.done.squares if found.is_least_squares else None,
    )


def _effects(found: Estimated) -> Effects:
    """The effects beside the slopes, NaN of levels that are left out."""
    design, counted = found.stage.design, found.counted
    pairs = zip(design.effects(found.point), counted.sums.levels, strict=True)
    values = tuple(np.where(table.rows > 0, a, np.nan) for a, table in pairs)
    labels = tuple((met.first, met.second) for met in counted.components)
    groupings = tuple(replace(g, keys=g.keys.closed()) for g in design.groupings)
    residual = float(found.stage.done.residual.max(initial=0.0))
    small = tuple(few(table.rows) for table in counted.sums.levels)
    found_by = counted.parameters, residual, design.recessions, small
    return Effects(groupings, values, labels, *found_by)


def _limits(design: EffectDesign) -> np.ndarray:
    """Coefficients where the likelihood rises for ever: infinite if a direction moves them, of the
    sign of the first that does, and otherwise NaN."""
    limits = np.full(design.width, np.nan)
    for direction in reversed(design.recessions):
        slopes = direction.slopes
        moved = np.abs(slopes) > SMALL_LOADING * np.abs(slopes).max(initial=0.0)
        limits[moved] = np.copysign(np.inf, slopes[moved])
    return limits


def _check_count(task: Task, found: Estimated) -> None:
    """Refuse as many parameters as rows, or as their weights."""
    kept, effects = found.stage.kept, found.counted
    p = len(found.stage.design.columns) + effects.parameters
    weight = observations(kept.weight, kept.rows, task.options)
    if min(kept.rows, weight) <= p:
        said = f"{kept.rows:,} rows" if kept.rows <= p else f"weights that sum to {kept.weight:g}"
        raise IdentificationError(
            f"{said} cannot estimate {p:,} parameters, {effects.parameters:,} of them effects, "
            "with intervals; more rows than parameters are needed"
        )


def _warn(task: Task, found: Estimated, far: bool, perfect: bool) -> None:
    names, slopes, design = task.source.names, found.stage.slopes, found.stage.design
    rest = "; it has no coefficient beside the effects (NaN), and the others are those without it"
    if found.separated:
        say(SeparationWarning, _on_separated(found, names))
    without = np.isnan(_limits(design))
    for j in np.flatnonzero(slopes.constant & without):
        say(IdentificationWarning, f"{_on_constant(names[j], slopes.within[j], design)}{rest}")
    determined = np.flatnonzero(slopes.determined & without)
    if len(determined):
        said = ", ".join(repr(names[j]) for j in determined[:5])
        by = " and ".join(grouping.name for grouping in design.groupings)
        say(
            IdentificationWarning,
            f"columns before it determine column {said} within {by} (collinear){rest}",
        )
    residual = found.stage.done.residual.max(initial=0.0)
    if residual > LARGE_RESIDUAL:
        by = " and ".join(grouping.name for grouping in design.groupings)
        say(
            AccuracyWarning,
            f"the regressions on the effects of {by} ended at a relative residual of "
            f"{residual:.1e}; coefficients may be wrong by about as much: give more memory=, so "
            "that levels can be eliminated one after the other",
        )
    if perfect:
        say(PerfectFitWarning, Status.PERFECT_FIT.message)
    if far:
        say(
            AccuracyWarning,
            f"after {found.stage.reads} reads the estimate may still be {found.decrement:.2g} "
            "standard errors from the optimum of these rows",
        )


def _on_separated(found: Estimated, names: tuple[str, ...]) -> str:
    """How many rows are separated, and along which columns."""
    design = found.stage.design
    moved = np.isinf(_limits(design)) & ~np.isin(np.arange(design.width), design.columns)
    some = "1 row is" if found.separated == 1 else f"{found.separated:,} rows are"
    along = listed(moved, names) if moved.any() else "combinations of levels"
    return (
        f"{some} separated along {along}: the likelihood rises for ever in that direction; these "
        "rows are left out, as they say nothing of the other coefficients, and infinite "
        "coefficients have no interval"
    )


def _on_constant(name: str, within: int, design: EffectDesign) -> str:
    if within >= 0:
        return f"column {name!r} does not vary within {design.groupings[within].name}"
    by = " and ".join(grouping.name for grouping in design.groupings)
    return f"the effects of {by} determine column {name!r}"


def _notes(task: Task, found: Estimated, effects: Effects) -> list[str]:
    """What a reader of the summary should know of the effects."""
    kept, redundant = found.stage.kept, effects.redundant
    more = f"; {redundant:,} of them redundant" if redundant else ""
    solved = f", solved to a relative residual of {effects.residual:.0e}" if redundant else ""
    notes = [f"Fixed effects: {effects.in_words}{more}{solved}."]
    if found.product_reads:
        notes.append(
            f"Pairs of levels do not fit memory={task.options.memory / 2**20:,.0f}MB: "
            f"{found.product_reads} more reads stood in for them; give more memory."
        )
    if kept.single:
        notes.append(f"{_rows(kept.single)} left out: each is the only one of a level.")
    if kept.one_sided:
        notes.append(
            f"{_rows(kept.one_sided)} left out: their level's responses are all at one end of "
            "their range, and its effect is infinite."
        )
    if found.separated:
        notes.append(
            f"{_rows(found.separated)} left out: they are separated, and their likelihood is 1 in "
            "the limit."
        )
    most = int(np.argmax(effects.sizes))
    name, size = effects.groupings[most].name, effects.sizes[most]
    count = observations(kept.weight, kept.rows, task.options)
    return notes + incidental_parameters(task.model, name, size, count)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"

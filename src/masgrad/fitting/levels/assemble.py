"""From an estimate with very many levels to its record: covariance, status, warnings, notes."""

from dataclasses import dataclass

import numpy as np

from masgrad.errors import (
    AccuracyWarning,
    IdentificationWarning,
    PerfectFitWarning,
    SeparationWarning,
    say,
)
from masgrad.fitting.assemble import FEW_ROWS
from masgrad.fitting.fitted import FitInfo
from masgrad.fitting.levels.arrow import Eliminated, Sandwich, Vector, eliminate
from masgrad.fitting.levels.coefficients import standard_errors
from masgrad.fitting.levels.descent import LevelEstimate
from masgrad.fitting.levels.design import LevelDesign
from masgrad.fitting.levels.fitted import SHOWN_LEVELS, LevelsFitted
from masgrad.fitting.levels.start import LevelStart
from masgrad.fitting.levels.sums import LevelSums
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import Options
from masgrad.fitting.status import LARGEST_REMAINDER, Status, first_of
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.covariance import FITTED_EXACTLY
from masgrad.fitting.uncertainty.likelihood import of_observations
from masgrad.models.glm import GLM
from masgrad.models.model import Model

ROUNDING_RESIDUAL = 1e-26
"""Mean squared residual, over that of the responses, of a fit that leaves rounding errors alone."""


UNBIASED = {("gaussian", "identity"), ("poisson", "log"), ("gamma", "log")}
"""Families with links in which errors of levels do not bias other coefficients."""

MANY_ROWS_EACH = 1000
"""Rows of each level from which nothing is said about such a bias."""


@dataclass(frozen=True)
class LevelErrors:
    """The covariance of a fit with very many levels.

    Args:
        sandwich: H^-1 M H^-1.
        bread: H, eliminated.
        notes: on errors that are too small.
        perfect: whether residuals are rounding errors.
    """

    sandwich: Sandwich
    bread: Eliminated
    notes: tuple[str, ...]
    perfect: bool


def _errors(task: Task, design: LevelDesign, start: LevelStart, sums: LevelSums) -> LevelErrors:
    """The covariance of the kind that was asked for."""
    model, cov_type = task.model, task.options.cov_type
    assert isinstance(model, GLM) and sums.meat is not None
    bread = eliminate(sums.hessian)
    assert bread is not None
    free, notes = len(design.columns) + int(design.live.sum()), ()
    dispersion = sums.squares / (sums.weight - free) if model.family.dispersed else 1.0
    perfect = sums.squares < rounding_squares(model, start.constants)
    if cov_type == "nonrobust":
        H = sums.hessian if sums.information is None else sums.information
        expected, meat = eliminate(H), H.times(dispersion)
        assert expected is not None
        bread = expected
    else:
        meat = sums.meat.times(sums.weight / (sums.weight - free) if cov_type == "HC1" else 1.0)
        exact = design.live & (meat.diagonal <= FITTED_EXACTLY * dispersion * sums.hessian.diagonal)
        notes = () if perfect else _on_exact(int(exact.sum()), design)
        if sums.weight < FEW_ROWS * free and cov_type != "HC1" and not perfect:
            notes += (
                f"{sums.weight:,.0f} rows for {free:,} parameters: HC0 errors are too small; try "
                "cov_type='HC1' or 'nonrobust'.",
            )
    return LevelErrors(Sandwich.of(bread, meat.times(float(not perfect))), bread, notes, perfect)


def _on_exact(count: int, design: LevelDesign) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"Robust standard errors are too small for {count:,} levels of "
        f"{design.many.category.column}: only rows that are fitted exactly, such as the single row "
        "of a level, determine them, and residuals of 0 show no noise; join levels, or use "
        "cov_type='nonrobust'.",
    )


def rounding_squares(model: GLM, constants: np.ndarray) -> float:
    """X^2 that rounding errors leave of Gaussian responses that are fitted perfectly."""
    gaussian = model.family.name == "gaussian"
    return float(-2 * ROUNDING_RESIDUAL * constants[0]) if gaussian else 0.0


def assemble_levels(
    task: Task,
    design: LevelDesign,
    start: LevelStart,
    done: LevelEstimate,
    reader: Reader,
) -> LevelsFitted:
    """The record of a fit; its warnings are given here."""
    sums, sides, options = done.sums, start.sides, task.options
    found = _errors(task, design, start, sums)
    names, far = task.source.names, _is_far(task.options, done)
    left_out = np.flatnonzero(design.left_out)
    _warn(design, names, left_out, sides)
    if far:
        say(
            AccuracyWarning,
            f"after {done.reads + 1} reads the estimate may still be {done.decrement:.2g} standard "
            "errors from the optimum of these rows",
        )
    if found.perfect:
        say(PerfectFitWarning, Status.PERFECT_FIT.message)
    U, gradient = found.bread.means, sums.gradient
    local = LocalModel(
        sums.weight,
        done.point.columns,
        gradient.columns - U.T @ gradient.levels,
        sums.hessian.corner - sums.hessian.border.T @ U,
        found.sandwich.corner,
        0.0 if found.perfect else sums.squares,
        loss=sums.loss,
        rows=sums.rows,
        constants=start.constants,
    )
    status = first_of(
        Status.SEPARATED if (np.nan_to_num(sides) != 0).any() else None,
        Status.NOT_IDENTIFIED if len(left_out) or np.isnan(sides).any() else None,
        Status.PERFECT_FIT if found.perfect else None,
        Status.READS_USED_UP if far else None,
    )
    info = FitInfo(
        done.reads + 1,
        reader.monitor.rows_per_second,
        done.correction,
        done.decrement,
        found.bread.condition,
    )
    return LevelsFitted(
        model=task.model,
        design=design,
        point=done.point,
        sides=sides,
        sandwich=found.sandwich,
        theta=_theta(design, done.point, sides),
        errors=standard_errors(design, found.sandwich),
        nobs=start.totals.rows,
        names=names,
        cov_type=task.options.cov_type,
        fit_info=info,
        local_model=of_observations(local, options, reader.monitor.interrupted),
        status=status,
        terms=task.terms,
        kind=task.model.in_words,
        notes=(
            *found.notes,
            *_notes(design),
            *incidental_parameters(
                task.model,
                design.many.category.column,
                int(design.live.sum()),
                sums.weight,
            ),
        ),
        memory=task.options.memory,
        has_offset=options.offset is not None or options.exposure is not None,
    )


def _theta(design: LevelDesign, point: Vector, sides: np.ndarray) -> np.ndarray:
    """The user's coefficients; infinite of separated levels, NaN of those without rows."""
    with np.errstate(invalid="ignore"):
        levels = np.where(sides == 0, point.levels, sides * np.inf)
    return design.theta(Vector(point.columns, levels))


def _is_far(options: Options, done: LevelEstimate) -> bool:
    """Whether the estimate is further from the optimum than was asked for."""
    return done.decrement > (10 * options.tolerance if options.open_ended else LARGEST_REMAINDER)


def _warn(
    design: LevelDesign, names: tuple[str, ...], left_out: np.ndarray, sides: np.ndarray
) -> None:
    """Warn of coefficients without an estimate: levels are counted."""
    category = design.many.category
    separated, empty = np.nan_to_num(sides) != 0, np.isnan(sides)
    if separated.any():
        advice = base_advice(design)
        say(
            SeparationWarning,
            f"the responses are separated along {int(separated.sum()):,} of "
            f"{len(separated):,} levels of {category.column} ({_listed(design, separated)}), whose "
            "rows have responses of one kind: the likelihood rises for ever along them, which have "
            "no estimate and no interval; other coefficients are those of the other rows; join "
            "levels, or leave such rows out" + (f"; {advice}" if advice else ""),
        )
    if empty.any():
        say(
            IdentificationWarning,
            f"{int(empty.sum()):,} levels of {category.column} have no row "
            f"({_listed(design, empty)}): their coefficients are not estimable (NaN)",
        )
    if len(left_out):
        said = ", ".join(repr(names[j]) for j in left_out[:5]) + ", ..." * (len(left_out) > 5)
        say(
            IdentificationWarning,
            f"column {said} does not vary within the levels of {category.column}, or by less than "
            "1e-5 of its spread: its coefficient is not estimable beside them (NaN), and they are "
            "those of the fit without it; drop it, or subtract the levels' means from it",
        )


def incidental_parameters(model: Model, column: str, levels: int, weight: float) -> list[str]:
    """A note on levels from few rows, which bias the other coefficients.

    They do not where the scores of the others, at the levels' own optimum, have mean 0.
    """
    assert isinstance(model, GLM)
    each = weight / max(levels, 1)
    exempt = (model.family.name, model.family.link) in UNBIASED or each > MANY_ROWS_EACH
    return (
        []
        if exempt
        else [
            f"Levels of {column} have {each:.0f} rows each on average: their errors bias the other "
            "coefficients by a share of about one over that (incidental parameters), and intervals "
            "leave it out."
        ]
    )


def _notes(design: LevelDesign) -> list[str]:
    """What a reader of the summary should know of the levels."""
    many, advice = design.many, base_advice(design)
    shown = (
        f"{SHOWN_LEVELS} of {many.size:,} coefficients of {many.category.name} are shown; "
        "result.to_frame() has all of them."
    )
    column = many.category.column
    bar = (
        f"Where levels of {column} are not themselves of interest, '| {column}' at the formula's "
        "end makes fixed effects of them: there may be several groupings, and clusters."
    )
    return [shown, bar, *([f"{advice[0].upper()}{advice[1:]}."] if advice else [])]


def base_advice(design: LevelDesign) -> str:
    """What to do if every row of the base level is separated; "" if it is not."""
    category, base = design.many.category, design.base()
    if base is None or design.live[base]:
        return ""
    other = category.levels[category.kept(True)[int(np.argmax(design.live[:base]))]]
    return (
        f"every row of {category.column} = {category.levels[category.base]!r} is separated, the "
        f"level from which the others are measured: with C({category.column}, "
        f"Treatment({other!r})) fewer coefficients are infinite"
    )


def _listed(design: LevelDesign, chosen: np.ndarray) -> str:
    """The first five levels under a mask, and how many more there are."""
    category, base = design.many.category, design.base()
    order = category.kept(base is not None) + ([] if base is None else [category.base])
    index = np.flatnonzero(chosen)
    more = f" and {len(index) - 5:,} more" if len(index) > 5 else ""
    return ", ".join(repr(category.levels[order[j]]) for j in index[:5]) + more

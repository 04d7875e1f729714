"""From an estimate to the record of a fit: units of theta, status, diagnostics, notes."""

import numpy as np

from masgrad.data.regression import offset_of
from masgrad.fitting.fitted import FitInfo, Fitted
from masgrad.fitting.later_rows import third_order_terms
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.sources import Sample
from masgrad.fitting.status import (
    LARGEST_REMAINDER,
    base_level_advice,
    on_locality,
    status_of,
)
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.covariance import Uncertainty, uncertainty
from masgrad.fitting.uncertainty.diagnostics import (
    Diagnostics,
    bias_diagnostic,
    chain_diagnostics,
    condition_number,
    diagnose,
    step_diagnostic,
)
from masgrad.fitting.uncertainty.likelihood import of_observations
from masgrad.fitting.uncertainty.serial.record import Serial
from masgrad.fitting.warn import warn

FEW_ROWS = 30
"""Rows for each parameter below which HC0 errors are too small."""

VERY_FEW_ROWS = 5
"""The same for errors after one step from a penalised optimum."""


def assemble(
    task: Task, objective: Objective, reader: Reader, sample: Sample, done: Estimate
) -> Fitted:
    """The record of a fit; its warnings are given here."""
    found = uncertainty(objective, reader, sample, done, task.options, _earlier(task, objective))
    status = status_of(task.options, objective, reader, done, found)
    warn(task, objective, reader, sample, done, found)
    local, null, coordinates = found.local_model, found.null, objective.coordinates
    random = sample.complete or not (reader.source.ordered and found.drift > DRIFT_LIMIT)
    kept = local if null.size else third_order_terms(objective, local, sample, random)
    return Fitted(
        model=task.model,
        theta=null.theta(local.point),
        cov=_covariance(coordinates, found),
        nobs=local.rows,
        names=task.source.names,
        cov_type=found.cov_type,
        fit_info=_fit_info(objective, reader, done, found),
        coordinates=coordinates,
        local_model=of_observations(kept, task.options, reader.monitor.interrupted),
        null_directions=coordinates.matrix @ null.directions,
        not_identified=null.not_identified,
        status=status,
        terms=task.terms,
        df=_degrees_of_freedom(found),
        kind=task.model.in_words,
        notes=(*done.notes, *found.notes, *_notes(task, objective, done, found)),
        diagnostics=_diagnostics(task, objective, reader, sample, done, found),
        has_offset=offset_of(sample.rows) is not None,
        cov_phi=_covariance_of_phi(coordinates, found),
        recession=coordinates.matrix @ null.limits,
        separated=null.separated,
        clusters=None if found.meat is None else found.meat.clusters,
        serial=None if found.meat is None else found.meat.serial,
        weights_type=task.options.weights_type,
    )


def _earlier(task: Task, objective: Objective) -> Clustered | Serial | None:
    """The clusters or scores of earlier rows, in the coordinates of this fit."""
    if task.earlier is None:
        return None
    kept = task.earlier.clusters or task.earlier.serial
    before = task.earlier.coordinates
    if kept is None or before is objective.coordinates:
        return kept
    return kept.in_coordinates(np.linalg.solve(before.matrix, objective.coordinates.matrix))


def _degrees_of_freedom(found: Uncertainty) -> int | np.ndarray | None:
    """Those of t: of chains, of clusters; None for the normal law."""
    if found.spread is not None:
        return found.spread.df
    return None if found.meat is None else found.meat.df


def _covariance(coordinates: Coordinates, found: Uncertainty) -> np.ndarray:
    """The covariance of theta; NaN for coefficients of which it is not defined."""
    cov = coordinates.cov(found.cov)
    undefined = _undefined(found)
    if undefined is not None:
        cov[undefined] = cov[:, undefined] = np.nan
    return cov


def _undefined(found: Uncertainty) -> np.ndarray | None:
    return None if found.meat is None else found.meat.undefined


def _covariance_of_phi(coordinates: Coordinates, found: Uncertainty) -> np.ndarray | None:
    """The covariance of phi, where combinations need it; None if some of it is undefined."""
    undefined = _undefined(found)
    unknown = undefined is not None and undefined.any()
    return None if coordinates.preconditioner is None or unknown else found.cov


def _fit_info(objective: Objective, reader: Reader, done: Estimate, found: Uncertainty) -> FitInfo:
    return FitInfo(
        done.reads + found.extra_reads,
        reader.monitor.rows_per_second,
        float(done.correction),
        float(done.remainder),
        condition_number(objective, found),
        found.drift,
        _path(done),
        done.gradient_reads,
    )


def _diagnostics(
    task: Task,
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    found: Uncertainty,
) -> Diagnostics:
    said = diagnose(objective, reader, found, settled=done.remainder <= LARGEST_REMAINDER)
    if not found.null.size and not done.one_step and done.remainder <= LARGEST_REMAINDER:
        said += bias_diagnostic(objective, found, sample)
    said.append(step_diagnostic(done, task.options))
    said += [] if found.spread is None else chain_diagnostics(found.spread.iterates)
    return Diagnostics(said)


def _path(done: Estimate) -> tuple[tuple[str, float], ...]:
    """Stages of the fit, in standard errors from the estimate."""
    local = done.local_model
    way = [(name, float(local.rms_wald_norm(phi - local.point))) for name, phi in done.stages]
    return (*way, (f"read {done.reads}", float(done.remainder))) if way else ()


def _notes(task: Task, objective: Objective, done: Estimate, found: Uncertainty) -> list[str]:
    """What a reader of the summary should know."""
    local, notes = found.local_model, []
    p = len(local.point)
    per, known = local.count / p, not (found.perfect or found.null.not_identified.all())
    if per < FEW_ROWS and known and found.cov_type in ("robust", "HC0"):
        HC3 = objective.linear and task.source.rereadable and objective.prior is None
        HC3 = HC3 and task.options.penalty is None and task.options.method != "chains"
        advice = "try cov_type='HC3'." if HC3 else "use more rows."
        notes.append(
            f"{local.count:,.0f} rows for {p} parameters: HC0 errors are too small; {advice}"
        )
    if done.one_step and per < VERY_FEW_ROWS:
        rest = f"errors rest on {local.count - p:,.0f} degrees of freedom and are rough."
        notes.append(f"{local.count:,.0f} rows for {p} parameters: {rest}")
    if advice := base_level_advice(task, found.null):
        notes.append(f"{advice[0].upper()}{advice[1:]}.")
    if objective.coordinates.preconditioner is not None:
        notes.append(
            "Columns are nearly collinear: the fit ran in the coordinates of a triangular factor "
            "of the rows (QR)."
        )
    return notes if objective.convex else [*notes, on_locality(task, objective.linear)]

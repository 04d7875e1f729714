"""From an estimate to the record of a fit: units of theta, status, diagnostics, notes."""

from dataclasses import replace

import numpy as np

from masgrad.data.regression import offset_of
from masgrad.fitting.fitted import FitInfo, Fitted
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.newton import Estimate
from masgrad.fitting.sources import Sample
from masgrad.fitting.status import LARGEST_REMAINDER, status_of, warn
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.covariance import Uncertainty, uncertainty
from masgrad.fitting.uncertainty.diagnostics import (
    Diagnostics,
    bias_diagnostic,
    chain_diagnostics,
    diagnose,
    step_diagnostic,
)
from masgrad.models.glm import GLM
from masgrad.models.model import Model

FEW_ROWS = 30
"""Rows for each parameter below which HC0 errors are too small."""

VERY_FEW_ROWS = 5
"""The same for errors after one step from a penalised optimum."""


def assemble(
    task: Task, objective: Objective, reader: Reader, sample: Sample, done: Estimate
) -> Fitted:
    """The record of a fit; its warnings are given here."""
    found = uncertainty(objective, reader, sample, done, task.options)
    status = status_of(task.options, objective, reader, done, found)
    warn(task.options, objective, reader, sample, done, found)
    local, null, coordinates = found.local_model, found.null, objective.coordinates
    return Fitted(
        model=task.model,
        theta=null.theta(local.point),
        cov=coordinates.cov(found.cov),
        nobs=local.rows,
        names=task.source.names,
        cov_type=found.cov_type,
        fit_info=_fit_info(reader, done, found),
        coordinates=coordinates,
        local_model=_known(local, reader.monitor.interrupted),
        null_directions=coordinates.matrix @ null.directions,
        not_identified=null.not_identified,
        status=status,
        terms=task.terms,
        df=None if found.spread is None else found.spread.df,
        kind=kind(task.model),
        notes=(*done.notes, *found.notes, *_notes(task, objective, done, found)),
        diagnostics=_diagnostics(task, objective, reader, sample, done, found),
        has_offset=offset_of(sample.rows) is not None,
        recession=coordinates.matrix @ null.limits,
        separated=null.separated,
    )


def _fit_info(reader: Reader, done: Estimate, found: Uncertainty) -> FitInfo:
    return FitInfo(
        done.reads + found.extra_reads,
        reader.monitor.rows_per_second,
        float(done.correction),
        float(done.remainder),
        found.local_model.condition,
        found.drift,
        _path(done),
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
        said += bias_diagnostic(objective, found.local_model, sample)
    said.append(step_diagnostic(done, task.options))
    said += [] if found.spread is None else chain_diagnostics(found.spread.iterates)
    return Diagnostics(said)


def _known(local: LocalModel, interrupted: bool) -> LocalModel:
    """The local model; after a read that was not finished no likelihood is known."""
    return replace(local, constants=np.full(2, np.nan)) if interrupted else local


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
        HC3 = HC3 and task.options.penalty is None
        advice = "try cov_type='HC3'." if HC3 else "use more rows."
        notes.append(
            f"{local.count:,.0f} rows for {p} parameters: HC0 errors are too small; {advice}"
        )
    if done.one_step and per < VERY_FEW_ROWS:
        notes.append(
            f"{local.count:,.0f} rows for {p} parameters: errors rest on {local.count - p:,.0f} "
            "degrees of freedom and are rough."
        )
    if task.model.several_optima:
        notes.append(
            "Local: about the optimum that was found, one of several; valid where the landscape is "
            "strongly Morse there (H positive definite)."
        )
    return notes


def kind(model: Model) -> str:
    """The model in words."""
    if isinstance(model, GLM):
        family = model.family
        parameter = "" if family.parameter is None else f"({family.parameter:g})"
        return f"{family.shown}{parameter} regression ({family.link} link)"
    return type(model).__name__

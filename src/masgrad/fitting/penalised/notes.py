"""What a result says of its penalty, and the record without intervals after it."""

from dataclasses import replace

import numpy as np

from masgrad.data.regression import offset_of
from masgrad.errors import IdentificationWarning, say
from masgrad.fitting.fitted import NO_TARGET, FitInfo, Fitted
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.method import Shrunken
from masgrad.fitting.penalised.optimum.over_reads import Optimum
from masgrad.fitting.penalised.optimum.steps import squared_unit
from masgrad.fitting.penalised.path import PenaltyPath
from masgrad.fitting.sources import Sample
from masgrad.fitting.status import Status
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.diagnostics import Diagnostic, Diagnostics
from masgrad.fitting.uncertainty.likelihood import of_observations
from masgrad.penalties.penalty import Penalty, Scaled


def without_intervals(
    task: Task,
    objective: Objective,
    reader: Reader,
    sample: Sample,
    shrunken: Shrunken,
    why: str,
) -> Fitted:
    """The record of a penalised estimate alone, with a warning: every error is infinite."""
    words, advice = f"No intervals: {why}.", Status.PENALISED_ONLY.message
    say(IdentificationWarning, f"{words} {advice[0].upper()}{advice[1:]}")
    found: Optimum = shrunken.found
    local, p = found.local_model, len(shrunken.theta)
    kept = of_observations(local, task.options, reader.monitor.interrupted)
    remainder = float(np.sqrt(2 * found.fall / squared_unit(objective, local) / p))
    return Fitted(
        model=task.model,
        theta=shrunken.theta,
        cov=np.zeros((p, p)),
        nobs=local.rows,
        names=task.source.names,
        cov_type="none",
        fit_info=FitInfo(shrunken.reads, reader.monitor.rows_per_second, 0.0, remainder, np.inf),
        coordinates=objective.coordinates,
        local_model=replace(kept, meat=np.zeros((p, p)), constants=np.full(2, np.nan)),
        null_directions=np.eye(p),
        not_identified=np.ones(p, bool),
        status=Status.INTERRUPTED if reader.monitor.interrupted else Status.PENALISED_ONLY,
        terms=task.terms,
        kind=task.model.in_words,
        target=NO_TARGET,
        diagnostics=Diagnostics((Diagnostic("identification", False, words),)),
        has_offset=offset_of(sample.rows) is not None,
    )


def on_penalty(penalty: Penalty, theta: np.ndarray) -> str:
    """How many coefficients the penalty left."""
    return f"Penalty {penalty!r}: result.penalized_params have {penalty.left(theta)}."


def on_top(space: PenaltyCoordinates, found: Optimum) -> str:
    """That lam is so large that everything is 0, if it is."""
    penalty = space.penalty
    if not isinstance(penalty, Scaled) or space.value(found.psi) != 0 or not penalty.lam > 0:
        return ""
    local = found.local_model
    top = penalty.largest(local.gradient * space.unit / local.count)
    return f" lam is at or above lam_max = {top:.4g}, from which on all penalised ones are 0."


def on_choice(path: PenaltyPath | None) -> str:
    """How lam was chosen, if it was."""
    if path is None:
        return ""
    how = {"cv": "5-fold cross-validation"}.get(path.criterion, path.criterion.upper())
    words = f" lam = {path.lam:.4g} was chosen by {how} from {len(path.lams)} (result.path)"
    if path.stopped:
        words += ", when Ctrl-C cut the path short"
    elif path.chosen == len(path.lams) - 1 and len(path.lams) > 1:
        words += ", the smallest that was tried: a better one may lie below"
    return words + "."

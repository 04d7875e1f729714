"""The warnings of a fit: messages of statuses, with details (which column, how far)."""

import numpy as np

from masgrad.errors import (
    AccuracyWarning,
    IdentificationWarning,
    InterruptedWarning,
    OrderWarning,
    PerfectFitWarning,
    SeparationWarning,
    say,
)
from masgrad.fitting.identification.rank import NullSpace, label
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.sources import Sample
from masgrad.fitting.status import LARGEST_REMAINDER, Status, base_level_advice, is_far
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.covariance import Uncertainty
from masgrad.fitting.uncertainty.diagnostics import where_empty

LARGEST_RESIDUAL_SHIFT, LARGEST_RESIDUAL_SHIFT_AFTER_PRIOR = 1.0, 0.3
"""Change of a residual, in units of its noise, since M was summed, without a warning."""

NEIGHBOURS = (
    ". If neighbouring rows belong together, such as repeated measurements, intervals for "
    "independent rows are too short: name what they share, clusters='person'"
)


def warn(
    task: Task,
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    found: Uncertainty,
) -> None:
    """Give the warnings of a fit: messages of statuses, with details."""
    _warn_not_identified(task, found.null, where_empty(reader, found))
    if found.perfect:
        say(PerfectFitWarning, Status.PERFECT_FIT.message)
    if reader.monitor.interrupted:
        say(
            InterruptedWarning,
            f"stopped by Ctrl-C in read {done.reads}: the result is about the "
            f"{found.local_model.rows:,} rows that it had seen",
        )
        return
    if not found.null.size:
        dependent = found.meat is not None and found.meat.is_dependent
        _warn_order(reader, sample, done, found.drift, dependent)
        _warn_shift(objective, done)
    rest = "the other rows" if found.null.is_separated else "these rows"
    partly = found.null.is_separated and found.null.size < len(done.local_model.point)
    partly = partly and not done.one_step
    if (partly or not found.null.size) and is_far(task.options, objective, reader, done):
        say(
            AccuracyWarning,
            f"after {done.reads} read{'s' * (done.reads > 1)} the estimate may still be "
            f"{done.remainder:.2g} standard errors from the optimum of {rest}",
        )


def _warn_not_identified(task: Task, null: NullSpace, where: str) -> None:
    """Warn of the directions without an estimate; `where` says where empty columns are 0."""
    names, advice = task.source.names, base_level_advice(task, null)
    columns = ", ".join(label(names, j) for j in np.flatnonzero(null.separated))
    if null.is_separated:
        say(
            SeparationWarning,
            f"the responses are separated along {columns}: {Status.SEPARATED.message}"
            + (f"; {advice}" if advice else ""),
        )
    if null.is_undecided:
        along = f"; no information is left along {columns}" if columns else ""
        say(SeparationWarning, f"{Status.SEPARATION_UNDECIDED.message}{along}")
    if null.flat.size:
        p, k = null.flat.shape
        say(
            IdentificationWarning,
            f"the loss is flat in {k} of {p} directions of theta: parameters "
            "that move along them are not identified (standard error inf); functions that do not "
            "depend on them are: result.law.push(function)",
        )
    if len(null.empty):
        columns = ", ".join(label(names, j) for j in null.empty)
        say(
            IdentificationWarning,
            f"column {columns} is {where}: its coefficient is not estimable (NaN); drop it",
        )


def _warn_order(
    reader: Reader, sample: Sample, done: Estimate, drift: float, dependent: bool
) -> None:
    if done.score_statistic > DRIFT_LIMIT and done.remainder > LARGEST_REMAINDER:
        say(
            OrderWarning,
            f"the first rows pull {done.score_statistic:.0f} standard deviations away from the "
            f"estimate: {Status.UNREPRESENTATIVE.message}",
        )
    elif drift > DRIFT_LIMIT and not sample.complete and reader.source.ordered:
        kept = "rows that were kept make up for that, as far as the remainder says"
        made_up = kept if done.reads == 1 else "correcting reads make up for that"
        say(
            OrderWarning,
            f"the rows are not in a random order: gradients drift {drift:.0f} standard deviations "
            f"more than they would; {made_up}" + ("" if dependent else NEIGHBOURS),
        )


def _warn_shift(objective: Objective, done: Estimate) -> None:
    shift, alone = done.max_residual_shift, objective.prior is None
    if shift > (LARGEST_RESIDUAL_SHIFT if alone else LARGEST_RESIDUAL_SHIFT_AFTER_PRIOR):
        say(
            AccuracyWarning,
            f"some row's residual moved by {shift:.2g} times its noise since it was read: "
            "standard errors may be off; let all rows be read together, and twice",
        )

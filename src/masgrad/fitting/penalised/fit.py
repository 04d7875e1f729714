"""A fit with a penalty: the penalised estimate, and intervals after it. One pipeline for all.

1. The penalised optimum of all rows, at a lam that may be chosen on a path: `penalized_params`.
2. The estimate without the penalty, from there, with its sandwich: `params`, `conf_int`. An
   interval around the penalised optimum would be about another target than theta*.
3. If the data alone do not identify theta (N <= p, collinear columns, separated responses), what
   can be said of the penalised estimate alone.

Quadratic penalties (`smooth.py`) and those with kinks (`kinks.py`) fill these stages. Robust errors
after a penalty are HC1.
"""

from dataclasses import replace
from typing import Any

from masgrad.data.groupings.grouping import with_role
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.assemble import assemble
from masgrad.fitting.fit import reading
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.kinks import KinkedPenalty
from masgrad.fitting.penalised.method import NoEstimate
from masgrad.fitting.penalised.path import PenaltyPath
from masgrad.fitting.penalised.smooth import SmoothPenalty
from masgrad.fitting.status import Status
from masgrad.fitting.task import Task, check_task
from masgrad.penalties.separable import ElasticNet
from masgrad.progress import Progress

NOT_CONVEX = "the penalised fit needs a convex loss"


def fit_penalised(task: Task) -> Fitted:
    """The penalised estimate, and intervals after it if the data allow them."""
    check_penalised(task)
    smooth = is_smooth(task.options.penalty)
    bar = Progress(None, task.options.progress if smooth else False, "rows")
    with reading(task, bar, NOT_CONVEX, smooth and task.is_single) as (reader, sample, rng):
        if smooth:
            method = SmoothPenalty.of(task, reader, sample, rng)
        else:
            method = KinkedPenalty.of(task, reader, sample)
        shrunken = method.shrink()
        try:
            done, reader, sample = method.without_penalty(shrunken)
            debiased = replace(task, options=_debiased(task))
            record = assemble(debiased, method.objective, reader, sample, done)
            note = f"{shrunken.note} Estimates and intervals are without it."
        except (NoEstimate, IdentificationError) as error:
            record, note = method.alone(shrunken, str(error)), shrunken.note
    path = shrunken.path
    stopped = path is not None and path.stopped
    return replace(
        record,
        penalized=shrunken.theta,
        path=path,
        status=Status.INTERRUPTED if stopped else record.status,
        notes=(note, *record.notes),
    )


def _debiased(task: Task) -> Options:
    """The options of the estimate without the penalty: robust errors of single rows are HC1."""
    options = task.options
    alone = options.cov_type == "robust" and not with_role(task.source.groupings, "clusters")
    return replace(options, cov_type="HC1") if alone else options


def penalty_path_of(task: Task, count: int) -> PenaltyPath:
    """The path alone, to the penalty's lam or by its criterion."""
    check_penalised(task)
    with reading(task, Progress(None, False), NOT_CONVEX, single=False) as (reader, sample, _):
        return KinkedPenalty.of(task, reader, sample).walk(count)[0]


def is_smooth(penalty: Any) -> bool:
    """Whether a penalty is quadratic."""
    return isinstance(penalty, ElasticNet) and bool(penalty.smooth)


def check_penalised(task: Task) -> None:
    """Refuse what cannot be penalised."""
    options, name = task.options, type(task.model).__name__
    if task.model.several_optima:
        raise InputError(
            f"penalty={options.penalty} needs a convex loss, and that of {name} is not; run "
            "mg.madprox, or add the penalty to the loss"
        )
    if not task.source.rereadable:
        raise InputError(
            "a penalised fit reads the rows more than once, and an iterator can be read once; give "
            "mg.Stream(function) with a function that starts it anew"
        )
    if options.method == "chains":
        raise InputError("method='chains' is not for penalised fits; leave it out")
    if options.cov_type == "HC3":
        raise InputError(
            "a penalised fit has the cov_type 'robust', 'HC0', 'HC1' or 'nonrobust', not 'HC3'"
        )
    check_task(task)

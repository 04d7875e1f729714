"""How a fit ended: one enumeration, whose message is the advice.

    result.status                 Status.SEPARATED
    result.status.message         "the likelihood rises for ever in some direction, ..."

Warnings, notes and diagnostics add details (which column, how far) and nothing else. If several
statuses apply, the first in the order of the enumeration is the result's.
"""

import enum
from collections.abc import Sequence

import numpy as np

from masgrad.fitting.identification.rank import SMALL_NULL_LOADING, NullSpace
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.options import Options
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.covariance import Uncertainty

LARGEST_REMAINDER = 0.1
"""Bound on the remainder, in standard errors, of a single read or an update without a warning."""


class Status(enum.Enum):
    """How a fit ended: the value in a few words, and `message`, the advice.

    Example:
        >>> import masgrad as mg
        >>> mg.Status.CONVERGED.value, mg.Status("separated").name
        ('converged', 'SEPARATED')
    """

    message: str

    INTERRUPTED = (
        "interrupted",
        "the fit was stopped by Ctrl-C: estimates are about the rows read so far (nobs), and what "
        "was to be computed after that is missing; fit again for all of it",
    )
    SUMS_ALONE = (
        "sums at a point",
        "these are sums over rows at a point that was given, and no estimate: merge them with "
        "results of other rows, r.merge(this)",
    )
    PENALISED_ONLY = (
        "penalised without intervals",
        "the data alone do not determine every coefficient: params are penalized_params, and their "
        "standard errors inf; use more rows, or drop columns",
    )
    PENALISED_TARGET = (
        "about the penalised optimum",
        "the data alone do not determine every coefficient, the penalty does: estimates and "
        "intervals are about the penalised optimum",
    )
    SEPARATED = (
        "separated",
        "the likelihood rises for ever in some direction, which has no estimate and no interval; "
        "other coefficients are those of the rows that are not separated; drop the column, join "
        "categories, or use a penalty such as mg.L2",
    )
    SEPARATION_UNDECIDED = (
        "separation undecided",
        "the likelihood may rise for ever in some direction: neither an optimum nor such a "
        "direction was found in a bounded search; let the rows be read twice (an iterator as "
        "mg.Stream), drop rare columns, join categories, or use a penalty such as mg.L2",
    )
    NOT_IDENTIFIED = (
        "not identified",
        "the data say nothing about some direction of theta (standard error inf or nan); drop the "
        "column, or ask for what is identified: result.contrast, result.law.push",
    )
    PERFECT_FIT = (
        "perfect fit",
        "every response is fitted to rounding: standard errors are 0, and z and p-values mean "
        "nothing (nan); is the response constant, or computed from the columns?",
    )
    UNREPRESENTATIVE = (
        "first rows unlike the others",
        "a single read relies on its first rows, and they do not represent the others: the rows "
        "are not in a random order, a column is rare or has heavy tails, or the responses are "
        "separated; let the rows be read twice (an iterator as mg.Stream), or shuffle them",
    )
    READS_USED_UP = (
        "reads used up",
        "the estimate may be further from the optimum of these rows than was asked for "
        "(fit_info.remainder, in standard errors); allow more reads (passes='auto' or 'converge'; "
        "an iterator as mg.Stream), or fit old and new rows together",
    )
    MERGED_ROUGHLY = (
        "merged roughly",
        "what the local models of the shards miss may matter (fit_info.remainder, in standard "
        "errors): take the sums of every shard at this result, at=result, and merge those",
    )
    APPROXIMATE = (
        "approximate",
        "the estimate is near the optimum of these rows: fit_info.remainder bounds how near, in "
        "standard errors; let all rows be read together, and twice, for more",
    )
    ONE_STEP = (
        "one step",
        "the estimate without the penalty is one step from a penalised optimum, and not an optimum "
        "itself: fit_info.remainder is what another step would move, in standard errors",
    )
    CONVERGED = (
        "converged",
        "the estimate is at the optimum of these rows: fit_info.remainder bounds how near, in "
        "standard errors",
    )

    def __new__(cls, value: str, message: str) -> "Status":
        self = object.__new__(cls)
        self._value_, self.message = value, message
        return self

    def __str__(self) -> str:
        return self.value

    @property
    def ok(self) -> bool:
        """Whether the fit ended as it should, so that no view repeats the message."""
        return self in (Status.CONVERGED, Status.ONE_STEP)


def first_of(*found: Status | None) -> Status:
    """The status that stands first in the enumeration; CONVERGED if there is none."""
    return next((status for status in Status if status in found), Status.CONVERGED)


def is_far(options: Options, objective: Objective, reader: Reader, done: Estimate) -> bool:
    """Whether the predicted remainder is beyond what was asked for."""
    many_reads = options.open_ended and reader.source.rereadable
    exact = many_reads and objective.prior is None and not done.one_step
    return done.remainder > (10 * options.tolerance if exact else LARGEST_REMAINDER)


def status_of(
    options: Options, objective: Objective, reader: Reader, done: Estimate, found: Uncertainty
) -> Status:
    """How a fit ended."""
    far = is_far(options, objective, reader, done)
    near = done.remainder <= 10 * options.tolerance or done.one_step
    one_step = done.one_step and done.remainder > options.tolerance
    return first_of(
        Status.INTERRUPTED if reader.monitor.interrupted else None,
        Status.SEPARATED if found.null.is_separated else None,
        Status.SEPARATION_UNDECIDED if found.null.is_undecided else None,
        Status.NOT_IDENTIFIED if found.null.size else None,
        Status.PERFECT_FIT if found.perfect else None,
        Status.UNREPRESENTATIVE if _is_unrepresentative(reader, done, found) else None,
        Status.READS_USED_UP if far else None,
        None if near else Status.APPROXIMATE,
        Status.ONE_STEP if one_step else None,
    )


def _is_unrepresentative(reader: Reader, done: Estimate, found: Uncertainty) -> bool:
    """Whether the first rows of a single read do not represent the others, and that matters."""
    drifts = reader.source.ordered and found.drift > DRIFT_LIMIT
    unlike = done.score_statistic > DRIFT_LIMIT or (done.single_read and drifts)
    return unlike and done.remainder > LARGEST_REMAINDER


def on_locality(task: Task, linear: bool) -> str:
    """What an estimate is about if the loss is not known to be convex."""
    known = "one of several" if task.model.several_optima else "of a loss that need not be convex"
    others = "" if linear else " mg.landscape looks for others."
    return (
        f"Local: about the optimum that was found, {known}; valid where the landscape is strongly "
        f"Morse there (H positive definite).{others}"
    )


def base_level_advice(task: Task, null: NullSpace) -> str:
    """What to do if every row of a category's base level is separated; "" if none is so.

    All other levels are measured from the base level, and are infinite with it.
    """
    names, terms = task.source.names, task.terms
    if terms is None or not null.is_separated or "Intercept" not in names:
        return ""
    from masgrad.data.formula.terms import Number

    said = []
    for category in terms.factors.values():
        if isinstance(category, Number) or ((category.name, True),) not in terms.products:
            continue
        labels = category.labels(True)
        free = [
            k
            for k, a in zip(category.kept(True), labels, strict=True)
            if not _is_null(null, names, [a])
        ]
        if free and _is_null(null, names, ["Intercept"], labels):
            base, other = category.levels[category.base], category.levels[free[0]]
            said.append(
                f"every row of {category.column} = {base!r} is separated, the level from which the "
                f"others are measured: with C({category.column}, Treatment({other!r})) fewer "
                "coefficients are infinite"
            )
    return "; ".join(said)


def _is_null(
    null: NullSpace, names: tuple[str, ...], down: list[str], up: Sequence[str] = ()
) -> bool:
    """Whether only separated rows see the direction -1 in some coefficients and 1 in others."""
    wanted = np.isin(names, up).astype(float) - np.isin(names, down)
    basis = null.coordinates.matrix @ null.recession
    nearest = basis @ np.linalg.lstsq(basis, wanted)[0]
    return bool(np.linalg.norm(nearest - wanted) <= SMALL_NULL_LOADING)

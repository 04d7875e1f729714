"""New rows after old ones: the old rows enter as their local quadratic model.

    minimise   Q_old(phi) + sum over new rows of their loss

Q_old is the cubic model of the old rows (`ThirdOrder`), each batch of them expanded at the estimate
after it. What it misses at the new estimate is of fourth order, or sampling error of third-order
terms that were summed over a part of the rows. Its size is known from sums over the old rows.

Beyond `MOST_COLUMNS` parameters Q_old is quadratic; what it misses is measured on the new rows, as
for any other part, and counted as remainder as a whole.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.checkpoints.digest import digest
from masgrad.data.regression import with_design
from masgrad.data.source import Arrays, Source
from masgrad.errors import AccuracyWarning, InputError, InputTypeError, say
from masgrad.fitting.fit import fit_source
from masgrad.fitting.fitted import AT_POINT, PENALISED_OPTIMUM, Fitted, with_omitted
from masgrad.fitting.journal.journal import Journal
from masgrad.fitting.journal.opening import journal_of, kept
from masgrad.fitting.keywords import options_of
from masgrad.fitting.later_rows import missed_by_cubic
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.options import CLUSTERED, KEYWORDS, SERIAL, Options
from masgrad.fitting.results.estimates import labels_of
from masgrad.fitting.results.prediction import check_offset
from masgrad.fitting.sources import as_source, check_bad_rows
from masgrad.fitting.spread.engine import engine_for, engine_of, read_by_workers
from masgrad.fitting.status import Status, first_of
from masgrad.fitting.task import Earlier, Task
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.stores.path import located
from masgrad.types import float64

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms

UPDATE_KEYWORDS = [name for name in KEYWORDS if name not in ("penalty", "formula", "at")]

LASTING_TYPES = ("HC1", "nonrobust", *CLUSTERED)
"""Covariances that new rows get as the old ones had them."""

LASTING = (Status.INTERRUPTED, Status.UNREPRESENTATIVE)
"""Ends of the old fit that new rows do not mend."""

LARGEST_UPDATE_REMAINDER = 0.1
"""Remainder of an update, in standard errors, above which its status and a warning say so."""

NOT_PENALISED = (
    "The penalty was not updated: its optimum would move with these rows, and penalized_params are "
    "none; fit all rows together for them."
)

FROM_PENALISED = (
    "H and M of the old rows are those at a penalised estimate, from which theirs was one step: "
    "errors may be several per cent off."
)


@float64
def updated(old: Fitted, data: Any, keywords: dict[str, Any]) -> Fitted:
    """The record for old and new rows together."""
    model = _check_old(old)
    options = options_of("update", _lasting(old, keywords) | keywords, UPDATE_KEYWORDS)
    _check_options(old, model, options)
    earlier = digest([old.theta, old.nobs, old.local_model.hessian])
    call = {"earlier": earlier, "engine": engine_for(options, data)}
    journal = journal_of("update", model, data, options, **call)
    with engine_of(options, data) as (here, client), kept(journal):
        return _updated(old, model, data, here, client, journal)


def _updated(
    old: Fitted, model: Model, data: Any, options: Options, client: Any, journal: Journal
) -> Fitted:
    left_out, data = options.left_out, located(data, options.storage_options)
    carried = {**options.roles, "groups": options.groups, "left_out": left_out, "client": client}
    terms = None if old.terms is None else _without_times(old.terms, options)
    if terms is not None:
        from masgrad.data.table_source import table_source

        check_bad_rows(data, left_out)
        reading = (options.memory, options.block_size)
        source, seen = table_source(data, terms, *reading, **carried)
        source, terms = source.named(old.names), replace(terms, factors=seen.factors)
    else:
        source, _ = as_source(model, data, None, options.memory, options.block_size, **carried)
    check_offset(old, options.offset, options.exposure)
    earlier = Earlier(old.coordinates, old.clusters, old.serial)
    source = _in_old_order(old, source)
    journal.follow(source, left_out)
    if client is not None:
        source = read_by_workers(source, left_out, data, journal)
    task = Task(model, source, terms, options, earlier, left_out, journal)
    new = fit_source(task, old.coordinates, _marked(old.local_model))
    _check_clusters(old, new)
    info = replace(new.fit_info, remainder=_remainder(old, new))
    ending = old.status if old.status in LASTING else None
    status = first_of(new.status, ending, *_distance(info.remainder, options))
    if info.remainder > LARGEST_UPDATE_REMAINDER >= new.fit_info.remainder:
        say(
            AccuracyWarning,
            f"the estimate may be {info.remainder:.2g} standard errors from the optimum of old and "
            "new rows together; fit them together",
        )
    new = replace(new, fit_info=info, status=status, notes=(*_notes(old, new), *new.notes))
    return with_omitted(new, left_out, old.omitted)


def _marked(local: LocalModel) -> LocalModel:
    """The same model, whose marks are NaN if none are known, and stay so in sums."""
    known = len(local.constants) > 2
    return local if known else replace(local, constants=np.append(local.constants, np.nan))


def _lasting(old: Fitted, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords of the old rows that new ones get as well, where the call says nothing."""
    lasting = old.cov_type in LASTING_TYPES or (old.serial is not None and old.serial.kept)
    same: dict[str, Any] = {"cov_type": old.cov_type if lasting else "robust"}
    if old.clusters is not None:
        same["small_sample"] = old.clusters.small_sample
    if old.serial is not None and (same | keywords)["cov_type"] in SERIAL:
        same |= old.serial.keywords
    return same


def _without_times(terms: "Terms", options: Options) -> "Terms":
    """The terms without times and units, if these errors have no use for them."""
    if options.cov_type in SERIAL:
        return terms
    groups = tuple(group for group in terms.groups if group.role not in ("time", "unit"))
    return replace(terms, groups=groups)


def _remainder(old: Fitted, new: Fitted) -> float:
    """Bound on the distance to the optimum of old and new rows, in standard errors.

    It has what reads left, of old rows and of new ones; what the cubic models of all batches miss
    at the new estimate; and what of the last cubic was not followed, after a long step.
    """
    before, after = old.local_model, new.local_model
    left = max(old.fit_info.remainder - missed_by_cubic(before), 0.0)
    growth = np.trace(np.linalg.lstsq(after.meat, before.meat, rcond=None)[0]) / len(after.point)
    left *= np.sqrt(np.clip(growth, 0.0, 1.0))
    step = after.point - before.point
    not_followed = 0.0
    if before.third is not None:
        bend = (1 - before.bend_share(step)) * (before.third.hessian @ step)
        not_followed = largest_shift(new, after.solve(bend @ step / 2))
    return new.fit_info.remainder + left + missed_by_cubic(after) + not_followed


def largest_shift(fitted: Fitted, step: np.ndarray) -> float:
    """A shift of phi in standard errors: of the worst coefficient, or over contrasts."""
    local, coordinates = fitted.local_model, fitted.coordinates
    se = np.sqrt(np.diag(coordinates.cov(local.sandwich())))
    each = np.abs(coordinates.theta(step)) / np.where(se > 0, se, np.inf)
    return max(float(each.max()), local.rms_wald_norm(step))


def _distance(remainder: float, options: Options) -> tuple[Status | None, ...]:
    """What the remainder of old and new rows together says."""
    return (
        Status.READS_USED_UP if remainder > LARGEST_UPDATE_REMAINDER else None,
        Status.APPROXIMATE if remainder > 10 * options.tolerance else None,
    )


def _check_old(old: Fitted) -> Model:
    """The model of the old rows, if they can be represented by their local model."""
    if old.model is None:
        raise InputTypeError(
            "this result was loaded without its loss; give mg.load(path, model=...)"
        )
    if old.target == AT_POINT:
        raise InputError(
            "this result has sums at a point and no estimate; merge it with others first, "
            "r.merge(this), and update what that gives"
        )
    if old.target == PENALISED_OPTIMUM:
        raise InputError(
            "this estimate is about the penalised optimum, which other rows would move; fit all "
            "rows together"
        )
    if old.not_identified.any():
        raise InputError(
            f"{labels_of(old)[int(np.argmax(old.not_identified))]} has no estimate, so that the "
            "old rows cannot stand as a local model; fit all rows together"
        )
    return old.model


def _check_options(old: Fitted, model: Model, options: Options) -> None:
    if old.cov_type in CLUSTERED and old.clusters is None and options.cov_type in CLUSTERED:
        raise InputError(
            "the file of this result has no sums by cluster, which were too many, so that scores "
            "of clusters that go on cannot be added to; fit all rows together"
        )
    other_link = isinstance(model, GLM) and not model.family.canonical
    if options.cov_type == "nonrobust" and other_link and old.local_model.information is None:
        raise InputError(
            "the old rows were fitted without the expected information that cov_type='nonrobust' "
            "needs; fit them again"
        )
    kinds = {old.weights_type, options.weights_type} - {"frequency"}
    if kinds:
        raise InputError(
            f"update adds frequencies, and weights_type={kinds.pop()!r} are none; fit old and new "
            "rows together"
        )
    if options.cov_type in SERIAL and (old.cov_type != options.cov_type or old.serial is None):
        raise InputError(
            f"cov_type={options.cov_type!r} needs the scores of the old rows, which were fitted "
            f"with cov_type={old.cov_type!r} and kept none; fit all rows together, or use 'robust'"
        )
    if options.cov_type == "HC3" or options.method == "chains":
        raise InputError(
            "update keeps no old rows, which HC3 and chains need; use 'robust' or 'HC1'"
        )


def _check_clusters(old: Fitted, new: Fitted) -> None:
    """Refuse clusters of the new rows alone, and keys that cannot be those of the old ones.

    Errors would leave out the scores of the old rows, or take their clusters for others.
    """
    if new.clusters is None:
        return
    if old.clusters is not None:
        _check_keys(old.clusters, new.clusters)
        return
    raise InputError(
        "the clusters of the old rows are not known, since they were fitted without; fit old and "
        "new rows together, or update with cov_type='robust' and without clusters"
    )


def _check_keys(old: Clustered, new: Clustered) -> None:
    """Refuse text where the old keys were numbers, and the other way round."""
    for before, after in zip(old.single, new.single, strict=True):
        kinds = [{isinstance(key, str) for key in way.keys} for way in (before, after)]
        if len(kinds[0]) < len(kinds[1]):
            was, now = ("text", "numbers") if True in kinds[0] else ("numbers", "text")
            raise InputError(
                f"the keys of {before.names[0]} were {was} in the old rows and are {now} in these, "
                "so that none would be the same; convert these"
            )


def _notes(old: Fitted, new: Fitted) -> list[str]:
    notes = []
    if old.penalized is not None:
        one_step = old.status is Status.ONE_STEP
        notes += [FROM_PENALISED, NOT_PENALISED] if one_step else [NOT_PENALISED]
    if old.cov_type not in (new.cov_type, "HC0"):
        notes.append(f"{old.cov_type} needs the old rows: these errors are {new.cov_type}.")
    return notes


def _in_old_order(old: Fitted, source: Source) -> Source:
    """New rows with the columns of the old ones, in their order."""
    if not isinstance(source, Arrays) or not isinstance(old.model, GLM) or old.terms:
        return source
    X = source.rows[0]
    if X.shape[1] != len(old.theta):
        raise InputError(f"X has shape {X.shape}; the old rows had {len(old.theta)} columns")
    if not (old.names and source.names):
        return source
    missing = [name for name in old.names if name not in source.names]
    if missing:
        raise InputError(f"X has no column {missing[0]!r}, which the old rows had")
    rows = with_design(source.rows, X[:, [source.names.index(name) for name in old.names]])
    return Arrays(rows, old.names, source.block, source.real, source.kept, source.groupings)

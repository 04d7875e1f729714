"""The sums of a shard at a point that is given: `fit(..., at=)`.

A shard that lacks a level, or separates the responses of one, has no estimate of its own; its sums
at a point still say all of it that a merge needs. In a second round every shard gives its sums at
the merged estimate, from which one more step is as good as the optimum of all rows.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.regression import offset_of
from masgrad.data.source import Source
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.fit import NO_MINIMUM, coordinates_for, objective_of, reading, sample_for
from masgrad.fitting.fitted import AT_POINT, FitInfo, Fitted
from masgrad.fitting.later_rows import third_order_terms
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.clusters.reading import cluster_ways
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import CLUSTERED, SERIAL, Options
from masgrad.fitting.sources import Sample, as_source, check_bad_rows
from masgrad.fitting.status import Status
from masgrad.fitting.task import Task, check_task
from masgrad.fitting.uncertainty.clusters.meat import keeps_hessians
from masgrad.fitting.uncertainty.kinds import observations
from masgrad.fitting.uncertainty.likelihood import of_observations
from masgrad.fitting.uncertainty.meat import kind_of
from masgrad.models.model import Model
from masgrad.progress import Progress

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms

SUMS = Parts(constants=True)
"""Of one read: gradient, H, M, loss, X^2, and the likelihood's constants."""


def source_at(
    model: Model,
    data: Any,
    options: Options,
    client: Any,
    remember: Callable[[str, Callable[[], Any]], Any],
) -> "tuple[Source, Terms | None]":
    """The rows, with the columns of the result at which sums are taken, if it has a formula."""
    at, formula = options.at, options.formula
    about: dict[str, Any] = {"groups": options.groups, "left_out": options.left_out}
    about |= {"client": client, "remember": remember}
    reading_as = (options.memory, options.block_size)
    if formula is None or not isinstance(at, Fitted) or at.terms is None:
        return as_source(model, data, formula, *reading_as, **options.roles, **about)
    from masgrad.data.table_source import table_like  # pyarrow

    check_bad_rows(data, options.left_out)
    return table_like(data, formula, at.terms, *reading_as, options.roles, **about)


def sums_at(task: Task) -> Fitted:
    """The record of the sums over all rows at the point of `at`."""
    _check(task)
    check_task(task)
    bar = Progress(task.source.count, task.options.progress, "rows")
    with reading(task, bar, NO_MINIMUM, single=False) as (reader, sample, _):
        theta = _point(task, sample)
        coordinates, _, reads = coordinates_for(task, reader, sample, None, None)
        objective = objective_of(task, coordinates)
        sample = sample_for(objective, sample)
        phi = coordinates.phi(theta)
        if sample.complete:
            local = reader.read_sample(objective, phi, sample, SUMS)
        else:
            local = reader.read(objective, phi, SUMS)
        clusters = _clusters(task, objective, reader, sample, local)
        if reader.monitor.interrupted:
            raise KeyboardInterrupt
        drift = reader.monitor.drift(objective.gradient_noise(local, sample.design_effect))
        random = sample.complete or not (reader.source.ordered and drift > DRIFT_LIMIT)
        third = third_order_terms(objective, local, sample, random)
        reads += 1 + (clusters is not None and not sample.complete)
        info = FitInfo(reads, reader.monitor.rows_per_second, 0.0, 0.0, local.condition)
        kind = kind_of(task.options.cov_type, reader.source)
        record = _record(task, coordinates, theta, third, info, clusters)
    return replace(record, cov_type=kind, has_offset=offset_of(sample.rows) is not None)


def _check(task: Task) -> None:
    """Refuse what belongs to estimates."""
    options, terms = task.options, task.terms
    asked = {
        "a penalty": options.penalty is not None,
        "method='chains'": options.method == "chains",
        f"cov_type={options.cov_type!r}": options.cov_type in ("HC3", *SERIAL),
        "start=": options.start is not None or options.starts is not None,
        "fixed effects": terms is not None and bool(terms.effects),
        "a category of so many levels": terms is not None and bool(terms.large),
        "an iterator, which is read once (mg.Stream can be read again)": (
            not task.source.rereadable
        ),
    }
    for what, there in asked.items():
        if there:
            raise InputError(
                f"at= takes the sums of the rows at a point, to be merged, and has no place for "
                f"{what}; leave one of them out"
            )


def _point(task: Task, sample: Sample) -> np.ndarray:
    """theta, of an array, a dictionary by names, or a result, (p,)."""
    at, names = task.options.at, task.source.names
    if isinstance(at, str | Path):
        raise InputTypeError(f"at={str(at)!r} is a text; of a saved result give at=mg.load(path)")
    if isinstance(at, Fitted):
        unknown = ~np.isfinite(at.theta)
        if unknown.any():
            j = int(np.argmax(unknown))
            raise InputError(
                f"at= has no finite value of {at.names[j] if at.names else f'theta[{j}]'}; merge "
                "the shards that have one first, and give that result"
            )
        if not (names and at.names):
            return task.model.theta(at.theta, sample.rows)
        at = dict(zip(at.names, at.theta, strict=True))
    if not isinstance(at, dict) or not names:
        return task.model.theta(at, sample.rows)
    lacking, other = ([n for n in a if n not in b] for a, b in ((names, at), (at, names)))
    if lacking or other:
        what = f"no value of {lacking[0]!r}" if lacking else f"{other[0]!r}, which is no parameter"
        raise InputError(
            f"at= has {what}; the parameters are {', '.join(names[:10])}. Give all of them, or a "
            "result, by whose formula levels are united"
        )
    return task.model.theta([at[name] for name in names], sample.rows)


def _clusters(
    task: Task, objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> Clustered | None:
    """Sums by cluster at the point, if rows are clustered."""
    kind, options, p = kind_of(task.options.cov_type, reader.source), task.options, len(local.point)
    if kind not in CLUSTERED:
        return None
    keeps = keeps_hessians(reader, local, kind, options)
    ways = cluster_ways(objective, reader, sample, local.point, keeps)
    count = observations(local.count, local.rows, options)
    return Clustered(ways, options.small_sample, local.hessian, count, p, np.eye(p))


def _record(
    task: Task,
    coordinates: Coordinates,
    theta: np.ndarray,
    local: LocalModel,
    info: FitInfo,
    clusters: Clustered | None,
) -> Fitted:
    """The sums as a record; it has no covariance."""
    p = len(theta)
    return Fitted(
        model=task.model,
        theta=theta,
        cov=np.full((p, p), np.nan),
        nobs=local.rows,
        names=task.source.names,
        cov_type=task.options.cov_type,
        fit_info=info,
        coordinates=coordinates,
        local_model=of_observations(local, task.options, interrupted=False),
        null_directions=np.empty((p, 0)),
        not_identified=np.zeros(p, bool),
        status=Status.SUMS_ALONE,
        terms=task.terms,
        kind=task.model.in_words,
        target=AT_POINT,
        recession=np.empty((p, 0)),
        separated=np.zeros(p, bool),
        clusters=clusters,
        weights_type=task.options.weights_type,
    )

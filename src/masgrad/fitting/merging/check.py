"""Which results can be merged: those of one model, one kind of covariance, and disjoint rows."""

from collections.abc import Sequence

import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.fitted import AT_POINT, POPULATION, Fitted
from masgrad.fitting.options import SERIAL
from masgrad.fitting.status import Status
from masgrad.models.glm import GLM

WITH_AT = "take its sums at another result: mg.fit(..., at=result), or mg.glm(..., at=result)"

SAME = 1e-9
"""Relative difference up to which two sums over rows are the same."""

CANCELLED = 1e-13
"""Rounding of a sum whose terms cancel, relative to the sum of their weights."""


def check_mergeable(results: Sequence[Fitted], repeated: str) -> None:
    """Refuse results that do not belong together."""
    if repeated not in ("error", "keep"):
        raise InputError(f"repeated={repeated!r} is not known; use 'error' or 'keep'")
    if len(results) < 2:
        raise InputError("there is nothing to merge with; give one more result, r.merge(other)")
    for k, r in enumerate(results):
        if not isinstance(r, Fitted):
            raise InputTypeError(
                f"argument {k} of merge is {type(r).__name__}; results of mg.fit, mg.glm or "
                "mg.load are needed"
            )
        _check_one(r, k)
    for k, r in enumerate(results[1:], 1):
        _check_pair(results[0], r, k)


def _check_one(r: Fitted, k: int) -> None:
    """Refuse a result that cannot stand for its rows."""
    if r.status is Status.INTERRUPTED:
        raise InputError(f"result {k} was stopped by Ctrl-C, and lacks rows; fit that shard again")
    if hasattr(r, "effects"):
        raise InputError(
            f"result {k} has fixed effects, which belong to the rows of its shard; write levels as "
            "columns, C(g)"
        )
    if r.penalized is not None or r.target not in (POPULATION, AT_POINT):
        raise InputError(
            f"result {k} was fitted with a penalty, whose estimate other rows would move; fit the "
            "shards without one"
        )
    if r.model is not None and r.model.several_optima:
        raise InputError(
            f"result {k} is a {r.kind}, whose loss has several optima: shards may have found "
            "different ones; fit all rows together"
        )
    if r.cov_type in SERIAL:
        raise InputError(
            f"result {k} has cov_type={r.cov_type!r}, whose lags go from one shard's rows to "
            "another's; fit the shards with 'robust' or with clusters"
        )
    if r.recession.size or r.separated.any() or np.isinf(r.theta).any():
        raise InputError(
            f"result {k} is separated, so that its local model lacks the rows that are: {WITH_AT}"
        )
    flat = r.not_identified & ~np.isnan(r.theta)
    if flat.any():
        raise InputError(
            f"result {k} does not identify a parameter on which its rows depend: {WITH_AT}"
        )


def _check_pair(first: Fitted, other: Fitted, k: int) -> None:
    """Refuse results of different models, covariances and weights."""
    pairs = {
        "the model": (_model_of(first), _model_of(other)),
        "cov_type": (_kind_of(first), _kind_of(other)),
        "weights_type": (first.weights_type, other.weights_type),
        "small_sample": (_convention(first), _convention(other)),
        "clusters": (_groupings(first), _groupings(other)),
        "an offset": (_yes(first.has_offset), _yes(other.has_offset)),
    }
    for what, (here, there) in pairs.items():
        if here != there:
            raise InputError(
                f"results differ in {what}: {here} in result 0 and {there} in result {k}; fit all "
                "shards alike"
            )


def _model_of(r: Fitted) -> str:
    """The model in words, with the family's parameter."""
    if not isinstance(r.model, GLM):
        return r.kind
    parameter = r.model.family.parameter
    return r.kind if parameter is None else f"{r.kind}, parameter {parameter:g}"


def _kind_of(r: Fitted) -> str:
    return "robust" if r.cov_type == "HC0" else r.cov_type


def _convention(r: Fitted) -> str:
    return "none" if r.clusters is None else r.clusters.small_sample


def _groupings(r: Fitted) -> str:
    if r.clusters is None:
        return "sums by cluster that are not there" if r.cov_type.startswith("CR") else "none"
    return " and ".join(way.names[0] for way in r.clusters.single)


def _yes(there: bool) -> str:
    return "one" if there else "none"


def marks_of(r: Fitted, A: np.ndarray) -> np.ndarray:
    """Numbers by which the rows of a result, or of its shards, are known again, (K, 3 + p).

    None depends on the point at which sums were taken. Those of columns are of united columns,
    X A; NaN where a result of an earlier version has none.
    """
    if r.merged is not None:
        own = r.merged.marks
    else:
        local, columns = r.local_model, np.zeros(len(r.theta))
        found = local.constants[2:] if len(local.constants) > 2 else np.array([np.nan])
        columns[: len(found) - 1] = found[1:]
        own = np.concatenate([[local.rows, local.count, found[0]], columns])[None]
    return np.hstack([own[:, :3], own[:, 3:] @ A])


def check_disjoint(marks: np.ndarray, repeated: str) -> None:
    """Refuse two shards whose marks are the same: they are the same rows, or all but surely so."""
    if repeated == "keep":
        return
    for k, mark in enumerate(marks):
        size = np.maximum(np.abs(marks[:k]), np.abs(mark))
        same = (np.abs(marks[:k] - mark) <= SAME * size + CANCELLED * mark[2]).all(1)
        if same.any():
            raise InputError(
                f"shards {int(np.argmax(same))} and {k} have the same rows: {int(mark[0]):,} rows, "
                "and the same sums over them, if maybe at different points; give each shard once "
                "(of a second round its later sums alone), or say repeated='keep' if their rows "
                "are different ones"
            )

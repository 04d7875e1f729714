"""Predictions of a user's own function at new rows, with intervals by the delta method.

`CustomLoss(fn, dim, predict=f)` predicts f(theta, z), a number or an array. With J its derivative
in theta and C the covariance of the estimate,

    se^2 = J C J'        limits = f -+ c se

What depends on a direction of theta that is not identified has an infinite standard error.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.arrays import BLOCK, as_rows, blocks
from masgrad.data.shards.collections import is_dask_frame
from masgrad.data.tables.paths import is_dataset, is_frame, is_pandas, is_paths
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.results.missing import Missing
from masgrad.fitting.results.prediction import (
    INTERVAL,
    check_interval,
    critical_values,
    standard_errors,
)
from masgrad.types import Rows

if TYPE_CHECKING:
    import pandas as pd

Blocks = tuple[Iterable[Rows], Callable[[int], str]]
"""Blocks of rows, and the name of a row in messages."""


def predict_rows(result: Fitted, data: Any, interval: float | None, **others: Any) -> Any:
    """Predictions (N, ...), or with an interval a data frame; `others` belong to regressions."""
    check_interval(interval)
    model: Any = result.model
    if model.predictor is None:
        raise InputTypeError(
            f"{type(model).__name__} has no mean response to predict; say what is predicted, "
            "CustomLoss(..., predict=function), or use result.law.push"
        )
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name}={value!r:.40} is for regressions; leave it out")
    rows, place = _blocks(result, data)
    missing = Missing(result.names, None)
    with np.errstate(invalid="ignore", over="ignore"):
        parts = [_columns(result, block, interval, missing) for block in rows]
    missing.warn(place)
    if not parts:
        raise InputError("the data hold no rows; at least one row to predict is needed")
    columns = [np.concatenate(part) for part in zip(*parts, strict=True)]
    index = data.index if is_pandas(data) else None
    return columns[0] if interval is None else _frame(columns, index)


def _blocks(result: Fitted, data: Any) -> Blocks:
    """Blocks of new rows: columns of a table, X after a formula, or any pytree."""
    model: Any = result.model
    if result.terms is not None:
        from masgrad.data.table_source import predictors

        source = predictors(result.terms, data)
        return ((X,) for X, _ in source.blocks()), source.place
    if is_frame(data) or is_paths(data) or is_dataset(data) or is_dask_frame(data):
        from masgrad.data.column_source import open_columns

        medium, names = open_columns(data, model.columns_to_predict)
        return (dict(block) for block in medium.blocks(None, BLOCK, names, {})), medium.place
    return blocks(as_rows(data, finite=False)), "row {}".format


def _columns(
    result: Fitted, rows: Rows, interval: float | None, missing: Missing
) -> tuple[np.ndarray, ...]:
    """The predictions of a block and, with an interval, errors and limits: NaN without a value."""
    model: Any = result.model
    values, J = model.predictions(result.finite_theta, rows, interval is not None)
    known = values.reshape(len(values), -1)
    none = missing.see_rows(rows, ~np.isfinite(known).all(1))
    columns = [values]
    if J is not None and interval is not None:
        rows_of_J = J.reshape(-1, J.shape[-1])
        se = standard_errors(result, rows_of_J).reshape(values.shape)
        c = critical_values(result, rows_of_J, interval)
        c = c.reshape(values.shape) if np.ndim(c) else c
        columns += [se, values - c * se, values + c * se]
    shape = (-1, *(1,) * (values.ndim - 1))
    return tuple(np.where(none.reshape(shape), np.nan, column) for column in columns)


def _frame(columns: list[np.ndarray], index: Any) -> "pd.DataFrame":
    """A data frame: mean, se, lower, upper; of several numbers mean[0], se[0], ..., mean[1], ..."""
    import pandas as pd

    named = zip(("mean", *INTERVAL), columns, strict=True)
    shape = columns[0].shape[1:]
    if not shape:
        return pd.DataFrame(dict(named), index)
    pairs = list(named)
    found = {
        f"{name}[{','.join(map(str, place))}]": column[(slice(None), *place)]
        for place in np.ndindex(*shape)
        for name, column in pairs
    }
    return pd.DataFrame(found, index)

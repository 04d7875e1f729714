"""Columns of pandas data frames, as Arrow or NumPy has them.

Only tables of pandas and dictionaries of columns, which it turns into one, import this file.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from masgrad.data.groupings.keys import level_of
from masgrad.data.tables.levels import encode_it, not_numeric
from masgrad.data.tables.medium import (
    IN_MEMORY,
    as_numpy,
    is_number,
    whole,
)
from masgrad.errors import InputError, InputTypeError


def from_mapping(data: Mapping) -> pd.DataFrame:
    """A dictionary of columns as a data frame."""
    try:
        return pd.DataFrame(dict(data), copy=False)
    except ValueError as error:
        raise InputError(f"the columns do not make a table: {error}") from None


def column_of(frame: pd.DataFrame, name: str) -> tuple:
    """A column's values, its Arrow type, and the levels that pandas declares, if any."""
    column: Any = frame[name]
    if column.dtype == object:
        column = _from_objects(column, name)
    if isinstance(column.dtype, pd.PeriodDtype | pd.IntervalDtype):
        column = column.map(str, na_action="ignore")
    elif column.dtype == np.longdouble:
        column = column.astype(np.float64)
    kind, declared = column.dtype, None
    if kind.kind in "fiub" and not isinstance(kind, pd.CategoricalDtype):
        plain = isinstance(kind, np.dtype)
        values = column.to_numpy() if plain else column.to_numpy(np.float64, na_value=np.nan)
        numpy_kind = kind if plain else np.dtype({"b": "bool", "f": "f8"}.get(kind.kind, "i8"))
        return values, pa.from_numpy_dtype(numpy_kind), None
    if isinstance(kind, pd.CategoricalDtype):
        declared = [level_of(category) for category in kind.categories]
    try:
        column = column if declared is None else column.cat.rename_categories(declared)
        values = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        raise not_numeric(IN_MEMORY, name, kind) from None
    values = whole(values)
    if is_number(values.type):  # such as Arrow's decimals
        return as_numpy(values), values.type, None
    return values, values.type, declared


def _from_objects(column: pd.Series, name: str) -> pd.Series:
    """Convert a column of objects that are all text or all numbers."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("string", "empty", "date", "datetime", "datetime64", "time"):
        return column
    if kind in ("period", "interval"):
        return column.map(str, na_action="ignore")
    numbers = pd.Series(pd.to_numeric(column, errors="coerce"))
    text = np.array([isinstance(value, str) for value in column])
    wrong = (numbers.isna() & column.notna()).to_numpy() | text
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputTypeError(
            f"{IN_MEMORY}: column {name!r} mixes values: {column.iloc[row]!r:.40} at row {row} "
            "is not a number; convert the column to numbers, or all of it to text"
        )
    return numbers.astype(np.float64)


def numbers_in(frame: pd.DataFrame, chosen: Sequence[str]) -> np.ndarray:
    """Columns of numbers as a matrix; all of them without a copy where pandas has one block."""
    objects = [name for name in chosen if frame[name].dtype == object]
    frame = frame.copy(deep=False) if objects else frame
    for name in objects:
        frame[name] = _from_objects(pd.Series(frame[name]), name)
    for name in chosen:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise encode_it(name, frame[name].dtype)
    part = frame if list(frame.columns) == list(chosen) else frame[list(chosen)]
    return part.to_numpy(np.float64, na_value=np.nan)

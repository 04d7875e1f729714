"""Tables in memory: pandas itself, and whatever else narwhals understands, through Arrow.

Columns of numbers become NumPy arrays without a copy where they have no nulls; columns of
categories become codes once, four bytes a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from masgrad.data.source import Arrays
from masgrad.data.tables.levels import Lookup, encode, level_of
from masgrad.data.tables.medium import (
    Columns,
    Medium,
    as_numpy,
    check_columns,
    codes_of,
    is_number,
    not_numeric,
)
from masgrad.errors import InputError, InputTypeError

TABLE_KINDS = (
    "a table (a pandas or polars DataFrame, a pyarrow Table or Dataset, a dictionary of columns, "
    "Parquet or CSV files)"
)


class Memory(Medium):
    """A table in memory.

    Args:
        data: the table.
        columns: the columns to read.
        extra: additional columns, given as arrays.
    """

    ordered = False
    where = "the data frame"

    def __init__(
        self, data: Any, columns: Sequence[str], extra: Mapping[str, np.ndarray] | None = None
    ):
        frame = as_frame(data)
        check_columns(self.where, columns, list(frame.columns))
        self.count = len(frame)
        self.held: dict[str, pa.Array | np.ndarray] = dict(extra or {})
        if not columns and not extra:  # of an intercept alone, to count rows
            self.held["\0rows"] = np.zeros(self.count)
        self.types = {name: pa.from_numpy_dtype(a.dtype) for name, a in self.held.items()}
        self.orders: dict[str, Sequence[Any] | None] = {}
        for name in columns:
            read = _from_pandas if isinstance(frame, pd.DataFrame) else _from_narwhals
            self.held[name], self.types[name], self.orders[name] = read(frame, name)

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        arrays = [pa.array(self.held[name]) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, list(columns))

    def blocks(
        self,
        rng: np.random.Generator | None,
        size: int,
        numbers: Sequence[str],
        lookups: Mapping[str, Lookup],
    ) -> Iterator[Columns]:
        return Arrays(self.columns(numbers, lookups), (), size, real=False).blocks(rng)

    def columns(self, numbers: Sequence[str], lookups: Mapping[str, Lookup]) -> dict[str, Any]:
        """Whole columns: numbers, and codes of categories, which are computed once."""
        for name, lookup in lookups.items():
            if codes_of(name) not in self.held:
                self.held[codes_of(name)] = encode(pa.array(self.held[name]), lookup)
        return {name: self.held[name] for name in (*numbers, *map(codes_of, lookups))}

    def column(self, name: str) -> Any:
        """A column of numbers."""
        return self.held[name]

    def declared(self, name: str) -> Sequence[Any] | None:
        return self.orders[name]


def as_frame(data: Any) -> Any:
    """A pandas data frame, or the narwhals view of another eager data frame."""
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, Mapping):
        return _from_mapping(data)
    import narwhals as nw

    data = pa.table(data) if isinstance(data, pa.RecordBatch) else data
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        lazy = hasattr(data, "collect")
        said = "; collect() it first, or write it to Parquet and give the path" if lazy else ""
        raise InputTypeError(f"{TABLE_KINDS} is needed, got {type(data).__name__}{said}") from None


def is_frame(data: Any) -> bool:
    """Whether this is a data frame; dictionaries of columns do not count."""
    if isinstance(data, pd.DataFrame | pa.Table | pa.RecordBatch):
        return True
    if not hasattr(type(data), "columns"):
        return False
    import narwhals as nw

    return isinstance(nw.from_native(data, pass_through=True), nw.DataFrame | nw.LazyFrame)


def _whole(values: Any) -> pa.Array:
    """A column as one contiguous array, copied only if it is chunked."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _from_mapping(data: Mapping) -> pd.DataFrame:
    try:
        return pd.DataFrame(dict(data), copy=False)
    except ValueError as error:
        raise InputError(f"the columns do not make a table: {error}") from None


def _from_pandas(frame: pd.DataFrame, name: str) -> tuple:
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
        declared = [_level(category) for category in kind.categories]
    try:
        column = column if declared is None else column.cat.rename_categories(declared)
        values = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        raise not_numeric(Memory.where, name, kind) from None
    values = _whole(values)
    if is_number(values.type):  # such as Arrow's decimals
        return as_numpy(values), values.type, None
    return values, values.type, declared


def _level(category: Any) -> Any:
    """A category that pandas declares; intervals and periods as text."""
    if isinstance(category, pd.Interval | pd.Period):
        return str(category)
    return level_of(category.item() if isinstance(category, np.generic) else category)


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
            f"{Memory.where}: column {name!r} mixes values: {column.iloc[row]!r:.40} at row {row} "
            "is not a number; convert the column to numbers, or all of it to text"
        )
    return numbers.astype(np.float64)


def _from_narwhals(frame: Any, name: str) -> tuple:
    import narwhals as nw

    series, native = frame[name], frame.to_native()
    # narwhals' own to_arrow copies columns of a pyarrow table
    values = _whole(native.column(name) if isinstance(native, pa.Table) else series.to_arrow())
    if pa.types.is_boolean(values.type) and not values.null_count:
        return values.to_numpy(zero_copy_only=False), values.type, None  # False and True as levels
    if is_number(values.type):
        return as_numpy(values), values.type, None
    if isinstance(series.dtype, nw.Enum):
        return values, values.type, list(series.dtype.categories)
    arrow = frame.implementation.is_pyarrow() and pa.types.is_dictionary(values.type)
    declared = [level_of(value) for value in values.dictionary.to_pylist()] if arrow else None
    return values, values.type, declared


def numbers_of(data: Any, names: Sequence[str] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """The numbers of a table that is X itself, and the column names; all columns unless named."""
    frame = as_frame(data)
    present = list(frame.columns)
    chosen = list(names) or present
    check_columns("X", chosen, present)
    if isinstance(frame, pd.DataFrame):
        objects = [name for name in chosen if frame[name].dtype == object]
        frame = frame.copy(deep=False) if objects else frame
        for name in objects:
            frame[name] = _from_objects(pd.Series(frame[name]), name)
        for name in chosen:
            if not pd.api.types.is_numeric_dtype(frame[name]):
                raise _encode_it(name, frame[name].dtype)
        X = (frame[chosen] if names else frame).to_numpy(np.float64, na_value=np.nan)
    else:
        X = np.column_stack([_number(frame, name) for name in chosen])
    return X, tuple(map(str, chosen))


def _number(frame: Any, name: str) -> np.ndarray:
    values, kind, _ = _from_narwhals(frame, name)
    if not is_number(kind):
        raise _encode_it(name, kind)
    return values


def _encode_it(name: Any, kind: Any) -> InputTypeError:
    return InputTypeError(
        f"column {name!r} is not numeric ({kind}); encode or drop it, or use a formula"
    )

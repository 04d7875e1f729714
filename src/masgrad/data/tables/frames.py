"""Tables in memory: pandas itself, and whatever else narwhals understands, through Arrow.

Columns of numbers become NumPy arrays without a copy where they have no nulls; columns of
categories become codes once, four bytes a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.groupings.keys import level_of
from masgrad.data.left_out import Tally
from masgrad.data.source import Arrays
from masgrad.data.stream import Stream
from masgrad.data.tables.complete import Complete
from masgrad.data.tables.levels import Coder, encode, encode_it
from masgrad.data.tables.medium import (
    IN_MEMORY,
    Columns,
    Medium,
    as_numpy,
    check_columns,
    codes_of,
    column_of,
    is_number,
    whole,
)
from masgrad.data.tables.paths import column_names, expand, is_dataset, is_pandas, is_paths
from masgrad.errors import InputError, InputTypeError
from masgrad.types import is_from

TABLE_KINDS = (
    "a table (a pandas or polars DataFrame, a pyarrow Table or Dataset, a dictionary of columns, "
    "Parquet, Arrow or CSV files)"
)


class Memory(Medium):
    """A table in memory.

    Args:
        data: the table.
        columns: the columns to read.
        extra: additional columns, given as arrays.
    """

    ordered = False
    where = IN_MEMORY

    def __init__(self, data: Any, columns: Sequence[str], extra: Mapping[str, Any] | None = None):
        frame = as_frame(data)
        check_columns(self.where, columns, list(frame.columns))
        self.count: int = len(frame)  # pyright: ignore[reportIncompatibleVariableOverride]
        self.kept: np.ndarray | None = None
        self.held: dict[str, pa.Array | np.ndarray] = dict(extra or {})
        if not columns and not extra:  # of an intercept alone, to count rows
            self.held["\0rows"] = np.zeros(self.count)
        self.types = {
            name: pa.from_numpy_dtype(a.dtype) if isinstance(a, np.ndarray) else a.type
            for name, a in self.held.items()
        }
        self.orders: dict[str, Sequence[Any] | None] = {}
        for name in columns:
            self.held[name], self.types[name], self.orders[name] = _column(frame, name)

    def leave_out(self, complete: Complete) -> None:
        """Copy the rows that are complete, if others are not."""
        with complete.left_out.read() as tally:
            self.keep(complete, tally)

    def keep(self, complete: Complete, tally: Tally) -> None:
        """The same for one of several tables."""
        mask = complete.mask(self.held, self.count, tally)
        if mask is not None:
            self.kept = np.flatnonzero(mask)
            self.count: int = int(mask.sum())  # pyright: ignore[reportIncompatibleVariableOverride]
            self.held = {name: _only(column, mask) for name, column in self.held.items()}

    def stored(self, row: int) -> int:
        """The number of a row in the table that was given."""
        return row if self.kept is None else int(self.kept[row])

    def place(self, row: int) -> str:
        return f"row {self.stored(row)}"

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
        lookups: Mapping[str, Coder],
    ) -> Iterator[Columns]:
        return Arrays(self.columns(numbers, lookups), (), size, real=False).blocks(rng)

    def columns(self, numbers: Sequence[str], lookups: Mapping[str, Coder]) -> dict[str, Any]:
        """Whole columns: numbers, and codes of categories and groups, which are computed once."""
        for name, lookup in lookups.items():
            if codes_of(name) not in self.held:
                self.held[codes_of(name)] = encode(pa.array(self.held[column_of(name)]), lookup)
        return {name: self.held[name] for name in (*numbers, *map(codes_of, lookups))}

    def column(self, name: str) -> Any:
        """A column of numbers."""
        return self.held[name]

    def declared(self, name: str) -> Sequence[Any] | None:
        return self.orders[name]


def _only(column: pa.Array | np.ndarray, mask: np.ndarray) -> pa.Array | np.ndarray:
    """The rows of a column that a mask has."""
    return column[mask] if isinstance(column, np.ndarray) else column.filter(pa.array(mask))


def as_frame(data: Any) -> Any:
    """A pandas data frame, or the narwhals view of another eager data frame."""
    if is_pandas(data):
        return data
    if isinstance(data, Mapping):
        from masgrad.data.tables.pandas_columns import from_mapping

        return from_mapping(data)
    import narwhals as nw

    data = pa.table(data) if isinstance(data, pa.RecordBatch) else data
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        lazy = hasattr(data, "collect")
        said = "; collect() it first, or write it to Parquet and give the path" if lazy else ""
        raise InputTypeError(f"{TABLE_KINDS} is needed, got {type(data).__name__}{said}") from None


def names_of(data: Any) -> list[str]:
    """The column names that "." in a formula stands for."""
    if is_paths(data):
        return column_names(expand(data)[0])
    if is_dataset(data):
        return data.schema.names
    if is_from("dask.dataframe", data, "DataFrame"):
        return list(map(str, data.columns))
    if isinstance(data, Stream | Iterator):
        raise InputError("'.' in a formula needs a table, not an iterator; name the columns of X")
    return [str(name) for name in as_frame(data).columns]


def _column(frame: Any, name: str) -> tuple:
    """A column's values, its Arrow type, and its declared levels, if any."""
    if not is_pandas(frame):
        return _from_narwhals(frame, name)
    from masgrad.data.tables.pandas_columns import column_of

    return column_of(frame, name)


def _from_narwhals(frame: Any, name: str) -> tuple:
    import narwhals as nw

    series, native = frame[name], frame.to_native()
    # narwhals' own to_arrow copies columns of a pyarrow table
    values = whole(native.column(name) if isinstance(native, pa.Table) else series.to_arrow())
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
    if is_pandas(frame):
        from masgrad.data.tables.pandas_columns import numbers_in

        X = numbers_in(frame, chosen)
    else:
        X = np.column_stack([_number(frame, name) for name in chosen])
    return X, tuple(map(str, chosen))


def _number(frame: Any, name: str) -> np.ndarray:
    values, kind, _ = _from_narwhals(frame, name)
    if not is_number(kind):
        raise encode_it(name, kind)
    return values

"""Digests: short texts that differ where values do, at the cost of a glance at large ones.

Of an array above a megabyte, shape, type and a megabyte of rows from all over it count, and of a
table 256 rows: a value changed in between goes unseen here. (A fit looks again: every read asks at
a point that the pilot rows have moved.) Functions count by their code, their defaults, and what
they close over or take from their module; collections of Dask by the names that it gives them,
which follow from what they are made of; other objects by their class and attributes.
"""

import dataclasses
import functools
import hashlib
import os
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from masgrad.stores.path import AnyPath, StorePath, side_by_side
from masgrad.stores.secrets import StorageOptions
from masgrad.types import is_from

ALL_BYTES = 2**20
"""An array counts in full up to this size; of a larger one, so many bytes of rows do."""

RUNS = 64
"""Runs of neighbouring rows that are looked at, in an array, and pages of a file."""

TABLE_ROWS = 256
PAGE_BYTES = 4096
END_BYTES = 2**16
"""First and last bytes of a file that count; the schema of a Parquet file is at its end."""

PLAIN = (bool, int, float, complex, str, bytes, type(None))


def digest(value: Any) -> str:
    """A text of 16 digits that stands for a value."""
    return _Digest().of(value).hex()[:16]


def digest_files(paths: Sequence[AnyPath]) -> str:
    """The same for files: their sizes, times of change and some of their bytes, not their names.

    Of a file at a store its size and its mark there (ETag) count, or the time of its change.
    """
    return digest(side_by_side(_file, paths))


def spread(count: int, most: int) -> np.ndarray:
    """At most so many of the numbers below `count`, evenly spread, the first and last included."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.int64))


class _Digest:
    """Digests of nested values; one that contains itself is cut where it does."""

    def __init__(self):
        self.open: set[int] = set()

    def of(self, value: Any) -> bytes:
        if isinstance(value, PLAIN):
            return _hash(type(value).__name__, repr(value))
        if id(value) in self.open:
            return _hash("again")
        self.open.add(id(value))
        try:
            return self._of_parts(value)
        finally:
            self.open.remove(id(value))

    def _of_parts(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray | np.generic) or is_from("jax", value, "Array"):
            return self._array(value)
        if isinstance(value, list | tuple):
            return _hash(type(value).__name__, *map(self.of, value))
        if isinstance(value, set | frozenset):
            return _hash("set", *sorted(map(self.of, value)))
        if isinstance(value, dict):
            return _hash("dict", *(self.of(part) for pair in value.items() for part in pair))
        if isinstance(value, os.PathLike):
            return _hash("path", os.fspath(value))
        if isinstance(value, StorePath):
            return _hash("path", str(value))
        if isinstance(value, StorageOptions):  # keys expire, and are nobody's business
            return _hash("storage options")
        return self._table_or_object(value)

    def _array(self, value: Any) -> bytes:
        if is_from("jax", value, "Array") and not isinstance(value.dtype, np.dtype):
            return _hash("key", str(value))
        array = np.asarray(value)
        heading = f"array {array.shape} {array.dtype.str}"
        part = _part(array)
        if array.dtype == object:
            return _hash(heading, *map(self.of, part.ravel().tolist()))
        return _hash(heading, np.ascontiguousarray(part).tobytes())

    def _table_or_object(self, value: Any) -> bytes:
        columns = _columns(value)
        if columns is not None:
            return _hash(type(value).__name__, self.of(columns))
        if hasattr(type(value), "__dask_tokenize__"):
            from masgrad.checkpoints.dask_names import name_of  # for such data alone

            return _hash("dask", name_of(value))
        wrapped = getattr(value, "__wrapped__", value)  # of a function that is compiled
        if isinstance(wrapped, types.FunctionType):
            return self._function(wrapped)
        if isinstance(value, functools.partial):
            return self.of(["partial", value.func, value.args, value.keywords])
        if isinstance(value, types.MethodType):
            return self.of(["method", value.__func__, value.__self__])
        if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
            return _hash(getattr(value, "__qualname__", value.__name__))
        return _hash(type(value).__qualname__, self.of(_attributes(value)))

    def _function(self, function: types.FunctionType) -> bytes:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        parts = [function.__defaults__, function.__kwdefaults__, cells, _globals(function)]
        return _hash("function", self._code(function.__code__), self.of(parts))

    def _code(self, code: types.CodeType) -> bytes:
        inner = [
            self._code(c) if isinstance(c, types.CodeType) else self.of(c) for c in code.co_consts
        ]
        return _hash(code.co_code, self.of(code.co_names), *inner)


def _hash(*parts: str | bytes) -> bytes:
    """The hash of parts, none of which runs into the next."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big"))
        total.update(data)
    return total.digest()


def _part(array: np.ndarray) -> np.ndarray:
    """The array, or runs of neighbouring rows from all over it."""
    if array.nbytes <= ALL_BYTES or not array.ndim:
        return array
    rows = max(1, int(ALL_BYTES / (array.nbytes / len(array))))
    length = max(1, rows // RUNS)
    starts = spread(len(array) - length + 1, min(RUNS, rows))
    return np.concatenate([array[i : i + length] for i in starts])


def _columns(value: Any) -> list | None:
    """Height, names, types and some rows of a table; None if this is none."""
    if is_from("pandas", value, "DataFrame", "Series", "Index"):
        frame = value.to_frame() if value.ndim == 1 else value
        part = frame.iloc[spread(len(frame), TABLE_ROWS)]
        values = [part.iloc[:, k].tolist() for k in range(part.shape[1])]
        return [len(frame), [str(c) for c in frame], [str(t) for t in frame.dtypes], repr(values)]
    if is_from("polars", value, "DataFrame", "Series"):
        frame = value.to_frame() if is_from("polars", value, "Series") else value
        part = frame[spread(len(frame), TABLE_ROWS)]
        return [len(frame), str(frame.schema), repr(part.to_dict(as_series=False))]
    if is_from("pyarrow", value, "Table", "RecordBatch"):
        part = value.take(spread(len(value), TABLE_ROWS))
        return [len(value), str(value.schema), repr(part.to_pydict())]
    return None


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds: fields of a record, else attributes that are not computed ones."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
    kind = type(value)
    return {
        name: part
        for name, part in sorted(getattr(value, "__dict__", {}).items())
        if not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def _globals(function: types.FunctionType) -> dict[str, Any]:
    """Numbers, arrays and functions of its own module that a function names."""
    named, found = set(_names(function.__code__)), {}
    for name in sorted(named & function.__globals__.keys()):
        value = function.__globals__[name]
        own = getattr(value, "__module__", None) == function.__module__
        if isinstance(value, (*PLAIN, np.ndarray)) or (own and callable(value)):
            found[name] = value
    return found


def _names(code: types.CodeType) -> list[str]:
    inner = [n for c in code.co_consts if isinstance(c, types.CodeType) for n in _names(c)]
    return [*code.co_names, *inner]


def _file(path: AnyPath) -> list:
    """Size, time of change and some bytes of a file."""
    if isinstance(path, StorePath):
        return _stored(path)
    status = os.stat(path)
    total = hashlib.sha256()
    with open(path, "rb") as file:
        total.update(file.read(END_BYTES))
        for start in spread(status.st_size, RUNS):
            file.seek(int(start))
            total.update(file.read(PAGE_BYTES))
        file.seek(max(0, status.st_size - END_BYTES))
        total.update(file.read())
    return [status.st_size, status.st_mtime_ns, total.hexdigest()]


def _stored(path: StorePath) -> list:
    """The same at a store; its last bytes where nothing tells of changes."""
    size, mark = path.status()
    return [size, mark or path.read(max(0, size - END_BYTES), size)]

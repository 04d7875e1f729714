"""Dask collections, taken apart into their partitions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masgrad.distributed.tasks import quiet_about_size, result_of
from masgrad.errors import InputError, MissingPackageError
from masgrad.types import is_from

FEW_ROWS = 1 << 11
"""Rows of a partition for a sample of all."""

FEW_PARTITIONS = 16
"""Partitions for such a sample."""


def is_dask_frame(data: Any) -> bool:
    """Whether this is a data frame of Dask."""
    return is_from("dask.dataframe", data, "DataFrame")


def is_dask(data: Any) -> bool:
    """Whether this is an array, a data frame or a series of Dask."""
    return is_from("dask.array", data, "Array") or is_from(
        "dask.dataframe", data, "DataFrame", "Series"
    )


def holds_dask(data: Any) -> bool:
    """Whether these are rows that Dask holds: a collection, or several side by side."""
    if isinstance(data, dict):
        return any(map(holds_dask, data.values()))
    if isinstance(data, tuple | list):
        return any(map(holds_dask, data))
    return is_dask(data)


def partitions_of(data: Any) -> list[Any]:
    """The partitions of a collection by rows, as delayed objects."""
    if is_from("dask.array", data, "Array"):
        if data.ndim > 1 and any(blocks > 1 for blocks in data.numblocks[1:]):
            data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        return list(data.to_delayed().ravel())
    return list(data.to_delayed())


def computed(partition: Any, client: Any = None) -> Any:
    """A partition, brought to this process; computed by a cluster, or as Dask does by default."""
    try:
        with quiet_about_size():
            return partition.compute() if client is None else result_of(client, partition)
    except ImportError as error:  # such as pyarrow for a Dask data frame
        raise MissingPackageError(str(error)) from error


def first_rows(partition: Any) -> Any:
    """A few rows of a partition, as a delayed object."""
    from dask.delayed import delayed

    return delayed(_head)(partition)


def _head(rows: Any) -> Any:
    if isinstance(rows, dict):
        return {name: _head(part) for name, part in rows.items()}
    return rows[:FEW_ROWS]


def lengths_of(named: Mapping[str, Any]) -> tuple[int | None, ...] | None:
    """The rows of each chunk of arrays that stand side by side, if they are known."""
    return next((found for found in map(_lengths, named.values()) if found is not None), None)


def rows_of(named: Mapping[str, Any]) -> int | None:
    """The number of rows of collections that stand side by side, if it is known."""
    known = [sum(found) for found in map(_lengths, named.values()) if found is not None]
    return known[0] if known else None


def size_of(named: Mapping[str, Any]) -> float:
    """Bytes of arrays, infinite if that is not known, as of data frames."""
    if any(is_from("dask.dataframe", data, "DataFrame", "Series") for data in named.values()):
        return np.inf
    size = float(sum(data.nbytes for data in named.values()))
    return np.inf if np.isnan(size) else size


def aligned(named: Mapping[str, Any]) -> list[Any]:
    """The partitions of several collections, side by side: delayed dictionaries.

    Arrays in memory are cut as the others are. Lengths that are not known beforehand are checked
    when rows are read.
    """
    lengths = {name: _lengths(data) for name, data in named.items()}
    known = {name: found for name, found in lengths.items() if found is not None}
    first, expected = next(iter(known.items()), ("", None))
    for name, data in named.items():
        rows = sum(known[name]) if name in known else None if is_dask(data) else len(data)
        if expected is not None and rows not in (None, sum(expected)):
            raise InputError(
                f"{first} has {sum(expected):,} rows, and {name} {rows:,}; they are of the same "
                "rows"
            )
    named = {name: _cut(name, data, expected) for name, data in named.items()}
    parts = {name: partitions_of(data) for name, data in named.items()}
    counts = {name: len(found) for name, found in parts.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"the numbers of partitions differ ({said}), and chunk sizes are not known, so that "
            "rows cannot be matched; call compute_chunk_sizes() on the arrays, or take all of them "
            "from one data frame"
        )
    from dask.delayed import delayed

    return [
        delayed(dict(zip(parts, each, strict=True))) for each in zip(*parts.values(), strict=True)
    ]


def _cut(name: str, data: Any, lengths: tuple[int, ...] | None) -> Any:
    """An array in chunks of these lengths; data frames as they are."""
    if is_from("dask.dataframe", data, "DataFrame", "Series"):
        return data
    if is_from("dask.array", data, "Array"):
        found = _lengths(data)
        return data if found in (None, lengths) else data.rechunk({0: lengths})
    if lengths is None:
        raise InputError(
            f"{name} is in memory, and beside it chunk sizes are not known; take it from the same "
            "Dask data frame, or call compute_chunk_sizes() on the arrays"
        )
    import dask.array as da

    values = np.asarray(data)
    chunks: Any = (lengths, *values.shape[1:])
    return da.from_array(values, chunks=chunks)


def _lengths(data: Any) -> tuple[int, ...] | None:
    """The rows of each partition; None if they are not known."""
    if not is_from("dask.array", data, "Array"):
        return None
    lengths = data.chunks[0]
    return None if any(n != n for n in lengths) else tuple(lengths)  # NaN is not itself

"""Dask collections, taken apart into their partitions."""

from typing import Any

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


def partitions_of(name: str, data: Any) -> list[Any]:
    """The partitions of a collection by rows, as delayed objects."""
    if is_from("dask.array", data, "Array"):
        if data.ndim > 1 and any(blocks > 1 for blocks in data.numblocks[1:]):
            data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        return list(data.to_delayed().ravel())
    return list(data.to_delayed())


def computed(partition: Any) -> Any:
    """A partition, on this machine."""
    try:
        return partition.compute()
    except ImportError as error:  # such as pyarrow for a Dask data frame
        raise MissingPackageError(str(error)) from error


def first_rows(partition: Any) -> Any:
    """A few rows of a partition, as a delayed object."""
    import dask

    return dask.delayed(_head)(partition)


def _head(rows: Any) -> Any:
    if isinstance(rows, dict):
        return {name: _head(part) for name, part in rows.items()}
    return rows[:FEW_ROWS]


def aligned(named: dict[str, Any]) -> list[Any]:
    """The partitions of several collections, side by side: delayed dictionaries.

    Lengths that are not known beforehand are checked when rows are read.
    """
    lengths = {name: _lengths(data) for name, data in named.items()}
    known = {name: found for name, found in lengths.items() if found is not None}
    if known:
        first, expected = next(iter(known.items()))
        for name, found in known.items():
            if sum(found) != sum(expected):
                raise InputError(
                    f"{first} has {sum(expected):,} rows, and {name} {sum(found):,}; they are of "
                    "the same rows"
                )
            if found != expected and is_from("dask.array", named[name], "Array"):
                named = {**named, name: named[name].rechunk({0: expected})}
    parts = {name: partitions_of(name, data) for name, data in named.items()}
    counts = {name: len(found) for name, found in parts.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"the numbers of partitions differ ({said}), and chunk sizes are not known, so that "
            "rows cannot be matched; call compute_chunk_sizes() on the arrays, or take all of them "
            "from one data frame"
        )
    import dask

    return [
        dask.delayed(dict(zip(parts, each, strict=True)))
        for each in zip(*parts.values(), strict=True)
    ]


def _lengths(data: Any) -> tuple[int, ...] | None:
    """The rows of each partition; None if they are not known."""
    if not is_from("dask.array", data, "Array"):
        return None
    lengths = data.chunks[0]
    return None if any(n != n for n in lengths) else tuple(lengths)  # NaN is not itself

"""Partitions of Dask collections, brought to this process: all rows of one, or a few of several."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from masgrad.distributed.tasks import RETRIES, failure, quiet_about_size
from masgrad.errors import MasgradError, MissingPackageError

FEW_ROWS = 1 << 11
"""Rows of a partition for a sample of all."""

FEW_PARTITIONS = 16
"""Partitions for such a sample."""


def computed(partition: Any, name: str, client: Any = None) -> Any:
    """A partition, brought to this process; computed by a cluster, or as Dask does by default."""
    return all_computed([partition], [name], client)[0]


def all_computed(partitions: Sequence[Any], names: Sequence[str], client: Any = None) -> list[Any]:
    """The same of several, which are computed side by side; an error names the first that fails."""
    if client is not None:
        return list(_by_cluster(partitions, names, client))
    from dask.base import compute

    try:
        return list(compute(*partitions))
    except Exception:
        return [_alone(*each) for each in zip(partitions, names, strict=True)]


def _by_cluster(partitions: Sequence[Any], names: Sequence[str], client: Any) -> Iterator[Any]:
    """The same by futures: Dask's own `compute` leaves a task of its event loop behind when Ctrl-C
    ends it, whose failure is printed some time later."""
    futures = []
    try:
        with quiet_about_size(), _read(names[0], client):
            futures = client.compute(list(partitions), retries=RETRIES)
        for future, name in zip(futures, names, strict=True):
            with _read(name, client):
                found = future.result()
            yield found
    finally:
        for future in futures:  # not cancelled: the user may hold the same
            future.release()


def _alone(partition: Any, name: str) -> Any:
    with _read(name):
        return partition.compute()


@contextmanager
def _read(name: str, client: Any = None) -> Iterator[None]:
    """Inside a partition is read: an error names it."""
    try:
        yield
    except MasgradError:
        raise
    except ImportError as error:  # such as pyarrow for a Dask data frame
        raise MissingPackageError(str(error)) from error
    except Exception as error:
        raise failure(client, name, error) from error


def first_rows(partition: Any) -> Any:
    """A few rows of a partition, as a delayed object."""
    from dask.delayed import delayed

    return delayed(_head)(partition)


def sample_of(
    partitions: Sequence[Any], names: Sequence[str], rng: np.random.Generator, client: Any
) -> Iterator[tuple[int, Any]]:
    """All rows, a few of some partitions first: numbers of partitions, and rows of them.

    These few are computed side by side. The rest of a partition comes later, if there is more.
    """
    order: list[int] = rng.permutation(len(partitions)).tolist()
    few = order[:FEW_PARTITIONS]
    heads = all_computed([first_rows(partitions[k]) for k in few], [names[k] for k in few], client)
    yield from zip(few, heads, strict=True)
    whole = {number for number, head in zip(few, heads, strict=True) if _rows(head) < FEW_ROWS}
    for number in order:
        if number not in whole:
            rows = computed(partitions[number], names[number], client)
            yield number, _after_head(rows) if number in few else rows


def _rows(rows: Any) -> int:
    return len(next(iter(rows.values())) if isinstance(rows, dict) else rows)


def _after_head(rows: Any) -> Any:
    if isinstance(rows, dict):
        return {name: part[FEW_ROWS:] for name, part in rows.items()}
    return rows[FEW_ROWS:]


def _head(rows: Any) -> Any:
    if isinstance(rows, dict):
        return {name: _head(part) for name, part in rows.items()}
    return rows[:FEW_ROWS].copy()  # a view would keep the partition in its worker's memory

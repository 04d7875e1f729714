"""The shards of some rows, and the cluster whose workers read them."""

from collections.abc import Callable, Sequence
from typing import Any

from masgrad.data.shards.collections import computed
from masgrad.data.shards.files import shards_of_files
from masgrad.data.shards.find import find_levels
from masgrad.data.shards.frames import DaskFrame, FrameShard
from masgrad.data.tables.ipc import Ipc
from masgrad.data.tables.levels import Found
from masgrad.data.tables.medium import Medium
from masgrad.data.tables.parquet import Parquet
from masgrad.data.tables.text.csv import Csv
from masgrad.distributed.tasks import Tasks
from masgrad.errors import InputError

UNKNOWN = 1 << 40
"""More rows than a shard has."""


class Shards:
    """Shards, in the order of their rows.

    Args:
        client: of the cluster.
        shards: what workers are told of each.
        data: what is sent of each: a Dask object; None if workers read files.
        check: refuses data that have changed since they were opened.
    """

    def __init__(
        self,
        client: Any,
        shards: Sequence[Any],
        data: Sequence[Any],
        check: Callable[[], None] = lambda: None,
    ):
        self.client, self.shards, self.data, self.check = client, shards, data, check
        self.begins = begins_of([shard.rows for shard in shards])
        self.tasks = Tasks(client, [shard.name for shard in shards], data)

    def find(self, medium: Medium, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """The levels of columns of a table."""
        return find_levels(self.tasks, self.shards, medium, names, weight)

    def held(self, number: int) -> Any:
        """The data of a shard, brought to this process."""
        data = self.data[number]
        return None if data is None else computed(data, self.client)


def begins_of(lengths: Sequence[int | None]) -> list[int]:
    """The number of each shard's first row; where it is not known, one that no other row has.

    Example:
        >>> begins_of([5, 3, 2])
        [0, 5, 8]
    """
    if any(length is None for length in lengths):
        return [number * UNKNOWN for number in range(len(lengths))]
    return [sum(lengths[:k]) for k in range(len(lengths))]  # pyright: ignore


def shards_of(medium: Medium, client: Any) -> Shards:
    """The shards of a table."""
    if isinstance(medium, DaskFrame):
        numbers = range(len(medium.partitions))
        return Shards(client, [FrameShard(k) for k in numbers], medium.partitions)
    if isinstance(medium, Csv) and medium.bad is not None:
        raise InputError(
            "on_bad_rows='skip' is for one process; correct these rows, or leave engine= out"
        )
    if not isinstance(medium, Csv | Ipc | Parquet):
        raise not_spread(medium.where)
    shards = shards_of_files(medium)
    return Shards(client, shards, [None] * len(shards), medium.files.check)


def not_spread(what: str) -> InputError:
    """The error for rows that only this process has."""
    return InputError(
        f"engine='dask' reads files and Dask collections where they are, and {what} can be read by "
        "this process alone; give paths or a Dask array or data frame, or leave engine= out"
    )

"""Files cut into shards: row groups of Parquet files, and whole CSV and Arrow files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from masgrad.data.shards.outline import TableShard, checked
from masgrad.data.tables.ipc import Ipc
from masgrad.data.tables.medium import Medium
from masgrad.data.tables.parquet import Parquet
from masgrad.data.tables.paths import kind
from masgrad.data.tables.text.csv import Csv
from masgrad.stores.path import AnyPath

SHARD_ROWS = 1 << 20
"""Rows of a shard, about: a tenth of a second of work, beside which a task costs little."""

MOST_SHARDS = 1 << 12
"""Shards of all files beyond which each has more rows: one process joins their totals."""


@dataclass(frozen=True)
class FileShard(TableShard):
    """A file, or some of its row groups.

    Args:
        path: of the file, which workers see as well.
        groups: its row groups, if it is a Parquet file.
        part: which part of the file it is, in messages.
        rows: their number, if known.
    """

    path: AnyPath
    groups: tuple[int, ...] | None = None
    part: str = ""
    rows: int | None = None

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"{self.path}{self.part}"

    def open(self, outline: Medium, data: Any) -> Medium:
        columns = tuple(outline.types)
        if self.groups is not None:
            return checked(Parquet([self.path], columns, self.groups), outline, self.name)
        if kind(self.path) == "Arrow":
            return checked(Ipc([self.path], columns), outline, self.name)
        medium = Csv([self.path], columns)
        medium.types = dict(outline.types)  # what is text in any file is text in all
        return checked(medium, outline, self.name)


def shards_of_files(medium: Csv | Ipc | Parquet) -> list[FileShard]:
    """Shards of about SHARD_ROWS rows or more, in the order of the rows."""
    if isinstance(medium, Parquet):
        rows, files = max(SHARD_ROWS, sum(medium.counts) // MOST_SHARDS), range(len(medium.paths))
        return [shard for k in files for shard in _of_parquet(medium, k, rows)]
    absolute = medium.files.absolute
    if isinstance(medium, Csv):  # whose rows are not counted
        held = zip(absolute, medium.with_rows, strict=True)
        return [FileShard(path) for path, has_rows in held if has_rows]
    counted = zip(absolute, medium.counts, strict=True)
    return [FileShard(path, rows=rows) for path, rows in counted if rows]


def _of_parquet(medium: Parquet, number: int, rows: int) -> Iterator[FileShard]:
    """The row groups of a file, as many together as make a shard."""
    footer, path = medium.footers[number], medium.files.absolute[number]
    held, size, start = [], 0, 0
    for group in range(footer.num_row_groups):
        held.append(group)
        size += footer.row_group(group).num_rows
        if size >= rows or group == footer.num_row_groups - 1:
            if size:
                yield FileShard(path, tuple(held), f", rows {start} to {start + size - 1}", size)
            held, size, start = [], 0, start + size

"""Files cut into shards: row groups of Parquet files, and whole CSV and Arrow files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from masgrad.data.shards.outline import TableShard, checked
from masgrad.data.shards.same_file import FileMark
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
        mark: of the file that was opened at first.
        groups: its row groups, if it is a Parquet file.
        part: which part of the file it is, in messages.
        rows: their number, if known.
    """

    path: AnyPath
    mark: FileMark
    groups: tuple[int, ...] | None = None
    part: str = ""
    rows: int | None = None

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"{self.path}{self.part}"

    def open(self, outline: Medium, data: Any) -> Medium:
        medium = self._opened(outline)
        self.mark.check(self.path, medium.files.stamps[0])
        return checked(medium, outline, self.name)

    def _opened(self, outline: Medium) -> Csv | Ipc | Parquet:
        columns = tuple(outline.types)
        if self.groups is not None:
            return Parquet([self.path], columns, self.groups)
        if kind(self.path) == "Arrow":
            return Ipc([self.path], columns)
        medium = Csv([self.path], columns)
        medium.types = dict(outline.types)  # what is text in any file is text in all
        return medium


def shards_of_files(medium: Csv | Ipc | Parquet) -> list[FileShard]:
    """Shards of about SHARD_ROWS rows or more, in the order of the rows."""
    files = medium.files
    marks = [FileMark.of(*each) for each in zip(files.absolute, files.stamps, strict=True)]
    if isinstance(medium, Parquet):
        rows = max(SHARD_ROWS, sum(medium.counts) // MOST_SHARDS)
        return [
            shard for k, mark in enumerate(marks) for shard in _of_parquet(medium, k, mark, rows)
        ]
    if isinstance(medium, Csv):  # whose rows are not counted
        held = zip(files.absolute, marks, medium.with_rows, strict=True)
        return [FileShard(path, mark) for path, mark, has_rows in held if has_rows]
    counted = zip(files.absolute, marks, medium.counts, strict=True)
    return [FileShard(path, mark, rows=rows) for path, mark, rows in counted if rows]


def _of_parquet(medium: Parquet, number: int, mark: FileMark, rows: int) -> Iterator[FileShard]:
    """The row groups of a file, as many together as make a shard."""
    footer, path = medium.footers[number], medium.files.absolute[number]
    held, size, start = [], 0, 0
    for group in range(footer.num_row_groups):
        held.append(group)
        size += footer.row_group(group).num_rows
        if size >= rows or group == footer.num_row_groups - 1:
            if size:
                part = f", rows {start} to {start + size - 1}"
                yield FileShard(path, mark, tuple(held), part, size)
            held, size, start = [], 0, start + size

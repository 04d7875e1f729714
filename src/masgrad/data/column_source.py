"""Columns of a table as the rows of a loss: dictionaries of numbers, from any medium."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.arrays import BLOCK
from masgrad.data.groupings.columns import ColumnGroups, GroupColumns
from masgrad.data.left_out import advice
from masgrad.data.opening import MEMORY_BYTES, USUAL, Opening, open_table
from masgrad.data.regression import label, only, weigh, with_groups
from masgrad.data.source import as_float
from masgrad.data.table_rows import MediumSource, codes_of_rows, keys_of_groups
from masgrad.data.tables.complete import Complete
from masgrad.data.tables.frames import names_of
from masgrad.data.tables.medium import Columns, Medium, is_number
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows

Asks = Callable[[Sequence[str]], Sequence[str] | None]
"""Maps the names of a table's columns to those that are needed; None stands for all numbers."""


def open_columns(
    data: Any,
    asks: Asks,
    weight: str | None = None,
    opening: Opening = USUAL,
    groups: Sequence[GroupColumns] = (),
) -> tuple[Medium, tuple[str, ...]]:
    """A table, and the columns of numbers that are rows.

    Args:
        data: a table in memory, a dataset, or files.
        asks: which columns are needed.
        weight: the column of frequencies.
        opening: how it is opened, and which rows are left out.
        groups: columns by which rows are grouped.
    """
    present = names_of(data)
    asked = asks(present)
    carried = () if weight is None else (weight,)
    by = [name for group in groups for name in group.columns]
    opening = replace(opening, text=frozenset(by))
    medium = open_table(data, tuple(dict.fromkeys([*(asked or present), *carried, *by])), opening)
    numbers = [name for name, kind in medium.types.items() if is_number(kind)]
    for name in (*(asked or ()), *carried):
        if name not in numbers:
            raise InputTypeError(
                f"{medium.where}: column {name!r} is not numeric ({medium.types[name]}), and the "
                "loss asks for it; encode it as numbers, such as the codes of its categories"
            )
    columns = tuple(asked or (name for name in numbers if name not in (weight, *by)))
    if opening.left_out is not None and opening.left_out.missing:
        medium.leave_out(Complete.of([*columns, *by], weight, opening.left_out))
    return medium, columns


class ColumnSource(MediumSource):
    """A table whose columns are the rows.

    Args:
        medium: the table.
        columns: the columns of a row.
        weight: the column of frequencies.
        memory: limit on the memory used for reading, in bytes.
        block: rows per block.
        groups: columns by which rows are grouped.
    """

    def __init__(
        self,
        medium: Medium,
        columns: tuple[str, ...],
        weight: str | None = None,
        memory: int = MEMORY_BYTES,
        block: int = BLOCK,
        groups: Sequence[GroupColumns] = (),
    ):
        super().__init__(medium, weight, memory, block)
        self.columns, self.by = columns, ColumnGroups(groups)
        self.groupings, self.lookups = self.by.groupings, keys_of_groups(self.by)
        self.numbers = tuple(dict.fromkeys([*columns, *([weight] if weight else [])]))
        self.count = None if weight is not None or medium.complete else medium.count

    def made(self, piece: tuple[int, Columns]) -> Rows | None:
        row, columns = piece

        def place(k: int) -> str:
            return self.medium.place(row + k)

        given = None if self.weight is None else columns[self.weight]
        kept, weight, _ = weigh((given, None, None), place, (label(self.weight), "", ""))
        if kept is not None and not len(kept):
            return None
        at = place if kept is None else lambda k: place(int(kept[k]))
        rows = {name: _finite(name, only(columns[name], kept), at) for name in self.columns}
        return with_groups(rows, weight, codes_of_rows(self.by, columns, kept, at))


def _finite(name: str, column: np.ndarray, place: Callable[[int], str]) -> np.ndarray:
    """A copy of a column, since a view would keep a row group, after a check of its values."""
    values = np.array(as_float(column, real=False))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(
            f"column {name!r} holds {values[row]} at {place(row)}; {advice(values[row])}"
        )
    return values

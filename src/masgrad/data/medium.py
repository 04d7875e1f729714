"""What a table is read from: files, a dataset, a table in memory, an iterator of tables.

A medium knows the types of its columns before any row is read, and gives rows as batches of Arrow
columns, or as blocks of NumPy columns in which categories are codes.
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.columns import as_columns, cut
from masgrad.data.levels import Found, Lookup, check_levels, survey
from masgrad.data.terms import Columns


class Medium(abc.ABC):
    """A table on its medium.

    Attributes:
        where: how messages name it.
        types: Arrow's type of each column that is needed.
        count: number of rows, if known.
        ordered: whether rows come in an order that deserves to be shuffled and watched.
        again: whether it can be read a second time.
    """

    where: str
    types: dict[str, pa.DataType]
    count: int | None = None
    ordered: bool = True
    again: bool = True

    @abc.abstractmethod
    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The columns of all rows, in order, or in some random order of large pieces."""

    def blocks(
        self,
        rng: np.random.Generator | None,
        size: int,
        numbers: Sequence[str],
        lookups: Mapping[str, Lookup],
    ) -> Iterator[Columns]:
        """The columns `size` rows at a time: numbers, and codes of categories."""
        names = tuple(dict.fromkeys([*numbers, *lookups]))
        batches = (as_columns(b, numbers, lookups) for b in self.batches(rng, names))
        return cut(batches, size)

    def find(self, names: Sequence[str], weight: str | None) -> dict[str, Found]:
        """What the columns of categories hold, in rows of positive weight."""
        if not names:
            return {}
        columns = (*names, weight) if weight is not None else names
        return survey(self.batches(None, tuple(dict.fromkeys(columns))), names, weight)

    def check(self, levels: Mapping[str, Sequence[Any]], weight: str | None) -> None:
        """Whether the columns of categories hold levels that were learned, and only those."""
        check_levels(self.find(tuple(levels), weight), levels, self.place)

    def declared(self, name: str) -> Sequence[Any] | None:
        """Categories that the type of a column declares, in their order."""
        return None

    def place(self, row: int) -> str:
        """How to name a row, counted from 0 in the order of `batches(None)`."""
        return f"row {row}"

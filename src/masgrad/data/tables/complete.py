"""Rows of a table that have every value that is needed; the others are left out, and counted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.left_out import LeftOut, Tally, gaps_of
from masgrad.data.regression import shown
from masgrad.data.tables.levels import dictionary_of, to_numpy


@dataclass(frozen=True)
class Complete:
    """Which rows of a table are complete.

    Args:
        columns: that a row must have.
        weight: the column of weights; rows of weight 0 may lack anything.
        left_out: where the others are counted.
    """

    columns: tuple[str, ...]
    weight: str | None
    left_out: LeftOut

    @classmethod
    def of(cls, columns: Sequence[str], weight: str | None, left_out: LeftOut) -> "Complete":
        names = [*columns, *([] if weight is None else [weight])]
        return cls(tuple(dict.fromkeys(names)), weight, left_out)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The complete rows of all batches."""
        with self.left_out.read() as tally:
            for batch in batches:
                kept = self.mask({n: batch.column(n) for n in self.columns}, len(batch), tally)
                yield batch if kept is None else batch.filter(pa.array(kept))

    def mask(self, columns: Mapping[str, Any], rows: int, tally: Tally) -> np.ndarray | None:
        """The mask of the complete rows, None if all are."""
        weight = None if self.weight is None else columns[self.weight]
        if isinstance(weight, pa.Array):
            weight = to_numpy(weight)
        gaps = [(shown(name), _gaps(columns[name])) for name in self.columns]
        return tally.see(gaps, rows, weight)

    def stored(self, batches: Iterable[pa.RecordBatch], row: int) -> int:
        """The number among all rows of a row that is numbered among the complete ones."""
        start, tally = 0, Tally()
        for batch in batches:
            mask = self.mask({n: batch.column(n) for n in self.columns}, len(batch), tally)
            kept = np.arange(len(batch)) if mask is None else np.flatnonzero(mask)
            if row < len(kept):
                return start + int(kept[row])
            row, start = row - len(kept), start + len(batch)
        return start + row


def _gaps(column: Any) -> np.ndarray | None:
    """Floats, or a mask of missing values; None if there are none."""
    if isinstance(column, np.ndarray):
        return gaps_of(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _gaps_of_codes(column)
    if pa.types.is_floating(kind):
        return to_numpy(column)
    return to_numpy(column.is_null().cast(pa.uint8())).view(bool) if column.null_count else None


def _gaps_of_codes(column: pa.DictionaryArray) -> np.ndarray | None:
    """The mask of codes that are null, or stand for a null or a NaN."""
    held = column.dictionary
    if not (column.indices.null_count or held.null_count or pa.types.is_floating(held.type)):
        return None
    indices, values = dictionary_of(column)
    return np.array([*(value is None for value in values), True])[indices]

"""Rows of any loss but a regression's: a pytree, the columns of a table, or a stream of either.

A `CustomLoss` may have weights, which are frequencies as those of a regression are.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np

from masgrad.data.arrays import BLOCK, count_rows, pick
from masgrad.data.regression import Weighted, as_vector, observations, weigh
from masgrad.data.source import Arrays, Source
from masgrad.data.tables.paths import is_dataset, is_frame, is_pandas, is_paths
from masgrad.errors import InputError
from masgrad.fitting.rows.streams import NO_WEIGHT, is_a_file, stream_of
from masgrad.models.model import Model
from masgrad.types import Rows


def loss_source(model: Model, data: Any, memory: int, block: int | None, weights: Any) -> Source:
    """The rows as a source of blocks.

    Args:
        model: the loss.
        data: an array or a pytree, a data frame, a dataset, files, a stream or an iterator.
        memory: bytes that reading may take.
        block: rows of a block.
        weights: frequencies of the rows: an array, or the name of a column.
    """
    stored = is_paths(data) or is_dataset(data)
    if stored and not model.takes_any_rows:
        raise is_a_file(data)
    streamed = isinstance(data, Source | Iterator)
    if (stored or streamed) and weights is not None and not isinstance(weights, str):
        raise InputError(
            "weights of a file, a dataset or a stream are the name of a column; give weights='w', "
            "with rows that are data frames or dictionaries"
        )
    if stored:
        from masgrad.data.column_source import ColumnSource, open_columns  # pyarrow

        medium, columns = open_columns(data, model.columns, weights, memory)
        source = ColumnSource(medium, columns, weights, memory, block or BLOCK)
        with closing(source.blocks()) as blocks:
            first = next(blocks, None)
        if first is None:
            raise InputError(NO_WEIGHT)
        model.rows(observations(first))  # whose types the loss may not admit
        return source
    if streamed:
        return stream_of(data, lambda rows: _weighed(model, rows, weights)[0], block, real=False)
    rows, kept = _weighed(model, data, weights)
    if not count_rows(rows):
        raise InputError(NO_WEIGHT)
    return Arrays(rows, (), block or BLOCK, real=False, kept=kept)


def _weighed(model: Model, data: Any, weights: Any) -> tuple[Rows, np.ndarray | None]:
    """Checked rows, and the rows of positive weight (None if all are)."""
    rows = model.rows(data)
    if weights is None:
        return rows, None
    given = _column(data, weights) if isinstance(weights, str) else weights
    values = as_vector("weights", given, count_rows(rows), data.index if is_pandas(data) else None)
    kept, weight, _ = weigh((values, None, None))
    assert weight is not None
    return Weighted(rows if kept is None else pick(lambda a: a[kept], rows), weight), kept


def _column(data: Any, name: str) -> Any:
    """A column of a data frame or a dictionary."""
    if is_frame(data):
        from masgrad.data.tables.frames import Memory

        return Memory(data, (name,)).column(name)
    if not isinstance(data, Mapping):
        return name  # which `as_vector` refuses
    if name not in data:
        raise InputError(f"the data have no column {name!r}; they have {', '.join(map(str, data))}")
    return data[name]

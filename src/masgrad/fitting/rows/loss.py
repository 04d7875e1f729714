"""Rows of any loss but a regression's: a pytree, the columns of a table, or a stream of either.

A `CustomLoss` may have weights, which are frequencies as those of a regression are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from masgrad.data.arrays import BLOCK, count_rows, pick
from masgrad.data.groupings.columns import GroupColumns
from masgrad.data.groupings.given import ArrayGroups, Asked, asked
from masgrad.data.groupings.grouping import check_keys
from masgrad.data.left_out import LeftOut, Tally
from masgrad.data.regression import as_vector, observations, only, weigh, with_groups
from masgrad.data.shards.collections import is_dask_frame
from masgrad.data.source import Arrays, Source
from masgrad.data.stream import Block
from masgrad.data.tables.paths import is_dataset, is_frame, is_pandas, is_paths
from masgrad.errors import InputError
from masgrad.fitting.rows.kept import (
    check_finite,
    columns_of_rows,
    complete,
    composed,
    place_of,
    unchecked,
)
from masgrad.fitting.rows.streams import NO_WEIGHT, is_a_file, stream_of
from masgrad.models.model import Model
from masgrad.types import Rows


def loss_source(
    model: Model,
    data: Any,
    memory: int,
    block: int | None,
    weights: Any,
    groups: Sequence[Asked] = (),
    *,
    left_out: LeftOut | None = None,
    client: Any = None,
) -> Source:
    """The rows as a source of blocks.

    Args:
        model: the loss.
        data: an array or a pytree, a data frame, a dataset, files, a stream or an iterator.
        memory: bytes that reading may take.
        block: rows of a block.
        weights: frequencies of the rows: an array, or the name of a column.
        groups: clusters and the like: arrays, or names of columns.
        left_out: which rows are left out.
        client: of the cluster that reads them; None if this process does.
    """
    stored = is_paths(data) or is_dataset(data) or is_dask_frame(data)
    if stored and not model.takes_any_rows:
        raise is_a_file(data)
    streamed = isinstance(data, Source | Iterator)
    if (stored or streamed) and weights is not None and not isinstance(weights, str):
        raise InputError(
            "weights of a file, a dataset or a stream are the name of a column; give weights='w', "
            "with rows that are data frames or dictionaries"
        )
    if (stored or streamed) and any(not one.is_column for one in groups):
        raise InputError(
            "clusters of a file, a dataset or a stream are names of columns: clusters='firm'; "
            "blocks of a stream that are arrays carry them: yield mg.Block(rows, clusters=keys)"
        )
    if stored:
        from masgrad.data.column_source import ColumnSource, Opening, open_columns  # pyarrow

        opening = Opening(memory, left_out, client=client)
        by = [GroupColumns.of(one.role, one.value) for one in groups]
        medium, columns = open_columns(data, model.columns, weights, opening, by)
        source = ColumnSource(medium, columns, weights, memory, block or BLOCK, by)
        with closing(source.blocks()) as blocks:
            first = next(blocks, None)
        if first is None:
            raise InputError(NO_WEIGHT)
        model.rows(observations(first))  # whose types the loss may not admit
        return source
    coded, missing = ArrayGroups(), left_out is not None and left_out.missing
    if streamed:
        asks = {"weights": weights, "groups": groups, "coded": coded, "missing": missing}
        about = {"groupings": coded.groupings, "left_out": left_out if missing else None}
        return stream_of(data, partial(rows_of_block, model, **asks), block, real=False, **about)
    if left_out is None or not missing:
        rows, kept = _carrying(model, data, weights, groups, coded)
    else:
        with left_out.read() as tally:
            rows, kept = _carrying(model, data, weights, groups, coded, tally=tally)
    if rows is None or not count_rows(rows):
        raise InputError(NO_WEIGHT)
    size = block or BLOCK
    return Arrays(rows, (), size, real=False, kept=kept, groupings=coded.groupings)


def rows_of_block(
    model: Model,
    block: Any,
    tally: Tally,
    *,
    coded: ArrayGroups,
    missing: bool,
    weights: Any = None,
    groups: Sequence[Asked] = (),
) -> Rows | None:
    """Checked rows of a block of a stream; None if all of them lack a value."""
    counted = tally if missing else None
    if isinstance(block, Block):
        weights = weights if block.weights is None else block.weights
        groups, block = asked(block.groups), block.data
    return _carrying(model, block, weights, groups, coded, tally=counted)[0]


def _carrying(
    model: Model,
    data: Any,
    weights: Any,
    groups: Sequence[Asked],
    coded: ArrayGroups,
    *,
    tally: Tally | None = None,
) -> tuple[Rows | None, np.ndarray | None]:
    """Checked rows with what they carry, and the rows that were kept (None if all were).

    Rows of weight 0 are left out, and with a tally those with missing values; None if none is left.
    """
    rows = model.rows(data) if tally is None else unchecked(model, data)
    count, index = count_rows(rows), data.index if is_pandas(data) else None
    given = _column(data, weights) if isinstance(weights, str) else weights
    vector = None if given is None else as_vector("weights", given, count, index, tally is not None)
    groups = [
        replace(one, value=_column(data, one.value)) if one.is_column else one for one in groups
    ]
    keys, some = coded.keys(groups, count, index), None
    if tally is not None:
        named = dict(zip([one.name for one in groups], keys, strict=True))
        some = complete(tally, columns_of_rows(rows), {"weights": vector}, named, count)
    kept, weight, _ = weigh((only(vector, some), None, None), place_of(some))
    kept = composed(some, kept)
    if kept is not None and not len(kept):
        return None, kept
    rows = rows if kept is None else pick(lambda a: a[kept], rows)
    if tally is not None:
        check_finite(rows, place_of(kept))
        rows = model.rows(rows)
    codes = coded.codes([only(key, kept) for key in keys])
    if codes is not None:
        check_keys(coded.groupings, codes, place_of(kept))
    return with_groups(rows, weight, codes), kept


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

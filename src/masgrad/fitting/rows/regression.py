"""Rows of a regression in memory, or block by block: (X, y), weights, offset, exposure."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from masgrad.data.arrays import as_regression, block_of, not_a_matrix
from masgrad.data.block import Block
from masgrad.data.groupings.given import ArrayGroups, Asked, asked
from masgrad.data.groupings.grouping import check_keys
from masgrad.data.regression import ROLES, as_vector, beside, only, weigh
from masgrad.data.source import Arrays
from masgrad.data.sparse import SparseRows, is_sparse
from masgrad.data.tables.paths import is_frame
from masgrad.errors import InputError
from masgrad.fitting.rows.streams import NO_WEIGHT
from masgrad.models.glm import GLM
from masgrad.models.trace import TraceRegression
from masgrad.types import Rows, is_from


def regression_arrays(
    model: GLM,
    data: Any,
    block: int | None,
    roles: dict[str, Any],
    groups: Sequence[Asked] = (),
) -> Arrays:
    """The rows of arrays, or of a data frame X and a column y."""
    coded = ArrayGroups()
    rows, names, kept = _regression(model, data, roles, groups, coded)
    if not len(rows[1]):
        raise InputError(NO_WEIGHT)
    (count, p), thin = rows[0].shape, isinstance(rows[0], SparseRows) and rows[0].thin
    block = block or block_of(count, p, thin)
    return Arrays(rows, names, block, kept=kept, groupings=coded.groupings)


def _regression(
    model: GLM, data: Any, roles: dict[str, Any], groups: Sequence[Asked], coded: ArrayGroups
) -> tuple[Rows, tuple[str, ...], np.ndarray | None]:
    """Rows of a regression, names of X, and the rows of positive weight (None if all are)."""
    names: tuple[str, ...] = ()
    index = None
    if isinstance(data, tuple | list) and len(data) == 2:
        index = data[1].index if is_from("pandas", data[1], "Series", "DataFrame") else None
        if is_frame(data[0]):
            from masgrad.data.tables.frames import numbers_of

            rows = getattr(data[0], "index", None)
            if index is not None and rows is not None and not index.equals(rows):
                raise InputError("X and y have different indexes; align them: y.loc[X.index]")
            X, names = numbers_of(data[0])
            data, index = (X, data[1]), rows if index is None else index
    X, y = _pair(model, data)
    if X.ndim != 2:
        raise not_a_matrix(X)
    kept, weight, known = weigh(
        None if value is None else as_vector(role, value, len(y), index)
        for role, value in roles.items()
    )
    codes = only(coded.codes(groups, len(y), index), kept)
    if codes is not None:
        check_keys(coded.groupings, codes, lambda row: f"row {row if kept is None else kept[row]}")
    X = X.only(kept) if isinstance(X, SparseRows) and kept is not None else only(X, kept)
    return beside(X, only(y, kept), weight, known, codes), names, kept


def _pair(model: GLM, data: Any) -> tuple[Any, np.ndarray]:
    if isinstance(data, tuple | list) and len(data) == 2 and is_sparse(data[0]):
        X = SparseRows(data[0])
        return X, as_regression((np.broadcast_to(0.0, (len(X), 1)), data[1]), finite=False)[1]
    X, y = as_regression(data, finite=False)
    return (model.design(model.rows((X, y))), y) if isinstance(model, TraceRegression) else (X, y)


def regression_checker(model: GLM, coded: ArrayGroups) -> Callable[[Rows], Rows]:
    """A function that checks each block of a stream: its columns must not change in number."""
    first: tuple[Any, ...] = ()

    def check(block: Rows) -> Rows:
        nonlocal first
        rows, _, _ = _regression(model, *_carried(block), coded)
        shape = rows[0].shape[1:]
        first = first or (shape, _parts(rows))
        if shape != first[0]:
            raise InputError(f"X has shape {rows[0].shape}; the first block had {first[0]} a row")
        if _parts(rows) != first[1]:
            raise InputError("every block carries weights, or none does; others likewise")
        return rows

    return check


def _carried(block: Any) -> tuple[Any, dict[str, Any], tuple[Asked, ...]]:
    """(X, y) of a block, the weights and offset that follow them, and groupings."""
    if isinstance(block, Block):
        roles = dict(zip(ROLES, (block.weights, block.offset, None), strict=True))
        return block.data, roles, asked(block.groups)
    if not isinstance(block, tuple | list) or len(block) not in (3, 4):
        return block, dict.fromkeys(ROLES), ()
    more = [*block[2:], None, None]
    return tuple(block[:2]), dict(zip(ROLES, (more[0], more[1], None), strict=True)), ()


def _parts(rows: Rows) -> tuple[bool, ...]:
    return tuple(part is not None for part in rows[2:])

"""Rows of a regression in memory, or block by block: (X, y), weights, offset, exposure."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from masgrad.data.arrays import as_regression, block_of, not_a_matrix
from masgrad.data.designs.sparse_rows import SparseRows, is_sparse
from masgrad.data.groupings.given import ArrayGroups, Asked, asked
from masgrad.data.groupings.grouping import check_keys
from masgrad.data.left_out import LeftOut, Tally, gaps_of, with_nan
from masgrad.data.regression import ROLES, as_vector, beside, only, weigh
from masgrad.data.source import Arrays
from masgrad.data.stream import Block
from masgrad.data.tables.paths import is_frame
from masgrad.errors import InputError
from masgrad.fitting.rows.kept import complete, composed, kept_rows, place_of
from masgrad.fitting.rows.streams import NO_WEIGHT
from masgrad.models.glm import GLM
from masgrad.models.trace import TraceRegression
from masgrad.types import Rows, is_from

PartsOf = Callable[[Any], tuple[Any, dict[str, Any], Sequence[Asked]]]
"""From a block to (X, y), what stands beside them by role, and groupings."""


def regression_arrays(
    model: GLM,
    data: Any,
    block: int | None,
    roles: dict[str, Any],
    groups: Sequence[Asked] = (),
    *,
    left_out: LeftOut | None = None,
) -> Arrays:
    """The rows of arrays, or of a data frame X and a column y."""
    coded = ArrayGroups()
    if left_out is None:
        rows, names, kept = _regression(model, data, roles, groups, coded)
    else:
        with left_out.read() as tally:
            rows, names, kept = _regression(model, data, roles, groups, coded, tally=tally)
    if rows is None or not len(rows[1]):
        raise InputError(NO_WEIGHT)
    (count, p), thin = rows[0].shape, isinstance(rows[0], SparseRows) and rows[0].thin
    block = block or block_of(count, p, thin)
    return Arrays(rows, names, block, kept=kept, groupings=coded.groupings)


def _regression(
    model: GLM,
    data: Any,
    roles: dict[str, Any],
    groups: Sequence[Asked],
    coded: ArrayGroups,
    *,
    tally: Tally | None = None,
) -> tuple[Rows | None, tuple[str, ...], np.ndarray | None]:
    """Rows of a regression, names of X, and the rows that were kept (None if all were).

    Rows of weight 0 are left out, and with a tally those with missing values; None if none is left.
    """
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
    X, y = _pair(data if tally is None else _with_nan(data))
    vectors = {
        role: None if value is None else as_vector(role, value, len(y), index, tally is not None)
        for role, value in roles.items()
    }
    keys, some = coded.keys(groups, len(y), index), None
    if tally is not None:
        named = dict(zip([one.name for one in groups], keys, strict=True))
        columns = [(names or "X", gaps_of(X)), ("y", gaps_of(y))]
        some = complete(tally, columns, vectors, named, len(y))
        if some is not None and not len(some):
            return None, names, some
    X, y = kept_rows(X, some), only(y, some)
    X = model.design(model.rows((X, y))) if isinstance(model, TraceRegression) else X
    if X.ndim != 2:
        raise not_a_matrix(X)
    kept, weight, known = weigh((only(v, some) for v in vectors.values()), place_of(some))
    rows = composed(some, kept)
    codes = coded.codes([only(key, rows) for key in keys])
    if codes is not None:
        check_keys(coded.groupings, codes, place_of(rows))
    return beside(kept_rows(X, kept), only(y, kept), weight, known, codes), names, rows


def _pair(data: Any) -> tuple[Any, np.ndarray]:
    if isinstance(data, tuple | list) and len(data) == 2 and is_sparse(data[0]):
        X = SparseRows(data[0])
        return X, as_regression((np.broadcast_to(0.0, (len(X), 1)), data[1]), finite=False)[1]
    return as_regression(data, finite=False)


def _with_nan(data: Any) -> Any:
    """X and y with NaN for whatever is missing."""
    pair = isinstance(data, tuple | list) and len(data) == 2
    return tuple(map(with_nan, data)) if pair else data


def regression_checker(
    model: GLM, coded: ArrayGroups, missing: bool = False, parts_of: PartsOf | None = None
) -> Callable[[Any, Tally], Rows | None]:
    """A function that checks each block of a stream: its columns must not change in number.

    With `missing` it leaves out the rows with missing values, and counts them. `parts_of` says
    what of a block is what; by default it is as users give it.
    """
    parts_of = parts_of or _carried
    first: tuple[Any, ...] = ()

    def check(block: Any, tally: Tally) -> Rows | None:
        nonlocal first
        found = _regression(model, *parts_of(block), coded, tally=tally if missing else None)
        rows = found[0]
        if rows is None:
            return None
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

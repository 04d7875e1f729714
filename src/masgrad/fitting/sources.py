"""What `fit` was given, as a source of rows: arrays, tables, files, streams, simulators."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from masgrad.data.arrays import BLOCK, as_regression, not_a_matrix
from masgrad.data.formula.terms import Terms
from masgrad.data.regression import ROLES, as_vector, beside, only, weigh
from masgrad.data.simulate import Simulator
from masgrad.data.source import Arrays, Source, Stream
from masgrad.data.sparse import SparseRows, is_sparse
from masgrad.data.table_source import learn_table
from masgrad.data.tables.frames import is_frame, numbers_of
from masgrad.data.tables.paths import is_paths
from masgrad.errors import InputError, InputTypeError
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.models.trace import TraceRegression
from masgrad.types import Rows

UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def as_source(
    model: Model,
    data: Any,
    formula: str | None,
    memory: int,
    block: int = BLOCK,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
) -> tuple[Source, Terms | None]:
    """A source, and the formula's terms where there is one.

    Args:
        model: what is fitted.
        data: arrays, a table, files, a stream or an iterator.
        formula: for tables and files.
        memory: bytes that reading may take.
        block: rows of a block.
        weights: frequencies of the rows: an array, or the name of a table's column.
        offset: known part of the linear predictor, likewise.
        exposure: its logarithm is added to the offset, likewise.
    """
    roles = dict(zip(ROLES, (weights, offset, exposure), strict=True))
    carried = [role for role, value in roles.items() if value is not None]
    if formula is not None or is_paths(data):
        if formula is None:
            raise InputError(
                f"{data!r:.80} is a file; say what is fitted: formula='y ~ a + b', or use mg.glm"
            )
        return learn_table(data, formula, memory, block, roles)
    if carried and not isinstance(model, GLM):
        raise InputError(f"{carried[0]} needs a regression; {type(model).__name__} takes none")
    if isinstance(data, Simulator):
        raise InputError("a Simulator has no end; say how many rows: data.stream(rows=1_000_000)")
    if isinstance(data, Source | Iterator):
        if carried:
            raise InputError(
                f"{carried[0]} goes with each block of a stream; yield (X, y, weights, offset), "
                "where either may be None"
            )
        return _stream(model, data, block), None
    if isinstance(model, GLM) and not hasattr(data, "optimum"):
        return _arrays(model, data, block, roles), None
    return Arrays(model.rows(data), (), block, real=False), None


def matrices(data: Any, names: Sequence[str] = (), block: int = BLOCK) -> Iterator[np.ndarray]:
    """X without a response, block by block: an array, a sparse matrix, or these columns of a table.

    Args:
        data: X.
        names: of its columns, where the fitted data had some.
        block: rows of a block.
    """
    if is_sparse(data):
        X = SparseRows(data)
    else:
        X = numbers_of(data, names)[0] if is_frame(data) else _plain(data)
    starts = range(0, max(len(X), 1), block)
    return (np.asarray(X[start : start + block], np.float64) for start in starts)


def _plain(data: Any) -> np.ndarray:
    """X as an array of numbers, a row an observation; other types than float64 wait in blocks."""
    X = np.asarray(data)
    try:
        X = X if X.dtype.kind in "fiub" else X.astype(np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"X holds {X.ravel()[0] if X.size else X.dtype!r:.60}; numbers are needed: this result "
            "was fitted from arrays, without a formula, and predicts for rows X"
        ) from None
    return X.reshape(len(X), -1) if X.ndim > 2 else X


def as_bytes(memory: str | int) -> int:
    """A size such as "512MB", or a number of bytes."""
    if isinstance(memory, str):
        text = memory.strip().upper().replace("IB", "B")
        for unit in sorted(UNITS, key=len, reverse=True):
            if text.endswith(unit):
                try:
                    memory = float(text.removesuffix(unit)) * UNITS[unit]  # pyright: ignore
                    break
                except ValueError:
                    pass
    if isinstance(memory, str | bool) or not memory >= 2**20:
        raise InputError(f"memory={memory!r}; a size of at least a megabyte is needed: '512MB'")
    return int(memory)


def _stream(model: Model, data: Any, block: int) -> Source:
    if isinstance(data, Source) and not isinstance(data, Stream):
        return data
    if isinstance(data, Stream):
        stream = Stream(data.start, data.rereadable, block)
    else:
        stream = Stream(lambda: data, rereadable=False, block=block)
    stream.check, stream.real = _checker(model), isinstance(model, GLM)
    return stream


def _arrays(model: GLM, data: Any, block: int, roles: dict[str, Any]) -> Arrays:
    rows, names, kept = _regression(model, data, roles)
    if not len(rows[1]):
        raise InputError("every weight is 0; at least one row of positive weight is needed")
    return Arrays(rows, names, block, kept=kept)


def _regression(
    model: GLM, data: Any, roles: dict[str, Any]
) -> tuple[Rows, tuple[str, ...], np.ndarray | None]:
    """Rows of a regression, names of X, and which rows were kept if some have weight 0."""
    names: tuple[str, ...] = ()
    index = None
    if isinstance(data, tuple | list) and len(data) == 2:
        index = data[1].index if isinstance(data[1], pd.Series | pd.DataFrame) else None
        if is_frame(data[0]):
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
    X = X.only(kept) if isinstance(X, SparseRows) and kept is not None else only(X, kept)
    return beside(X, only(y, kept), weight, known), names, kept


def _pair(model: GLM, data: Any) -> tuple[Any, np.ndarray]:
    if isinstance(data, tuple | list) and len(data) == 2 and is_sparse(data[0]):
        X = SparseRows(data[0])
        return X, as_regression((np.broadcast_to(0.0, (len(X), 1)), data[1]), finite=False)[1]
    X, y = as_regression(data, finite=False)
    return (model.design(model.rows((X, y))), y) if isinstance(model, TraceRegression) else (X, y)


def _checker(model: Model) -> Callable[[Rows], Rows]:
    """What each block of a stream must be; a regression's columns must not change in number."""
    if not isinstance(model, GLM):
        return model.rows
    first: tuple[Any, ...] = ()

    def check(block: Rows) -> Rows:
        nonlocal first
        rows, _, _ = _regression(model, *_carried(block))
        shape = rows[0].shape[1:]
        first = first or (shape, _parts(rows))
        if shape != first[0]:
            raise InputError(f"X has shape {rows[0].shape}; the first block had {first[0]} a row")
        if _parts(rows) != first[1]:
            raise InputError("every block carries weights, or none does; offsets likewise")
        return rows

    return check


def _carried(block: Any) -> tuple[Any, dict[str, Any]]:
    """A block's (X, y), and what follows them: weights, then offset."""
    if not isinstance(block, tuple | list) or len(block) not in (3, 4):
        return block, dict.fromkeys(ROLES)
    more = [*block[2:], None, None]
    return tuple(block[:2]), dict(zip(ROLES, (more[0], more[1], None), strict=True))


def _parts(rows: Rows) -> tuple[bool, ...]:
    return tuple(part is not None for part in rows[2:])

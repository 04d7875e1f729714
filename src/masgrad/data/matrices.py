"""Rows X without a response, block by block: those to predict for."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from masgrad.data.arrays import BLOCK
from masgrad.data.designs.sparse_rows import SparseRows, is_sparse
from masgrad.data.tables.paths import is_frame
from masgrad.errors import InputTypeError


def matrices(data: Any, names: Sequence[str] = (), block: int = BLOCK) -> Iterator[np.ndarray]:
    """Blocks of X without a response: of an array, a sparse matrix, or columns of a table.

    Args:
        data: X.
        names: the columns of the fitted data, if they had names.
        block: rows of a block.
    """
    if is_sparse(data):
        X = SparseRows(data)
    elif is_frame(data):
        from masgrad.data.tables.frames import numbers_of

        X = numbers_of(data, names)[0]
    else:
        X = _plain(data)
    starts = range(0, max(len(X), 1), block)
    return (np.asarray(X[start : start + block], np.float64) for start in starts)


def _plain(data: Any) -> np.ndarray:
    """X as an array of numbers; blocks of other types are converted to float64 one at a time."""
    X = np.asarray(data)
    try:
        X = X if X.dtype.kind in "fiub" else X.astype(np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"X holds {X.ravel()[0] if X.size else X.dtype!r:.60}; numbers are needed: this result "
            "was fitted from arrays, without a formula, and predicts for rows X"
        ) from None
    return X.reshape(len(X), -1) if X.ndim > 2 else X

"""Which of the rows that a user gives are kept, and what is left of them.

Rows are left out because a value is missing (`complete`), and then because their weight is 0.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masgrad.data.arrays import as_rows, is_flat, leaves
from masgrad.data.designs.sparse_rows import SparseRows
from masgrad.data.groupings.given import gaps_of_keys
from masgrad.data.left_out import Column, Tally, gaps_of
from masgrad.data.regression import Place, only
from masgrad.data.tables.paths import is_frame
from masgrad.errors import InputError
from masgrad.models.model import Model
from masgrad.types import Rows


def complete(
    tally: Tally,
    columns: list[Column],
    vectors: Mapping[str, np.ndarray | None],
    keys: Mapping[str, np.ndarray],
    rows: int,
) -> np.ndarray | None:
    """The rows that have every value, None if all have; the others are counted.

    Args:
        tally: where.
        columns: of the rows themselves.
        vectors: weights and the like.
        keys: of groupings, by name.
        rows: their number.
    """
    columns = columns + [(role, vector) for role, vector in vectors.items() if vector is not None]
    columns += [(name, gaps_of_keys(key)) for name, key in keys.items()]
    mask = tally.see(columns, rows, vectors.get("weights"))
    return None if mask is None else np.flatnonzero(mask)


def kept_rows(X: Any, kept: np.ndarray | None) -> Any:
    """The kept rows of a design, which may be sparse."""
    return X.only(kept) if isinstance(X, SparseRows) and kept is not None else only(X, kept)


def composed(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    """The rows that a second choice keeps among those of a first one; None if all are."""
    return second if first is None else only(first, second)


def place_of(kept: np.ndarray | None) -> Place:
    """How the kept rows of arrays are called in messages."""
    return lambda row: f"row {row if kept is None else kept[row]}"


# Rows of any loss.


def unchecked(model: Model, data: Any) -> Rows:
    """Rows of a loss as arrays, some of whose values may be missing; a frame as its columns."""
    if model.takes_any_rows and is_frame(data):
        from masgrad.data.column_source import open_columns  # pyarrow

        medium, names = open_columns(data, model.columns)
        return medium.columns(names, {})  # pyright: ignore
    pair = isinstance(data, list) and len(data) == 2 and not model.takes_any_rows
    return as_rows(tuple(data) if pair else data, finite=False)


def columns_of_rows(rows: Rows) -> list[Column]:
    """The names and values of the arrays of some rows."""
    return [(name, gaps_of(a)) for name, a in zip(_names(rows), leaves(rows), strict=True)]


def check_finite(rows: Rows, place: Place) -> None:
    """Refuse an infinite value in rows that are numbered as `place` says."""
    for name, a in zip(_names(rows), leaves(rows), strict=True):
        if a.dtype.kind == "f" and not np.isfinite(a).all():
            at = tuple(np.argwhere(~np.isfinite(a))[0])
            column = f", column {at[1]}" if a.ndim == 2 else ""
            raise InputError(
                f"{name} holds {a[at]} at {place(int(at[0]))}{column}; drop or impute such rows"
            )


def _names(rows: Rows) -> list[str]:
    """The names of the arrays of some rows: keys of a dictionary, or places such as data[0]."""
    if is_flat(rows):
        held = sorted(rows.items()) if isinstance(rows, dict) else enumerate(rows)
        name = "{}" if isinstance(rows, dict) else "data[{}]"
        return [name.format(key) for key, a in held if a is not None]
    import jax

    return [f"data{jax.tree_util.keystr(path)}" for path, _ in jax.tree.flatten_with_path(rows)[0]]

"""Rows in memory: checked at the door, read in cache-sized blocks on the host.

Rows are a pytree of arrays that share their leading axis, mostly a tuple such as (X, y). Tuples are
taken apart here; only what is nested deeper, which no regression is, imports JAX.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from masgrad.data.designs.sparse_rows import SparseRows
from masgrad.data.designs.structured import Structured
from masgrad.data.left_out import advice
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows

BLOCK = 4096
"""Rows of a host block: a few hundred kilobytes, which stay in cache between two products."""

BLOCK_BYTES, MOST_ROWS, FEWEST_BLOCKS = 6 << 20, 16 * BLOCK, 64
"""Size of a long block, its largest number of rows, and how many blocks rows are cut into at least,
so that their order can be judged. With shorter ones Python's threads wait for each other."""

SPREAD_ROWS = 1 << 13
"""Rows from which the spread of columns is computed, unless a column is constant in them."""

MEDIAN_ROWS = 1 << 11
"""Rows from which medians are computed: those of all rows would take as long as a read."""

CODED_BYTES, LONG_BLOCK = 1 << 26, 8 * BLOCK
"""The same for blocks of coded or sparse rows, were they written out; rows of such blocks that are
kept in memory."""


def block_of(count: int | None, p: int, coded: bool = False) -> int:
    """Rows of a block, of so many rows in memory with p columns."""
    room = (CODED_BYTES if coded else BLOCK_BYTES) // (8 * max(p, 1))
    few = MOST_ROWS if coded or count is None else count // FEWEST_BLOCKS
    return max(BLOCK, min(room, few, MOST_ROWS))


def as_rows(data: Any, names: tuple[str, ...] = (), finite: bool = True) -> Rows:
    """Data as a pytree of finite NumPy arrays of one length; floats become float64.

    With `names` the data are one array for each of them. With `finite=False` values are not checked
    and floats keep their precision: nothing is copied.
    """
    if is_simulator(data):
        raise InputError("rows are needed here, and data is a Simulator; draw some: data.sample")
    leaves, labels, rebuild = _named(data, names) if names else _flatten(data)
    arrays = [_as_array(*pair, finite) for pair in zip(leaves, labels, strict=True)]
    lengths = [len(a) for a in arrays]
    if len(set(lengths)) > 1:
        said = ", ".join(f"{label} has {n}" for label, n in zip(labels, lengths, strict=True))
        raise InputError(f"arrays differ in their number of rows: {said}; axis 0 is observations")
    if lengths[0] == 0:
        raise InputError(f"{labels[0]} holds no rows; at least one observation is needed")
    return rebuild(arrays)


Flat = tuple[Sequence[Any], Sequence[str], Callable[[list[np.ndarray]], Rows]]
"""The arrays in some data, their names in messages, and how rows are made of such arrays."""


def _named(data: Any, names: tuple[str, ...]) -> Flat:
    """An array for each name; lists of numbers count as arrays."""
    if len(names) == 1:
        leaves, rebuild = [list(data) if isinstance(data, tuple) else data], lambda rows: rows[0]
    else:
        leaves, rebuild = list(data), tuple
    if any(leaf is None or isinstance(leaf, tuple | Mapping) for leaf in leaves):
        raise InputTypeError(f"{' and '.join(names)}: one array each is needed, not {data!r:.80}")
    return leaves, names, rebuild


def _flatten(data: Any) -> Flat:
    """The leaves of a pytree; a list is a leaf."""
    import jax

    paths, structure = jax.tree.flatten_with_path(data, is_leaf=lambda x: isinstance(x, list))
    if not paths:
        raise InputError("data holds no array; give an array, or a tuple of arrays such as (X, y)")
    labels = [f"data{jax.tree_util.keystr(path)}" for path, _ in paths]
    return [leaf for _, leaf in paths], labels, lambda rows: jax.tree.unflatten(structure, rows)


def is_simulator(data: Any) -> bool:
    """Whether this is a `Simulator`, whose class comes with JAX."""
    return hasattr(data, "sample") and hasattr(data, "reference")


def as_regression(data: Any, finite: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Data as a pair (X, y) with one response per row, in float64 if `finite`."""
    if hasattr(data, "optimum"):
        raise InputTypeError(
            "rows (X, y) are needed, and LeastSquaresMoments keep none; ask them: .moments(theta)"
        )
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(
            f"a regression needs data=(X, y), a pair of arrays, got {type(data).__name__}"
        )
    if any(isinstance(part, Mapping) for part in data):
        raise InputTypeError("X and y must be arrays, not dictionaries")
    X, y = as_rows((data[0], one_column(data[1])), ("X", "y"), finite)
    if y.ndim != 1:
        hint = "y.ravel()" if y.ndim == 2 and y.shape[1] == 1 else "one column of it, y[:, 0]"
        raise InputError(f"y has shape {y.shape}; (N,) is needed, one response a row: {hint}?")
    if 0 in X.shape[1:]:
        raise InputError(f"X has shape {X.shape}; at least one column is needed")
    return (np.asarray(X, np.float64), np.asarray(y, np.float64)) if finite else (X, y)


def one_column(y: Any) -> Any:
    """The column of a one-column table as an array; other objects are returned unchanged."""
    if not hasattr(y, "columns") or len(getattr(y, "shape", ())) != 2:
        return y
    if y.shape[1] != 1:
        names = list(getattr(y, "column_names", y.columns))
        hint = f": y[{names[0]!r}]?" if names else ""
        raise InputError(f"y is a table of {len(names)} columns; one response is needed{hint}")
    return np.asarray(y)[:, 0]


def not_a_matrix(X: Any) -> InputError:
    """The error for an X that is not a matrix."""
    if X.ndim == 1:
        hint = "X[:, None]?"
    else:
        hint = "X.reshape(len(X), -1), or mg.TraceRegression where rows are matrices?"
    return InputError(
        f"X has shape {X.shape}; a matrix with a row an observation is needed: {hint}"
    )


def _as_array(leaf: Any, label: str, finite: bool = True) -> np.ndarray:
    if hasattr(leaf, "toarray"):
        raise InputTypeError(f"{label} is a sparse matrix; give {label}.toarray()")
    if np.ma.is_masked(leaf):
        raise InputError(f"{label} has masked entries; drop or impute those rows first")
    try:
        array = np.asarray(leaf)
    except ValueError as error:
        raise InputError(f"{label} is not a rectangular array: {error}") from None
    if array.ndim == 0:
        raise InputError(f"{label} is a scalar; axis 0 must be observations")
    if array.dtype == object:
        array = _from_objects(array, label)
    if array.dtype.kind == "f" and finite:
        array = array.astype(np.float64, copy=False)
        _check_finite(array, label)
    elif array.dtype.kind not in "fiub":
        raise InputTypeError(
            f"{label} has dtype {array.dtype}; real numbers are needed: encode or convert it first"
        )
    return array


def _from_objects(array: np.ndarray, label: str) -> np.ndarray:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{label} holds objects that are not numbers: {error}") from None


def _check_finite(array: np.ndarray, label: str) -> None:
    with np.errstate(over="ignore"):
        if np.isfinite(array.sum()) or np.isfinite(array).all():
            return
    where = np.argwhere(~np.isfinite(array))[0]
    column = f", column {where[1]}" if array.ndim == 2 else ""
    raise InputError(
        f"{label} holds {array[tuple(where)]} at row {where[0]}{column}; "
        f"{advice(array[tuple(where)], ' in a fit')}"
    )


def is_flat(rows: Rows) -> bool:
    """Whether rows are a tuple or a dict of arrays, which take no JAX to look through."""
    parts = rows.values() if isinstance(rows, dict) else rows
    return isinstance(rows, tuple | dict) and all(
        isinstance(a, np.ndarray | SparseRows | Structured | None) for a in parts
    )


def leaves(rows: Rows) -> list[Any]:
    """The arrays of the rows; those of a dict in the order of its keys."""
    if is_flat(rows):
        parts = [rows[key] for key in sorted(rows)] if isinstance(rows, dict) else rows
        return [a for a in parts if a is not None]
    import jax

    return jax.tree.leaves(rows)


def count_rows(rows: Rows) -> int:
    second = rows[1] if isinstance(rows, tuple) and len(rows) > 1 else None
    return len(second) if isinstance(second, np.ndarray) else len(leaves(rows)[0])


def pick(function: Callable[..., np.ndarray], rows: Rows, *others: Rows) -> Rows:
    """Apply a function to every array of the rows, with the same array of the others."""
    flat = all(map(is_flat, (rows, *others)))
    if flat and isinstance(rows, dict):
        return {key: function(a, *(other[key] for other in others)) for key, a in rows.items()}
    if flat:
        parts = (None if a[0] is None else function(*a) for a in zip(rows, *others, strict=True))
        return getattr(rows, "_make", tuple)(parts)
    import jax

    return jax.tree.map(function, rows, *others)


def empty_columns(n: int, p: int) -> np.ndarray:
    """An uninitialised (n, p) block with contiguous columns.

    Their distance is not a power of 2, which would map them to the same few cache lines.
    """
    return np.empty((p, n + 8))[:, :n].T


def joined(parts: Sequence[Any]) -> Any:
    """The rows of several arrays, one after the other; coded and sparse ones stay so."""
    first = parts[0]
    if isinstance(first, Structured) and all(type(part) is type(first) for part in parts):
        return first.followed_by(parts[1:])
    return np.concatenate(parts)


def is_finite(a: Any) -> bool:
    """Whether all entries of an array are, coded and sparse ones included."""
    return a.is_finite() if isinstance(a, Structured) else bool(np.isfinite(a).all())


def powers(X: Any, k: int) -> Any:
    """The entries' absolute values to the power k, of any design matrix."""
    if isinstance(X, Structured):
        return X.power(k)
    square = np.square(X)
    return square ** (k // 2) if k % 2 == 0 else np.abs(X) * square ** (k // 2)


def every_few(X: Any, rows: int) -> Any:
    """About so many rows from all over X: neighbours may be alike."""
    return X[:: max(1, len(X) // rows)]


def column_spread(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """The spread over some rows, and over all of them for columns that are constant in those."""
    spread = _spread(every_few(X, SPREAD_ROWS), centre)
    still = np.flatnonzero(~(spread > 0))
    if isinstance(X, Structured):
        return _spread(X, centre) if len(still) else spread
    spread[still] = _spread(X[:, still], centre[still])
    return spread


def _spread(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Root mean square about a centre, robust to a few outliers.

    Deviations are clipped at 20 times their median, unless that is 0 (as it is for a dummy).
    """
    if isinstance(X, Structured):
        return X.spread(centre, _spread)
    few, k = X[:MEDIAN_ROWS], min(len(X), MEDIAN_ROWS) // 2
    usual = np.partition(few, k, axis=0)[k]  # the upper of two medians: one selection, not three
    middle = np.partition(np.abs(few - usual), k, axis=0)[k]
    shift = np.abs(usual - centre)
    away = np.abs(X - centre)
    largest = np.minimum(np.where(middle > 0, 20 * middle + shift, np.inf), away.max(0))
    unit = np.where(largest > 0, largest, 1.0)
    np.minimum(away, largest, out=away)
    away /= unit
    np.square(away, out=away)
    return unit * np.sqrt(away.mean(0))


def is_structured(rows: Rows) -> bool:
    """Whether X is coded or sparse."""
    return isinstance(rows, tuple) and isinstance(rows[0], Structured)


def blocks(rows: Rows, size: int | None = None) -> Iterator[Rows]:
    """Views of `size` consecutive rows at a time, in order; by default of `BLOCK`.

    Coded and sparse rows take less room, and their blocks are longer.
    """
    room = CODED_BYTES // (8 * rows[0].shape[1]) if is_structured(rows) else BLOCK
    step = min(max(room, BLOCK), LONG_BLOCK) if size is None else size
    for start in range(0, count_rows(rows), step):
        yield pick(lambda a, s=start: a[s : s + step], rows)


def long_blocks(rows: Rows) -> Iterator[Rows]:
    """The same for sums in which no coded or sparse row is written out."""
    return blocks(rows, LONG_BLOCK if is_structured(rows) else None)


def pad(rows: Rows, length: int) -> Rows:
    """The rows, padded to `length` with copies of the first row."""

    def stretch(a: np.ndarray) -> np.ndarray:
        out = np.empty((length, *a.shape[1:]), a.dtype)
        out[: len(a)], out[len(a) :] = a, a[0]
        return out

    return rows if count_rows(rows) == length else pick(stretch, rows)

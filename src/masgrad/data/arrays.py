"""Rows in memory: checked at the door, read in blocks on the host, packed for the chains.

`blocks` walks over NumPy rows in cache-sized pieces. `Table` is what a compiled chain draws from:
its rows are padded to a capacity that many N share, and the true count is a traced number, so that
another N of the same capacity does not compile again. Padding repeats a real row and carries weight
0: a loss that is finite on the data stays finite on the padding.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.data.designs.structured import Structured
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Array, Rows

BLOCK = 4096
"""Rows of a host block: a few hundred kilobytes, which stay in cache between two products."""


def as_rows(data: Any, names: tuple[str, ...] = (), finite: bool = True) -> Rows:
    """Data as a pytree of finite NumPy arrays of one length; floats become float64.

    With `finite=False` values are not checked and floats keep their precision: nothing is copied.
    """
    if hasattr(data, "sample") and hasattr(data, "reference"):
        raise InputError("rows are needed here, and data is a Simulator; draw some: data.sample")
    data = list(data) if len(names) == 1 and isinstance(data, tuple) else data
    is_list = lambda x: isinstance(x, list)  # noqa: E731
    paths, structure = jax.tree.flatten_with_path(data, is_leaf=is_list)
    if not paths:
        raise InputError("data holds no array; give an array, or a tuple of arrays such as (X, y)")
    if names and len(paths) != len(names):
        raise InputTypeError(f"{' and '.join(names)}: one array each is needed, not {data!r:.80}")
    labels = names or tuple(f"data{jax.tree_util.keystr(path)}" for path, _ in paths)
    leaves = zip(paths, labels, strict=True)
    arrays = [_as_array(leaf, label, finite) for (_, leaf), label in leaves]
    lengths = [len(a) for a in arrays]
    if len(set(lengths)) > 1:
        said = ", ".join(f"{label} has {n}" for label, n in zip(labels, lengths, strict=True))
        raise InputError(f"arrays differ in their number of rows: {said}; axis 0 is observations")
    if lengths[0] == 0:
        raise InputError(f"{labels[0]} holds no rows; at least one observation is needed")
    return jax.tree.unflatten(structure, arrays)


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
        "drop or impute missing rows first"
    )


def count_rows(rows: Rows) -> int:
    second = rows[1] if isinstance(rows, tuple) and len(rows) > 1 else None
    return len(second) if isinstance(second, np.ndarray) else len(jax.tree.leaves(rows)[0])


LONG_BLOCK = 4 * BLOCK
"""Rows of a block of coded or sparse rows."""


def pick(function: Callable[[np.ndarray], np.ndarray], rows: Rows) -> Rows:
    """Apply a function to every array of the rows; tuples of arrays avoid JAX's overhead."""
    if isinstance(rows, tuple) and all(isinstance(a, np.ndarray | Structured | None) for a in rows):
        parts = (None if a is None else function(a) for a in rows)
        return getattr(rows, "_make", tuple)(parts)
    return jax.tree.map(function, rows)


def empty_columns(n: int, p: int) -> np.ndarray:
    """An uninitialised (n, p) block with contiguous columns.

    Their distance is not a power of 2, which would map them to the same few cache lines.
    """
    return np.empty((p, n + 8))[:, :n].T


def is_structured(rows: Rows) -> bool:
    """Whether X is coded or sparse."""
    return isinstance(rows, tuple) and isinstance(rows[0], Structured)


def blocks(rows: Rows, size: int | None = None) -> Iterator[Rows]:
    """Views of `size` consecutive rows at a time, in order; by default of `BLOCK`.

    Coded and sparse rows take less room, and their blocks are longer.
    """
    if size is None:
        size = LONG_BLOCK if is_structured(rows) else BLOCK
    for start in range(0, count_rows(rows), size):
        yield pick(lambda a, s=start: a[s : s + size], rows)


def pad(rows: Rows, length: int) -> Rows:
    """The rows, padded to `length` with copies of the first row."""

    def stretch(a: np.ndarray) -> np.ndarray:
        out = np.empty((length, *a.shape[1:]), a.dtype)
        out[: len(a)], out[len(a) :] = a, a[0]
        return out

    return rows if count_rows(rows) == length else jax.tree.map(stretch, rows)


def capacity(count: int) -> int:
    """A padded length that many counts share: powers of two, then eighths of an octave.

    Only storage is rounded up; work follows the count (see `Table.number_of_blocks`).
    """
    octave = max(512, 1 << (count - 1).bit_length())
    if octave <= 1 << 16:
        return octave
    grain = octave // 16
    return -(-count // grain) * grain


class Table(eqx.Module):
    """Rows that a compiled chain draws from and sums over."""

    rows: Rows
    count: Array

    @classmethod
    def pack(cls, rows: Rows) -> "Table":
        count = count_rows(rows)
        return cls(pad(rows, capacity(count)), np.asarray(count))

    @property
    def capacity(self) -> int:
        return count_rows(self.rows)

    def draw(self, key: Array, n: int, chains: int, replace: bool = True) -> Rows:
        """`n` rows for each chain, leaves of shape (n, K, ...)."""
        if replace:
            index = self._with_replacement(key, n, chains)
        else:
            index = self._without_replacement(key, n, chains)
        return jax.tree.map(lambda a: a[index], self.rows)

    def _with_replacement(self, key: Array, n: int, chains: int) -> Array:
        """Row numbers (n, K). Up to 2^16 rows each takes half of a 64-bit word, which makes rows
        equally likely to within 2^-16 of 1/N; whole words took an eighth of a small step's time."""
        if self.capacity > 1 << 16:
            return jnp.floor(jax.random.uniform(key, (n, chains)) * self.count).astype(int)
        words = jax.random.bits(key, (-(-n // 2), chains), np.uint64)
        halves = jnp.concatenate([words >> 32, words & 0xFFFFFFFF])[:n]
        return ((halves * self.count.astype(np.uint64)) >> 32).astype(int)

    def _without_replacement(self, key: Array, n: int, chains: int) -> Array:
        """Row numbers (n, K) that differ within a chain.

        Small batches by Floyd's algorithm, O(n^2) for each chain; large ones by sorting all rows.
        """
        if n * n > self.capacity:
            real = jnp.arange(self.capacity) < self.count
            priority = jax.random.uniform(key, (chains, self.capacity))
            return jax.lax.top_k(jnp.where(real, priority, -1.0), n)[1].T
        uniform = jax.random.uniform(key, (n, chains))

        def choose(i, index):
            last = self.count - n + i
            row = jnp.floor(uniform[i] * (last + 1)).astype(int)
            return index.at[i].set(jnp.where((index == row).any(0), last, row))

        return jax.lax.fori_loop(0, n, choose, jnp.full((n, chains), -1))

    def number_of_blocks(self, size: int) -> Array:
        return (self.count + size - 1) // size

    def block(
        self, index: Array | int, size: int, features: Rows, axis: int = 0
    ) -> tuple[Rows, Array]:
        """One block of `features`, which a model prepared from the rows, and its weights."""
        start = index * size
        take = lambda a: jax.lax.dynamic_slice_in_dim(a, start, size, axis)  # noqa: E731
        weight = (start + jnp.arange(size) < self.count).astype(float)
        return jax.tree.map(take, features), weight

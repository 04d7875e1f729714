"""X' diag(w) X over a block of rows, the inner loop of every fit.

With few columns, at most PIECEWISE_COLUMNS, the block is multiplied in pieces that OpenBLAS takes
without packing them first, which is up to twice as fast as the half that it computes of Z'Z; with
more columns Z'Z wins.
Weighted rows are written to a block that each thread keeps: a new one may cost as much as they do.
"""

import threading

import numpy as np

from masgrad.data.arrays import empty_columns

PIECEWISE_COLUMNS = 32
"""Largest number of columns for which the product is computed in pieces."""

PIECE_MULTIPLICATIONS = 1e6
"""Largest number of multiplications for which OpenBLAS does not pack."""

SCRATCH_BYTES = 1 << 24
"""Largest block that a thread keeps for reuse, in bytes; larger ones are allocated each time."""

FOLDED_ROWS = 64
"""Rows laid side by side when the largest entries of columns are found."""


def gram(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """X' diag(w) X for w >= 0."""
    if X.shape[1] > PIECEWISE_COLUMNS:
        Z = _weighted(X, np.sqrt(w))
        return Z.T @ Z
    return _product(X, _weighted(X, w))


def gram_and_peak(X: np.ndarray, w: np.ndarray, convex: bool) -> tuple[np.ndarray, np.ndarray]:
    """X' diag(w) X and max_weighted_x, the largest |x| sqrt |w| of each column.

    `convex` promises that no w is negative.
    """
    if convex and X.shape[1] > PIECEWISE_COLUMNS:
        Z = _weighted(X, np.sqrt(np.maximum(w, 0.0)))
        return Z.T @ Z, _column_max(Z)
    Z = _weighted(X, w)
    G = _product(X, Z)
    Z *= X
    return G, np.sqrt(_column_max(Z))


class _Scratch(threading.local):
    def __init__(self):
        self.block: np.ndarray = np.empty((0, 0))


_scratch = _Scratch()


def _weighted(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """diag(w) X in this thread's block, with the layout of X."""
    if X.nbytes > SCRATCH_BYTES:
        return X * w[:, None]
    Z = _scratch.block
    if Z.shape != X.shape or _by_rows(Z) != _by_rows(X):
        Z = _scratch.block = np.empty(X.shape) if _by_rows(X) else empty_columns(*X.shape)
    return np.multiply(X, w[:, None], out=Z)


def _by_rows(X: np.ndarray) -> bool:
    return X.strides[1] == X.itemsize


def _product(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """X'Z, piece by piece."""
    n, p = X.shape
    size = min(n, 1 << int(np.log2(PIECE_MULTIPLICATIONS / p**2)))
    whole = n // size * size
    G = np.matmul(_pieces(X[:whole], size).transpose(0, 2, 1), _pieces(Z[:whole], size)).sum(0)
    return G + X[whole:].T @ Z[whole:] if whole < n else G


def _pieces(X: np.ndarray, size: int) -> np.ndarray:
    """A view of shape (pieces, size, p)."""
    if _by_rows(X):
        return X.reshape(-1, size, X.shape[1])
    return X.T.reshape(X.shape[1], -1, size).transpose(1, 2, 0)


def _column_max(Z: np.ndarray) -> np.ndarray:
    """Largest absolute entry of each column."""
    low, high = column_range(Z)
    return np.maximum(high, -low)


def column_range(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entry of each column, (p,) each.

    Rows are folded side by side first: NumPy is three times as fast along long rows.
    """
    n, p = Z.shape
    whole = n // FOLDED_ROWS * FOLDED_ROWS if Z.flags.c_contiguous else 0
    tall = Z[whole:]
    if not whole:
        return tall.min(0), tall.max(0)
    wide = Z[:whole].reshape(FOLDED_ROWS, -1)
    low, high = wide.min(0).reshape(-1, p).min(0), wide.max(0).reshape(-1, p).max(0)
    if not len(tall):
        return low, high
    return np.minimum(low, tall.min(0)), np.maximum(high, tall.max(0))

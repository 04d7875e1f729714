"""Sums by group: over the rows of each level of a category.

Codes are whole numbers from 0 to size - 1; rows with the code `size` belong to no group. With D the
matrix of dummies these are the products D'w, D'diag(w) X and D'diag(w) E. They cost one addition
for each row and column of X, however many levels there are.
"""

import numpy as np

FEW_COLUMNS = 6
"""Columns up to which they are summed one by one."""


def sums(codes: np.ndarray, size: int, w: np.ndarray) -> np.ndarray:
    """D'w, (size,)."""
    return np.bincount(codes, w, size + 1)[:size]


def sums_of_rows(codes: np.ndarray, size: int, w: np.ndarray, X: np.ndarray) -> np.ndarray:
    """D'diag(w) X, (size, q)."""
    if not X.shape[1]:
        return np.zeros((size, 0))
    if X.shape[1] <= FEW_COLUMNS:
        return np.stack([sums(codes, size, z) for z in w * X.T], 1)
    from scipy import sparse  # heavy, and for many columns alone

    every = np.arange(len(codes) + 1, dtype=np.int32)
    weighted = sparse.csc_array((w, codes.astype(np.int32), every), shape=(size + 1, len(codes)))
    return (weighted @ np.ascontiguousarray(X))[:size]


def table(a: np.ndarray, m: int, b: np.ndarray, k: int, w: np.ndarray) -> np.ndarray:
    """D'diag(w) E for two categories of m and k levels, (m, k): the weighted cross table."""
    cells = a * (k + 1) + b
    return np.bincount(cells, w, (m + 1) * (k + 1)).reshape(m + 1, k + 1)[:m, :k]

"""Sparse matrices as rows: blocks stay sparse, or are converted to dense ones if they are not thin.

Only data that are sparse import SciPy's sparse matrices.
"""

from typing import Any

import numpy as np

from masgrad.data.designs.sparse import SparseDesign
from masgrad.errors import InputTypeError
from masgrad.types import is_from

THIN, MANY_COLUMNS = 0.05, 64
"""Share of entries that are not 0 up to which, and columns from which, sparse products are faster
than dense ones."""


VERY_THIN = 1 / 128
"""Share up to which the usual number of pilot rows has fewer than 256 entries in most columns."""


class SparseRows:
    """A sparse matrix whose slices are rows, sparse or dense.

    Example:
        >>> from scipy import sparse
        >>> rows = SparseRows(sparse.eye_array(3, format="csr"))
        >>> rows[1:2]
        array([[0., 1., 0.]])
    """

    ndim = 2

    def __init__(self, matrix: Any):
        if np.iscomplexobj(matrix):
            raise InputTypeError(f"X has dtype {matrix.dtype}; real numbers are needed")
        from scipy import sparse

        self.matrix = sparse.csr_array(matrix)
        self.shape: tuple[int, int] = self.matrix.shape  # pyright: ignore
        self.dtype = np.dtype(np.float64)
        n, p = self.shape
        self.thin = p >= MANY_COLUMNS and self.matrix.nnz <= THIN * n * p
        self.very_thin = self.thin and self.matrix.nnz <= VERY_THIN * n * p

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray | SparseDesign:
        block = self.matrix[rows].astype(np.float64, copy=False)
        return SparseDesign(block) if self.thin else block.toarray()

    def only(self, kept: np.ndarray) -> "SparseRows":
        """A subset of the rows, still sparse."""
        return SparseRows(self.matrix[kept])

    def take(self, index: np.ndarray, axis: int = 0, **_: Any) -> np.ndarray | SparseDesign:
        """The method that np.take calls."""
        return self[index]


def is_sparse(data: Any) -> bool:
    """Whether this is a matrix or an array of `scipy.sparse`."""
    return is_from("scipy.sparse", data, "sparray", "spmatrix")

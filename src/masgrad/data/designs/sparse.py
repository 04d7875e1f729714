"""Sparse rows: Gram matrices from the entries that are not 0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from masgrad.data.designs.structured import Structured


class SparseDesign(Structured):
    """Rows of a `scipy.sparse.csr_array` in float64.

    Example:
        >>> from scipy import sparse
        >>> SparseDesign(sparse.eye_array(2, format="csr")).gram(np.array([1.0, 3.0]))
        array([[1., 0.],
               [0., 3.]])
    """

    def __init__(self, matrix: Any):
        self.matrix = matrix
        self.shape = matrix.shape

    def dense(self) -> np.ndarray:
        return self.matrix.toarray()

    def times(self, B: np.ndarray) -> np.ndarray:
        return self.matrix @ B

    def left(self, A: np.ndarray) -> np.ndarray:
        return (self.matrix.T @ A.T).T

    def gram(self, w: np.ndarray) -> np.ndarray:
        return (self.matrix.T @ self._scaled(w)).toarray()

    def sums_by(self, codes: np.ndarray, size: int, w: np.ndarray) -> np.ndarray:
        X = self.matrix
        D = type(X)((w, codes, np.arange(len(self) + 1)), shape=(len(self), size))
        return (D.T @ X).toarray()

    def grams(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both as one product of complex numbers: finding the entries is most of its time."""
        G = (self.matrix.T @ self._scaled(w + 1j * v)).toarray()
        return G.real.copy(), G.imag.copy(), self.largest(np.sqrt(np.abs(w)))

    def largest(self, s: np.ndarray) -> np.ndarray:
        return abs(self._scaled(s)).max(axis=0).toarray().ravel()

    def row_peaks(self, centre: np.ndarray, scale: np.ndarray, unit: np.ndarray) -> np.ndarray:
        X, j = self.matrix, self.matrix.indices
        out = np.full(len(self), (np.square(centre / scale) * unit).max(initial=0.0))
        if X.nnz:
            peaks = np.append(np.square((X.data - centre[j]) / scale[j]) * unit[j], 0.0)
            full = np.diff(X.indptr) > 0
            some = np.maximum.reduceat(peaks, X.indptr[:-1])
            np.maximum(out, some, out=out, where=full)
        return out

    def standardised(self, centre: np.ndarray, scale: np.ndarray) -> "SparseDesign":
        del centre
        X = self.matrix.copy()
        X.data = X.data / scale[X.indices]
        return SparseDesign(X)

    def power(self, k: int) -> "SparseDesign":
        X = abs(self.matrix)
        X.data **= k
        return SparseDesign(X)

    @property
    def written(self) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0, np.intp), np.empty((len(self), 0))

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.matrix.data).all())

    def chosen(self, rows: Any) -> "SparseDesign":
        return SparseDesign(self.matrix[rows])

    def followed_by(self, others: Sequence["SparseDesign"]) -> "SparseDesign":
        from scipy import sparse  # heavy

        parts = (self.matrix, *(other.matrix for other in others))
        return SparseDesign(sparse.vstack(parts, format="csr"))

    @property
    def nbytes(self) -> int:
        """Bytes of the entries and their places."""
        return 2 * self.matrix.data.nbytes

    def _scaled(self, w: np.ndarray) -> Any:
        """diag(w) X."""
        X = self.matrix
        data = X.data * np.repeat(w, np.diff(X.indptr))
        return type(X)((data, X.indices, X.indptr), shape=X.shape)

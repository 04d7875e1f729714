"""A design matrix that is not written out, and behaves as an array.

Products with vectors and matrices, Gram matrices and the largest entries of columns use its
structure: they are what a fit spends its time on. Any other function of NumPy sees the dense
matrix, which is right and slow.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Structured(NDArrayOperatorsMixin, abc.ABC):
    """X of shape (n, p) in float64."""

    ndim = 2
    dtype = np.dtype(np.float64)
    shape: tuple[int, int]
    gram_is_cheap = False
    """Whether a Gram matrix takes little longer than a product with a vector."""

    @abc.abstractmethod
    def dense(self) -> np.ndarray:
        """The matrix itself."""

    @abc.abstractmethod
    def times(self, B: np.ndarray) -> np.ndarray:
        """X B, for a vector or a matrix."""

    @abc.abstractmethod
    def left(self, A: np.ndarray) -> np.ndarray:
        """A X, for a vector or a matrix."""

    @abc.abstractmethod
    def gram(self, w: np.ndarray) -> np.ndarray:
        """X' diag(w) X."""

    @abc.abstractmethod
    def sums_by(self, codes: np.ndarray, size: int, w: np.ndarray) -> np.ndarray:
        """Weighted sums of the rows of each level of a category, (size, p)."""

    @abc.abstractmethod
    def largest(self, s: np.ndarray) -> np.ndarray:
        """An upper bound on the largest |x| s of each column, s >= 0."""

    def grams(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X' diag(w) X, X' diag(v) X, and the largest |x| sqrt |w| of each column."""
        return self.gram(w), self.gram(v), self.largest(np.sqrt(np.abs(w)))

    @abc.abstractmethod
    def row_peaks(self, centre: np.ndarray, scale: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """The largest unit ((x - centre) / scale)^2 of each row; every row counts as if it had a 0
        in all columns that are not written out as well."""

    def spread(self, centre: np.ndarray, of_written: Callable[..., np.ndarray]) -> np.ndarray:
        """Root mean square of each column about a centre; of written columns as told."""
        at, numbers = self.written
        squares = self.power(2).mean(0) - 2 * centre * self.mean(0) + centre**2
        out = np.sqrt(np.maximum(squares, 0.0))
        if len(at):
            out[at] = of_written(numbers, centre[at])
        return out

    @abc.abstractmethod
    def standardised(self, centre: np.ndarray, scale: np.ndarray) -> "Structured":
        """Columns over their scales; of the columns that are written out the centre is taken."""

    @abc.abstractmethod
    def power(self, k: int) -> "Structured":
        """The entries' absolute values to the power k > 0."""

    @property
    @abc.abstractmethod
    def written(self) -> tuple[np.ndarray, np.ndarray]:
        """Places and values of the columns that are written out: (q,) and (n, q)."""

    @abc.abstractmethod
    def is_finite(self) -> bool:
        """Whether all entries are."""

    @abc.abstractmethod
    def chosen(self, rows: Any) -> "Structured":
        """Some of the rows: a slice, numbers or a mask."""

    @abc.abstractmethod
    def followed_by(self, others: Sequence[Any]) -> "Structured":
        """These rows and those of others of the same kind."""

    def gram_about(self, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The Gram matrix of (x - centre) / scale, from that of x: it loses as many digits as the
        squares of centre / scale have."""
        cross = np.outer(centre, self.sum(0) - len(self) / 2 * centre)
        return (self.gram(np.ones(len(self))) - cross - cross.T) / np.outer(scale, scale)

    def column(self, j: int) -> np.ndarray:
        """One column."""
        return self.times(np.eye(1, self.shape[1], j)[0])

    def sum(self, axis: int = 0) -> np.ndarray:
        """Sums of the columns."""
        assert axis == 0
        return self.left(np.ones(len(self)))

    def mean(self, axis: int = 0) -> np.ndarray:
        """Means of the columns."""
        return self.sum(axis) / len(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense matrix, which some steps write out."""
        return 8 * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return self.chosen(index)
        rows, column = index
        if isinstance(column, int | np.integer):
            return self.column(int(column))[rows]
        return self.dense()[index]

    def take(self, index: np.ndarray, axis: int = 0, **_: Any) -> "Structured":
        """The method that np.take calls."""
        assert axis == 0
        return self.chosen(index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return np.asarray(self.dense(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not options:
            a, b = inputs
            if isinstance(a, Structured) and isinstance(b, np.ndarray):
                return a.times(b)
            if isinstance(a, np.ndarray) and isinstance(b, Structured):
                return b.left(a)
        written = (x.dense() if isinstance(x, Structured) else x for x in inputs)
        return getattr(ufunc, method)(*written, **options)

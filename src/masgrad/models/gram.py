"""Gram matrices: X' diag(w) X over a block of rows, the inner loop of every fit, and their factors.

With few columns, at most PIECEWISE_COLUMNS, the block is multiplied in pieces that OpenBLAS takes
without packing them first, which is up to twice as fast as the half that it computes of Z'Z; with
more columns Z'Z wins.
Products are `np.dot`'s, during which other threads run; during `@` they do only if its result is
long, and p x p numbers may be few.
Weighted rows are written to a block that each thread keeps: a new one may cost as much as they do.

In single precision both products take about half of the time (`SinglePrecision`).

A well-conditioned matrix, its diagonal scaled to 1, is factored by Cholesky: at p = 2,000 that
takes a fifteenth of the time of its eigenvectors, which only nearly singular ones need.
"""

import threading
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs

from masgrad.data.arrays import empty_columns
from masgrad.data.designs.structured import Structured
from masgrad.data.regression import column_range

dpocon, dpotrf, dpotri, dpotrs, dtrtrs = get_lapack_funcs(
    ("pocon", "potrf", "potri", "potrs", "trtrs"), dtype=np.float64
)

PIECEWISE_COLUMNS = 32
"""Largest number of columns for which the product is computed in pieces."""

PIECE_MULTIPLICATIONS = 1e6
"""Largest number of multiplications for which OpenBLAS does not pack."""

CACHE_BYTES, FEWEST_CACHED_ROWS = 3 << 20, 4096
"""Size of a piece of a block that stays in a core's cache, and its smallest number of rows."""

SCRATCH_BYTES = 1 << 24
"""Largest block that a thread keeps for reuse, in bytes; larger ones are allocated each time."""

ZERO_DIAGONAL = 1e-13
"""Share of the largest diagonal entry of a moment matrix that is 0 to rounding."""

ZERO_EIGENVALUE = 1e-11
"""Eigenvalue of a scaled moment matrix that is 0 to rounding."""

LARGEST_FACTORED_CONDITION = 1e6
"""Condition number, in the 1-norm, of the worst scaled matrix that is factored by Cholesky."""


def gram(X: np.ndarray | Structured, w: np.ndarray) -> np.ndarray:
    """X' diag(w) X for w >= 0."""
    if isinstance(X, Structured):
        return X.gram(w)
    if len(cuts := cached_pieces(X)) > 1:
        return sum((gram(X[c], w[c]) for c in cuts), np.zeros(()))
    if X.shape[1] > PIECEWISE_COLUMNS:
        Z = _rooted(X, w)
        return np.dot(Z.T, Z)
    return _product(X, _weighted(X, w))


def gram_and_peak(
    X: np.ndarray | Structured, w: np.ndarray, convex: bool
) -> tuple[np.ndarray, np.ndarray]:
    """X' diag(w) X and max_weighted_x, the largest |x| sqrt |w| of each column.

    `convex` promises that no w is negative.
    """
    if isinstance(X, Structured):
        return X.gram(w), X.largest(np.sqrt(np.abs(w)))
    if len(cuts := cached_pieces(X)) > 1:
        return _total([gram_and_peak(X[c], w[c], convex) for c in cuts])
    if convex and X.shape[1] > PIECEWISE_COLUMNS:
        Z = _rooted(X, np.maximum(w, 0.0))
        return np.dot(Z.T, Z), _column_max(Z)
    Z = _weighted(X, w)
    G = _product(X, Z)
    Z *= X
    return G, np.sqrt(_column_max(Z))


def cached_pieces(X: np.ndarray | Structured) -> list[slice]:
    """Slices of rows that stay in a core's cache while they are weighted and multiplied."""
    if isinstance(X, Structured):
        return [slice(None)]
    n, size = len(X), max(FEWEST_CACHED_ROWS, CACHE_BYTES // (8 * X.shape[1]))
    many = max(1, round(n / size))
    return [slice(i * n // many, (i + 1) * n // many) for i in range(many)]


def _total(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The sum of Gram matrices, and the largest of the entries."""
    grams, peaks = zip(*parts, strict=True)
    return sum(grams, np.zeros(())), np.max(peaks, axis=0)


def left_product(r: np.ndarray, X: np.ndarray | Structured) -> np.ndarray:
    """r'X."""
    return r @ X if isinstance(X, Structured) else np.dot(r, X)


class SinglePrecision(NamedTuple):
    """Products of float32 rows, centred so that none of their digits cancel.

    An entry of X' diag(w) X, w >= 0, has an error of about 1e-7 times the root of the product of
    its row's and column's diagonal entries, whatever the data: terms of the diagonal do not cancel.

    Args:
        centre: by which columns are shifted, (p,) in single precision; 0 at the constant column.
        constant: index of that column, or None, and then nothing is shifted.
        value: of the constant column.
    """

    centre: np.ndarray
    constant: int | None
    value: float = 1.0

    def grams(
        self, X: np.ndarray | Structured, w: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """X' diag(w) X, X' diag(v) X and max_weighted_x.

        None if single precision overflows, or if the constant column is not constant here.
        """
        if isinstance(X, Structured):
            return None
        if self.constant is not None and (X[:, self.constant] != self.value).any():
            return None
        (U, Z), roots = _scratch.single(X.shape), np.sqrt(np.maximum(w, 0.0))
        U[...] = X
        if self.constant is not None:
            U -= self.centre
        R = U if (w == 1.0).all() else np.multiply(U, roots.astype(np.float32)[:, None], out=Z)
        H, peak = np.dot(R.T, R), _column_max(R)
        np.multiply(U, np.sqrt(v).astype(np.float32)[:, None], out=Z)
        M = np.dot(Z.T, Z)
        if not np.isfinite(H.trace() + M.trace()):
            return None
        if self.constant is not None:
            peak = peak + np.abs(self.centre) * roots.max(initial=0.0)
        return self._raw(H), self._raw(M), peak.astype(np.float64)

    def _raw(self, A: np.ndarray) -> np.ndarray:
        """The product of rows that are not centred."""
        A = A.astype(np.float64)
        if self.constant is None:
            return A
        shift = self.centre.astype(np.float64) / self.value
        return Bordered(np.ones(len(A)), self.constant, shift).moment(A)


class _Scratch(threading.local):
    def __init__(self):
        self.block: np.ndarray = np.empty((0, 0))
        self.singles: np.ndarray = np.empty(0, np.float32)

    def single(self, shape: tuple[int, int]) -> np.ndarray:
        """Two blocks in single precision."""
        size = 2 * shape[0] * shape[1]
        if 4 * size > SCRATCH_BYTES:
            return np.empty((2, *shape), np.float32)
        if len(self.singles) < size:
            self.singles = np.empty(size, np.float32)
        return self.singles[:size].reshape(2, *shape)


_scratch = _Scratch()


def _rooted(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """diag(sqrt w) X: X itself if every w is 1, as those of least squares are."""
    return X if (w == 1.0).all() else _weighted(X, np.sqrt(w))


def _weighted(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """diag(w) X in this thread's block, with the layout of X."""
    if X.nbytes > SCRATCH_BYTES:
        return X * w[:, None]
    Z, (n, p) = _scratch.block, X.shape
    if len(Z) < n or Z.shape[1] != p or _by_rows(Z) != _by_rows(X):
        Z = _scratch.block = np.empty(X.shape) if _by_rows(X) else empty_columns(*X.shape)
    return np.multiply(X, w[:, None], out=Z[:n])


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


# Factors.


class Factor(NamedTuple):
    """A = S L L'S with S = diag(size), for a matrix that is well conditioned once it is scaled."""

    size: np.ndarray
    L: np.ndarray
    condition: float

    def solve(self, b: np.ndarray) -> np.ndarray:
        """A^-1 b, for a vector or for columns."""
        return (dpotrs(self.L, (b.T / self.size).T, lower=1)[0].T / self.size).T

    def inverse(self) -> np.ndarray:
        """A^-1."""
        half = np.tril(dpotri(self.L, lower=1)[0])
        half[np.diag_indices_from(half)] /= 2
        return (half + half.T) / np.outer(self.size, self.size)

    def norm(self, b: np.ndarray) -> float:
        """sqrt(b' A^-1 b)."""
        return float(np.linalg.norm(self.whitened(b)))

    def whitened(self, b: np.ndarray) -> np.ndarray:
        """L^-1 S^-1 b, whose scalar products are those of b in A^-1."""
        return dtrtrs(self.L, (b.T / self.size).T, lower=1)[0]


def factor(A: np.ndarray) -> Factor | None:
    """The factor of a symmetric matrix; None if it is not positive definite to many digits."""
    diagonal = np.diag(A)
    if not len(A) or is_empty(A).any() or (diagonal < 0).any():
        return None
    size = np.sqrt(diagonal)
    scaled = (A / size).T / size
    largest = np.abs(scaled).sum(0).max()
    L, failed = dpotrf(scaled, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    inverse_condition = dpocon(L, largest, uplo="L")[0]
    if not inverse_condition * LARGEST_FACTORED_CONDITION > 1:
        return None
    return Factor(size, L, 1 / inverse_condition)


def is_definite(A: np.ndarray) -> bool:
    """Whether all eigenvalues of a symmetric matrix are positive."""
    return not dpotrf(A, lower=1)[1]


def is_semidefinite(A: np.ndarray) -> bool:
    """Whether no eigenvalue of a symmetric matrix is negative."""
    return is_definite(A) or bool(np.linalg.eigvalsh(A)[0] >= 0)


def scaled_spectrum(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scale of each column, and eigenvalues and eigenvectors of a matrix with its diagonal scaled.

    Empty columns stay 0: scaled to 1 they would be rounding errors.
    """
    size, scaled = _scaled(moment)
    values, vectors = np.linalg.eigh(scaled)
    return size, values, vectors


def scaled_eigenvalues(moment: np.ndarray) -> np.ndarray:
    """The eigenvalues alone."""
    return np.linalg.eigvalsh(_scaled(moment)[1])


def _scaled(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A zero on the diagonal scales its column by the entries beside it: H may be indefinite."""
    diagonal, empty = np.abs(np.diag(moment)), is_empty(moment)
    if empty.any():
        beside = np.abs(moment).max(1)
        least = np.sqrt(ZERO_DIAGONAL) * diagonal.max(initial=0.0)
        diagonal = np.where(empty, beside, diagonal)
        empty = empty & ~(beside > 2 * least)
    size = np.sqrt(np.where(empty, 1.0, diagonal))
    return size, np.where(np.outer(~empty, ~empty), moment / np.outer(size, size), 0.0)


def null_basis(gram: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Orthonormal basis (p, k) of the null space of a Gram matrix, orthogonal to `fixed` (p, f)."""
    scale = np.trace(gram) / len(gram) or 1.0
    size, values, Q = scaled_spectrum(gram + scale * fixed @ fixed.T)
    return np.linalg.qr(Q[:, values <= ZERO_EIGENVALUE] / size[:, None])[0]


def is_empty(moment: np.ndarray) -> np.ndarray:
    """Which columns are 0 in every row, to rounding: a mask from H or from X'X."""
    diagonal = np.abs(np.diag(moment))
    return ~(diagonal > ZERO_DIAGONAL * diagonal.max(initial=0.0))


# A change of coordinates.


class Bordered(NamedTuple):
    """J = diag(d) + e_k r' with r_k = 0: scales, and one row if r is given."""

    d: np.ndarray
    k: int = 0
    r: np.ndarray | None = None

    def rows(self, X: np.ndarray) -> np.ndarray:
        """X J."""
        U = X * self.d
        if self.r is not None:
            U += X[:, [self.k]] * self.r
        return U

    def moment(self, A: np.ndarray) -> np.ndarray:
        """J'A J for a symmetric A."""
        product = A * self.d
        product *= self.d[:, None]
        if self.r is not None:
            half = np.outer(self.d * A[self.k] + A[self.k, self.k] / 2 * self.r, self.r)
            product += half
            product += half.T
        return product

    def covariance(self, C: np.ndarray) -> np.ndarray:
        """J C J' for a symmetric C."""
        product = C * self.d
        product *= self.d[:, None]
        if self.r is not None:
            with_row = C @ self.r
            product[self.k] += self.d * with_row
            product[:, self.k] += self.d * with_row
            product[self.k, self.k] += self.r @ with_row
        return product

    def inverse(self) -> "Bordered":
        """J^-1."""
        r = None if self.r is None else -self.r / (self.d * self.d[self.k])
        return Bordered(1 / self.d, self.k, r)

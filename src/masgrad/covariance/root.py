"""V, the root of the gradient's covariance, as an operator: `mv`, `solve`, `matrix`.

    V V' = Sigma + ridge I

The *symmetric* root is the theorems' V. A diagonal root drops the correlations; a low-rank root is
the symmetric root of (leading part + ridge I), held in O(rank x p) numbers. Every root works on
NumPy arrays of one matrix and on JAX arrays with the chain axis last.

A singular Sigma has no inverse root. Eigenvalues below FLOOR times the largest are lifted to it;
`floored` counts the lifted directions, so that a floor is never silent.
"""

import abc

import equinox as eqx
import numpy as np

from masgrad.covariance.eigen import spectrum
from masgrad.errors import InputError
from masgrad.types import Array, RootKind, namespace

FLOOR = 1e-12


class Root(eqx.Module):
    """An operator V with V V' = Sigma + ridge I, or its diagonal or leading part.

    `floored` counts the directions that the floor lifted (for each chain, where there are chains).
    """

    floored: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def mv(self, x: Array) -> Array:
        """V x."""

    @abc.abstractmethod
    def solve(self, x: Array) -> Array:
        """V^-1 x."""

    @abc.abstractmethod
    def matrix(self) -> Array:
        """V as an array (p, p) or (p, p, K)."""


class SymmetricRoot(Root):
    """V = Q diag(sqrt(values)) Q'.

    Paper: definition of V - the symmetric square root of the gradient's covariance
    """

    values: Array
    vectors: Array
    floored: Array

    @classmethod
    def of(cls, cov: Array, ridge: Array | float = 0.0) -> "SymmetricRoot":
        return cls.of_spectrum(*spectrum(cov), ridge)

    @classmethod
    def of_spectrum(
        cls, values: Array, vectors: Array, ridge: Array | float = 0.0
    ) -> "SymmetricRoot":
        """From Sigma's eigenvalues and vectors: roots that differ in their ridge share them."""
        values, floored = _lift(values + ridge)
        return cls(values, vectors, floored)

    def power(self, x: Array, exponent: float) -> Array:
        """(Sigma + ridge I)^exponent x."""
        along = _scale(self.values**exponent, _transposed_times(self.vectors, x))
        return _times(self.vectors, along)

    def mv(self, x: Array) -> Array:
        return self.power(x, 0.5)

    def solve(self, x: Array) -> Array:
        return self.power(x, -0.5)

    def matrix(self) -> Array:
        return _outer(self.vectors, self.values**0.5)


class DiagonalRoot(Root):
    """V = diag(Sigma + ridge I)^1/2: the practice of AdaGrad."""

    values: Array
    floored: Array

    @classmethod
    def of(cls, cov: Array, ridge: Array | float = 0.0) -> "DiagonalRoot":
        values, floored = _lift(namespace(cov).einsum("ii...->i...", cov) + ridge)
        return cls(values, floored)

    def mv(self, x: Array) -> Array:
        return _scale(self.values**0.5, x)

    def solve(self, x: Array) -> Array:
        return _scale(self.values**-0.5, x)

    def matrix(self) -> Array:
        xp = namespace(self.values)
        return xp.einsum("ij,i...->ij...", xp.eye(len(self.values)), self.values**0.5)


class LowRankRoot(Root):
    """V = U (sqrt(values + ridge) - sqrt(ridge)) U' + sqrt(ridge) I, U with `rank` columns.

    Outside the span of U only the ridge acts, so it must be positive when rank < p.
    """

    values: Array
    vectors: Array
    ridge: Array
    floored: Array

    @classmethod
    def of(cls, cov: np.ndarray, ridge: float, rank: int) -> "LowRankRoot":
        """From the `rank` leading eigenvalues of one covariance matrix."""
        p = len(cov)
        if not 1 <= rank <= p:
            raise InputError(f"rank={rank}; a root of a {p} x {p} covariance has rank 1 to {p}")
        if not ridge > 0:
            raise InputError(
                f"a low-rank root needs ridge > 0, got {ridge}: it is V^2 outside the leading "
                "directions; use the noise variance you would grant them"
            )
        values, vectors = spectrum(cov)
        lead = np.argsort(values)[::-1][:rank]
        return cls(
            np.maximum(values[lead], 0.0), vectors[:, lead], np.asarray(ridge), np.asarray(0)
        )

    @classmethod
    def of_factor(cls, F: Array, ridge: Array | float) -> "LowRankRoot":
        """From F (r, p, ...) with Sigma = F' F, through its smaller Gram matrix: O(r^2 p)."""
        xp = namespace(F)
        if len(F) < F.shape[1]:
            values, W = spectrum(xp.einsum("ri...,si...->rs...", F, F))
            values, _ = _lift(values)
            vectors = xp.einsum("ri...,rs...->is...", F, W) / values[None] ** 0.5
        else:
            values, vectors = spectrum(xp.einsum("ri...,rj...->ij...", F, F))
        values = xp.maximum(values, 0.0)
        return cls(values, vectors, xp.asarray(ridge), xp.zeros(F.shape[2:], int))

    def _apply(self, x: Array, exponent: float) -> Array:
        change = (self.values + self.ridge) ** exponent - self.ridge**exponent
        inside = _times(self.vectors, _scale(change, _transposed_times(self.vectors, x)))
        return inside + self.ridge**exponent * x

    def mv(self, x: Array) -> Array:
        return self._apply(x, 0.5)

    def solve(self, x: Array) -> Array:
        return self._apply(x, -0.5)

    def matrix(self) -> Array:
        xp = namespace(self.values)
        root = self.ridge**0.5
        eye = xp.eye(len(self.vectors))
        eye = eye[..., None] if self.values.ndim == 2 else eye
        return _outer(self.vectors, (self.values + self.ridge) ** 0.5 - root) + root * eye


def check_kind(kind: RootKind) -> RootKind:
    if kind not in ("symmetric", "diagonal", "low_rank"):
        raise InputError(f"root {kind!r} is not known; use 'symmetric', 'diagonal' or 'low_rank'")
    return kind


def make_root(kind: RootKind, cov: Array, ridge: Array | float = 0.0) -> Root:
    """The root of one covariance, or of one a chain, by name.

    From a whole covariance the low-rank root at full rank *is* the symmetric root of
    Sigma + ridge I; it differs where it starts from fewer rows than parameters (`of_factor`).
    """
    return (DiagonalRoot if check_kind(kind) == "diagonal" else SymmetricRoot).of(cov, ridge)


def _lift(values: Array) -> tuple[Array, Array]:
    """Eigenvalues no smaller than FLOOR times the largest, and how many were lifted.

    Where all are zero the floor is the smallest normal number: V^-1 0 is then 0, not NaN.
    """
    xp = namespace(values)
    floor = xp.maximum(FLOOR * values.max(0), np.finfo(float).tiny)
    return xp.maximum(values, floor), (values < floor).sum(0)


# One matrix times columns (p,) or (p, m); or a matrix and a vector for each chain, chain axis last.


def _times(M: Array, x: Array) -> Array:
    return M @ x if M.ndim == 2 else (M * x[None]).sum(1)


def _transposed_times(M: Array, x: Array) -> Array:
    return M.T @ x if M.ndim == 2 else (M * x[:, None]).sum(0)


def _scale(v: Array, x: Array) -> Array:
    return v[:, None] * x if x.ndim > v.ndim else v * x


def _outer(M: Array, v: Array) -> Array:
    """M diag(v) M'."""
    return namespace(M).einsum("ir...,r...,jr...->ij...", M, v, M)

"""V, the root of the gradient's covariance, as an operator: `mv`, `solve`, `matrix`.

    V V' = Sigma + ridge I

The *symmetric* root is the theorems' V. A diagonal root drops the correlations; a low-rank root is
the symmetric root of F'F + ridge I, held in the numbers of F. `rank_one.py` has the recursion's
rotated root, `products.py` the symmetric one without eigenvalues, `choose.py` the choice by name.
Every root works on NumPy arrays of one matrix and on JAX arrays with the chain axis last.

A singular Sigma has no inverse root. Eigenvalues below EIGENVALUE_FLOOR times the largest are
lifted to it; `floored` counts the lifted directions, so that a floor is never silent.
"""

import abc
from dataclasses import dataclass, fields

import jax
import numpy as np

from masgrad.covariance.eigen import spectrum
from masgrad.errors import InputError
from masgrad.types import Array, namespace

EIGENVALUE_FLOOR = 1e-12
NEGATIVE_ROUNDING = 1e-8
"""Largest negative eigenvalue, relative to the largest, that counts as rounding error."""


class Root(abc.ABC):
    """An operator V with V V' = Sigma + ridge I, or its diagonal or leading part.

    `floored` counts the directions that the floor lifted (for each chain, where there are chains).
    Roots are plain records that JAX traces through: a small batch feels the cost of anything more.
    """

    floored: Array

    def __repr__(self) -> str:
        shapes = {f.name: np.shape(getattr(self, f.name)) for f in fields(self)}  # type: ignore
        return f"{type(self).__name__}({shapes}, floored={self.floored})"

    @abc.abstractmethod
    def mv(self, x: Array) -> Array:
        """V x."""

    @abc.abstractmethod
    def solve(self, x: Array) -> Array:
        """V^-1 x."""

    @abc.abstractmethod
    def matrix(self) -> Array:
        """V as an array (p, p) or (p, p, K)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
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
        """The root from Sigma's eigenvalues and vectors, which roots with other ridges share."""
        values, floored = _lift(values, ridge)
        return cls(values, vectors, floored)

    def power(self, x: Array, exponent: float) -> Array:
        """(Sigma + ridge I)^exponent x."""
        along = _scale(self.values**exponent, transposed_times(self.vectors, x))
        return times(self.vectors, along)

    def mv(self, x: Array) -> Array:
        return self.power(x, 0.5)

    def solve(self, x: Array) -> Array:
        return self.power(x, -0.5)

    def matrix(self) -> Array:
        return _outer(self.vectors, self.values**0.5)

    def squared(self) -> Array:
        """V^2 as an array."""
        return _outer(self.vectors, self.values)

    def inverse(self) -> Array:
        """V^-1 as an array."""
        return _outer(self.vectors, self.values**-0.5)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class DiagonalRoot(Root):
    """V = diag(Sigma + ridge I)^1/2: the practice of AdaGrad.

    Paper: discussion of V - its diagonal where the whole of it is a burden
    """

    values: Array
    floored: Array

    @classmethod
    def of(cls, cov: Array, ridge: Array | float = 0.0) -> "DiagonalRoot":
        return cls.of_variances(namespace(cov).einsum("ii...->i...", cov), ridge)

    @classmethod
    def of_variances(cls, variances: Array, ridge: Array | float = 0.0) -> "DiagonalRoot":
        """The root from the diagonal of Sigma, (p, ...), without a p x p matrix."""
        values, floored = _lift(variances, ridge)
        return cls(values, floored)

    def mv(self, x: Array) -> Array:
        return _scale(self.values**0.5, x)

    def solve(self, x: Array) -> Array:
        return _scale(self.values**-0.5, x)

    def matrix(self) -> Array:
        xp = namespace(self.values)
        return xp.einsum("ij,i...->ij...", xp.eye(len(self.values)), self.values**0.5)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class MatrixRoot(Root):
    """V and its inverse as arrays, for a V shared by many steps."""

    V: Array
    inverse: Array
    floored: Array

    @classmethod
    def of(cls, root: "Root") -> "MatrixRoot":
        """The matrices of a symmetric root."""
        inverse = root.inverse() if isinstance(root, SymmetricRoot) else root.inverse  # type: ignore
        return cls(root.matrix(), inverse, root.floored)

    def mv(self, x: Array) -> Array:
        return times(self.V, x)

    def solve(self, x: Array) -> Array:
        return times(self.inverse, x)

    def matrix(self) -> Array:
        return self.V


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LowRankRoot(Root):
    """V = (F'F + ridge I)^1/2 for F with few rows: O(n^2 p) time and O(np) numbers, never p x p.

    With the eigenvalues v and vectors W of the small matrix F F',

        (F'F + ridge I)^a = ridge^a I + F' W diag(((v + ridge)^a - ridge^a) / v) W' F

    Outside the span of F only the ridge acts, so it must be positive: there it *is* V^2. A ridge
    below EIGENVALUE_FLOOR times the largest eigenvalue is lifted to it.
    """

    factor: Array
    values: Array
    vectors: Array
    ridge: Array
    floored: Array

    @classmethod
    def of(cls, cov: np.ndarray, ridge: float, rank: int) -> "LowRankRoot":
        """The root from the `rank` leading eigenvalues of one covariance matrix."""
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
        values, _ = _lift(values[lead])
        factor = values[:, None] ** 0.5 * vectors[:, lead].T
        return cls(factor, values, np.eye(rank), np.asarray(ridge), np.asarray(0))

    @classmethod
    def of_factor(cls, F: Array, ridge: Array | float) -> "LowRankRoot":
        """The root of Sigma = F'F from F (n, p) or (n, p, K)."""
        xp = namespace(F)
        gram = F @ F.T if F.ndim == 2 else xp.einsum("ri...,si...->rs...", F, F)
        values, W = spectrum(gram)
        values = xp.maximum(values, 0.0)
        floor = EIGENVALUE_FLOOR * (values.max(0) + ridge)
        outside = xp.where(ridge < floor, F.shape[1] - len(F), 0)
        floored = outside + (values + ridge < floor).sum(0)
        return cls(F, values, W, xp.maximum(ridge, floor), floored)

    def _apply(self, x: Array, exponent: float) -> Array:
        xp = namespace(self.values)
        positive = xp.where(self.values > 0, self.values, 1.0)
        growth = xp.expm1(exponent * xp.log1p(self.values / self.ridge)) / positive
        growth = xp.where(self.values > 0, growth, 0.0)  # where F x has nothing to add
        along = transposed_times(self.vectors, times(self.factor, x))
        inside = transposed_times(self.factor, times(self.vectors, _scale(growth, along)))
        return self.ridge**exponent * (x + inside)

    def mv(self, x: Array) -> Array:
        return self._apply(x, 0.5)

    def solve(self, x: Array) -> Array:
        return self._apply(x, -0.5)

    def matrix(self) -> Array:
        xp = namespace(self.values)
        eye = xp.eye(self.factor.shape[1])
        if self.factor.ndim == 2:
            return self.mv(eye)
        columns = [self.mv(xp.broadcast_to(e[:, None], self.factor.shape[1:])) for e in eye]
        return xp.stack(columns, 1)


def _lift(values: Array, ridge: Array | float = 0.0) -> tuple[Array, Array]:
    """Raise eigenvalues to EIGENVALUE_FLOOR times the largest, and count those raised.

    Where all are zero the floor is the smallest normal number: V^-1 0 is then 0, not NaN. On the
    host a matrix with negative eigenvalues is refused; inside a chain it meets the floor.
    """
    xp = namespace(values)
    if xp is np:
        check_sign(values)
    values = values + ridge
    floor = xp.maximum(EIGENVALUE_FLOOR * values.max(0), np.finfo(float).tiny)
    return xp.maximum(values, floor), (values < floor).sum(0)


def check_sign(values: np.ndarray) -> None:
    """Check that no eigenvalue of a covariance is negative beyond rounding."""
    if values.min() < -NEGATIVE_ROUNDING * np.abs(values).max():
        raise InputError(
            f"the covariance is not positive semidefinite: it has the eigenvalue {values.min():.3g}"
        )


# One matrix times columns (p,) or (p, m); or a matrix and a vector for each chain, chain axis last.


def times(M: Array, x: Array) -> Array:
    return M @ x if M.ndim == 2 else (M * x[None]).sum(1)


def transposed_times(M: Array, x: Array) -> Array:
    if M.ndim == 2:
        return x @ M if x.ndim == 1 else M.T @ x  # XLA would copy M to transpose it
    return (M * x[:, None]).sum(0)


def _scale(v: Array, x: Array) -> Array:
    return v[:, None] * x if x.ndim > v.ndim else v * x


def _outer(M: Array, v: Array) -> Array:
    """M diag(v) M'."""
    if M.ndim == 2:
        return (M * v) @ M.T
    return namespace(M).einsum("ir...,r...,jr...->ij...", M, v, M)

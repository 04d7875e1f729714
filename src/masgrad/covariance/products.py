"""The symmetric inverse root by matrix products alone: Newton-Schulz with scaling.

    M <- T M T,   Z <- T Z,   T = (3 r I - r^3 M) / 2        from M = Sigma / tr Sigma, Z = I

M goes to I and Z to the inverse root. The scalings r (Chen & Chow) more than double small
eigenvalues at each of the first steps; past them r -> 1 and the convergence is quadratic. Products
of small matrices with the chain axis last run over all chains at once, where LAPACK takes them one
by one. A Sigma that does not converge (singular, or nearly) goes to its spectrum and the floor.
"""

from dataclasses import dataclass

import jax
import numpy as np

from masgrad.covariance.root import EIGENVALUE_FLOOR, Root, SymmetricRoot, times
from masgrad.types import Array, loop, namespace

MOST_STEPS = 40
NEWTON_GAP = 1e-7
"""Largest |M - I| from which one more quadratic step reaches rounding error."""
UNROLLED_DIM = 12
"""Largest dimension of unrolled products; larger ones would compile for minutes."""
NEAR_FLOOR = 0.1 / EIGENVALUE_FLOOR
"""|Z|^2 is at least the inverse of M's smallest eigenvalue: past this the floor is near."""


def _scalings(least: float) -> np.ndarray:
    """Scalings r for eigenvalues of M^1/2 in [least, 1]; smaller ones grow even faster."""
    out = []
    for _ in range(MOST_STEPS):
        r = np.sqrt(3.0 / (1.0 + least + least**2))
        least = min(1.0, 0.5 * r * least * (3.0 - (r * least) ** 2))
        out.append(r)
    return np.array(out)


SCALINGS = _scalings(1e-2)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class ProductRoot(Root):
    """V = Sigma Z with Z = Sigma^-1/2 from matrix products; a singular Sigma meets the floor."""

    cov: Array
    inverse: Array
    floored: Array

    @classmethod
    def of(cls, cov: Array, ridge: Array | float = 0.0) -> "ProductRoot":
        xp = namespace(cov)
        eye = xp.eye(len(cov)) if cov.ndim == 2 else xp.eye(len(cov))[:, :, None]
        cov = cov + ridge * eye
        Z, converged = _inverse_root(cov, eye)

        def from_products():
            return cov, Z, xp.zeros(cov.shape[2:], int)

        def from_spectrum():
            V = SymmetricRoot.of(cov)
            return V.squared(), V.inverse(), V.floored

        if xp is np:
            return cls(*(from_products() if converged else from_spectrum()))
        return cls(*jax.lax.cond(converged, from_products, from_spectrum))

    def mv(self, x: Array) -> Array:
        return times(self.cov, self.solve(x))

    def solve(self, x: Array) -> Array:
        return times(self.inverse, x)

    def matrix(self) -> Array:
        return product(self.cov, self.inverse)


def _inverse_root(cov: Array, eye: Array) -> tuple[Array, Array]:
    """Z, and whether every finite chain converged."""
    xp = namespace(cov)
    scale = xp.einsum("ii...->...", cov)
    scale = xp.where(scale > 0, scale, 1.0)
    scalings = xp.asarray(SCALINGS)
    lost = ~xp.isfinite(cov).all((0, 1))  # a lost chain must not stop the others

    def gap(M):
        return xp.where(lost, 0.0, xp.abs(M - eye).max((0, 1))).max()

    def step(carry):
        M, Z, k, _ = carry
        r = scalings[k]
        T = _keep(1.5 * r * eye - 0.5 * r**3 * M)
        M = _keep(product(_keep(product(T, M)), T))
        return M, _keep(product(T, Z)), k + 1, gap(M)

    def unfinished(carry):
        _, _, k, gap = carry
        return (k < MOST_STEPS) & (gap > NEWTON_GAP)

    start = (cov / scale, xp.broadcast_to(eye, cov.shape), 0, xp.asarray(xp.inf))
    with np.errstate(over="ignore", invalid="ignore"):  # negative eigenvalues run away
        M, Z, _, last = loop(unfinished, step, start)
        Z = product(1.5 * eye - 0.5 * M, Z)
    near = (xp.where(lost, 0.0, (Z * Z).sum((0, 1))) < NEAR_FLOOR).all()
    return Z / xp.sqrt(scale), (last <= NEWTON_GAP) & near


def _keep(M: Array) -> Array:
    """Force XLA to store M instead of recomputing it for each use."""
    return M if namespace(M) is np else jax.lax.optimization_barrier(M)


def product(A: Array, B: Array) -> Array:
    """A B for one matrix or, row by row, for one per chain.

    Of the ways to write it for small matrices, sums of rows (p, K) compile quickly and run fastest:
    XLA vectorises them over chains, where a batched product would take the matrices one by one.
    """
    if A.ndim == 2:
        return A @ B
    if len(A) > UNROLLED_DIM:
        return namespace(A).einsum("ijk,jlk->ilk", A, B)
    return namespace(A).stack([sum(a * b for a, b in zip(row, B, strict=True)) for row in A])

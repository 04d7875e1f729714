"""The inverse root of a growing matrix, one vector at a time.

    H' = H - u (u'H) / (s (1 + s)),    u = H v,    s = sqrt(1 + |u|^2)

keeps H_n' H_n = (initial I + sum v v')^-1 in O(p^2) a vector. H_n is a root up to a rotation that
depends on the order of the vectors: H_n = Q S^-1/2 with S^-1/2 symmetric (`rotation.py` measures
Q). For V take the centred gradients as vectors: sqrt(n-1) H_n is an inverse root of Sigma + ridge I
with initial = (n-1) ridge; the paper's initial = 1 is the ridge 1 / (n-1).

k vectors at a time, with U = H B' and the Cholesky factor L L' = I + U'U,

    H' = H - U (I + L')^-1 L^-1 U'H

which is the line above for k = 1; for k >= p it is cheaper as H' = L^-1 H, L L' = I + U U'.
"""

import functools
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from masgrad.checks import as_number
from masgrad.covariance.root import Root, times, transposed_times
from masgrad.covariance.rotation import rotation
from masgrad.data.arrays import as_rows, pad
from masgrad.errors import InputError
from masgrad.types import Array, float64, namespace

CHUNK_ROWS = 4096
PROBE_VECTORS = 8
LARGEST_DRIFT = 1e-11
"""Largest relative error of H'H before H is recomputed."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class RankOneRoot(Root):
    """V = H^-1 with H from the recursion: V V' = Sigma + ridge I, not symmetric."""

    inverse: Array
    floored: Array

    @classmethod
    def of_factor(cls, F: Array, ridge: Array | float) -> "RankOneRoot":
        """The root of Sigma = F'F from F (n, p) or (n, p, K), in row order; ridge > 0."""
        xp = namespace(F)
        if xp is np:
            H = rank_one_inverse_root(F, initial=float(ridge))
            return cls(H, np.asarray(0))
        _, p, K = F.shape
        start = xp.broadcast_to(xp.eye(p)[:, :, None] / xp.sqrt(ridge), (p, p, K))
        H = jax.lax.fori_loop(0, len(F), lambda i, H: absorb(H, F[i]), start)
        return cls(H, xp.zeros(K, int))

    def mv(self, x: Array) -> Array:
        return times(self.matrix(), x)

    def solve(self, x: Array) -> Array:
        return times(self.inverse, x)

    def matrix(self) -> Array:
        xp = namespace(self.inverse)
        if self.inverse.ndim == 2:
            return xp.linalg.inv(self.inverse)
        return xp.moveaxis(xp.linalg.inv(xp.moveaxis(self.inverse, -1, 0)), 0, -1)


@float64
def rank_one_inverse_root(
    vectors: Array, symmetric: bool = False, *, initial: float = 1.0, block: int = 1
) -> np.ndarray:
    """H_n with H_n' H_n = (initial I + sum v v')^-1, by rank-one updates.

    Paper: Proposition 6.2 Iterative rank-one updates - the inverse root in O(p^2) a vector

    Args:
        vectors: (n, p), one vector a row; their order changes H_n by a rotation.
        symmetric: return the symmetric inverse root, H_n without its rotation.
        initial: the multiple of I to start from; the paper's is 1. For an inverse root of a sample
            covariance plus ridge I, pass centred gradients and (n-1) ridge, and take sqrt(n-1) H_n.
        block: vectors absorbed at a time; more than one gives another rotation, sooner.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> v = np.array([[1.0, 0.0], [1.0, 2.0]])
        >>> H = mg.rank_one_inverse_root(v)
        >>> bool(np.allclose(H.T @ H, np.linalg.inv(np.eye(2) + v.T @ v)))
        True
    """
    vectors = as_vectors(vectors)
    initial = as_number("initial", initial)
    if not initial > 0:
        raise InputError(f"initial={initial}; a number > 0 is needed: H_0'H_0 = I / initial")
    if isinstance(block, bool) or not isinstance(block, int | np.integer) or block < 1:
        raise InputError(f"block={block!r}; a whole number of at least 1 is needed")
    with np.errstate(over="ignore", invalid="ignore"):
        H = np.eye(vectors.shape[1]) / np.sqrt(initial)
        H = _one_by_one(H, vectors) if block == 1 else _by_blocks(H, vectors, block)
        H = _without_drift(H, vectors, initial)
    return rotation(H).symmetric if symmetric else H


def as_vectors(vectors: Array, name: str = "vectors") -> np.ndarray:
    """Vectors as an array (n, p) of finite real numbers."""
    V = as_rows(vectors, (name,))
    if not isinstance(V, np.ndarray) or V.ndim != 2 or V.shape[1] == 0:
        raise InputError(f"{name} have shape {np.shape(V)}; (n, p), one vector a row, is needed")
    return np.asarray(V, np.float64)


def absorb(H: Array, v: Array) -> Array:
    """One step of the recursion, for one matrix or one per chain, chain axis last."""
    u = times(H, v)
    s = namespace(u).sqrt(1.0 + (u * u).sum(0))
    return H - u[:, None] * (transposed_times(H, u) / (s * (1.0 + s)))[None]


@eqx.filter_jit
def _absorb_all(H: Array, vectors: Array, count: Array) -> Array:
    return jax.lax.fori_loop(0, count, lambda i, H: absorb(H, vectors[i]), H)


def _one_by_one(H: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    for start in range(0, len(vectors), CHUNK_ROWS):
        chunk = vectors[start : start + CHUNK_ROWS]
        length = max(64, 1 << (len(chunk) - 1).bit_length())
        H = _absorb_all(H, pad(chunk, length), np.asarray(len(chunk)))
    return np.array(H)


def _by_blocks(H: np.ndarray, vectors: np.ndarray, block: int) -> np.ndarray:
    try:
        blocks = (vectors[i : i + block] for i in range(0, len(vectors), block))
        return functools.reduce(_absorb_block, blocks, H)
    except np.linalg.LinAlgError:  # I + U'U has lost its I to rounding
        return np.full_like(H, np.nan)


def _absorb_block(H: np.ndarray, B: np.ndarray) -> np.ndarray:
    return _absorb_few(H, B) if len(B) < len(H) else _absorb_many(H, B)


def _absorb_few(H: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Absorb k < p vectors in O(p^2 k), which inverts k x k matrices only.

    Paper: Lemma B.3 Sherman-Morrison-Woodbury - the inverse of I plus a matrix of rank k
    """
    U, eye = H @ B.T, np.eye(len(B))
    L = np.linalg.cholesky(eye + U.T @ U)
    return H - U @ np.linalg.solve((eye + L).T, np.linalg.solve(L, U.T @ H))


def _absorb_many(H: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Absorb k >= p vectors in O(p^2 k + p^3)."""
    L = np.linalg.cholesky(np.eye(len(H)) + H @ (B.T @ B) @ H.T)
    return np.linalg.solve(L, H)


def drift(H: np.ndarray, vectors: np.ndarray, initial: float) -> float:
    """|P S P - P| / |P| for P = H'H, estimated with random probes in O(np + p^2)."""
    Z = np.random.default_rng(0).normal(size=(len(H), PROBE_VECTORS))
    X = H.T @ (H @ Z)
    again = H.T @ (H @ (initial * X + vectors.T @ (vectors @ X)))
    return float(np.linalg.norm(again - X) / np.linalg.norm(X))


def _without_drift(H: np.ndarray, vectors: np.ndarray, initial: float) -> np.ndarray:
    """H, recomputed if rounding errors have accumulated and that reduces them."""
    first = drift(H, vectors, initial)
    if first <= LARGEST_DRIFT:
        return H
    fresh = _afresh(H, vectors, initial)
    second = drift(fresh, vectors, initial)
    if not min(first, second) < 1e-6:
        raise InputError(
            "initial I + sum v v' overflows, or spans more digits than float64 has; rescale the "
            "vectors, or use a larger initial"
        )
    return H if first <= second else fresh


def _afresh(H: np.ndarray, vectors: np.ndarray, initial: float) -> np.ndarray:
    """H recomputed from a QR factor of all vectors, with its rotation kept.

    Large rows come first: the other way round QR loses the digits of the small ones.
    """
    p = vectors.shape[1]
    rows = np.concatenate([vectors, np.sqrt(initial) * np.eye(p)])
    rows = rows[np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")]
    R, size = np.empty((0, p)), max(CHUNK_ROWS, p)
    for start in range(0, len(rows), size):
        R = np.asarray(np.linalg.qr(np.concatenate([R, rows[start : start + size]]), mode="r"))
    inverse = np.linalg.inv(R).T
    whitened = H @ R.T
    if not np.isfinite(whitened).all():
        return inverse
    left, _, right = np.linalg.svd(whitened)
    return left @ right @ inverse

"""The largest eigenvalue of P(w)^1/2 Q(v) P(w)^1/2 over all pairs (v, w), without visiting all.

If P(w) <= e P(w0) and Q(v) <= c Q(v0) as matrices, then the top eigenvalue of a pair is at most e
times that of (v, w0) and c times that of (v0, w). Two eigenvalues for each point therefore bound
all pairs. The search takes the pair with the largest bound as the next (v0, w0), knows its row and
column exactly and all others better, and ends when no bound exceeds the best value: exact to
rounding, in a few of these rounds where matrices resemble each other over the region.
"""

from dataclasses import dataclass

import numpy as np

MOST_ROUNDS = 20
"""Rounds after which the remaining pairs are searched one by one."""
CHUNK_NUMBERS = 2**18
"""Size of the matrices whose eigenvalues are computed at a time, in numbers."""
RELATIVE_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Found:
    """A value, and the indices of its w and v."""

    value: float
    w: int
    v: int


def top(left: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Largest eigenvalue of left middle left, for stacks of symmetric matrices that broadcast."""
    left, middle = np.broadcast_arrays(left, middle)
    parts = _chunks(len(left), left.shape[-1])
    return np.concatenate([np.linalg.eigvalsh(left[c] @ middle[c] @ left[c])[:, -1] for c in parts])


def _chunks(count: int, p: int) -> list[slice]:
    size = max(16, CHUNK_NUMBERS // p**2)
    return [slice(s, s + size) for s in range(0, count, size)]


def power(values: np.ndarray, vectors: np.ndarray, exponent: float) -> np.ndarray:
    """Powers of positive definite matrices from their eigenvalues and vectors."""
    return (vectors * values[:, None] ** exponent) @ vectors.swapaxes(1, 2)


def largest(P: tuple[np.ndarray, np.ndarray], Q: np.ndarray) -> Found:
    """Search all pairs; P positive definite as eigenvalues (m, p) and vectors, Q (k, p, p)."""
    half, inverse = power(*P, 0.5), power(*P, -1.0)
    values, vectors = np.linalg.eigh(Q)
    bounds = np.full((len(half), len(Q)), np.inf)
    left = np.ones(bounds.shape, bool)
    best = Found(-np.inf, 0, 0)
    i, j = 0, 0
    for _ in range(MOST_ROUNDS):
        row, column = top(half[i], Q), top(half, Q[j])
        best = _better(best, Found(float(row.max()), i, int(row.argmax())))
        best = _better(best, Found(float(column.max()), int(column.argmax()), j))
        bounds = np.minimum(bounds, np.outer(top(half, inverse[i]), np.maximum(row, 0.0)))
        if values[j, 0] > RELATIVE_TOLERANCE * values[j, -1]:
            root = power(values[j : j + 1], vectors[j : j + 1], -0.5)[0]
            bounds = np.minimum(bounds, np.outer(np.maximum(column, 0.0), top(root, Q)))
        bounds[i], bounds[:, j] = -np.inf, -np.inf
        left = bounds > best.value * (1 + RELATIVE_TOLERANCE)
        if left.sum() <= 2 * (len(half) + len(Q)):
            break
        i, j = divmod(int(bounds.argmax()), len(Q))
    rest = np.argwhere(left)
    for some in (rest[c] for c in _chunks(len(rest), half.shape[-1])):
        ends = top(half[some[:, 0]], Q[some[:, 1]])
        w, v = some[ends.argmax()]
        best = _better(best, Found(float(ends.max()), int(w), int(v)))
    return best


def _better(a: Found, b: Found) -> Found:
    return b if b.value > a.value else a

"""Bartlett's sum of lag products, as a sum over windows of L + 1 neighbours.

    sum_{|i - j| <= L} (1 - |i - j| / (L + 1)) g_i g_j'  =  1 / (L + 1) sum_s W_s W_s',

W_s the sum of the scores g of the times s, ..., s + L, for every window that holds a score (Newey &
West 1987). One product of (T + L) x p serves all lags, and the result has no negative eigenvalue.

`Windows` holds what a stretch of rows has to tell its neighbours: windows that lie within it are
summed, and L scores at either end are kept, so that stretches are joined in order, blocks and files
as well as old rows and new ones.
"""

from dataclasses import dataclass, replace

import numpy as np

CHUNK = 1 << 15
"""Windows that are formed at a time."""


@dataclass(frozen=True)
class Windows:
    """Sums over a stretch of neighbouring rows.

    Args:
        lags: L.
        rows: number of rows.
        head: scores of the first L rows, or of all if there are fewer.
        tail: scores of the last L rows.
        inner: sum of W W' over the windows of L + 1 rows within the stretch, (p, p).
    """

    lags: int
    rows: int
    head: np.ndarray
    tail: np.ndarray
    inner: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, lags: int) -> "Windows":
        """The sums over rows that have these scores, (n, p), in their order."""
        n = len(scores)
        inner = _inner(scores, lags)
        return cls(lags, n, scores[:lags].copy(), scores[max(n - lags, 0) :].copy(), inner)

    def then(self, later: "Windows") -> "Windows":
        """The sums over these rows and those that follow."""
        across = np.concatenate([self.tail, later.head])
        inner = self.inner + later.inner + _inner(across, self.lags)
        head, tail = self.head, later.tail
        if self.rows < self.lags:
            head = np.concatenate([head, later.head])[: self.lags]
        if later.rows < self.lags:
            tail = np.concatenate([self.tail, tail])
            tail = tail[max(len(tail) - self.lags, 0) :]
        return Windows(self.lags, self.rows + later.rows, head, tail, inner)

    def in_coordinates(self, T: np.ndarray) -> "Windows":
        """The same sums where phi = T phi', in phi'."""
        return replace(self, head=self.head @ T, tail=self.tail @ T, inner=T.T @ self.inner @ T)

    @property
    def meat(self) -> np.ndarray:
        """Bartlett's sum, (p, p), of more than L rows: windows over the two ends hold fewer."""
        assert self.rows > self.lags
        ends = np.cumsum(self.head, 0), np.cumsum(self.tail[::-1], 0)
        return (self.inner + sum(W.T @ W for W in ends)) / (self.lags + 1)


def _inner(scores: np.ndarray, lags: int) -> np.ndarray:
    """Sum of W W' over windows of L + 1 rows."""
    p = scores.shape[1]
    if len(scores) <= lags:
        return np.zeros((p, p))
    if not lags:
        return scores.T @ scores
    sums = np.concatenate([np.zeros((1, p)), np.cumsum(scores, 0)])
    W = sums[lags + 1 :] - sums[: -lags - 1]
    return W.T @ W


def bartlett_with_gaps(
    scores: np.ndarray, places: np.ndarray, lags: int, units: np.ndarray | None = None
) -> np.ndarray:
    """Bartlett's sum, (p, p), of scores at whole places that may leave gaps.

    A window changes only where a score enters it, at its place s, or leaves it, at s + L + 1, and
    counts once for each place until the next change.

    Args:
        scores: (n, p).
        places: on the axis of time, (n,), each once a unit.
        lags: L.
        units: whose scores alone are multiplied, (n,); None if there is one.
    """
    n, p = scores.shape
    at = np.concatenate([places, places + lags + 1])
    unit = np.zeros(2 * n, np.intp) if units is None else np.concatenate([units, units])
    order = np.lexsort((at, unit))
    held = np.cumsum(np.where(order < n, 1, -1))
    lasts = np.append(np.diff(at[order]), 0)
    lasts = np.where(held > 0, lasts, 0)  # nothing is held between units and in long gaps
    total, W = np.zeros((p, p)), np.zeros((1, p))
    for start in range(0, 2 * n, CHUNK):
        some = order[start : start + CHUNK]
        steps = np.where(some < n, 1.0, -1.0)[:, None] * scores[some % n]
        V = np.cumsum(np.concatenate([W, steps]), 0)
        W, V = V[-1:], V[1:]
        total += (V * lasts[start : start + CHUNK, None]).T @ V
    return total / (lags + 1)

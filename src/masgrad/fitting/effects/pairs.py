"""Pairs of levels of two groupings that meet in a row, and the weight of the rows in which they do.

Each pair is one number, first x (levels of the second) + second. Pairs of many rows are joined by
sorting these numbers; a row's place stands in the lowest bits if weights have to follow.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

SIGNED_BITS = 63
"""Bits of a number in int64."""


class Pairs(NamedTuple):
    """Pairs of levels, best each of them once and in ascending order.

    Args:
        first: levels of the one grouping, (m,), int32.
        second: levels of the other, (m,), int32.
        weights: (m,); None for 1.
    """

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.first)

    def only(self, kept: np.ndarray) -> "Pairs":
        """Some of the pairs."""
        weights = None if self.weights is None else self.weights[kept]
        return Pairs(self.first[kept], self.second[kept], weights)

    def matrix(self, shape: tuple[int, int]) -> Any:
        """The joint table as a sparse matrix by rows, of pairs in ascending order."""
        from scipy import sparse  # heavy, and for fixed effects alone

        assert self.weights is not None
        ends = np.cumsum(np.bincount(self.first, minlength=shape[0]), dtype=np.int32)
        starts = np.concatenate([np.zeros(1, np.int32), ends])
        return sparse.csr_array((self.weights, self.second, starts), shape=shape)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Each pair once, in ascending order, with the sum of its weights in the order of the parts."""
    first = np.concatenate([part.first for part in parts])
    second = np.concatenate([part.second for part in parts])
    if not len(first):
        return Pairs(first, second, np.zeros(0))
    size = int(second.max()) + 1
    cells = (int(first.max()) + 1) * size
    small = all(part.weights is None for part in parts) and cells < 2**31
    key = first.astype(np.int32 if small else np.int64) * size + second
    if all(part.weights is None for part in parts):
        key.sort()
        starts = _starts(key)
        weights = np.diff(starts, append=len(key)).astype(np.float64)
    else:
        every = [np.ones(len(part)) if part.weights is None else part.weights for part in parts]
        key, order = _sorted(key, cells)
        starts = _starts(key)
        weights = np.add.reduceat(np.concatenate(every).take(order, mode="clip"), starts)
    key = key.take(starts, mode="clip")
    first = (key // size).astype(np.int32)
    return Pairs(first, (key - first.astype(key.dtype) * size).astype(np.int32), weights)


def _sorted(key: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The keys in ascending order, and the places where they were; equal ones in their order."""
    bits = max(len(key) - 1, 1).bit_length()
    if (cells - 1).bit_length() + bits > SIGNED_BITS:
        order = np.argsort(key, kind="stable")
        return key.take(order, mode="clip"), order
    packed = (key << bits) | np.arange(len(key))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def _starts(key: np.ndarray) -> np.ndarray:
    """Where each run of equal keys begins."""
    new = np.empty(len(key), bool)
    new[0] = True
    np.not_equal(key[1:], key[:-1], out=new[1:])
    return np.flatnonzero(new)

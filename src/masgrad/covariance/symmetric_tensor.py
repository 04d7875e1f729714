"""Symmetric tensors that hold each entry once: powers of rows, contraction, change of coordinates.

Entry i <= j <= k <= h is at i + C(j+1, 2) + C(k+2, 3) + C(h+3, 4) (colexicographic order). Entries
whose largest index is h are then one contiguous block, itself a packed tensor of one order less on
the coordinates up to h; entries that avoid the last coordinates are a prefix. Contraction and
change of coordinates are short recursions over these blocks.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

Pairs: TypeAlias = tuple[np.ndarray, np.ndarray]

GROUPED_INDICES = 4
"""Indices k that share a product in `fourth_power_sum`: with one, each entry is computed once, in
products too thin to be fast. Against the Gram matrix of all pairs, which computes each entry three
times, rows a second on one core are 0.6 times as many at 5 columns, equal at 20, 1.4 times at 40
and 2.6 times at 100."""


def size(d: Any, order: int) -> Any:
    """Number of entries, C(d + order - 1, order), for an integer d or an array of them."""
    return math.prod(d + n for n in range(order)) // math.factorial(order)


def position(*indices: Any) -> np.ndarray:
    """The position of the entry with these indices, given in any order."""
    ordered = np.sort(np.stack(np.broadcast_arrays(*indices)), 0)
    return sum((size(i, n) for n, i in enumerate(ordered, 1)), np.asarray(0))


def pairs(d: int) -> Pairs:
    """Indices i <= j of the entries of a packed matrix."""
    low, high = _tables(_octave(d))[0]
    return low[: size(d, 2)], high[: size(d, 2)]


def square(d: int) -> np.ndarray:
    """Positions (d, d) that unpack a matrix."""
    return _tables(_octave(d))[1][:d, :d]


def fourth_power_sum(A: np.ndarray) -> np.ndarray:
    """Sum over rows a of the packed tensor a_i a_j a_k a_h, for A of shape (m, d)."""
    d = A.shape[1]
    a = np.ascontiguousarray(A.T)
    low, high = pairs(d)
    products = a[low] * a[high]
    out = np.empty(size(d, 4))
    for start in range(0, d, GROUPED_INDICES):
        group = range(start, min(start + GROUPED_INDICES, d))
        others = np.concatenate([a[k] * a[k:] for k in group])
        sums = iter(others @ products[: size(group.stop, 2)].T)
        for k in group:
            for h in range(k, d):
                first, width = size(h, 4) + size(k, 3), size(k + 1, 2)
                out[first : first + width] = next(sums)[:width]
    return out


def contract(packed: np.ndarray, d: int, order: int, q: np.ndarray) -> np.ndarray:
    """The packed tensor sum_h q_h M[..., h], one order lower; missing coordinates of q are 0."""
    if order == 2:
        return packed[square(d)[:, : len(q)]] @ q
    if order == 3:
        return packed.take(_joined(d)[:, : len(q)]) @ q
    out = np.zeros(size(d, order - 1))
    for h, block in _blocks(packed, d, order):
        if h < len(q):
            out[: len(block)] += q[h] * block
        out[size(h, order - 1) : len(block)] += contract(block, h + 1, order - 1, q[:h])
    return out


def shear(packed: np.ndarray, d: int, order: int, q: np.ndarray) -> np.ndarray:
    """The packed tensor after the last coordinate of a was replaced by q'a."""
    if order == 1:
        return np.append(packed[:-1], packed @ q)
    with_last = shear(contract(packed, d, order, q), d, order - 1, q)
    return np.append(packed[: size(d - 1, order)], with_last)


def translate(packed: np.ndarray, d: int, order: int, tau: np.ndarray) -> np.ndarray:
    """The packed tensor after tau_i a_0 was added to every a_i; tau_0 = 0."""
    if order == 2:
        (i, j), row = pairs(d), packed[square(d)[0]]
        return packed + tau[i] * row[j] + (row[i] + tau[i] * row[0]) * tau[j]
    lower = translate(contract(packed, d, order, np.ones(1)), d, order - 1, tau)
    parts = (
        translate(block, h + 1, order - 1, tau[: h + 1]) + tau[h] * lower[: len(block)]
        for h, block in _blocks(packed, d, order)
    )
    return np.concatenate(list(parts))


def pair_matrix(packed: np.ndarray, left: Pairs, right: Pairs) -> np.ndarray:
    """Entries of a fourth-order tensor as a matrix: pairs of indices `left` by pairs `right`."""
    out = np.empty((len(left[0]), len(right[0])))
    for row, i, j in zip(out, *left, strict=True):
        row[:] = packed[position(i, j, *right)]
    return out


def _blocks(packed: np.ndarray, d: int, order: int) -> Iterator[tuple[int, np.ndarray]]:
    """(h, entries whose largest index is h), as views."""
    return ((h, packed[size(h, order) : size(h + 1, order)]) for h in range(d))


def _joined(d: int) -> np.ndarray:
    """Positions of a pair (axis 0) joined by a third index (axis 1)."""
    return _tables(_octave(d))[2][: size(d, 2), :d]


def _octave(d: int) -> int:
    return 1 << (d - 1).bit_length()


@functools.lru_cache(maxsize=16)
def _tables(d: int) -> tuple[Pairs, np.ndarray, np.ndarray]:
    """Index tables; a smaller d uses their leading part, since positions do not depend on d."""
    high, low = np.tril_indices(d)
    joined = position(low[:, None], high[:, None], np.arange(d))
    return (low, high), position(*np.indices((d, d))), joined

"""Regressions on effects whose pairs of levels do not fit memory: each product G x is a read.

    (G x)_k = D_k'W (sum over l of D_l x_l)

takes memory for the levels alone. Conjugate gradients, with the levels' weights as preconditioner,
take fewer reads than alternating projections, which solve for one grouping after the other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.conjugate import (
    SMALL_SHARE,
    conjugate_gradients,
    inverted,
    squared_norms,
)
from masgrad.fitting.effects.tables import ByLevel, EffectSums

TOLERANCE = 1e-9
"""Relative residual, in units of the levels' weights."""

MOST_READS = 300
"""Products after which the residual is left, and said."""


class SolvedByReading(NamedTuple):
    """x of G x = r, (L_k, q) for each grouping.

    Args:
        x: by grouping.
        left: r - G x.
        residual: the norm of each column of `left`, (q,).
        reads: number of products.
    """

    x: ByLevel
    left: ByLevel
    residual: np.ndarray
    reads: int


def solve_by_reading(
    sums: EffectSums, rights: ByLevel, squares: np.ndarray, start: Sequence[np.ndarray] | None
) -> SolvedByReading:
    """Solve G x = r for sums r of columns with these squares, from a start if there is one."""
    assert sums.unpaired is not None
    products, cuts = sums.unpaired.products, np.cumsum(sums.sizes)[:-1]

    def times(x: np.ndarray) -> np.ndarray:
        return np.concatenate(products(np.split(x, cuts)))

    right = np.concatenate(rights)
    inverse = inverted(np.concatenate([table.weights for table in sums.levels]))
    x, left = np.zeros_like(right), right
    if start is not None:
        x = np.concatenate(start)
        left = right - times(x)
    size = np.maximum(squared_norms(right, inverse), SMALL_SHARE * squares)
    goal = TOLERANCE * np.sqrt(size)
    done = conjugate_gradients(times, inverse, (x, left), goal, MOST_READS)
    residual = np.sqrt(squared_norms(done.left, inverse))
    reads = done.iterations + (start is not None)
    return SolvedByReading(np.split(done.x, cuts), np.split(done.left, cuts), residual, reads)

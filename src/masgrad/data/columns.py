"""The columns of a design matrix: ranges, spreads, and how many rows carry each.

Coordinates are scaled by the spreads. A column that a few rows carry, such as the dummy of a rare
level, is not known from a sample of the rows.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.arrays import every_few, powers
from masgrad.data.designs.structured import Structured

SPREAD_ROWS = 1 << 13
"""Rows from which the spread of columns is computed, unless a column is constant in them."""

MEDIAN_ROWS = 1 << 11
"""Rows from which medians are computed: those of all rows would take as long as a read."""

FOLDED_ROWS = 64
"""Rows laid side by side when the largest entries of columns are found."""

MANY_ROWS = 50
"""Effective number of rows that must carry a column for a sample to represent it."""

RARE_COLUMN_ROWS = 8
"""Effective number of rows that must carry a rare column for it to shorten steps."""

EVEN = 1.5
"""Largest entry of an even column, over the mean of its entries with weights u^2."""


def column_range(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entry of each column, (p,) each.

    Rows are folded side by side first: NumPy is three times as fast along long rows.
    """
    Z = np.asarray(Z)
    n, p = Z.shape
    whole = n // FOLDED_ROWS * FOLDED_ROWS if Z.flags.c_contiguous else 0
    tall = Z[whole:]
    if not whole:
        return tall.min(0), tall.max(0)
    wide = Z[:whole].reshape(FOLDED_ROWS, -1)
    low, high = wide.min(0).reshape(-1, p).min(0), wide.max(0).reshape(-1, p).max(0)
    if not len(tall):
        return low, high
    return np.minimum(low, tall.min(0)), np.maximum(high, tall.max(0))


def column_spread(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """The spread over some rows, and over all of them for columns that are constant in those."""
    spread = _spread(every_few(X, SPREAD_ROWS), centre)
    still = np.flatnonzero(~(spread > 0))
    if isinstance(X, Structured):
        return _spread(X, centre) if len(still) else spread
    spread[still] = _spread(X[:, still], centre[still])
    return spread


def _spread(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Root mean square about a centre, robust to a few outliers.

    Deviations are clipped at 20 times their median, unless that is 0 (as it is for a dummy).
    """
    if isinstance(X, Structured):
        return _spread_of_structured(X, centre)
    few, k = X[:MEDIAN_ROWS], min(len(X), MEDIAN_ROWS) // 2
    usual = np.partition(few, k, axis=0)[k]  # the upper of two medians: one selection, not three
    middle = np.partition(np.abs(few - usual), k, axis=0)[k]
    shift = np.abs(usual - centre)
    away = np.abs(X - centre)
    largest = np.minimum(np.where(middle > 0, 20 * middle + shift, np.inf), away.max(0))
    unit = np.where(largest > 0, largest, 1.0)
    np.minimum(away, largest, out=away)
    away /= unit
    np.square(away, out=away)
    return unit * np.sqrt(away.mean(0))


def _spread_of_structured(X: Structured, centre: np.ndarray) -> np.ndarray:
    """The same; of columns that are not written out by their squares."""
    at, numbers = X.written
    spread = np.sqrt(np.maximum(X.power(2).mean(0) - 2 * centre * X.mean(0) + centre**2, 0.0))
    if len(at):
        spread[at] = _spread(numbers, centre[at])
    return spread


# Columns that a few rows carry.


class ColumnSizes(NamedTuple):
    """Sums of powers of a design's entries u over rows, (p,) each: do a few rows carry a column?

    The effective number of rows that carry it is (sum of u^2)^2 / sum of u^4, for a dummy the
    number of its ones.

    Args:
        rows: their number.
        largest: largest |u|; of coded and sparse rows an upper bound.
        squares: sum of u^2.
        cubes: sum of |u|^3.
        fourths: sum of u^4.
    """

    rows: int
    largest: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    fourths: np.ndarray

    @property
    def are_represented(self) -> bool:
        """Whether many of these rows, rather than a few, carry each column."""
        carried = self.squares**2 / np.maximum(self.fourths, 1e-300)
        return bool(carried.min() >= min(MANY_ROWS, 0.1 * self.rows))

    @property
    def even(self) -> np.ndarray:
        """Mask of the even columns, as dummies are, that are not one outlier."""
        even = self.largest * self.squares < EVEN * self.cubes
        return even & (self.squares**2 > RARE_COLUMN_ROWS * self.fourths)


def column_sizes(parts: Iterable[Any]) -> ColumnSizes:
    """The sizes of columns that come block by block, each (n, p) or `Structured`."""
    sizes = [_of_block(U) for U in parts]
    rows, largest, *sums = zip(*sizes, strict=True)
    return ColumnSizes(sum(rows), np.max(largest, axis=0), *(np.sum(s, axis=0) for s in sums))


def _of_block(U: Any) -> ColumnSizes:
    if isinstance(U, Structured):
        sums = (powers(U, k).sum(0) for k in (2, 3, 4))
        return ColumnSizes(len(U), U.largest(np.ones(len(U))), *sums)
    low, high = column_range(U)
    squares = U * U
    cubes, fourths = (np.einsum("ij,ij->j", squares, a) for a in (np.abs(U), squares))
    return ColumnSizes(len(U), np.maximum(high, -low), np.ones(len(U)) @ squares, cubes, fourths)

"""Sums over rows by the levels of K groupings: all that a Newton step with fixed effects needs.

With D_k the dummies of grouping k, weights W and working responses z,

    X'WX, X'Wz, z'Wz,    D_k'WX, D_k'Wz, D_k'W1 and D_k'1,    D_k'W D_l for k < l
"""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.pairs import Pairs


class LevelTable(NamedTuple):
    """Sums by level of one grouping.

    Args:
        levels: to which the lines belong, ascending; None for all from the first.
        rows: their number, (T,).
        sums: of w [X, z, 1], (T, p + 2).
    """

    levels: np.ndarray | None
    rows: np.ndarray
    sums: np.ndarray

    @property
    def size(self) -> int:
        """The number of levels up to the last one."""
        if self.levels is None:
            return len(self.rows)
        return int(self.levels[-1]) + 1 if len(self.levels) else 0

    @property
    def border(self) -> np.ndarray:
        """D'WX, (L, p)."""
        return self.sums[:, :-2]

    @property
    def responses(self) -> np.ndarray:
        """D'Wz, (L,)."""
        return self.sums[:, -2]

    @property
    def weights(self) -> np.ndarray:
        """D'W1, (L,)."""
        return self.sums[:, -1]


@dataclass(frozen=True)
class EffectSums:
    """Sums over rows with p columns and K groupings, of a part of the rows or of all.

    Args:
        products: [X, z, 1]'W[X, z, 1], (p + 2, p + 2).
        levels: sums by level, one table for each grouping.
        pairs: weights by pair of levels, of groupings (0, 1), (0, 2), ..., (1, 2), ...
    """

    products: np.ndarray
    levels: tuple[LevelTable, ...]
    pairs: tuple[Pairs, ...]

    @property
    def A(self) -> np.ndarray:
        """X'WX, (p, p)."""
        return self.products[:-2, :-2]

    @property
    def c(self) -> np.ndarray:
        """X'Wz, (p,)."""
        return self.products[:-2, -2]

    @property
    def squares(self) -> float:
        """z'Wz."""
        return float(self.products[-2, -2])

    @property
    def weight(self) -> float:
        """The total weight."""
        return float(self.products[-1, -1])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.levels[0].rows.sum())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels of each grouping."""
        return tuple(table.size for table in self.levels)

    def pairs_of(self, k: int, m: int) -> Pairs:
        """The pairs of two groupings, k < m."""
        places = list(combinations(range(len(self.levels)), 2))
        return self.pairs[places.index((k, m))]

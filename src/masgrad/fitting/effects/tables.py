"""Sums over rows by the levels of K groupings: all that a Newton step with fixed effects needs.

With D_k the dummies of grouping k, weights W and working responses z,

    X'WX, X'Wz, z'Wz,    D_k'WX, D_k'Wz, D_k'W1 and D_k'1,    D_k'W D_l for k < l

Where the pairs of levels in D_k'W D_l do not fit memory, products with them are reads of the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.components import Components
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


ByLevel = list[np.ndarray]
"""Numbers by level, (L_k, q) for each grouping."""

Products = Callable[[ByLevel], ByLevel]
"""x -> D_k'W (sum over l of D_l x_l) for each grouping k, by a read of the rows."""


class Unpaired(NamedTuple):
    """What stands in for pairs of levels that do not fit memory.

    Args:
        products: by reads.
        components: of groupings (0, 1), (0, 2), ..., (1, 2), ...
    """

    products: Products
    components: tuple[Components, ...]


@dataclass(frozen=True)
class EffectSums:
    """Sums over rows with p columns and K groupings, of a part of the rows or of all.

    Args:
        products: [X, z, 1]'W[X, z, 1], (p + 2, p + 2).
        levels: sums by level, one table for each grouping.
        pairs: weights by pair of levels, of groupings (0, 1), (0, 2), ..., (1, 2), ...; none if
            they do not fit memory.
        unpaired: what stands in for them then.
    """

    products: np.ndarray
    levels: tuple[LevelTable, ...]
    pairs: tuple[Pairs, ...]
    unpaired: Unpaired | None = None

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
        return self.pairs[self._place(k, m)]

    def components(self, k: int, m: int) -> Components:
        """The connected components of two groupings, k < m."""
        if self.unpaired is not None:
            return self.unpaired.components[self._place(k, m)]
        return Components.of(self.pairs_of(k, m), (self.sizes[k], self.sizes[m]))

    def curvature_of(self, levels: Sequence[np.ndarray]) -> float:
        """a'G a of numbers by level, (L_k,) for each grouping."""
        if self.unpaired is not None:
            found = self.unpaired.products([a[:, None] for a in levels])
            return sum(float(a @ Ga[:, 0]) for a, Ga in zip(levels, found, strict=True))
        total = sum(t.weights @ np.square(a) for t, a in zip(self.levels, levels, strict=True))
        for (k, m), pairs in zip(combinations(range(len(levels)), 2), self.pairs, strict=True):
            assert pairs.weights is not None
            a, b = levels[k].take(pairs.first), levels[m].take(pairs.second)
            total += 2 * (pairs.weights * a) @ b
        return float(total)

    def of_groupings(self, chosen: list[int]) -> "EffectSums":
        """The sums with some of the groupings."""
        tables = tuple(self.levels[k] for k in chosen)
        places = [self._place(k, m) for k, m in combinations(chosen, 2)]
        if self.unpaired is None:
            return EffectSums(self.products, tables, tuple(self.pairs[at] for at in places))
        components = tuple(self.unpaired.components[at] for at in places)
        return EffectSums(self.products, tables, (), self.unpaired._replace(components=components))

    def _place(self, k: int, m: int) -> int:
        return list(combinations(range(len(self.levels)), 2)).index((k, m))

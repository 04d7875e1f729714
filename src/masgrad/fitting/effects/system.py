"""The matrix of the effects, G = D'WD, with its largest grouping eliminated.

        | D  E |    D diagonal, of the grouping with most levels; H of all other levels, with the
    G = | E' H |    joint weights of pairs of levels; E of pairs with the largest grouping.

G is never formed. The Schur complement S = H - E'D^-1 E is applied to several columns at once, in a
fixed number of pieces, which threads share: their number changes no digit. A level without rows
has 1/d = 0: it does not move.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from masgrad.fitting.effects.components import Components
from masgrad.fitting.effects.conjugate import inverted
from masgrad.fitting.effects.counting import largest
from masgrad.fitting.effects.pairs import Pairs
from masgrad.fitting.effects.tables import EffectSums

PIECES = 4
"""Pieces of the pairs."""

FEWEST_IN_PIECES = 50_000
"""Pairs below which they are one piece."""


@dataclass(frozen=True)
class EffectSystem:
    """G of K >= 2 groupings.

    Args:
        main: the grouping with most levels.
        sizes: the number of levels of each grouping.
        inverse: 1/d of its levels, (L,).
        pairs: E, (L, N), sparse by rows.
        rest: the diagonal of H, (N,): weights of all other levels.
        beside: H without its diagonal, sparse and symmetric; None of two groupings.
    """

    main: int
    sizes: tuple[int, ...]
    inverse: np.ndarray
    pairs: Any
    rest: np.ndarray
    beside: Any

    @classmethod
    def of(cls, sums: EffectSums) -> "EffectSystem":
        main, sizes = largest(sums), sums.sizes
        others = [k for k in range(len(sizes)) if k != main]
        tables = [_between(sums, main, k) for k in others]
        pairs = tables[0]
        if len(tables) > 1:
            from scipy import sparse  # heavy, and for fixed effects alone

            pairs = sparse.hstack(tables, format="csr")
        d, weights = sums.levels[main].weights, [sums.levels[k].weights for k in others]
        return cls(main, sizes, inverted(d), pairs, np.concatenate(weights), _beside(sums, others))

    @property
    def others(self) -> list[int]:
        """The groupings that stay."""
        return [k for k in range(len(self.sizes)) if k != self.main]

    def split(self, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers by level of every grouping as those of the largest, and those of all others."""
        return parts[self.main], np.concatenate([parts[k] for k in self.others])

    def by_grouping(self, main: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, ...]:
        """The reverse of `split`."""
        cuts = np.cumsum([self.sizes[k] for k in self.others])[:-1]
        parts = dict(zip(self.others, np.split(rest, cuts), strict=True))
        return tuple(main if k == self.main else parts[k] for k in range(len(self.sizes)))

    @cached_property
    def _pieces(self) -> list[tuple[Any, np.ndarray]]:
        """Rows of E with their 1/d, about as many pairs in each piece."""
        E = self.pairs
        if E.nnz < FEWEST_IN_PIECES:
            return [(E, self.inverse[:, None])]
        ends = np.searchsorted(E.indptr, np.linspace(0, E.nnz, PIECES + 1))
        ends[0], ends[-1] = 0, E.shape[0]
        return [(E[a:b], self.inverse[a:b, None]) for a, b in pairwise(ends)]

    def reduced(self, x: np.ndarray, pool: Executor | None) -> np.ndarray:
        """S x, for x (N, q)."""

        def work(piece: tuple[Any, np.ndarray]) -> np.ndarray:
            E, inverse = piece
            t = E @ x
            t *= inverse
            return E.T @ t

        out = self.rest[:, None] * x
        if self.beside is not None:
            out += self.beside @ x
        for part in (map if pool is None else pool.map)(work, self._pieces):
            out -= part
        return out

    def reduced_right(self, main: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """The right-hand sides of S x = r - E'D^-1 r_main."""
        return rest - self.pairs.T @ (self.inverse[:, None] * main)

    def main_effects(self, main: np.ndarray, x: np.ndarray) -> np.ndarray:
        """D^-1 (r_main - E x)."""
        return self.inverse[:, None] * (main - self.pairs @ x)

    @cached_property
    def reduced_diagonal(self) -> np.ndarray:
        """The diagonal of S, (N,)."""
        E = self.pairs
        each = np.square(E.data) * np.repeat(self.inverse, np.diff(E.indptr))
        return self.rest - np.bincount(E.indices, each, len(self.rest))

    @property
    def products(self) -> float:
        """Multiplications that form S."""
        return float(np.square(np.diff(self.pairs.indptr), dtype=np.float64).sum())

    def schur_complement(self, pool: Executor | None) -> Any:
        """S, sparse by rows."""
        from scipy import sparse  # heavy, and for fixed effects alone

        def work(piece: tuple[Any, np.ndarray]) -> Any:
            E, inverse = piece
            weights = E.data * np.repeat(inverse[:, 0], np.diff(E.indptr))
            scaled = sparse.csr_array((weights, E.indices, E.indptr), shape=E.shape)
            return E.T.tocsr() @ scaled

        S = sparse.diags_array(self.rest, format="csr")
        S = S if self.beside is None else S + self.beside
        for part in (map if pool is None else pool.map)(work, self._pieces):
            S = S - part
        return S.tocsr()

    def grounds(self, S: Any) -> np.ndarray:
        """Levels, among the others, whose effects can be 0: one for each of their grouping's
        connected components with the largest. S is the Schur complement."""
        if self.beside is None:  # it joins the levels that a level of the largest meets
            from scipy.sparse import csgraph  # heavy, and for fixed effects alone

            return np.unique(csgraph.connected_components(S, directed=False)[1], True)[1]
        starts, E = np.cumsum([0, *(self.sizes[k] for k in self.others)]), self.pairs
        first = np.repeat(np.arange(E.shape[0], dtype=np.int32), np.diff(E.indptr))
        chosen = []
        for a, b in pairwise(starts):
            own = (E.indices >= a) & (E.indices < b)
            pairs = Pairs(first[own], E.indices[own] - a, E.data[own])
            labels = Components.of(pairs, (E.shape[0], int(b - a))).second
            numbers, levels = np.unique(labels, return_index=True)
            chosen.append(a + levels[numbers >= 0])
        return np.concatenate(chosen)


def _between(sums: EffectSums, k: int, m: int) -> Any:
    """D_k'W D_m, sparse by rows."""
    low, high = min(k, m), max(k, m)
    table = sums.pairs_of(low, high).matrix((sums.sizes[low], sums.sizes[high]))
    return table if k < m else table.T.tocsr()


def _beside(sums: EffectSums, others: Sequence[int]) -> Any:
    """The joint weights of the other groupings, symmetric."""
    if len(others) == 1:
        return None
    from scipy import sparse  # heavy, and for fixed effects alone

    blocks = [
        [_between(sums, k, m) if k != m else _empty(sums.sizes[k]) for m in others] for k in others
    ]
    return sparse.block_array(blocks, format="csr")


def _empty(size: int) -> Any:
    from scipy import sparse  # heavy, and for fixed effects alone

    return sparse.csr_array((size, size))

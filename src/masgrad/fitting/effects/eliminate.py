"""Columns and responses less their regression on fixed effects, from sums by level.

With G = D'WD, Z = [X, z] and P = Z'WZ the regression of Z on the effects is U = G^+ D'WZ. What is
left of the columns and the responses, Z - DU, has the products

    P - U'D'WZ - (D'WZ)'U + U'GU

whatever U is, so that an error of U counts squared. Of these products S is the columns' part and s
that of the columns with the responses:

    beta = S^-1 s,    alpha = u - U beta    (u the last column of U, of the responses)
"""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.effects.by_reading import solve_by_reading
from masgrad.fitting.effects.conjugate import inverted
from masgrad.fitting.effects.removal import Removal
from masgrad.fitting.effects.solve import solve_effects
from masgrad.fitting.effects.system import EffectSystem
from masgrad.fitting.effects.tables import ByLevel, EffectSums
from masgrad.models.gram import factor, scaled_spectrum

WEAK, CONSTANT = 1e-5, 1e-12
"""Shares of a column's variation within levels: below the first its sums have lost digits, below
the second it has none."""

COLLINEAR = 1e-14
"""Eigenvalue of the scaled S that is 0."""

Effects = tuple[np.ndarray, ...]
"""Numbers by level, for each grouping."""


@dataclass(frozen=True)
class Eliminated:
    """The columns and the responses without the effects.

    Args:
        sums: over the rows.
        means: U, (L_k, p + 1) for each grouping: effects of the columns and of the responses.
        products: of the columns and the responses less their effects, (p + 1, p + 1).
        weak: columns whose products have lost digits, (p,): sums over the rows less their effects
            have them.
        constant: columns that do not vary within the levels, (p,).
        residual: of each column of U, over what is left of the column without the effects,
            (p + 1,).
        iterations: of conjugate gradients.
        removal: of levels one after the other, if iterations were too slow.
        reads: of the rows, for products with pairs that do not fit memory.
    """

    sums: EffectSums
    means: Effects
    products: np.ndarray
    weak: np.ndarray
    constant: np.ndarray
    residual: np.ndarray
    iterations: int = 0
    removal: Removal | None = None
    reads: int = 0

    @property
    def effects_of_x(self) -> Effects:
        """The columns' regression on the effects, (L_k, p) for each grouping."""
        return tuple(U[:, :-1] for U in self.means)

    @property
    def within(self) -> np.ndarray:
        """S, (p, p)."""
        return self.products[:-1, :-1]

    @property
    def within_z(self) -> np.ndarray:
        """s, (p,)."""
        return self.products[:-1, -1]

    @property
    def squares(self) -> float:
        """What is left of z'Wz without the effects."""
        return float(self.products[-1, -1])

    def solution(self) -> tuple[np.ndarray, Effects]:
        """beta (p,), 0 for constant columns, and alpha."""
        beta = self.beta(self.within_z)
        return beta, tuple(U[:, -1] - U[:, :-1] @ beta for U in self.means)

    def beta(self, s: np.ndarray) -> np.ndarray:
        """S^-1 s; 0 for constant columns."""
        kept, out = np.flatnonzero(~self.constant), np.zeros(len(s))
        if len(kept):
            out[kept] = _inverse(self.within[np.ix_(kept, kept)]) @ s[kept]
        return out


def eliminate(
    sums: EffectSums,
    start: Eliminated | None = None,
    *,
    threads: int | None = None,
    memory: float = np.inf,
) -> Eliminated:
    """The columns and the responses of these sums without the effects.

    Args:
        sums: over all rows.
        start: the same with other weights, to begin with.
        threads: that share products; None for all cores.
        memory: bytes that a factor of G may take.
    """
    rights, P = [table.sums[:, :-1] for table in sums.levels], sums.products[:-1, :-1]
    if len(rights) == 1:
        U = rights[0] * inverted(sums.levels[0].weights)[:, None]
        products = P - U.T @ rights[0]
        return Eliminated(sums, (U,), products, *_lost(products, P), np.zeros(len(P)))
    before = None if start is None else start.means
    if sums.unpaired is not None:
        return _by_reading(sums, rights, P, before)
    system = EffectSystem.of(sums)
    done = solve_effects(
        system, rights, before, squares=np.diagonal(P), threads=threads, memory=memory
    )
    main, rest = system.split(rights)
    products = P - done.main.T @ main - done.rest.T @ rest - done.left.T @ done.rest
    products = (products + products.T) / 2
    return Eliminated(
        sums,
        system.by_grouping(done.main, done.rest),
        products,
        *_lost(products, P),
        _relative(done.residual, products, P),
        done.iterations,
        done.removal,
    )


def _by_reading(
    sums: EffectSums, rights: ByLevel, P: np.ndarray, before: Effects | None
) -> Eliminated:
    """The same where pairs of levels do not fit memory."""
    done = solve_by_reading(sums, rights, np.diagonal(P), before)
    products = P.copy()
    for x, r, left in zip(done.x, rights, done.left, strict=True):
        products -= x.T @ r + left.T @ x
    products = (products + products.T) / 2
    lost = _lost(products, P)
    residual = _relative(done.residual, products, P)
    return Eliminated(sums, tuple(done.x), products, *lost, residual, reads=done.reads)


def _lost(products: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns whose products have lost digits, and those that do not vary within levels."""
    share = np.diagonal(products)[:-1], np.diagonal(P)[:-1]
    return share[0] <= WEAK * share[1], share[0] <= CONSTANT * share[1]


def _relative(residual: np.ndarray, products: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Residuals over what is left of columns, or a weak share of them; 0 where nothing is left."""
    left, whole = np.diagonal(products), np.diagonal(P)
    size = np.where(left > CONSTANT * whole, np.maximum(left, WEAK * whole), 0.0)
    return residual * np.sqrt(inverted(size))


def _inverse(S: np.ndarray) -> np.ndarray:
    """S^-1, without the directions of collinear columns, whatever the columns' units."""
    unit = np.sqrt(inverted(np.diag(S)))
    scaled = S * np.outer(unit, unit)
    found = factor(scaled)
    if found is not None:
        return found.inverse() * np.outer(unit, unit)
    size, values, Q = scaled_spectrum(scaled)
    turned, kept = unit[:, None] * Q / size[:, None], values > COLLINEAR
    return (turned[:, kept] / values[kept]) @ turned[:, kept].T

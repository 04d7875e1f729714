"""Columns that have no slope beside effects: those that do not vary within levels, or that others
determine there.

In the order of the formula a column is left out if less than `COLLINEAR` of its variation within
levels is left after its regression on the columns before it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.conjugate import inverted
from masgrad.fitting.effects.eliminate import CONSTANT, Eliminated
from masgrad.fitting.effects.tables import EffectSums, LevelTable

COLLINEAR = 1e-11
"""Share of a column's variation within levels that is none."""


class Slopes(NamedTuple):
    """Which columns have a slope.

    Args:
        constant: those that do not vary within levels, (p,).
        determined: those that columns before them determine, (p,).
        within: the first grouping within whose levels a constant column does not vary, (p,); -1 if
            only effects of several groupings determine it.
    """

    constant: np.ndarray
    determined: np.ndarray
    within: np.ndarray

    @classmethod
    def all(cls, p: int) -> "Slopes":
        """Every column has a slope."""
        return cls(np.zeros(p, bool), np.zeros(p, bool), np.full(p, -1))

    @property
    def kept(self) -> np.ndarray:
        """Mask of the columns that have a slope."""
        return ~(self.constant | self.determined)


def slopes_of(done: Eliminated) -> Slopes:
    """The columns that have a slope, by the products of columns less their effects."""
    constant = done.constant.copy()
    return Slopes(constant, _determined(done.within, constant), _within(done.sums, constant))


def _within(sums: EffectSums, constant: np.ndarray) -> np.ndarray:
    """The first grouping within whose levels each constant column does not vary."""
    found = np.full(len(constant), -1)
    if not constant.any():
        return found
    for k, table in reversed(list(enumerate(sums.levels))):
        means = table.border * inverted(table.weights)[:, None]
        left = np.diag(sums.A) - np.einsum("ij,ij->j", means, table.border)
        found[constant & (left <= CONSTANT * np.diag(sums.A))] = k
    return found


def _determined(S: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """Columns that those before them determine: by a Cholesky factor, column after column."""
    p = len(S)
    size = np.sqrt(np.where(constant, 1.0, np.diag(S)))
    R, left = S / np.outer(size, size), np.zeros(p, bool)
    L = np.zeros((p, p))
    for j in range(p):
        row = R[j] - L[j] @ L.T if j else R[j].copy()
        if constant[j] or row[j] <= COLLINEAR:
            left[j] = not constant[j]
            continue
        L[:, j] = row / np.sqrt(row[j])
        L[:j, j] = 0.0
    return left


def only_columns(done: Eliminated, chosen: np.ndarray) -> Eliminated:
    """Sums and regressions without some of the columns; `chosen` (p,) is a mask."""
    sums, with_z = done.sums, np.flatnonzero(np.append(chosen, True))
    places = np.append(with_z, len(chosen) + 1)
    tables = (LevelTable(t.levels, t.rows, t.sums[:, places]) for t in sums.levels)
    products = sums.products[np.ix_(places, places)]
    return replace(
        done,
        sums=EffectSums(products, tuple(tables), sums.pairs, sums.unpaired),
        means=tuple(U[:, with_z] for U in done.means),
        products=done.products[np.ix_(with_z, with_z)],
        weak=done.weak[chosen],
        constant=done.constant[chosen],
        residual=done.residual[with_z],
    )

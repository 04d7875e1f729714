"""Exact elimination of a sparse symmetric matrix, level after level.

Levels that meet few others, and not each other, are removed together: with S = [[D, F], [F', R]]
and D diagonal the others have R - F'D^-1 F. Rounds of this thin out chains of any length. They stop
where the levels left are few enough for a dense factor, or meet so many others that nothing is
gained: conjugate gradients solve for these.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import get_lapack_funcs

from masgrad.fitting.effects.conjugate import conjugate_gradients, inverted

dpotrf, dpstrf, dpotrs = get_lapack_funcs(("potrf", "pstrf", "potrs"), dtype=np.float64)

DENSE_LEVELS = 1500
"""Levels for which a dense factor is made."""

MOST_DENSE_LEVELS = 4000
"""Levels for which it is made where no more can be removed."""

MOST_FILL = 3.0
"""Entries of the matrices of later rounds, for each of the first, beyond which none is made."""

MANY_NEIGHBOURS = 1.5
"""Neighbours of levels that are removed, over those of the lower third."""

FEW_REMOVED, FEWEST_REMOVED = 0.1, 0.01
"""Shares of levels removed below which a dense factor costs less, and nothing is gained."""

TRIALS = 3
"""Draws by which levels are chosen that do not meet."""

REDUNDANT = 1e-13
"""Share of a level's weight that is 0: the other levels determine its effect."""

CORE_ITERATIONS = 2000
"""Most iterations for the levels that are left."""


class Solver(Protocol):
    """What solves for the levels that are left."""

    def solve(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        """x of S x = right, (N, q)."""
        ...


class Round(NamedTuple):
    """One round.

    Args:
        removed: levels, among those that were left, (m,).
        kept: the others.
        inverse: 1/d of those removed, (m, 1).
        beside: F, (m, n), sparse by rows.
    """

    removed: np.ndarray
    kept: np.ndarray
    inverse: np.ndarray
    beside: Any


@dataclass(frozen=True)
class Removal:
    """S factored.

    Args:
        rounds: in their order.
        core: of the levels left.
    """

    rounds: tuple[Round, ...]
    core: Solver

    def solve(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        """S^-1 right, (N, q); redundant levels have 0."""
        owns, r = [], right
        for step in self.rounds:
            owns.append(step.inverse * r[step.removed])
            r = r[step.kept] - step.beside.T @ owns[-1]
        x = self.core.solve(r, tolerance)
        for step, own in zip(self.rounds[::-1], owns[::-1], strict=True):
            whole = np.empty((len(step.removed) + len(step.kept), x.shape[1]))
            whole[step.kept] = x
            whole[step.removed] = own - step.inverse * (step.beside @ x)
            x = whole
        return x


def removed(S: Any, weights: np.ndarray) -> Removal:
    """S (sparse by rows) factored; `weights` (N,) are those of its levels."""
    rounds, rng, most = [], np.random.default_rng(0), MOST_FILL * S.nnz
    while S.shape[0] > DENSE_LEVELS:
        chosen = _few_neighbours(S, rng, most)
        if chosen is None or chosen.mean() < _worthwhile(S.shape[0]):
            break
        step, S = _round(S, chosen, weights)
        weights = weights[step.kept]
        rounds.append(step)
    if S.shape[0] <= MOST_DENSE_LEVELS:
        return Removal(tuple(rounds), DenseFactor.of(S.toarray(), weights))
    return Removal(tuple(rounds), Core(S))


def _worthwhile(size: int) -> float:
    """The share of levels that a round has to remove."""
    return FEW_REMOVED if size <= MOST_DENSE_LEVELS else FEWEST_REMOVED


def _few_neighbours(S: Any, rng: np.random.Generator, most: float) -> np.ndarray | None:
    """A mask of levels that meet few others and not each other; None if none can be found, or if
    those others could have more than `most` entries."""
    met = np.diff(S.indptr)
    few = met <= MANY_NEIGHBOURS * np.quantile(met, 1 / 3)
    rows = np.repeat(np.arange(len(met)), met)
    off = S.indices != rows
    rows, columns = rows[off], S.indices[off]
    chosen = np.zeros(len(met), bool)
    for _ in range(TRIALS):
        rank = np.where(few, met + rng.random(len(met)), np.inf)
        lowest = np.full(len(met), np.inf)
        np.minimum.at(lowest, rows, rank[columns])
        new = few & (rank < lowest)
        chosen |= new
        few &= ~new
        few[rows[new[columns]]] = False
    fill = float(np.square(met[chosen] - 1.0).sum() - 2 * met[chosen].sum())
    dense = float((len(met) - chosen.sum()) ** 2)
    return chosen if chosen.any() and min(S.nnz + fill, dense) <= most else None


def _round(S: Any, chosen: np.ndarray, weights: np.ndarray) -> tuple[Round, Any]:
    """Remove the levels of a mask: the round, and the matrix of the others."""
    from scipy import sparse  # heavy, and for fixed effects alone

    out, kept = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    d = S.diagonal()[out]
    inverse = inverted(np.where(d > REDUNDANT * weights[out], d, 0.0))
    beside = S[out][:, kept]
    scaled = sparse.diags_array(inverse) @ beside
    return Round(out, kept, inverse[:, None], beside), (
        S[kept][:, kept] - beside.T @ scaled
    ).tocsr()


@dataclass(frozen=True)
class DenseFactor:
    """A pivoted Cholesky factor, with the weights' roots as units.

    Args:
        factor: L, (n, n).
        order: of the levels, the redundant ones last, (n,).
        rank: levels that are not redundant.
        unit: roots of 1 / weight, (n,).
    """

    factor: np.ndarray
    order: np.ndarray
    rank: int
    unit: np.ndarray

    @classmethod
    def of(cls, S: np.ndarray, weights: np.ndarray) -> "DenseFactor":
        unit = np.sqrt(inverted(weights))
        scaled = S * np.outer(unit, unit)
        L, bad = dpotrf(scaled, lower=1)
        if bad == 0 and np.square(np.diagonal(L)).min(initial=1.0) > REDUNDANT:
            return cls(L, np.arange(len(S)), len(S), unit)
        L, order, rank, _ = dpstrf(scaled, lower=1, tol=REDUNDANT)
        return cls(L, order - 1, int(rank), unit)

    def solve(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        del tolerance
        x, own = np.zeros_like(right), self.order[: self.rank]
        if self.rank:
            part = dpotrs(
                self.factor[: self.rank, : self.rank], (self.unit[:, None] * right)[own], 1
            )
            x[own] = part[0]
        return self.unit[:, None] * x


@dataclass(frozen=True)
class Core:
    """Many levels that meet many others.

    Args:
        matrix: S, sparse by rows.
    """

    matrix: Any

    def solve(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        inverse = inverted(self.matrix.diagonal())
        size = np.sqrt(np.einsum("ij,ij,i->j", right, right, inverse))
        start, times = (np.zeros_like(right), right), self.matrix.__matmul__
        return conjugate_gradients(times, inverse, start, tolerance * size, CORE_ITERATIONS).x

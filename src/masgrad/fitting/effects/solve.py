"""Regressions on the effects of two groupings and more: G x = r for several columns at once.

Conjugate gradients on the Schur complement need few iterations where levels meet many others, and
many where levels are chains, which exact elimination thins out at little cost. So the iterations
stop as soon as they are going to cost more than elimination, which then solves for what is left.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from masgrad.cores import cores
from masgrad.fitting.effects.conjugate import (
    SMALL_SHARE,
    conjugate_gradients,
    inverted,
    squared_norms,
)
from masgrad.fitting.effects.removal import DENSE_LEVELS, Removal, removed
from masgrad.fitting.effects.system import EffectSystem

TOLERANCE = 1e-10
"""Relative residual, in units of the levels' weights."""

MOST_ITERATIONS = 5000
"""Iterations after which nothing is left to try."""

FACTOR_AS_LONG, ROUNDS_AS_LONG = 5, 50
"""Iterations that take as long as a dense factor, and as rounds of elimination before it."""

ROUNDING = 1e-14
"""Error of a level's sum, for its weight times the largest mean of a level."""

CYCLES = 3
"""Solutions with a factor, each for the residual of the one before."""

BYTES_A_PAIR = 16
"""Of a sparse matrix, with room to copy it."""


@dataclass(frozen=True)
class Solved:
    """x of G x = r.

    Args:
        main: of the largest grouping, (L, q).
        rest: of the others, (N, q).
        left: r - G x of the others, (N, q); of the largest it is 0.
        residual: the norm of each column of `left`, (q,).
        iterations: of conjugate gradients.
        removal: of levels one after the other, if iterations were too slow.
    """

    main: np.ndarray
    rest: np.ndarray
    left: np.ndarray
    residual: np.ndarray
    iterations: int
    removal: Removal | None


def solve_effects(
    system: EffectSystem,
    rights: Sequence[np.ndarray],
    start: Sequence[np.ndarray] | None = None,
    *,
    squares: np.ndarray | None = None,
    threads: int | None = None,
    memory: float = np.inf,
) -> Solved:
    """Solve G x = r.

    Args:
        system: G.
        rights: r, (L_k, q) for each grouping.
        start: x to begin with.
        squares: of the columns that r are sums of, (q,): what is small beside them is rounding, and
            need not be a sum of columns at all, so that iterations on it would not end.
        threads: that share products; None for all cores.
        memory: bytes that a factor may take.
    """
    main, rest = system.split(rights)
    right = system.reduced_right(main, rest)
    x = np.zeros_like(right) if start is None else system.split(start)[1]
    inverse = _preconditioner(system)
    size = np.maximum(squared_norms(right, inverse), _rounding(system, main, inverse))
    size = size if squares is None else np.maximum(size, SMALL_SHARE * squares)
    with _pool(threads) as pool:
        left = right - system.reduced(x, pool) if start is not None else right
        worth = iterations_as_long(system, right.shape[1], memory)
        times, goal = partial(system.reduced, pool=pool), TOLERANCE * np.sqrt(size)
        done = conjugate_gradients(times, inverse, (x, left), goal, MOST_ITERATIONS, worth=worth)
        x, left = done.x, done.left
        removal = None
        if not done.converged and worth < np.inf:
            removal = factored(system, pool)
            x, left = _refined(system, removal, (right, size), (x, left), pool)
    residual = np.sqrt(squared_norms(left, inverse))
    return Solved(system.main_effects(main, x), x, left, residual, done.iterations, removal)


def factored(system: EffectSystem, pool: Executor | None) -> Removal:
    """S factored, with one level's effect 0 in each connected component."""
    from scipy import sparse  # heavy, and for fixed effects alone

    S, weights = system.schur_complement(pool), np.where(system.rest > 0, system.rest, 1.0)
    held = np.where(system.rest > 0, 0.0, 1.0)
    grounds = system.grounds(S)
    held[grounds] = weights[grounds]
    return removed((S + sparse.diags_array(held, format="csr")).tocsr(), weights)


def _refined(
    system: EffectSystem,
    factor: Removal,
    goal: tuple[np.ndarray, np.ndarray],
    start: tuple[np.ndarray, np.ndarray],
    pool: Executor | None,
) -> tuple[np.ndarray, np.ndarray]:
    """x and r - S x, by a factor and its residuals, from those of the start.

    The goal is r, and the size in which a residual is judged.
    """
    (right, size), (x, left) = goal, start
    inverse = _preconditioner(system)
    for _ in range(CYCLES):
        new = x + factor.solve(left, TOLERANCE)
        after = right - system.reduced(new, pool)
        if not squared_norms(after, inverse).sum() < squared_norms(left, inverse).sum():
            break
        x, left = new, after
        if (squared_norms(left, inverse) <= TOLERANCE**2 * size).all():
            break
    return x, left


def _preconditioner(system: EffectSystem) -> np.ndarray:
    """1 / the diagonal of S, and 0 for levels whose effects others determine alone."""
    own = system.reduced_diagonal
    return inverted(np.where(own > 1e-13 * system.rest, own, 0.0))


def iterations_as_long(system: EffectSystem, columns: int, memory: float) -> float:
    """Iterations that take about as long as elimination; infinitely many if memory forbids it."""
    products = system.products
    if min(products, float(len(system.rest)) ** 2) * BYTES_A_PAIR > memory:
        return np.inf
    rounds = ROUNDS_AS_LONG if len(system.rest) > DENSE_LEVELS else 0
    return rounds + FACTOR_AS_LONG + 6 * products / (system.pairs.nnz * (2.0 + columns))


def _rounding(system: EffectSystem, main: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """A size of the right-hand sides below which they are rounding errors, (q,).

    Columns that do not vary within the largest grouping have nothing else.
    """
    largest = np.abs(system.inverse[:, None] * main).max(0, initial=0.0)
    return np.square(ROUNDING / TOLERANCE * largest) * np.dot(system.rest**2, inverse)


@contextmanager
def _pool(threads: int | None) -> Iterator[Executor | None]:
    """Threads that share products; None for a single one."""
    threads = cores() if threads is None else threads
    if threads == 1:
        yield None
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool

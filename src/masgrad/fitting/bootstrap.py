"""Intervals from chains: the spread of averaged MasGrad chains around the estimate.

K chains start at the corrected estimate and read the rows once more, n T = N. Each chain draws rows
with replacement: every row enters a batch with a Poisson(1) weight of its own. Given the rows, the
average of a chain then has the covariance H^-1 M H^-1 / N around the ERM, which is also that of the
ERM around theta*. (A shuffled epoch without weights would have next to no spread.) Three things
are taken care of:

- a chain of T steps has not forgotten its start. Its steps add up to eta V^-1 times the gradients
  it saw, so where H is constant its average and (eta V^-1 H T)^-1 (phi_T - phi_0), which is what
  is left of the way, are together -H^-1 times the mean of the noise, whatever eta, T and V;
- a batch's H_n is not H, which adds noise away from the estimate, and curvature changes on the
  way. Both grow with eta / n. The step is so short that the first is a share EXTRA of the variance;
- K chains give K - 1 degrees of freedom: intervals take Student's quantile.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from masgrad.data.arrays import BLOCK, count_rows, pick
from masgrad.data.regression import offset_of, total_weight, weight_of
from masgrad.errors import AccuracyWarning, InputError, say
from masgrad.fitting.averaging import batches
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.warmup import adjustment
from masgrad.fitting.watch import Watch
from masgrad.types import Rows

if TYPE_CHECKING:
    from masgrad.fitting.options import Options

STEPS = 50
"""Steps of a chain, and SETTLE times kappa if that is more."""

SETTLE = 6

ROWS = 20
"""Rows of a batch at least, for each parameter."""

EXTRA = 0.02
"""Share of a chain's variance that the noise of its batches' H may have."""

DRAWS = 1024
"""Iterates that are kept of each chain, about, for diagnostics."""

FEWEST = 8
"""Steps of a chain at least."""


class Diverged(Exception):
    """Chains that are no longer finite."""


class ChainSpread(NamedTuple):
    """Covariance, degrees of freedom, agreement with the sandwich; iterates (K, T, p)."""

    cov: np.ndarray
    df: int
    note: str
    draws: np.ndarray


def chain_covariance(
    problem: Problem, local: Quadratic, C: np.ndarray, options: "Options", watch: Watch
) -> ChainSpread:
    """Covariance of phi from chains, and how it agrees with C.

    Paper: averaged MasGrad chains - rows drawn with replacement, nT = N, spread around the ERM
    """
    rng = np.random.default_rng([options.plan.seed, 2])
    A, gamma = adjustment(local)
    batch = _batch(local, A, gamma)
    n = batch * local.count / local.rows
    quiet = 1 / (unrest(problem, local, A) / (EXTRA * n) + gamma / 2)
    eta = min(min(options.plan.step_size, 1.0) / gamma, quiet)
    every = max(1, local.rows // batch // DRAWS)
    means, steps, draws = run_chains(
        problem, local, eta / n * A, batch, options.chains, rng, watch, every
    )
    if not np.isfinite(means).all():
        raise Diverged
    away = means - means.mean(1, keepdims=True)
    spread = away @ away.T / (options.chains - 1)
    note = _agreement(problem, spread, C, options.chains, steps)
    return ChainSpread(spread, options.chains - 1, note, np.moveaxis(draws, (0, 2), (1, 0)))


def _batch(local: Quadratic, A: np.ndarray, gamma: float) -> int:
    """Rows of a batch."""
    slowest = np.linalg.eigvals(A @ local.hessian / local.count).real.min()
    if slowest < 1e-9 * gamma:
        raise InputError("in some direction no row has a gradient; use method='sandwich'")
    batch = int(local.rows / max(STEPS, SETTLE * min(gamma / slowest, 1e3)))
    batch = max(ROWS * len(A), min(BLOCK, batch))
    if local.rows < FEWEST * batch:
        raise InputError(
            f"{local.rows} rows are too few for chains with {len(A)} parameters: batches of "
            f"{batch} rows would make fewer than {FEWEST} steps; use method='sandwich'"
        )
    return batch


def run_chains(
    problem: Problem,
    local: Quadratic,
    A: np.ndarray,
    batch: int,
    chains: int,
    rng: np.random.Generator,
    watch: Watch,
    every: int,
) -> tuple[np.ndarray, int, np.ndarray]:
    """Averages of the chains, (p, K), the number of steps, and some of the iterates, (T, p, K).

    What is left of a chain's way is -H^-1 times the sum of the gradients that it saw.
    """
    at, kept = np.repeat(local.point[:, None], chains, 1), []
    total, seen, steps = np.zeros_like(at), np.zeros_like(at), 0
    for rows in batches(_mixed(problem.source.blocks(rng), rng), batch):
        n = count_rows(rows)
        a = weight_of(rows)
        often = np.ones((n, 1)) if a is None else a[:, None]
        weights = rng.poisson(often, (n, chains)).astype(float)
        G = weighted_gradients(problem, at, rows, weights)
        total, seen, steps = total + total_weight(rows) * at, seen + G, steps + 1
        at = at - A @ G
        if steps % every == 0:
            kept.append(at)
        watch.tick(n)
    return total / local.count - local.solve(seen), steps, np.array(kept)


def _mixed(blocks: Iterable[Rows], rng: np.random.Generator) -> Iterator[Rows]:
    """Rows of each block in a random order: blocks are of chunks that may be rows in an order."""
    for rows in blocks:
        order = rng.permutation(count_rows(rows))
        yield pick(lambda leaf, order=order: leaf[order], rows)


def weighted_gradients(
    problem: Problem, phi: np.ndarray, rows: Rows, weights: np.ndarray
) -> np.ndarray:
    """Sum of weight times gradient for each chain, (p, K); for linear predictors two products."""
    if problem.family is None:
        columns = zip(phi.T, weights.T, strict=True)
        theta = problem.frame.theta
        G = [w @ problem.model.row_gradients(theta(f), rows) for f, w in columns]
        return problem.frame.matrix.T @ np.array(G).T
    U = problem.features(rows)
    offset = offset_of(rows)
    t = U @ phi if offset is None else U @ phi + offset[:, None]
    penalty = weights.sum(0) * problem.ridge.slope(phi)
    return U.T @ (weights * problem.family.slope(t, rows[1][:, None])) + penalty


def unrest(problem: Problem, local: Quadratic, A: np.ndarray) -> float:
    """n / eta times the share of a chain's variance that is noise of its batches' H, at worst.

    Iterates have the covariance eta S / n of their own, V^-1 H S + S H V^-1 = I, and as much again
    that all chains share, for they see the same batches; H_n has noise of both kinds, too. Rows
    with the Hessian h then add eta / n times the mean of h S h to V^2: once where both kinds are
    the chain's own, twice where one is shared, and more than that if rows are repeated.
    """
    S = solve_continuous_lyapunov(A @ local.hessian / local.count, np.eye(len(A)))
    values, Q = np.linalg.eigh(S)
    root = Q * np.sqrt(np.maximum(values, 0.0))
    every = -(-count_rows(problem.kept) // BLOCK)
    rows = pick(lambda leaf: leaf[::every], problem.kept)
    with np.errstate(all="ignore"):
        E = _curvatures(problem, local.point, root / np.sqrt(local.count), rows) * local.count
    if not np.isfinite(E).all():
        raise Diverged
    return (
        (1 + 2 * problem.design_effect)
        * float(np.linalg.eigvalsh(A @ E @ A)[-1])
        / total_weight(rows)
    )


def _curvatures(problem: Problem, phi: np.ndarray, moves: np.ndarray, rows: Rows) -> np.ndarray:
    """Sum over rows and moves, the columns, of d d', d the change of the row's gradient."""
    a = weight_of(rows)
    often = np.ones(count_rows(rows)) if a is None else a
    if problem.family is None:
        frame, model = problem.frame, problem.model
        G = [model.row_gradients(frame.theta(phi + m), rows) for m in (0 * phi, *moves.T)]
        D = [(g - G[0]) @ frame.matrix for g in G[1:]]
        return sum((d.T @ (often[:, None] * d) for d in D), np.zeros((len(phi), len(phi))))
    U, offset = problem.features(rows), offset_of(rows)
    t = (U @ phi if offset is None else U @ phi + offset)[:, None]
    y, slope = rows[1][:, None], problem.family.slope
    change = slope(t + U @ moves, y) - slope(t, y)
    return U.T @ ((often * np.square(change).sum(1))[:, None] * U)


def _agreement(problem: Problem, spread: np.ndarray, C: np.ndarray, chains: int, steps: int) -> str:
    """Chain over sandwich standard errors, against what their sampling error allows."""
    chain, other = (np.sqrt(np.diag(problem.frame.cov(S))) for S in (spread, C))
    ratio = float(np.median(chain / other))
    allowed = 3 / np.sqrt(2 * (chains - 1))
    agree = abs(ratio - 1) <= allowed
    verdict = "agree" if agree else "DISAGREE: trust neither before you know why"
    if not agree:
        say(AccuracyWarning, f"chains' standard errors are {ratio:.2f} times the sandwich's")
    return (
        f"{chains} chains of {steps} steps: their standard errors are {ratio:.2f} (median) times "
        f"the sandwich's;\n{allowed:.2f} either way is allowed: they {verdict}."
    )

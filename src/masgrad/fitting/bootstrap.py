"""Intervals from chains: the spread of averaged MasGrad chains around the estimate.

K chains start at the corrected estimate and read the rows once more, n T = N. Each chain draws rows
with replacement: every row enters a batch with a Poisson(1) weight of its own. Given the rows, the
average of a chain then has the covariance H^-1 M H^-1 / N around the ERM, which is also that of the
ERM around theta*. (A shuffled epoch without weights would have next to no spread.) Two corrections:

- a chain of T steps has not forgotten its start: along a direction in which V^-1 H is lambda the
  variance of the average is low by the factor mean_t (1 - (1 - eta lambda)^t)^2, about
  1 - 1.5 / (eta lambda T), and is divided by it;
- K chains give K - 1 degrees of freedom: intervals take Student's quantile.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from masgrad.data.arrays import BLOCK, count_rows
from masgrad.data.regression import offset_of, weight_of
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
"""Steps of a chain at least, and SETTLE times kappa: more of them make batches smaller, and a small
batch's noise is no longer the gradient's alone."""

SETTLE = 6

ROWS = 20
"""Rows of a batch at least, for each parameter."""

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
    eta = min(options.plan.step_size, 1.0) / gamma
    kappa = gamma / max(_modes(local, A)[0][0], 1e-3 * gamma)
    batch = int(local.rows / max(STEPS, SETTLE * kappa))
    batch = max(ROWS * len(A), min(BLOCK, batch))
    if local.rows < FEWEST * batch:
        raise InputError(
            f"{local.rows} rows are too few for chains with {len(A)} parameters: batches of "
            f"{batch} rows would make fewer than {FEWEST} steps; use method='sandwich'"
        )
    each = eta / (batch * local.count / local.rows)
    every = max(1, local.rows // batch // DRAWS)
    means, steps, draws = _run(
        problem, local.point, each * A, batch, options.chains, rng, watch, every
    )
    if not np.isfinite(means).all():
        raise Diverged
    away = _finite_length(means - means.mean(1, keepdims=True), local, eta, steps)
    spread = away @ away.T / (options.chains - 1)
    note = _agreement(problem, spread, C, options.chains, steps)
    return ChainSpread(spread, options.chains - 1, note, np.moveaxis(draws, (0, 2), (1, 0)))


def _run(
    problem: Problem,
    phi: np.ndarray,
    A: np.ndarray,
    batch: int,
    chains: int,
    rng: np.random.Generator,
    watch: Watch,
    every: int,
) -> tuple[np.ndarray, int, np.ndarray]:
    """Averages of the chains, (p, K), the number of steps, and some of the iterates, (T, p, K)."""
    at, kept = np.repeat(phi[:, None], chains, 1), []
    total, steps = np.zeros_like(at), 0
    for rows in batches(problem.source.blocks(rng), batch):
        n = count_rows(rows)
        a = weight_of(rows)
        often = np.ones((n, 1)) if a is None else a[:, None]
        weights = rng.poisson(often, (n, chains)).astype(float)
        at = at - A @ weighted_gradients(problem, at, rows, weights)
        total, steps = total + at, steps + 1
        if steps % every == 0:
            kept.append(at)
        watch.tick(n)
    return total / steps, steps, np.array(kept)


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


def _modes(local: Quadratic, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of A H and the vectors, as columns: A H = W diag(rates) W^-1."""
    values, Q = np.linalg.eigh(A)
    half = Q * np.sqrt(values) @ Q.T
    inner = half @ (local.hessian / local.count) @ half
    rates, modes = np.linalg.eigh((inner + inner.T) / 2)
    return rates, half @ modes


def _finite_length(away: np.ndarray, local: Quadratic, eta: float, steps: int) -> np.ndarray:
    """Deviations of averages as they would be had the chains forgotten their start."""
    rates, W = _modes(local, adjustment(local)[0])
    left = 1 - eta * rates
    powers = left[:, None] ** np.arange(1, steps + 1)
    factor = np.square(1 - powers).mean(1)
    return W @ (np.linalg.solve(W, away) / np.sqrt(factor)[:, None])


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

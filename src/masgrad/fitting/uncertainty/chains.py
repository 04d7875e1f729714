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

Whether chains have forgotten their start is seen in split-Rhat, the effective sample size and the
burn-in of their iterates (Gelman et al. 2013; Geyer 1992).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from masgrad.data.arrays import BLOCK, count_rows, pick
from masgrad.data.regression import offset_of, total_weight, weight_of
from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.masgrad import adjustment, batches
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

FEWEST_STEPS, USUAL_STEPS, STEPS_PER_KAPPA = 8, 50, 6
"""Steps of a chain: at least the first; the second, and the third times kappa if that is more."""

ROWS_PER_PARAMETER = 20
"""Rows of a batch at least, for each parameter."""

EXTRA_VARIANCE = 0.02
"""Share of a chain's variance that the noise of its batches' H may have."""

KEPT_ITERATES = 1024
"""Iterates of each chain that are kept for diagnostics, about."""


class Diverged(Exception):
    """Chains that are no longer finite."""


@dataclass(frozen=True)
class ChainSpread:
    """The spread of averaged chains.

    Args:
        cov: covariance of phi, (p, p).
        df: its degrees of freedom.
        ratio: median ratio of the chains' standard errors to the sandwich's.
        allowed: distance from 1 that sampling error allows the ratio.
        steps: steps of a chain.
        iterates: some of the iterates, (K, T, p).
    """

    cov: np.ndarray
    df: int
    ratio: float
    allowed: float
    steps: int
    iterates: np.ndarray

    @property
    def agrees(self) -> bool:
        return abs(self.ratio - 1) <= self.allowed

    @property
    def note(self) -> str:
        """How the chains compare with the sandwich."""
        verdict = "agree" if self.agrees else "DISAGREE: trust neither before you know why"
        return (
            f"{self.df + 1} chains of {self.steps} steps: their standard errors are "
            f"{self.ratio:.2f} (median) times the sandwich's;\n{self.allowed:.2f} either way is "
            f"allowed: they {verdict}."
        )


@dataclass(frozen=True)
class ChainPlan:
    """How chains are run.

    Args:
        adjust: eta V^-1 / n, (p, p): what a sum of gradients over a batch is multiplied by.
        batch: rows of a batch.
        chains: number of chains.
        thin: number of steps for each iterate that is kept.
    """

    adjust: np.ndarray
    batch: int
    chains: int
    thin: int = 1


def chain_covariance(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    local: LocalModel,
    C: np.ndarray,
    options: Options,
) -> ChainSpread:
    """Covariance of phi from chains, compared with the sandwich C.

    Paper: averaged MasGrad chains - rows drawn with replacement, nT = N, spread around the ERM
    """
    rng, chains = np.random.default_rng([options.seed, 2]), options.chains
    A, gamma = adjustment(local)
    batch = _batch_rows(local, A, gamma)
    n = batch * local.count / local.rows
    quiet = 1 / (hessian_noise(objective, sample, local, A) / (EXTRA_VARIANCE * n) + gamma / 2)
    eta = min(min(options.step_size, 1.0) / gamma, quiet)
    plan = ChainPlan(eta / n * A, batch, chains, max(1, local.rows // batch // KEPT_ITERATES))
    means, steps, iterates = run_chains(objective, reader, local, plan, rng)
    if not np.isfinite(means).all():
        raise Diverged
    away = means - means.mean(1, keepdims=True)
    spread = away @ away.T / (chains - 1)
    chain, other = (np.sqrt(np.diag(objective.coordinates.cov(S))) for S in (spread, C))
    return ChainSpread(
        spread,
        chains - 1,
        ratio=float(np.median(chain / other)),
        allowed=float(3 / np.sqrt(2 * (chains - 1))),
        steps=steps,
        iterates=np.moveaxis(iterates, (0, 2), (1, 0)),
    )


def _batch_rows(local: LocalModel, A: np.ndarray, gamma: float) -> int:
    """Rows of a batch."""
    slowest = np.linalg.eigvals(A @ local.hessian / local.count).real.min()
    if slowest < 1e-9 * gamma:
        raise InputError("in some direction no row has a gradient; use method='sandwich'")
    batch = int(local.rows / max(USUAL_STEPS, STEPS_PER_KAPPA * min(gamma / slowest, 1e3)))
    batch = max(ROWS_PER_PARAMETER * len(A), min(BLOCK, batch))
    if local.rows < FEWEST_STEPS * batch:
        raise InputError(
            f"{local.rows} rows are too few for chains with {len(A)} parameters: batches of "
            f"{batch} rows would make fewer than {FEWEST_STEPS} steps; use method='sandwich'"
        )
    return batch


def run_chains(
    objective: Objective,
    reader: Reader,
    local: LocalModel,
    plan: ChainPlan,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int, np.ndarray]:
    """Averages of the chains, (p, K), the number of steps, and some of the iterates, (T, p, K).

    What is left of a chain's way is -H^-1 times the sum of the gradients that it saw.
    """
    at, kept = np.repeat(local.point[:, None], plan.chains, 1), []
    total, seen, steps = np.zeros_like(at), np.zeros_like(at), 0
    for rows in batches(rows_permuted(reader.shuffled(rng), rng), plan.batch):
        a = weight_of(rows)
        mean_weight = np.ones((count_rows(rows), 1)) if a is None else a[:, None]
        weights = rng.poisson(mean_weight, (count_rows(rows), plan.chains)).astype(float)
        G = weighted_gradients(objective, at, rows, weights)
        total, seen, steps = total + total_weight(rows) * at, seen + G, steps + 1
        at = at - plan.adjust @ G
        if steps % plan.thin == 0:
            kept.append(at)
    return total / local.count - local.solve(seen), steps, np.array(kept)


def rows_permuted(blocks: Iterable[Rows], rng: np.random.Generator) -> Iterator[Rows]:
    """Blocks with their rows in a random order: neighbouring rows may be alike."""
    for rows in blocks:
        order = rng.permutation(count_rows(rows))
        yield pick(lambda leaf, order=order: leaf[order], rows)


def weighted_gradients(
    objective: Objective, phi: np.ndarray, rows: Rows, weights: np.ndarray
) -> np.ndarray:
    """Sum of weight times gradient for each chain, (p, K); for linear predictors two products."""
    if objective.family is None:
        columns = zip(phi.T, weights.T, strict=True)
        theta = objective.coordinates.theta
        G = [w @ objective.model.row_gradients(theta(f), rows) for f, w in columns]
        return objective.coordinates.matrix.T @ np.array(G).T
    U = objective.features(rows)
    offset = offset_of(rows)
    t = U @ phi if offset is None else U @ phi + offset[:, None]
    penalty = weights.sum(0) * objective.ridge.slope(phi)
    return U.T @ (weights * objective.family.slope(t, rows[1][:, None])) + penalty


def hessian_noise(objective: Objective, sample: Sample, local: LocalModel, A: np.ndarray) -> float:
    """The largest share of a chain's variance that is noise of its batches' H, times n / eta.

    Iterates have the covariance eta S / n of their own, V^-1 H S + S H V^-1 = I, and as much again
    that all chains share, for they see the same batches; H_n has noise of both kinds, too. Rows
    with the Hessian h then add eta / n times the mean of h S h to V^2: once where both kinds are
    the chain's own, twice where one is shared, and more than that if rows are repeated.
    """
    S = solve_continuous_lyapunov(A @ local.hessian / local.count, np.eye(len(A)))
    values, Q = np.linalg.eigh(S)
    root = Q * np.sqrt(np.maximum(values, 0.0))
    every = -(-count_rows(sample.rows) // BLOCK)
    rows = pick(lambda leaf: leaf[::every], sample.rows)
    with np.errstate(all="ignore"):
        E = _curvatures(objective, local.point, root / np.sqrt(local.count), rows) * local.count
    if not np.isfinite(E).all():
        raise Diverged
    return (
        (1 + 2 * sample.design_effect)
        * float(np.linalg.eigvalsh(A @ E @ A)[-1])
        / total_weight(rows)
    )


def _curvatures(objective: Objective, phi: np.ndarray, moves: np.ndarray, rows: Rows) -> np.ndarray:
    """Sum over rows and moves, the columns, of d d', d the change of the row's gradient."""
    a = weight_of(rows)
    often = np.ones(count_rows(rows)) if a is None else a
    if objective.family is None:
        coordinates, model = objective.coordinates, objective.model
        G = [model.row_gradients(coordinates.theta(phi + m), rows) for m in (0 * phi, *moves.T)]
        D = [(g - G[0]) @ coordinates.matrix for g in G[1:]]
        return sum((d.T @ (often[:, None] * d) for d in D), np.zeros((len(phi), len(phi))))
    U, offset = objective.features(rows), offset_of(rows)
    t = (U @ phi if offset is None else U @ phi + offset)[:, None]
    y, slope = rows[1][:, None], objective.family.slope
    change = slope(t + U @ moves, y) - slope(t, y)
    return U.T @ ((often * np.square(change).sum(1))[:, None] * U)


def split_rhat(draws: np.ndarray) -> float:
    """Ratio of the spread between half chains to that within them, 1 at equilibrium.

    Args:
        draws: K chains of T iterates of one coordinate, (K, T), here and below.
    """
    half = draws.shape[1] // 2
    if half < 2:
        return float("nan")
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    within = parts.var(1, ddof=1).mean()
    between = parts.mean(1).var(ddof=1)
    return float(np.sqrt((half - 1) / half + between / within)) if within > 0 else float("nan")


def effective_size(draws: np.ndarray) -> float:
    """Number of independent draws that would determine the mean as well.

    It is K T over 1 + 2 sum of autocorrelations, summed while neighbouring pairs are positive.
    """
    K, T = draws.shape
    away = draws - draws.mean(1, keepdims=True)
    power = np.abs(np.fft.rfft(away, 2 * T)) ** 2
    cov = np.fft.irfft(power, 2 * T)[:, :T].mean(0) / T
    between = draws.mean(1).var(ddof=1) if K > 1 else 0.0
    total = cov[0] + between
    if total <= 0:
        return float("nan")
    rho = 1 - (cov[0] * T / (T - 1) - cov * T / (T - 1)) / total
    pairs = rho[: T - T % 2].reshape(-1, 2).sum(1)
    first = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(K * T / max(2 * pairs[:first].sum() - 1, 1 / np.log10(K * T + 10)))


def burn_in(draws: np.ndarray) -> int:
    """Steps until the spread over chains has reached that of the second half, to sampling error."""
    K, T = draws.shape
    spread = draws.var(0, ddof=1)
    level = spread[T // 2 :].mean()
    low = level * (1 - 2 * np.sqrt(2 / max(K - 1, 1)))
    reached = spread >= max(low, 0.25 * level)
    return int(np.argmax(reached)) if reached.any() else T

"""MasGrad inside a fit: the warm-up on a first sample, and the first read of many rows.

The warm-up leads from a start to the optimum of the sample. Deterministic MasGrad steps with step
size 1/gamma at the current point lead to a neighbourhood of it, Newton steps to the optimum itself;
steps that would raise the risk are halved. Far from an optimum V grows with the residuals, so
MasGrad's steps are of bounded length and safe where Newton's are not; where the loss is not convex
they are the only ones.

The first read is mini-batch MasGrad with averaged iterates,

    phi' = phi - eta V^-1 g_batch,     eta = 1/gamma,     average of phi over the read.

V comes from earlier batches, never from the batch it multiplies: V of the same batch would shift
the equation that is solved. Later iterates weigh more, so that the average forgets the sample it
started from. The correcting read removes the bias that a constant step leaves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.regression import ColumnSizes, offset_of, total_weight
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.objective import H_AND_M, Objective, Parts
from masgrad.fitting.optimise.line_search import Proposal, descend
from masgrad.models.families.canonical import Gaussian
from masgrad.models.model import RowSums
from masgrad.types import Rows

PSEUDO_WEIGHT = 0.02
"""Weight of a pseudo-observation."""

SMALL_DECREMENT = 1e-10
"""Newton decrement, in squared standard errors of the sample, at which a warm-up ends."""

BATCHES_PER_MEAT = 8
"""One batch in this many adds to the running V: outer products cost as much as all the rest."""


# The adjustment.


def adjustment(local: LocalModel) -> tuple[np.ndarray, float]:
    """V^-1 of the rows' gradients, and gamma, the largest eigenvalue of V^-1 H.

    A direction in which all gradients vanish, such as that of an empty column, is not moved.
    """
    b = local.gradient / local.count
    values, Q = np.linalg.eigh(local.meat / local.count - np.outer(b, b))
    seen = values > 1e-12 * values[-1]
    if not seen.any():
        return np.zeros_like(local.hessian), 1.0
    half = Q[:, seen] * values[seen] ** -0.25
    inner = half.T @ (local.hessian / local.count) @ half
    gamma = np.abs(np.linalg.eigvalsh(inner)).max()
    return half @ half.T, max(float(gamma), np.finfo(float).tiny)


def masgrad_step(local: LocalModel, step_size: float = 1.0) -> np.ndarray:
    """-V^-1 b / gamma with V and gamma at the current point."""
    adjust, gamma = adjustment(local)
    return -step_size / gamma * (adjust @ local.gradient) / local.count


# The warm-up.


def warm_up(
    objective: Objective,
    rows: Rows,
    phi: np.ndarray,
    masgrad_steps: int = 8,
    most: int = 40,
    weight: np.ndarray | None = None,
    *,
    enough: float = SMALL_DECREMENT,
) -> LocalModel:
    """The local model of these rows at their optimum or near it (`optimum_of`)."""
    weight = pseudo_weights(objective, rows) if weight is None else weight
    phi = optimum_of(objective, rows, phi, weight, enough, steps=(masgrad_steps, most))
    return objective.local_model(phi, rows)


def optimum_of(
    objective: Objective,
    rows: Rows,
    phi: np.ndarray,
    weight: np.ndarray,
    enough: float = SMALL_DECREMENT,
    *,
    steps: tuple[int, int] = (8, 40),
) -> np.ndarray:
    """The optimum of these rows, or a point near it.

    Paper: deterministic MasGrad - theta' = theta - eta V^-1 b, here to a neighbourhood of the ERM

    Args:
        objective: the loss and the coordinates.
        rows: the sample.
        phi: where to start.
        weight: of pseudo-observations (`pseudo_weights`).
        enough: Newton decrement at which it ends.
        steps: MasGrad steps before Newton's, and steps in all; more MasGrad steps follow where H is
            not positive definite.
    """
    masgrad_steps, most = steps
    scored = objective.scoring()
    centre = _without_signal(objective, rows, phi)
    few = Parts(meat=False) if objective.linear else H_AND_M
    quadratic = isinstance(objective.family, Gaussian)

    def risk(at: np.ndarray) -> float:
        return scored.losses(at, rows).sum() + weight @ np.square(at - centre) / 2

    def propose(at: np.ndarray, count: int) -> Proposal:
        local = _regularised(scored.local_model(at, rows, few), weight, centre)
        size = decrement(local)
        if count and size < enough:
            return Proposal(at, last=True)
        if quadratic or size < (np.inf if count >= masgrad_steps else len(at)):
            return Proposal(at + local.newton())
        if few is not H_AND_M:
            meat = scored.local_model(at, rows, Parts(hessian=False)).meat
            local = replace(local, meat=meat + np.diag(weight))
        return Proposal(at + masgrad_step(local))

    return descend(risk, propose, phi, most)[0]


def _regularised(local: LocalModel, weight: np.ndarray, centre: np.ndarray) -> LocalModel:
    """The local model with a weak pseudo-observation of its centre for each parameter.

    It keeps a sample that happens to be separated from running to a plateau, from where no step
    leads back, and moves others by a few hundredths of their standard error.
    """
    more = np.diag(weight)
    return replace(
        local,
        gradient=local.gradient + weight * (local.point - centre),
        hessian=local.hessian + more,
        meat=local.meat + more,
    )


def _without_signal(objective: Objective, rows: Rows, phi: np.ndarray) -> np.ndarray:
    """The parameters that make linear predictors about 0: the intercept cancels the offset."""
    centre, offset, k = np.zeros_like(phi), offset_of(rows), objective.coordinates.constant
    if objective.linear and offset is not None and k is not None:
        centre[k] = -float(np.median(offset))
    return centre


def pseudo_weights(
    objective: Objective, rows: Rows, known: ColumnSizes | None = None
) -> np.ndarray:
    """A fraction of the information in the most informative row, for each parameter.

    The rows should be all that the coordinates were learned from: a column may be empty in some.
    The sizes of their columns may be known.
    """
    columns = None if objective.bounded else known or objective.column_sizes(rows)
    if columns is None:
        return np.zeros(objective.model.dim(rows))
    return PSEUDO_WEIGHT * np.maximum(np.square(columns.largest), 1.0)


def decrement(local: LocalModel) -> float:
    """G'H^-1 G: the squared distance to the optimum, in standard errors of the true model."""
    try:
        return float(-local.gradient @ local.newton())
    except NotConvex:
        return np.inf


# The first read.


class Average(NamedTuple):
    """Where MasGrad is, and the average of where it has been.

    Args:
        phi: the last iterate.
        mean: of the iterates, later ones weighing more.
        past: moments of the rows before.
        adjust: V^-1.
        gamma: largest eigenvalue of V^-1 H.
        steps: their number.
        renew: the step after which V^-1 is made of the moments anew.
    """

    phi: np.ndarray
    mean: np.ndarray
    past: LocalModel
    adjust: np.ndarray
    gamma: float
    steps: int = 0
    renew: int = 1

    @classmethod
    def at(cls, start: LocalModel) -> "Average":
        """Before the first step, at the optimum of a first sample."""
        return cls(start.point, start.point, start, *adjustment(start))


def averaged_masgrad(
    objective: Objective, batch: int, step_size: float, average: Average, block: Rows
) -> Average:
    """The average after MasGrad's steps over the batches of a block.

    Paper: MasGrad with mini-batches - averaged, V from past batches
    """
    phi, mean, past, A, gamma, t, renew = average
    for rows in batches([block], batch):
        n, with_meat = total_weight(rows), t % BATCHES_PER_MEAT == 0
        sums = objective.block_sums(phi, rows, Parts(hessian=False, meat=with_meat, loss=False))
        phi = phi - (step_size / gamma / n) * (A @ sums.gradient)
        mean = mean + 2.0 / (t + 2) * (phi - mean)
        if with_meat:
            past = _with_batch(past, n, sums)
        if t >= renew:
            A, gamma = adjustment(past)
            renew = 2 * renew + BATCHES_PER_MEAT
        t += 1
    return Average(phi, mean, past, A, gamma, t, renew)


def _with_batch(past: LocalModel, n: float, sums: RowSums) -> LocalModel:
    """The running moments with a batch added; H remains that of the sample, in proportion."""
    assert sums.meat is not None
    return LocalModel(
        past.count + n,
        past.point,
        past.gradient + sums.gradient,
        past.hessian * ((past.count + n) / past.count),
        past.meat + sums.meat,
    )


def batches(blocks: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Blocks cut into batches of about `size` rows."""
    for rows in blocks:
        pieces = max(1, round(count_rows(rows) / size))
        cuts = np.linspace(0, count_rows(rows), pieces + 1).astype(int)
        for a, b in pairwise(cuts):
            yield pick(lambda leaf, a=a, b=b: leaf[a:b], rows)

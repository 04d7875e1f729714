"""The first read of many rows: mini-batch MasGrad, iterates averaged.

    phi' = phi - eta V^-1 g_batch,     eta = 1/gamma,     average of phi over the read

V is a running one, of batches that came before, never of the batch it multiplies: V of the same
batch would shift the equation that is solved. Later iterates weigh more, so that the average
forgets the sample it started from. What bias a constant step leaves, the correcting read removes.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.regression import total_weight
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.warmup import adjustment
from masgrad.types import Rows

LOOK = 8
"""Every so many batches add to the running V: their outer products cost as much as the rest."""


def averaged_masgrad(
    problem: Problem,
    start: Quadratic,
    blocks: Iterator[Rows],
    batch: int,
    step_size: float = 1.0,
    tick: Callable[[int], None] = lambda rows: None,
) -> np.ndarray:
    """The average of MasGrad's iterates over one read, from the optimum of a first sample.

    Paper: MasGrad with mini-batches - averaged, V from past batches
    """
    phi, mean = start.point, start.point
    past, A, gamma = start, *adjustment(start)
    renew = 1
    for t, rows in enumerate(batches(blocks, batch)):
        n, look = total_weight(rows), t % LOOK == 0
        sums = problem.block_sums(phi, rows, hessian=False, meat=look)
        phi = phi - (step_size / gamma / n) * (A @ sums.gradient)
        mean = mean + 2.0 / (t + 2) * (phi - mean)
        if look:
            past = _remember(past, n, sums)
        if t >= renew:
            A, gamma = adjustment(past)
            renew = 2 * renew + LOOK
        tick(count_rows(rows))
    return mean


def _remember(past: Quadratic, n: float, sums) -> Quadratic:
    """The running moments with a batch added; H stays that of the sample, in proportion."""
    grown = (past.count + n) / past.count
    return Quadratic(
        past.count + n,
        past.point,
        past.gradient + sums.gradient,
        past.hessian * grown,
        past.meat + sums.meat,
    )


def batches(blocks: Iterator[Rows], size: int) -> Iterator[Rows]:
    """Blocks cut into batches of about `size` rows."""
    for rows in blocks:
        pieces = max(1, round(count_rows(rows) / size))
        cuts = np.linspace(0, count_rows(rows), pieces + 1).astype(int)
        for a, b in pairwise(cuts):
            yield pick(lambda leaf, a=a, b=b: leaf[a:b], rows)

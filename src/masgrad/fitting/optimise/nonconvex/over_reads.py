"""The minimum of all rows, by as many reads as it takes: the descent of rows in memory, over reads.

It serves a loss that is flat: at a minimum flat directions are told from others by eigenvalues of H
that are 0, and a little beside it they are not. And it serves pilot rows that are unlike the others
(a sorted file of one piece), from whose minimum no Newton step leads to that of all rows.
"""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.nonconvex.loss import Interrupted, Loss, LossOverReads
from masgrad.fitting.optimise.nonconvex.minimum import minimum_of
from masgrad.fitting.sources import Sample


def minimum_over_reads(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    start: LocalModel,
    others: Sequence[np.ndarray] = (),
) -> Estimate:
    """The minimum of all rows, from that of pilot rows; after Ctrl-C the latter.

    `others` are points from which the descent begins instead if the loss of all rows is lower.
    """
    loss, local = LossOverReads(objective, reader, sample), start
    if not sample.complete:
        with suppress(Interrupted):
            local = minimum_of(loss, _lowest(loss, [start.point, *others]))
    newton = local.wald_norm(local.newton())
    way = tuple(phi for phi in loss.reads if phi is not None)
    stages = tuple((f"read {i + 1}", phi) for i, phi in enumerate(way))
    stages = (("pilot rows", start.point), *stages)
    return Estimate(local, max(len(loss.reads), 1), newton, newton, points=way, stages=stages)


def _lowest(loss: Loss, points: list[np.ndarray]) -> np.ndarray:
    """The point with the lowest loss of all rows."""
    if len(points) == 1:
        return points[0]
    falls = loss.falls(points[0], np.array(points))
    return points[int(np.argmax(np.where(np.isfinite(falls), falls, -np.inf)))]

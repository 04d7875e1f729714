"""The minimum of all rows, by as many reads as it takes, of a loss that may be flat there.

At a minimum flat directions are told from others by eigenvalues of H that are 0; a little beside it
they are not. So the descent that serves rows in memory goes on to rounding, each step a read.
"""

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.nonconvex.loss import Interrupted, LossOverReads
from masgrad.fitting.optimise.nonconvex.minimum import minimum_of
from masgrad.fitting.sources import Sample


def flat_minimum(
    objective: Objective, reader: Reader, sample: Sample, start: LocalModel
) -> Estimate:
    """The minimum of all rows, from that of pilot rows; after Ctrl-C the latter."""
    loss = LossOverReads(objective, reader, sample)
    try:
        local = start if sample.complete else minimum_of(loss, start.point)
    except Interrupted:
        local = start
    newton = local.wald_norm(local.newton())
    points = tuple(loss.points)
    stages = tuple((f"read {i + 1}", phi) for i, phi in enumerate(points))
    stages = (("pilot rows", start.point), *stages)
    return Estimate(local, loss.reads, newton, newton, points=points, stages=stages)

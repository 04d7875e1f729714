"""The optimum of the sum of the shards' local models: one estimate for the rows of all.

    minimise   sum over shards of Q_k(T_k phi)

Q_k is the quadratic model of shard k, or cubic where it has terms of third order. With quadratic
models alone the minimum is their estimates' mean, weighted by H_k; the cubic terms take back the
bias that the estimates of many small shards share, which a mean would keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import IdentificationError
from masgrad.fitting.later_rows import MOST_COLUMNS
from masgrad.fitting.merging.shard import Shard
from masgrad.fitting.objective.local_model import LocalModel, merged
from masgrad.fitting.objective.third_order import ThirdOrder
from masgrad.models.gram import ZERO_EIGENVALUE

MOST_STEPS = 50

SMALL_STEP = 1e-11
"""Length of a step, in standard errors, after which none follows."""


@dataclass(frozen=True)
class Combined:
    """Where the sum of the local models is lowest.

    Args:
        local: of all shards at the estimate, in united coordinates.
        parts: of each shard there, in its own.
        begin: the minimum of the quadratic models, (p,).
        left: the length of the last step, in standard errors.
    """

    local: LocalModel
    parts: tuple[LocalModel, ...]
    begin: np.ndarray
    left: float


def combine(shards: Sequence[Shard], names: Sequence[str]) -> Combined:
    """The minimum of the sum of the local models."""
    begin = phi = _minimum_of_quadratics(shards, names)
    total, parts = _total(shards, phi)
    left = np.inf
    for _ in range(MOST_STEPS):
        step = total.newton()
        left = total.rms_wald_norm(step)
        phi = phi + step
        total, parts = _total(shards, phi)
        if left <= SMALL_STEP:
            break
    total = replace(total, third=_sum_of_thirds(shards, parts, phi))
    return Combined(total, parts, begin, float(left))


def _minimum_of_quadratics(shards: Sequence[Shard], names: Sequence[str]) -> np.ndarray:
    """Where the sum of the quadratic models is lowest; an error if that is nowhere alone."""
    p = shards[0].turn.shape[1]
    H, gradient = np.zeros((p, p)), np.zeros(p)
    for shard in shards:
        T, local = shard.turn, shard.local
        H += T.T @ local.hessian @ T
        gradient += (local.gradient - local.hessian @ local.point) @ T
    quadratic = LocalModel(1.0, np.zeros(p), gradient, H, np.full_like(H, np.nan))
    if quadratic.deficiency(ZERO_EIGENVALUE):
        null = np.abs(quadratic.null_directions)
        j = int(null.max(1).argmax())
        raise IdentificationError(
            f"the shards together do not determine {names[j]}; merge a shard that does, or leave "
            "the column out"
        )
    return quadratic.newton()


def _total(shards: Sequence[Shard], phi: np.ndarray) -> tuple[LocalModel, tuple[LocalModel, ...]]:
    """The sum of the local models at phi, and each of them in its shard's coordinates."""
    parts = tuple(shard.at(phi) for shard in shards)
    quadratic = (replace(part, third=None) for part in parts)
    united = [s.united(part, phi) for s, part in zip(shards, quadratic, strict=True)]
    return merged(united), parts


def _sum_of_thirds(
    shards: Sequence[Shard], parts: Sequence[LocalModel], phi: np.ndarray
) -> ThirdOrder | None:
    """The terms of third order of all shards; None if one has none, or there are many columns."""
    total, count = None, 0.0
    for shard, part in zip(shards, parts, strict=True):
        if part.third is None or len(phi) > MOST_COLUMNS:
            return None
        count += part.count
        third = shard.third(part, phi)
        total = third if total is None else total.plus(third, part.count / count)
    return total

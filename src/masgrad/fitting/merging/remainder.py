"""What a merge omits, in standard errors of the merged estimate.

- what the reads of each fit left, of which nothing is known but its size;
- what cubic models miss on the way from a shard's estimate to the merged one: fourth derivatives,
  and the sampling error of third ones that were summed over a part of the rows;
- what was not followed of the cubic terms after a long step;
- of shards without cubic terms, what quadratic models miss. A shard's gradient changes by the mean
  of H on the way, about (H_k(end) + H_k(begin)) / 2, and H_k(end) is the share n_k / N of the H of
  all. So (n_k / N H - H_k) step / 2 is missed, summed over shards: the bias of order 1 / n_k of
  every estimate is in it, since H_k depends on the rows as the estimate does.
"""

from collections.abc import Sequence

import numpy as np

from masgrad.fitting.later_rows import in_errors, missed_by_cubic
from masgrad.fitting.merging.combine import Combined
from masgrad.fitting.merging.shard import Shard


def remainder_of(
    shards: Sequence[Shard], done: Combined, se: np.ndarray, jacobian: np.ndarray
) -> float:
    """The sum of all of it.

    Args:
        shards: the shards.
        done: where their local models are lowest.
        se: standard errors of the merged estimate, (p,).
        jacobian: J with theta = J phi.
    """
    local = done.local

    def length(gradient: np.ndarray) -> float:
        """Of the shift of phi that a missed gradient is, in standard errors."""
        shift = local.solve(gradient)
        each = np.abs(jacobian @ shift) / np.where(se > 0, se, np.inf)
        return max(float(each.max()), local.rms_wald_norm(shift))

    lost, quadratic = (missed(shards, done) for missed in (_not_followed, _missed_by_quadratic))
    return (
        done.left
        + _left_by_reads(shards, local.rows)
        + _missed_by_cubics(done)
        + length(lost)
        + length(quadratic)
    )


def _left_by_reads(shards: Sequence[Shard], rows: int) -> float:
    """What the fits left, at worst all in one direction."""
    left = 0.0
    for shard in shards:
        own = shard.fitted.fit_info.remainder - missed_by_cubic(shard.local)
        left += max(own, 0.0) * np.sqrt(shard.local.rows / rows)
    return float(left)


def _missed_by_cubics(done: Combined) -> float:
    """What cubic models miss: of a random direction in each shard, and a share in a common one.

    The skewness of an estimate, by which what is missed does not average out over shards, is of
    order p / n_k to the power 1/2.
    """
    apart, common = 0.0, 0.0
    for part in done.parts:
        if part.third is not None:
            missed = part.third.gradient_error()
            apart += missed**2
            common += missed * min(1.0, np.sqrt(len(part.point) / max(part.rows, 1)))
    return in_errors(done.local, float(np.hypot(np.sqrt(apart), common)))


def _not_followed(shards: Sequence[Shard], done: Combined) -> np.ndarray:
    """The gradient of cubic terms that were not followed after long steps, (p,)."""
    total = np.zeros_like(done.local.point)
    for shard in shards:
        step, before = shard.step(done.local.point), shard.local
        if before.third is not None:
            lost = 1 - before.bend_share(step)
            total += lost * (before.third.hessian @ step) @ step / 2 @ shard.turn
    return total


def _missed_by_quadratic(shards: Sequence[Shard], done: Combined) -> np.ndarray:
    """The gradient that quadratic models miss, (p,)."""
    total, local = np.zeros_like(done.local.point), done.local
    for shard in shards:
        if _is_quadratic(shard):
            step = shard.step(local.point)
            toward = np.linalg.lstsq(shard.turn, step)[0]
            share = shard.local.count / local.count
            total += (share * local.hessian @ toward - step @ shard.local.hessian @ shard.turn) / 2
    return total


def _is_quadratic(shard: Shard) -> bool:
    """Whether a quadratic model misses anything, and stands for the shard."""
    return shard.local.third is None and not _is_least_squares(shard.fitted.model)


def _is_least_squares(model: object) -> bool:
    family = getattr(model, "family", None)
    return family is not None and family.name == "gaussian" and family.link == "identity"

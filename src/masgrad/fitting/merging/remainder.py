"""What a merge omits, in standard errors of the merged estimate.

- what the reads of each fit left, of which nothing is known but its size;
- what cubic models miss on the way from a shard's estimate to the merged one: fourth derivatives,
  and the sampling error of third ones that were summed over a part of the rows;
- where steps are long, the terms that follow the cubic ones, foretold by these;
- of shards without cubic terms, what quadratic models miss. A shard's gradient changes by the mean
  of H on the way, about (H_k(end) + H_k(begin)) / 2, and H_k(end) is the share n_k / N of the H of
  all. So (n_k / N H - H_k) step / 2 is missed, summed over shards: the bias of order 1 / n_k of
  every estimate is in it, since H_k depends on the rows as the estimate does.
"""

from collections.abc import Sequence

import numpy as np

from masgrad.fitting.fitted import AT_POINT
from masgrad.fitting.later_rows import in_errors, missed_by_cubic
from masgrad.fitting.merging.combine import Combined
from masgrad.fitting.merging.shard import Shard
from masgrad.fitting.objective.local_model import LARGEST_BEND


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

    return (
        done.left
        + _left_by_reads(shards, local.rows)
        + _missed_by_cubics(shards, done)
        + length(_missed_by_long_steps(shards, done))
        + length(_missed_by_quadratic(shards, done))
    )


def _left_by_reads(shards: Sequence[Shard], rows: int) -> float:
    """What the fits left, at worst all in one direction."""
    left = 0.0
    for shard in shards:
        own = shard.fitted.fit_info.remainder - missed_by_cubic(shard.local)
        left += max(own, 0.0) * np.sqrt(shard.local.rows / rows)
    return float(left)


def _missed_by_cubics(shards: Sequence[Shard], done: Combined) -> float:
    """What cubic models miss: of a random direction in each shard, and a share in a common one.

    The skewness of an estimate, by which what is missed does not average out over shards, is of
    order p / n_k to the power 1/2. From a point that was given the way is no sampling error: it may
    go where fourth derivatives are largest.
    """
    apart, common = 0.0, 0.0
    for shard, part in zip(shards, done.parts, strict=True):
        if part.third is not None:
            p, given = len(part.point), shard.fitted.target == AT_POINT
            missed = part.third.gradient_error() * (_worst_direction(p) if given else 1.0)
            apart += missed**2
            common += missed * min(1.0, np.sqrt(p / max(part.rows, 1)))
    return in_errors(done.local, float(np.hypot(np.sqrt(apart), common)))


def _worst_direction(p: int) -> float:
    """The size of fourth derivatives along the one direction in which all rows lie, over the mean.

    The mean square over directions of length 1 is that of `later_rows`, 45 / (p (p+2)^2 (p+4)).
    """
    return float(np.sqrt(p * (p + 2) ** 2 * (p + 4) / 45))


def _missed_by_long_steps(shards: Sequence[Shard], done: Combined) -> np.ndarray:
    """The gradient that follows the cubic terms of each shard, as far as they foretell it, (p,).

    A series of H s, T s s / 2, F s s s / 6 whose terms fall by the same factor has two thirds of
    the last ratio next; the ratio is half the relative change of H on the way. What was not
    followed of the cubic terms is missed as a whole.
    """
    total = np.zeros_like(done.local.point)
    for shard in shards:
        step, before = shard.step(done.local.point), shard.local
        if before.third is not None:
            turned, share = before.third.hessian @ step, before.bend_share(step)
            bend = np.abs(np.linalg.eigvals(before.solve(turned))).max()
            lost = 1 - share + share * min(bend, LARGEST_BEND) / 3
            total += lost * (turned @ step / 2) @ shard.turn
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

"""Rows kept from a single read, and what they say of the others.

A segment of rows is summed once, at the point phi_s that was known by then. Its local model misses
the third order on the way to the estimate. Its rows stay in memory as long as there is room, and a
random part of them after that (`Pool`). Some of these are in use, and tell what is missed: in two
strata, the rows of high leverage, each of which stands for itself, and a random part of the others,
whose rows stand for `factor` rows each. So the segment's loss is

    sum over all its rows of their quadratic  +  factor * sum over used rows of (loss - quadratic),

and likewise its gradient, H and M (a control variate). If phi_s was far from the estimate, the
quadratics say nothing, and the loss is `factor` times that of the used rows; with all in use it is
exact. The spread of the random strata says how far the minimum may be from that of all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import H_AND_M, BadBlock, Objective, Parts
from masgrad.fitting.optimise.line_search import Proposal, descend, descent_step
from masgrad.fitting.optimise.single.pools import Pool
from masgrad.fitting.sources import join
from masgrad.models.gram import is_semidefinite
from masgrad.types import Rows

RANDOM_ROWS = 1 << 12
"""Rows of a segment that are used at random at first."""

FAR = 0.2
"""Share of a step by which its quadratic misses it, beyond which a segment was summed too far
away."""

NEAR_STEP = 0.1
"""Length of a step, in standard errors, that is never too far."""

CLEARLY_WORSE = 4.0
"""Standard errors by which the loss of kept rows rises at a point that is refused."""

STEPS = 200
"""Steps of a minimisation over kept rows."""

CRAWL = 1e-3
"""Share of a step that could be made, below which no other follows."""

NEGLIGIBLE_DECREMENT = 1e-8
"""Squared length of a step, in standard errors, that is the last."""


@dataclass(frozen=True)
class Stratum:
    """Rows in use.

    Args:
        rows: blocks of them.
        factor: number of rows of the segment that each stands for.
        local: their local model where the segment was summed.
    """

    rows: tuple[Rows, ...]
    factor: float
    local: LocalModel

    @cached_property
    def count(self) -> int:
        return sum(count_rows(block) for block in self.rows)

    def losses(self, objective: Objective, phi: np.ndarray) -> np.ndarray:
        return np.concatenate([objective.losses(phi, block) for block in self.rows])

    def missed_gradient(
        self, objective: Objective, phi: np.ndarray, step: np.ndarray
    ) -> np.ndarray:
        """What the quadratic of all rows of the segment misses at the end of a step."""
        missed = [objective.missed_gradient(phi, step, block) for block in self.rows]
        return self.factor * np.sum(missed, 0)


@dataclass(frozen=True)
class Segment:
    """Rows that were summed at one point.

    Args:
        local: their local model there.
        strata: those in use.
        pool: those in memory.
        controlled: whether the quadratic is used: not if its point was far from the estimate.
    """

    local: LocalModel
    strata: tuple[Stratum, ...] = ()
    pool: Pool | None = None
    controlled: bool = True

    @cached_property
    def is_complete(self) -> bool:
        """Whether all rows are in use."""
        used = sum(s.count for s in self.strata if s.factor == 1)
        return bool(self.strata) and used == self.local.rows

    def at(self, objective: Objective, phi: np.ndarray, parts: Parts = H_AND_M) -> LocalModel:
        """The local model of the segment at phi, as far as the rows in use tell it."""
        there = [local_model(objective, phi, s.rows, parts) for s in self.strata]
        if self.strata and not self.controlled:
            total = reduce(LocalModel.merge, map(_times, there, [s.factor for s in self.strata]))
            known = self.local
            return replace(total, count=known.count, rows=known.rows, constants=known.constants)
        moved = self.local.at(phi)
        for stratum, model in zip(self.strata, there, strict=True):
            moved = _corrected(moved, model, stratum.local.at(phi), stratum.factor)
        return moved

    def missed_gradient(self, objective: Objective, step: np.ndarray) -> np.ndarray:
        """What the quadratic misses a step away, as far as the rows in use tell it."""
        begin = self.local.point
        return np.sum([s.missed_gradient(objective, begin, step) for s in self.strata], 0)

    def quadratic(self, phi: np.ndarray) -> float:
        """The loss at phi by quadratics, but for the rows in use."""
        if self.strata and not self.controlled:
            return 0.0
        kept = sum(s.factor * s.local.at(phi).loss for s in self.strata)
        return self.local.at(phi).loss - kept


def local_model(
    objective: Objective, phi: np.ndarray, rows: Sequence[Rows], parts: Parts = H_AND_M
) -> LocalModel:
    """The local model of blocks of rows."""
    return reduce(LocalModel.merge, (objective.local_model(phi, b, parts) for b in rows))


def _times(model: LocalModel, factor: float) -> LocalModel:
    """The local model of rows each of which stands for `factor` rows."""
    information = model.information
    return replace(
        model,
        gradient=factor * model.gradient,
        hessian=factor * model.hessian,
        meat=factor * model.meat,
        squares=factor * model.squares,
        loss=factor * model.loss,
        information=None if information is None else factor * information,
    )


def _corrected(model: LocalModel, there: LocalModel, here: LocalModel, factor: float) -> LocalModel:
    """A local model plus what the quadratic of some rows misses, `factor` times."""
    information = model.information
    if information is not None and there.information is not None:
        information = information + factor * (there.information - here.information)
    return replace(
        model,
        gradient=model.gradient + factor * (there.gradient - here.gradient),
        hessian=model.hessian + factor * (there.hessian - here.hessian),
        meat=model.meat + factor * (there.meat - here.meat),
        squares=model.squares + factor * (there.squares - here.squares),
        loss=model.loss + factor * (there.loss - here.loss),
        information=information,
    )


# The function that the rows in use define.


def model_at(
    objective: Objective, segments: Sequence[Segment], phi: np.ndarray
) -> tuple[LocalModel, LocalModel]:
    """The local model of all segments at phi, and the same with H and M of where they were summed.

    H and M of the first are those of the second if these are definite, and kept rows, which stand
    for others, make them indefinite.
    """
    parts = [segment.at(objective, phi) for segment in segments]
    pairs = zip(segments, parts, strict=True)
    moved = reduce(LocalModel.merge, parts)
    summed = [s.local.at(phi) if s.controlled else part for s, part in pairs]
    before = reduce(LocalModel.merge, summed)
    H, M = (
        a if is_semidefinite(a) or not is_semidefinite(b) else b
        for a, b in ((moved.hessian, before.hessian), (moved.meat, before.meat))
    )
    return replace(moved, hessian=H, meat=M), before


def minimum(objective: Objective, segments: Sequence[Segment], phi: np.ndarray) -> np.ndarray:
    """Where the sum over the segments is smallest, from phi.

    Far away the quadratics of all rows and of the used ones do not cancel, and their difference may
    fall for ever. So a point is refused at which the rows in use alone are clearly worse.
    """
    strata = [stratum for segment in segments for stratum in segment.strata]
    points = [phi, *(s.local.point for s in segments[::-1])]
    phi, before = _inside(objective, strata, points)

    def value(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            rises = _rises(objective, strata, before, at)
            if rises is None:
                return np.inf
            rise = sum(s.factor * r.sum() for s, r in zip(strata, rises, strict=True))
            noise = sum(
                max(s.factor * (s.factor - 1), 0.0) * np.square(r).sum()
                for s, r in zip(strata, rises, strict=True)
            )
            total = rise + sum(segment.quadratic(at) for segment in segments)
        clearly_worse = not rise <= CLEARLY_WORSE * np.sqrt(noise)
        return np.inf if clearly_worse or not np.isfinite(total) else total

    before_last = [phi, np.zeros_like(phi)]  # the point before, and the step from there

    def propose(at: np.ndarray, count: int) -> Proposal:
        (old, asked), crawls = before_last, False
        if count and objective.bounded:
            crawls = np.linalg.norm(at - old) < CRAWL * np.linalg.norm(asked)
        if crawls:  # a border of the domain is in the way
            return Proposal(at, last=True)
        parts = [segment.at(objective, at, Parts(meat=False)) for segment in segments]
        total = reduce(LocalModel.merge, parts)
        step = descent_step(total)
        last = -float(total.gradient @ step) <= NEGLIGIBLE_DECREMENT
        there, before_last[:] = at + step, (at, step)
        return Proposal(at if last and value(there) == np.inf else there, last=last)

    try:
        return descend(value, propose, phi, STEPS)[0]
    except BadBlock:
        return phi


def _rises(
    objective: Objective, strata: Sequence[Stratum], before: Sequence[np.ndarray], at: np.ndarray
) -> list[np.ndarray] | None:
    """By how much the loss of every row rises; None as soon as some row has no loss."""
    rises = []
    for stratum, old in zip(strata, before, strict=True):
        rises.append(stratum.losses(objective, at) - old)
        if not np.isfinite(rises[-1]).all():
            return None
    return rises


def _inside(
    objective: Objective, strata: Sequence[Stratum], points: Sequence[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The first of the points at which every row has a loss, or the first of all; losses there."""
    first = None
    for at in points:
        losses = [stratum.losses(objective, at) for stratum in strata]
        if all(np.isfinite(some).all() for some in losses):
            return at, losses
        first = (at, losses) if first is None else first
    assert first is not None
    return first


# Which rows are used.


@dataclass(frozen=True)
class Draw:
    """How many rows of a segment are used at random, and the seed of the choice."""

    size: int
    seed: tuple[int, ...]


def drawn(objective: Objective, segment: Segment, draw: Draw) -> Segment:
    """The segment with as many of its rows in use, or with all that are in memory."""
    pool, local = segment.pool, segment.local
    assert pool is not None
    if draw.size >= pool.others and pool.factor == 1:
        whole = Stratum(tuple(pool.rows.blocks), 1.0, local)
        return replace(segment, strata=(whole,), controlled=False)
    strata = []
    if pool.high is not None:
        here = objective.local_model(local.point, pool.high)
        strata.append(Stratum((pool.high,), 1.0, here))
    if draw.size >= pool.others:
        rows, factor = tuple(pool.rows.blocks), pool.factor
    else:
        rng = np.random.default_rng([*draw.seed, draw.size])
        rows = (join(list(pool.draw(draw.size, rng))),)
        factor = pool.factor * pool.others / draw.size
    strata.append(Stratum(rows, factor, local_model(objective, local.point, rows)))
    return replace(segment, strata=tuple(strata))

"""Rows kept from a single read, and what they say of the others.

A segment of rows is summed once, at the point phi_s that was known by then. Its local model misses
the third order on the way to the estimate. Some of its rows are kept, and tell it: in two strata,
the rows of high leverage, each of which stands for itself, and a random part of the others, whose
rows stand for `factor` rows each. So the segment's loss is

    sum over all its rows of their quadratic  +  factor * sum over kept rows of (loss - quadratic),

and likewise its gradient, H and M (a control variate). The sum over segments is a function that can
be minimised like any other, and the spread of the random strata says how far its minimum may be
from that of all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from masgrad.data.arrays import blocks, count_rows, pick
from masgrad.data.regression import weight_of
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.optimise.line_search import Proposal, descend
from masgrad.fitting.optimise.third_order import GROUPS
from masgrad.fitting.sources import join
from masgrad.models.glm import add_offset
from masgrad.models.model import RowSums
from masgrad.types import Rows

RANDOM_ROWS = 1 << 12
"""Rows of a segment that are kept at random."""

HIGH_LEVERAGE = 1e-3
"""Share of a column's information so far that a row of high leverage brings."""

MOST_OF_A_BLOCK = 0.25
"""Share of a block that may be kept for its leverage."""

STEPS = 30
"""Steps of a minimisation over kept rows."""

NEGLIGIBLE_DECREMENT = 1e-13
"""Squared length of a step, in standard errors, after which a minimum has been reached."""


@dataclass(frozen=True)
class Stratum:
    """Kept rows.

    Args:
        rows: the rows.
        factor: number of rows of the segment that each stands for.
        local: their local model where the segment was summed.
    """

    rows: Rows
    factor: float
    local: LocalModel


@dataclass(frozen=True)
class Segment:
    """Rows that were summed at one point, and those of them that were kept."""

    local: LocalModel
    strata: tuple[Stratum, ...] = ()

    def at(self, objective: Objective, phi: np.ndarray) -> LocalModel:
        """The local model of the segment at phi, as far as the kept rows tell it."""
        moved = self.local.at(phi)
        for stratum in self.strata:
            there, here = objective.local_model(phi, stratum.rows), stratum.local.at(phi)
            moved = _corrected(moved, there, here, stratum.factor)
        return moved

    def loss(self, objective: Objective, phi: np.ndarray) -> float:
        """The loss of the segment at phi, as far as the kept rows tell it."""
        value = self.local.at(phi).loss
        for stratum in self.strata:
            loss = float(objective.losses(phi, stratum.rows).sum())
            value += stratum.factor * (loss - stratum.local.at(phi).loss)
        return value


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


# The function that kept rows define.


def model_at(objective: Objective, segments: Sequence[Segment], phi: np.ndarray) -> LocalModel:
    """The local model of all segments at phi."""
    return reduce(LocalModel.merge, [segment.at(objective, phi) for segment in segments])


def minimum(objective: Objective, segments: Sequence[Segment], phi: np.ndarray) -> np.ndarray:
    """Where the sum over the segments is smallest, from phi."""

    def value(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            total = sum(segment.loss(objective, at) for segment in segments)
        return total if np.isfinite(total) else np.inf

    def propose(at: np.ndarray, count: int) -> Proposal:
        total = model_at(objective, segments, at)
        step = descent_step(total)
        fall = -float(total.gradient @ step)
        return Proposal(at + step, last=fall <= NEGLIGIBLE_DECREMENT)

    try:
        return descend(value, propose, phi, STEPS)[0]
    except BadBlock:
        return phi


def descent_step(total: LocalModel) -> np.ndarray:
    """Newton's step, or that of Fisher scoring where H has a negative eigenvalue."""
    try:
        return total.newton()
    except NotConvex:
        if total.information is None:
            raise
        return total.expected().newton()


def sampling_errors(
    objective: Objective, segments: Sequence[Segment], total: LocalModel
) -> list[np.ndarray]:
    """Errors of the minimum by the choice of the random rows: for each stratum (groups, p)."""
    found = []
    for segment in segments:
        for stratum in segment.strata:
            if stratum.factor == 1:
                continue
            groups = blocks(stratum.rows, max(1, -(-count_rows(stratum.rows) // GROUPS)))
            step = total.point - segment.local.point
            missed = [objective.missed_gradient(segment.local.point, step, g) for g in groups]
            each = stratum.factor * len(missed) * np.array([total.solve(m) for m in missed])
            away = each - each.mean(0) if len(each) > 1 else each
            found.append(away / np.sqrt(len(each)))
    return found


# Which rows are kept.


@dataclass(frozen=True)
class Keeper:
    """Chooses the rows of a segment that are kept.

    Args:
        objective: the loss.
        phi: where the segment is summed.
        known: information about each column so far, (p,), in phi.
        share: of the rows that are kept at random.
        seed: for the choice.
    """

    objective: Objective
    phi: np.ndarray
    known: np.ndarray
    share: float
    seed: tuple[int, ...]

    def choose(self, number: int, rows: Rows, sums: RowSums) -> tuple[Rows | None, Rows]:
        """From block `number`: the rows of high leverage, if any, and a random part of the rest."""
        rng, n = np.random.default_rng([*self.seed, number]), count_rows(rows)
        high = self._high_leverage(rows, sums)
        others = np.flatnonzero(~high) if high.any() else np.arange(n)
        many = min(len(others), int(np.ceil(self.share * len(others))))
        chosen = np.sort(rng.choice(others, many, replace=False))
        kept = pick(lambda a: a[high], rows) if high.any() else None
        return kept, pick(lambda a: a[chosen], rows)

    def _high_leverage(self, rows: Rows, sums: RowSums) -> np.ndarray:
        """Mask of the rows with a large share of what is known of some column."""
        none, family = np.zeros(count_rows(rows), bool), self.objective.family
        limit = HIGH_LEVERAGE * self.known
        if family is None or not (np.square(self.objective.largest(sums)) > limit).any():
            return none
        U, a = self.objective.features(rows), weight_of(rows)
        with np.errstate(all="ignore"):
            w = np.abs(family.curvature(add_offset(U @ self.phi, rows), rows[1]))
            w = w if a is None else a * w
            shares = (np.square(U) * w[:, None] / np.maximum(limit, 1e-300)).max(1)
        most = max(1, int(MOST_OF_A_BLOCK * len(none)))
        bar = max(1.0, float(np.partition(shares, -most)[-most])) if len(none) > most else 1.0
        return shares > bar


def segment_of(
    objective: Objective, local: LocalModel, chosen: Sequence[tuple[Rows | None, Rows]]
) -> Segment:
    """The segment with the rows that were chosen from its blocks."""
    high = [kept for kept, _ in chosen if kept is not None]
    strata, known = [], 0
    if high:
        rows = join(high)
        known = count_rows(rows)
        strata.append(Stratum(rows, 1.0, objective.local_model(local.point, rows)))
    rows = join([part for _, part in chosen])
    if count_rows(rows):
        factor = max(1.0, (local.rows - known) / count_rows(rows))
        strata.append(Stratum(rows, factor, objective.local_model(local.point, rows)))
    return Segment(local, tuple(strata))


def complete_segment(objective: Objective, phi: np.ndarray, rows: Rows) -> Segment:
    """A segment all of whose rows are kept."""
    local = objective.local_model(phi, rows)
    return Segment(local, (Stratum(rows, 1.0, local),))

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
from masgrad.types import Rows

RANDOM_ROWS, RANDOM_ROWS_IF_UNLIKE = 1 << 12, 1 << 14
"""Rows of a segment that are kept at random, and of one that is unlike those before it."""

HIGH_LEVERAGE = 1e-3
"""Share of what is known of a column, by H or by M, that a row of high leverage brings."""

MOST_OF_A_BLOCK = 0.25
"""Share of a block that may be kept for its leverage."""

CLEARLY_WORSE = 4.0
"""Standard errors by which the loss of kept rows rises at a point that is refused."""

STEPS = 40
"""Steps of a minimisation over kept rows."""

NEGLIGIBLE_DECREMENT = 1e-8
"""Squared length of a step, in standard errors, that is the last."""


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

    def quadratic(self, phi: np.ndarray) -> float:
        """The loss at phi by quadratics, but for the kept rows."""
        kept = sum(s.factor * s.local.at(phi).loss for s in self.strata)
        return self.local.at(phi).loss - kept


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
    """The local model of all segments at phi.

    H and M are those of where segments were summed if these are definite, and kept rows, which
    stand for others, make them indefinite.
    """
    moved = reduce(LocalModel.merge, [segment.at(objective, phi) for segment in segments])
    if _is_definite(moved.hessian) and _is_definite(moved.meat):
        return moved
    summed = reduce(LocalModel.merge, [segment.local.at(phi) for segment in segments])
    pairs = (moved.hessian, summed.hessian), (moved.meat, summed.meat)
    H, M = (a if _is_definite(a) or not _is_definite(b) else b for a, b in pairs)
    return replace(moved, hessian=H, meat=M)


def _is_definite(moment: np.ndarray) -> bool:
    return bool(np.linalg.eigvalsh(moment)[0] >= 0)


def minimum(objective: Objective, segments: Sequence[Segment], phi: np.ndarray) -> np.ndarray:
    """Where the sum over the segments is smallest, from phi.

    Far away the quadratics of all rows and of the kept ones do not cancel, and their difference may
    fall for ever. So a point is refused at which the kept rows alone are clearly worse.
    """
    strata = [stratum for segment in segments for stratum in segment.strata]
    phi = _inside(objective, strata, [phi, *(s.local.point for s in segments[::-1])])
    before = [objective.losses(phi, stratum.rows) for stratum in strata]

    def value(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            rises = [
                objective.losses(at, stratum.rows) - old
                for stratum, old in zip(strata, before, strict=True)
            ]
            rise = sum(s.factor * r.sum() for s, r in zip(strata, rises, strict=True))
            noise = sum(
                max(s.factor * (s.factor - 1), 0.0) * np.square(r).sum()
                for s, r in zip(strata, rises, strict=True)
            )
            total = rise + sum(segment.quadratic(at) for segment in segments)
        clearly_worse = not rise <= CLEARLY_WORSE * np.sqrt(noise)
        return np.inf if clearly_worse or not np.isfinite(total) else total

    def propose(at: np.ndarray, count: int) -> Proposal:
        total = model_at(objective, segments, at)
        step = descent_step(total)
        last = -float(total.gradient @ step) <= NEGLIGIBLE_DECREMENT
        there = at + step
        return Proposal(at if last and value(there) == np.inf else there, last=last)

    try:
        return descend(value, propose, phi, STEPS)[0]
    except BadBlock:
        return phi


def _inside(
    objective: Objective, strata: Sequence[Stratum], points: Sequence[np.ndarray]
) -> np.ndarray:
    """The first of the points at which every kept row has a loss; the first of all if none has."""
    for at in points:
        if all(np.isfinite(objective.losses(at, s.rows)).all() for s in strata):
            return at
    return points[0]


def descent_step(total: LocalModel) -> np.ndarray:
    """Newton's step, or Fisher scoring's where H has a negative eigenvalue, or one downhill."""
    for model in (total, total.expected()):
        try:
            return model.newton()
        except NotConvex:
            continue
    return -total.gradient / np.maximum(np.abs(np.diag(total.hessian)), 1e-300)


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
        known: the local model of the rows before it.
        share: of the rows that are kept at random.
        seed: for the choice.
    """

    objective: Objective
    phi: np.ndarray
    known: LocalModel
    share: float
    seed: tuple[int, ...]

    def choose(self, number: int, rows: Rows) -> tuple[Rows | None, Rows]:
        """From block `number`: the rows of high leverage, if any, and a random part of the rest."""
        rng = np.random.default_rng([*self.seed, number])
        high = self._high_leverage(rows)
        others = np.flatnonzero(~high)
        many = int(np.ceil(self.share * len(others)))
        chosen = np.sort(rng.choice(others, many, replace=False))
        kept = pick(lambda a: a[high], rows) if high.any() else None
        return kept, pick(lambda a: a[chosen], rows)

    def _high_leverage(self, rows: Rows) -> np.ndarray:
        """Mask of the rows with a large share of what is known of columns, by H and by M."""
        none, family, known = np.zeros(count_rows(rows), bool), self.objective.family, self.known
        if family is None:
            return none
        a, t = weight_of(rows), add_offset(self.objective.predictors(self.phi, rows), rows)
        H = (known if self.objective.convex else known.expected()).hessian
        sizes = np.column_stack([np.diag(H), np.diag(known.meat)])
        per_unit = _inverse(sizes)
        with np.errstate(all="ignore"):
            r, w = family.slope_and_curvature(t, rows[1])
            sizes = np.column_stack([np.abs(w), r * r] if a is None else [a * np.abs(w), a * r * r])
            largest = np.square(self.objective.largest_standardised(rows))
            if sizes.max(0) @ (largest[:, None] * per_unit).max(0) < HIGH_LEVERAGE:
                return none
            squares = np.square(self.objective.standardised(rows))
            each = [(squares * column).max(1) for column in per_unit.T]
            shares = np.nan_to_num((sizes * np.column_stack(each)).sum(1), nan=np.inf)
        most = max(1, int(MOST_OF_A_BLOCK * len(none)))
        bar = np.partition(shares, -most)[-most] if len(none) > most else 0.0
        return shares > max(HIGH_LEVERAGE, float(bar))


def _inverse(sizes: np.ndarray) -> np.ndarray:
    """1 / size; very large for what nothing is known of."""
    return 1 / np.maximum(sizes, np.maximum(1e-12 * sizes.max(0), 1e-300))


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


def pseudo_segment(phi: np.ndarray, weight: np.ndarray) -> Segment:
    """Pseudo-observations of phi: they hold what rows have not yet determined."""
    W = np.diag(weight)
    return Segment(LocalModel(0.0, phi, np.zeros_like(phi), W, W, information=W))


def complete_segment(objective: Objective, phi: np.ndarray, rows: Rows) -> Segment:
    """A segment all of whose rows are kept."""
    local = objective.local_model(phi, rows)
    return Segment(local, (Stratum(rows, 1.0, local),))

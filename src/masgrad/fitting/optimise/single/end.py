"""The end of a single read: the estimate from all segments, and how near it is.

A few of the kept rows are used at first. More are used while the sampling error of these is above
the tolerance or standard errors have moved since segments were summed, and all that are in memory
of a segment whose quadratic is of no use at the estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.identification.rank import Separation, sample_has_optimum
from masgrad.fitting.identification.recession import exists
from masgrad.fitting.objective.local_model import LocalModel, NotConvex, error_change, merged
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import constants_of
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.line_search import SHARES, descent_step
from masgrad.fitting.optimise.plateau import flat_directions, may_be_flat, off_plateau
from masgrad.fitting.optimise.scoring import scoring_start
from masgrad.fitting.optimise.single.kept_rows import (
    FAR,
    NEAR_STEP,
    RANDOM_ROWS,
    Draw,
    Segment,
    drawn,
    minimum,
    model_at,
)
from masgrad.fitting.optimise.single.pools import with_high_leverage
from masgrad.fitting.optimise.single.sampling_error import sampling_errors
from masgrad.fitting.optimise.start import intercept_start, mean_response
from masgrad.fitting.optimise.third_order import distance, error_bound, score_statistic
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample, join
from masgrad.models.model import padded_sum
from masgrad.types import Rows

CONFIDENCE = 0.95
"""Confidence of the bound on the remainder, which is nothing but a sampling error here."""

ROUNDING = 1e-9
"""Distance between sums over the same rows, in standard errors, that may be rounding."""

MOMENT_ROWS = 1 << 16
"""Rows of a segment that are used where H and M have changed since it was summed."""

NEAR_ENOUGH = 10
"""Remainder, in tolerances, at which no more of the kept rows are used."""

GENEROUS = 1.5
"""Rows that are used next, over those that the remainder asks for."""

LONGEST_SHORTFALL = 1e4
"""Remainder, over one that is near enough, beyond which all rows in memory are used anyway."""

CHANGE_OF_ERRORS = 0.02
"""Relative change of standard errors, since segments were summed, that a few rows may tell."""


@dataclass(frozen=True)
class End:
    """The end of a single read.

    Args:
        objective: the loss.
        reader: that read the rows.
        sample: pilot rows.
        options: tolerance and seed.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    options: Options

    def estimate(self, segments: list[Segment], phi: np.ndarray, start: LocalModel) -> Estimate:
        """The estimate from all segments: more of their rows are used until it is near enough."""
        objective, sample = self.objective, self.sample
        segments = self._with_high_leverage(segments)
        phi = self._lowest(segments, self._inside(segments, phi))
        phi = self._off_plateau(segments, phi)
        while True:
            total, summed = model_at(objective, segments, phi)
            remainder = self._remainder(segments, total)
            moved = not _same_errors(total, summed)
            more = self._with_more_rows(segments, total, remainder, MOMENT_ROWS if moved else 0)
            if more is None:
                break
            segments, phi = more, minimum(objective, more, self._inside(more, phi))
        if not self._is_beyond(remainder) and self._drifts(total):
            self.reader.restart()  # of gradients at running estimates that were far away
        return Estimate(
            replace(
                total, constants=padded_sum(total.constants, constants_of(objective, sample.rows))
            ),
            reads=1,
            correction=total.wald_norm(total.point - start.point),
            remainder=remainder,
            score_statistic=self._score_statistic(total) if self._is_beyond(remainder) else 0.0,
            separation=self._separation(segments, total),
        )

    def _with_high_leverage(self, segments: list[Segment]) -> list[Segment]:
        """The segments with their rows of high leverage in use."""
        known, found = merged([s.local for s in segments]), []
        for k, s in enumerate(segments):
            if s.pool is not None and not s.is_complete:
                pool = with_high_leverage(self.objective, s.pool, s.local, known, RANDOM_ROWS)
                draw = Draw(RANDOM_ROWS, (self.options.seed, 2, k))
                told = pool.high is not None
                s = drawn(self.objective, replace(s, pool=pool), draw) if told else s
            found.append(s)
        return found

    def _is_beyond(self, remainder: float) -> bool:
        """Whether the estimate is not near enough."""
        return remainder > NEAR_ENOUGH * self.options.tolerance

    def _drifts(self, total: LocalModel) -> bool:
        """Whether gradients, at the running estimates, differ more than in a random order."""
        noise = self.objective.gradient_noise(total, self.sample.design_effect)
        return self.reader.monitor.drift(noise) > DRIFT_LIMIT

    def _score_statistic(self, total: LocalModel) -> float:
        """The score test of the pilot rows at the estimate."""
        pilot = self.objective.scoring().local_model(total.point, self.sample.rows)
        return score_statistic(pilot, self.sample.design_effect)

    def _lowest(self, segments: list[Segment], phi: np.ndarray) -> np.ndarray:
        """The optimum; the lowest of several if the loss may have them.

        The path of a read begins where its first rows lead. Others begin at the mean response of
        the rows in use and near their responses, and follow these rows alone at first.
        """
        objective, ends = self.objective, [minimum(self.objective, segments, phi)]
        if objective.convex or objective.family is None or objective.prior is not None:
            return ends[0]
        alone, used = [replace(s, controlled=False) for s in segments], _in_use(segments)
        rows = join([block for block, _ in used])
        starts = [intercept_start(objective, rows)]
        with np.errstate(all="ignore"):
            starts.append(scoring_start(objective, used, mean_response(objective.family, rows)))
            for start in starts:
                if start is not None and np.isfinite(objective.losses(start, rows)).all():
                    ends.append(minimum(objective, segments, minimum(objective, alone, start)))
        falls = self._falls(segments, ends[0], np.array(ends))
        return ends[int(np.argmax(falls))]

    def _falls(self, segments: list[Segment], phi: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """By how much the loss of the rows in use falls from phi to each end."""
        with np.errstate(all="ignore"):
            each = [factor * self.objective.falls(phi, ends, b) for b, factor in _in_use(segments)]
        return np.nan_to_num(np.sum(each, 0), nan=-np.inf)

    def _off_plateau(self, segments: list[Segment], phi: np.ndarray) -> np.ndarray:
        """The optimum, from a lower point if phi is on a plateau."""
        flat = self._flat_directions(segments, model_at(self.objective, segments, phi)[0])
        lower = off_plateau(partial(self._falls, segments), phi, flat)
        return phi if lower is phi else minimum(self.objective, segments, lower)

    def _flat_directions(self, segments: list[Segment], total: LocalModel) -> np.ndarray:
        """Directions along which rows in use vary and a loss that is not convex does not."""
        objective = self.objective
        known = objective.convex or not objective.linear or objective.prior is not None
        if known or not may_be_flat(total):
            return np.empty((len(total.point), 0))
        moment = np.zeros_like(total.hessian)
        for rows, factor in _in_use(segments):
            U = objective.features(rows)
            moment += factor * (U.T @ U)
        return flat_directions(total, moment)

    def _inside(self, segments: list[Segment], phi: np.ndarray) -> np.ndarray:
        """The point nearest to phi, on the way from the mean response, where sums are finite."""
        rows = [block for block, _ in _in_use(segments)]
        safe = intercept_start(self.objective, join(rows))
        if safe is None:
            return phi
        with np.errstate(all="ignore"):
            for share in (1.0, 0.99, 0.9, *SHARES[1:]):
                at = phi if share == 1 else safe + share * (phi - safe)
                squares = (np.square(self.objective.losses(at, block)).sum() for block in rows)
                if np.isfinite(sum(squares)):
                    return at
        return safe

    def _remainder(self, segments: list[Segment], total: LocalModel) -> float:
        """A bound on the distance to the optimum of all rows, in standard errors."""
        objective = self.objective
        errors = sampling_errors(objective, segments, total)
        bound = 0.0 if errors is None else error_bound(objective, total, [errors], CONFIDENCE)
        left = distance(objective, total, descent_step(total))  # if it could not be followed
        if objective.bounded and self._is_beyond(left):  # the border of the domain is in the way
            return np.inf
        return max(bound + left + self._missed_by_prior(segments, total), ROUNDING)

    def _with_more_rows(
        self, segments: list[Segment], total: LocalModel, remainder: float, least: int
    ) -> list[Segment] | None:
        """Segments with more rows in use; None if there is no need of them, or no more."""
        short = min(remainder / (NEAR_ENOUGH * self.options.tolerance), LONGEST_SHORTFALL)
        grown = GENEROUS * short**2 if short > 1 else 1.0
        more = [self._enlarged(s, k, total, grown, least) for k, s in enumerate(segments)]
        return None if all(a is b for a, b in zip(more, segments, strict=True)) else more

    def _enlarged(
        self, segment: Segment, number: int, total: LocalModel, grown: float, least: int
    ) -> Segment:
        """The segment with more rows in use, if it has more.

        All are used if it was summed far away, or if some of them have no mean at the estimate.
        """
        pool, used = segment.pool, segment.strata[-1].count if segment.strata else 0
        if pool is None or segment.is_complete:
            return segment
        far = segment.controlled and self._is_far(segment, total)
        every = far or not pool.has_means(self.objective, total.point)
        size = pool.others if every else int(min(max(grown * used, least), pool.others))
        if size <= used and not far:
            return segment
        draw = Draw(size, (self.options.seed, 5, number))
        return drawn(self.objective, replace(segment, controlled=not far), draw)

    def _is_far(self, segment: Segment, total: LocalModel) -> bool:
        """Whether a segment was summed so far away that its quadratic says little."""
        step = total.point - segment.local.point
        missed = segment.missed_gradient(self.objective, step)
        if not np.isfinite(missed).all():
            return True
        seen = segment.local.hessian @ step
        sizes = [total.rms_wald_norm(total.solve(gradient)) for gradient in (missed, seen)]
        return bool(sizes[0] > FAR * max(sizes[1], NEAR_STEP))

    def _separation(self, segments: list[Segment], total: LocalModel) -> Separation | None:
        """That an optimum exists, if rows that cannot be read again prove it, or may not."""
        objective, source = self.objective, self.reader.source
        flat = self._flat_directions(segments, total)
        if flat.size:
            return Separation(None, np.empty((len(flat), 0)), flat)
        if source.rereadable or not objective.may_be_separated:
            return None
        rows = join([b for s in segments for stratum in s.strata for b in stratum.rows])
        tried = (self.sample, replace(self.sample, rows=rows))
        proved = any(sample_has_optimum(objective, some, total.point) for some in tried)
        return exists(total) if proved else None

    def _missed_by_prior(self, segments: list[Segment], total: LocalModel) -> float:
        """Length of what the local model of unlike earlier rows misses, by the pilot rows."""
        prior = self.objective.prior
        if prior is None or prior.third is not None or segments[0].strata:
            return 0.0
        rows, step = self.sample.rows, total.point - prior.point
        missed = self.objective.missed_gradient(prior.point, step, rows)
        return (
            distance(self.objective, total, total.solve(missed)) * prior.count / total_weight(rows)
        )


def _in_use(segments: Sequence[Segment]) -> list[tuple[Rows, float]]:
    """Blocks of the rows in use, and how many rows each of theirs stands for."""
    strata = [stratum for segment in segments for stratum in segment.strata]
    return [(block, stratum.factor) for stratum in strata for block in stratum.rows]


def _same_errors(total: LocalModel, summed: LocalModel) -> bool:
    """Whether standard errors are about those of where segments were summed."""
    try:
        return error_change(total, summed) < CHANGE_OF_ERRORS
    except NotConvex:
        return False

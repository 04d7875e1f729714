"""One read only: segments of rows, each summed where the rows before it lead.

The pilot rows are fitted first. Every later segment, mostly as long as all before it, is summed at
the optimum of what came before, so that few rows meet a poor estimate. Some rows of every segment
are kept (`kept_rows.py`), and the estimate is the optimum of the segments' quadratics with what
the kept rows say that these miss.

If a segment is unlike the rows before it (they are sorted, or a new column occurs), its quadratic
there is of little use. Then the segment, which is still in memory, is summed again where it and
the rows before it lead together, and later segments are shorter.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.fitting.objective.local_model import LocalModel, NotConvex, merged
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.kept_rows import (
    RANDOM_ROWS,
    RANDOM_ROWS_IF_UNLIKE,
    Keeper,
    Segment,
    Stratum,
    complete_segment,
    descent_step,
    minimum,
    model_at,
    pseudo_segment,
    sampling_errors,
    segment_of,
)
from masgrad.fitting.optimise.masgrad import pseudo_weights
from masgrad.fitting.optimise.pieces import Piece, pieces
from masgrad.fitting.optimise.start import intercept_start
from masgrad.fitting.optimise.third_order import (
    distance,
    error_bound,
    is_homogeneous,
    score_statistic,
)
from masgrad.fitting.options import Options
from masgrad.fitting.sources import PILOT_ROWS, Sample, join, random_rows
from masgrad.types import Rows

CONFIDENCE = 0.99
"""Confidence of the bound on the remainder."""

FAR = 0.2
"""Share of a step by which its quadratic misses it, beyond which a segment was summed too far
away."""

NEAR_STEP = 0.1
"""Length of a step, in standard errors, that is never too far."""

SHORTEST_SHARE = 1 / 16
"""Length of a segment after one that was unlike the rows before it, as a share of these."""


def single_read(
    objective: Objective, reader: Reader, sample: Sample, start: LocalModel, options: Options
) -> Estimate:
    """The estimate from rows that are seen once; `start` is the local model of the pilot rows."""
    scored = objective.linear and not objective.convex
    with_information = objective.with_information or scored  # for steps of Fisher scoring
    one_pass = OnePass(
        replace(objective, with_information=with_information), reader, sample, options
    )
    done = one_pass.estimate(start)
    if objective.with_information:
        return done
    return replace(done, local_model=replace(done.local_model, information=None))


@dataclass(frozen=True)
class OnePass:
    """A single read.

    Args:
        objective: the loss.
        reader: for the rows.
        sample: pilot rows, and the rows that remain.
        options: memory and seed.
    """

    objective: Objective
    reader: Reader
    sample: Sample
    options: Options

    def estimate(self, start: LocalModel) -> Estimate:
        """The estimate; `start` is the local model of the pilot rows at their optimum."""
        pilot = complete_segment(self.objective, start.point, self.sample.rows)
        weight = pseudo_weights(self.objective, self.sample.rows)
        segments = [pseudo_segment(start.point, weight), *self._prior(pilot), pilot]
        phi = minimum(self.objective, segments, start.point)
        rows = count_rows(self.sample.rows)
        stages, length = [(f"first {rows:,} rows", phi)], rows
        next_piece = pieces(self.objective, self.reader, self.sample, self.options.memory // 8)
        while not self.reader.monitor.interrupted and (piece := next_piece(length)) is not None:
            segment, phi, alike = self._add(segments, piece, phi, length)
            segments.append(segment)
            rows += segment.local.rows
            length = rows if alike else max(PILOT_ROWS, int(SHORTEST_SHARE * rows))
            stages.append((f"{rows:,} rows", phi))
        done = self._end(segments[1:], phi, start)
        return replace(done, stages=tuple(stages), single_read=True)

    def _prior(self, pilot: Segment) -> list[Segment]:
        """Earlier rows; without terms of third order of their own the pilot rows tell these.

        They do if they are like the earlier ones.
        """
        prior = self.objective.prior
        if prior is None:
            return []
        alike = is_homogeneous(pilot.local, prior, self.sample.design_effect)
        if prior.third is not None or not alike:
            return [Segment(prior)]
        rows = self.sample.rows
        here = self.objective.local_model(prior.point, rows)
        return [Segment(prior, (Stratum(rows, prior.count / here.count, here),))]

    def _add(
        self, segments: list[Segment], piece: Piece, phi: np.ndarray, length: int
    ) -> tuple[Segment, np.ndarray, bool]:
        """The next segment, the estimate with it, and whether it was like the others."""
        try:
            segment = self._read(segments, piece, phi, RANDOM_ROWS / length)
        except BadBlock as bad:  # an exponential may overflow
            if not self.objective.admits(bad.rows):
                raise
            segment = None
        there = None if segment is None else self._near(segments, segment)
        if segment is not None and there is not None:
            return segment, there, True
        rng = np.random.default_rng([self.options.seed, 3, len(segments)])
        few = PILOT_ROWS / max(length, PILOT_ROWS)
        rows = join([random_rows(b, 1 + int(few * count_rows(b)), rng) for b in piece.blocks()])
        phi, share = self._refit(segments, rows, phi), RANDOM_ROWS_IF_UNLIKE / length
        segment = self._read_again(segments, piece, phi, rows, share)
        return segment, minimum(self.objective, [*segments, segment], segment.local.point), False

    def _read(
        self, segments: list[Segment], piece: Piece, phi: np.ndarray, share: float
    ) -> Segment:
        """Sum over a piece at phi, and keep a share of its rows."""
        known = merged([s.local for s in segments])
        seed = (self.options.seed, 2, len(segments))
        keeper = Keeper(self.objective, phi, known, min(1.0, share), seed)
        chosen = {}

        def observe(number: int, rows: Rows) -> None:
            chosen[number] = keeper.choose(number, rows)

        local = piece.read(phi, observe)
        return segment_of(self.objective, local, [chosen[k] for k in sorted(chosen)])

    def _near(self, segments: list[Segment], segment: Segment) -> np.ndarray | None:
        """The estimate with another segment; None if that was summed too far away from it."""
        total = merged([segment.local, *(other.local for other in segments)])
        try:
            step = total.newton()
        except NotConvex:
            return None
        there, size = total.point + step, total.rms_wald_norm(step)
        if size < NEAR_STEP:
            return there
        begin, missed = segment.local.point, np.zeros_like(step)
        for s in segment.strata:
            missed += s.factor * self.objective.missed_gradient(begin, step, s.rows)
        near = np.isfinite(missed).all() and total.rms_wald_norm(total.solve(missed)) < FAR * size
        return there if near else None

    def _refit(self, segments: list[Segment], rows: Rows, phi: np.ndarray) -> np.ndarray:
        """The optimum of the segments and of rows of the next piece together."""
        safe = intercept_start(self.objective, rows)
        points = (phi, *(s.local.point for s in segments[::-1]), *([] if safe is None else [safe]))
        for at in points:
            try:
                new = complete_segment(self.objective, at, rows)
            except BadBlock:  # the point is too far away
                continue
            return minimum(self.objective, [*segments, new], at)
        raise BadBlock(rows)

    def _read_again(
        self, segments: list[Segment], piece: Piece, phi: np.ndarray, rows: Rows, share: float
    ) -> Segment:
        """The segment at phi, or at the mean response of its rows if sums overflow there too."""
        try:
            return self._read(segments, piece, phi, share)
        except BadBlock:
            safe = intercept_start(self.objective, rows)
            if safe is None:
                raise
            return self._read(segments, piece, safe, share)

    def _end(self, segments: list[Segment], phi: np.ndarray, start: LocalModel) -> Estimate:
        """The estimate from all segments."""
        objective, sample = self.objective, self.sample
        phi = minimum(objective, segments, phi)
        total = model_at(objective, segments, phi)
        errors = sampling_errors(objective, segments, total)
        remainder = error_bound(objective, total, errors, CONFIDENCE)
        remainder += self._missed_by_prior(segments, total)
        remainder += distance(objective, total, descent_step(total))  # if it could not be followed
        pilot = objective.scoring().local_model(total.point, sample.rows)
        return Estimate(
            replace(total, constants=total.constants + objective.constants(sample.rows)),
            reads=1,
            correction=total.wald_norm(total.point - start.point),
            remainder=remainder,
            score_statistic=score_statistic(pilot, sample.design_effect),
        )

    def _missed_by_prior(self, segments: list[Segment], total: LocalModel) -> float:
        """Length of what the local model of unlike earlier rows misses, by the pilot rows."""
        prior = self.objective.prior
        if prior is None or prior.third is not None or segments[0].strata:
            return 0.0
        rows, step = self.sample.rows, total.point - prior.point
        missed = self.objective.missed_gradient(prior.point, step, rows)
        return distance(self.objective, total, total.solve(missed)) * prior.count / count_rows(rows)

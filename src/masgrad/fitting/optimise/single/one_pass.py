"""One read only: segments of rows, each summed where the rows before it lead.

The pilot rows are fitted first. Every later segment, mostly as long as all before it, is summed at
the optimum of what came before, so that few rows meet a poor estimate. The rows of a segment are
kept as long as memory allows, and a random part of them after that (`kept_rows.py`). The estimate
is the optimum of the segments' quadratics with what a few of the kept rows say that these miss;
more of them are used if it is not near enough for that, and all of a segment that was summed far
from where the read ends, as in sorted data.

If a segment is unlike the rows before it (they are sorted, or a new column occurs), it is summed
again, from memory, where it and the rows before it lead together, and later segments are shorter.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.fitting.objective.local_model import LocalModel, NotConvex, merged
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.masgrad import pseudo_weights
from masgrad.fitting.optimise.single.clusters import RunningClusters
from masgrad.fitting.optimise.single.end import End
from masgrad.fitting.optimise.single.kept_rows import (
    FAR,
    NEAR_STEP,
    RANDOM_ROWS,
    Draw,
    Segment,
    Stratum,
    drawn,
    minimum,
)
from masgrad.fitting.optimise.single.pieces import Piece, pieces
from masgrad.fitting.optimise.single.pools import ArrayRows, HeldRows, Pool, with_high_leverage
from masgrad.fitting.optimise.start import intercept_start
from masgrad.fitting.optimise.third_order import is_homogeneous
from masgrad.fitting.options import Options
from masgrad.fitting.sources import PILOT_ROWS, Sample, join
from masgrad.types import Rows

KEPT_SHARE = 0.25
"""Share of the memory for kept rows that is full after most of them were dropped."""

AS_MANY = 0.9
"""Rows that a kept row stands for, over those of other segments, that are about as many."""

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
        pilot = self._pilot(start)
        weight = pseudo_weights(self.objective, self.sample.rows, self.sample.columns)
        segments = [_pseudo_segment(start.point, weight), *self._prior(pilot), pilot]
        phi = start.point
        if self.objective.prior is not None:
            phi = minimum(self.objective, segments, phi)
        rows = count_rows(self.sample.rows)
        stages, length = [(f"first {rows:,} rows", phi)], rows
        clusters = RunningClusters(self.objective, self.reader.source, self.options)
        clusters.add([self.sample.rows], start.point, start.hessian)
        next_piece = pieces(self.objective, self.reader, self.sample, self.options.memory // 8)
        while not self.reader.monitor.interrupted and (piece := next_piece(length)) is not None:
            segment, phi, alike = self._add(segments, piece, phi)
            clusters.add(piece.blocks(), segment.local.point, segment.local.hessian)
            segments = self._within_memory([*segments, segment])
            rows += segment.local.rows
            length = rows if alike else max(PILOT_ROWS, int(SHORTEST_SHARE * rows))
            stages.append((f"{rows:,} rows", phi))
        end = End(self.objective, self.reader, self.sample, self.options)
        done = end.estimate(segments[1:], phi, start)
        return replace(done, stages=tuple(stages), single_read=True, clusters=clusters.ways)

    def _pilot(self, start: LocalModel) -> Segment:
        """The segment of the pilot rows."""
        objective, rows = self.objective, self.sample.rows
        if objective.with_information and start.information is None:
            start = objective.local_model(start.point, rows)
        return self._with_rows(0, start, HeldRows((rows,), shared=True))

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
        return [Segment(prior, (Stratum((rows,), prior.count / here.count, here),))]

    # Reading.

    def _add(
        self, segments: list[Segment], piece: Piece, phi: np.ndarray
    ) -> tuple[Segment, np.ndarray, bool]:
        """The next segment, the estimate with it, and whether it was like the others."""
        try:
            segment = self._read(segments, piece, phi)
        except BadBlock as bad:  # an exponential may overflow
            if not self.objective.admits(bad.rows):
                raise
            segment = None
        there = None if segment is None else self._near(segments, segment)
        if segment is not None and there is not None:
            return segment, there, True
        pool = Pool(piece.first_rows(None if segment is None else segment.local.rows))
        size = min(PILOT_ROWS, pool.others)
        rng = np.random.default_rng([self.options.seed, 3, len(segments)])
        rows = join(list(pool.draw(size, rng)))
        phi = self._refit(segments, rows, phi)
        segment = self._read_again(segments, piece, phi, rows)
        return segment, minimum(self.objective, [*segments, segment], segment.local.point), False

    def _read(self, segments: list[Segment], piece: Piece, phi: np.ndarray) -> Segment:
        """Sum over a piece at phi."""
        local = piece.read(phi)
        return self._with_rows(len(segments), local, piece.first_rows(local.rows))

    def _with_rows(self, number: int, local: LocalModel, rows: HeldRows | ArrayRows) -> Segment:
        """A segment with the first of its rows in use."""
        draw = Draw(RANDOM_ROWS, (self.options.seed, 2, number))
        return drawn(self.objective, Segment(local, pool=Pool(rows)), draw)

    def _within_memory(self, segments: list[Segment]) -> list[Segment]:
        """The segments; if rows take too much memory, some are dropped, as many in each segment.

        As soon as some were dropped, a new segment is left as many as the others have.
        """
        held = [s.pool for s in segments if s.pool is not None and s.pool.rows.bytes_held]
        size = sum(pool.rows.bytes_held * pool.factor for pool in held)
        factor, most = max((pool.factor for pool in held), default=1.0), self.options.memory // 4
        if size > factor * most:
            factor = size / (KEPT_SHARE * most)
        if factor == 1:
            return segments
        known = merged([s.local for s in segments])
        rng = np.random.default_rng([self.options.seed, 4, len(segments)])
        return [self._thinned(s, known, factor, rng) for s in segments]

    def _thinned(
        self, segment: Segment, known: LocalModel, factor: float, rng: np.random.Generator
    ) -> Segment:
        """The segment with a part of its rows in memory, and those of high leverage.

        Rows in use, copies at random, stay if these are more. Otherwise they are drawn again.
        """
        pool = segment.pool
        if pool is None or not pool.rows.bytes_held or pool.factor > AS_MANY * factor:
            return segment
        size = min(RANDOM_ROWS, pool.size_at(factor))
        told = with_high_leverage(self.objective, pool, segment.local, known, size)
        kept = told.thinned(factor, rng)
        if told.high is pool.high and segment.strata[-1].count <= kept.others:
            return replace(segment, pool=kept)
        thinned = replace(segment, pool=kept, controlled=True)
        draw = Draw(RANDOM_ROWS, (self.options.seed, 6, int(rng.integers(1 << 31))))
        return drawn(self.objective, thinned, draw)

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
        missed = segment.missed_gradient(self.objective, step)
        near = np.isfinite(missed).all() and total.rms_wald_norm(total.solve(missed)) < FAR * size
        return there if near else None

    def _refit(self, segments: list[Segment], rows: Rows, phi: np.ndarray) -> np.ndarray:
        """The optimum of the segments and of rows of the next piece together."""
        safe = intercept_start(self.objective, rows)
        points = (phi, *(s.local.point for s in segments[::-1]), *([] if safe is None else [safe]))
        for at in points:
            try:
                new = _complete_segment(self.objective, at, rows)
            except BadBlock:  # the point is too far away
                continue
            return minimum(self.objective, [*segments, new], at)
        raise BadBlock(rows)

    def _read_again(
        self, segments: list[Segment], piece: Piece, phi: np.ndarray, rows: Rows
    ) -> Segment:
        """The segment at phi, or at the mean response of its rows if sums overflow there too."""
        try:
            return self._read(segments, piece, phi)
        except BadBlock:
            safe = intercept_start(self.objective, rows)
            if safe is None:
                raise
            return self._read(segments, piece, safe)


def _pseudo_segment(phi: np.ndarray, weight: np.ndarray) -> Segment:
    """Pseudo-observations of phi: they hold what rows have not yet determined."""
    W = np.diag(weight)
    return Segment(LocalModel(0.0, phi, np.zeros_like(phi), W, W, information=W))


def _complete_segment(objective: Objective, phi: np.ndarray, rows: Rows) -> Segment:
    """A segment all of whose rows are in use."""
    local = objective.local_model(phi, rows)
    return Segment(local, (Stratum((rows,), 1.0, local),), controlled=False)

"""From a source of rows to an estimate: which reads are made, and in what order.

1. Warm-up on a first sample of rows, which is kept.
2. First read: mini-batch MasGrad from there, iterates averaged, over as many rows as it takes.
3. Correcting reads until the predicted remainder is below the tolerance.

All rows kept: the warm-up and corrections, to rounding. Rows that can be read once: `single_read`.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np

from masgrad.data.arrays import BLOCK, count_rows, pick
from masgrad.data.arrays import blocks as rows_in_blocks
from masgrad.data.source import Arrays, Source, up_to
from masgrad.errors import InputError
from masgrad.fitting.averaging import averaged_masgrad
from masgrad.fitting.begin import level
from masgrad.fitting.correcting import Corrected, Goal, correct
from masgrad.fitting.lengths import Counted, check_length
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.single import single_read, stretches_of_array, stretches_of_blocks
from masgrad.fitting.watch import SURPRISE, Watch
from masgrad.types import Rows

TOLERANCE = 1e-3
CONVERGED = 1e-6
ROUNDING = 1e-10
MOST_READS = 60
FEWEST = 1024
"""Rows that are kept whatever the memory."""

STEPS = 256
"""MasGrad takes at least so many steps in its read, with smaller batches where rows are few."""

PILOT = 96
"""MasGrad reads PILOT sqrt(p N) rows, if there are more. After n rows its average is sqrt(p N/n)
standard errors away, all contrasts together, and what the correcting read's quadratic misses from
there is of the order of the square of that over sqrt(N): in each contrast, over sqrt(p) more, the
same share of a standard error for every N and p."""


@dataclass(frozen=True)
class Plan:
    """How a fit was asked for."""

    passes: int | str
    step_size: float
    seed: int

    @property
    def tolerance(self) -> float:
        return CONVERGED if self.passes == "converge" else TOLERANCE

    @property
    def most(self) -> int:
        return self.passes if isinstance(self.passes, int) else MOST_READS


@dataclass(frozen=True)
class Sample:
    """Rows that are kept in memory, and where the others are.

    Args:
        rows: the kept rows.
        whole: whether there are no others.
        starts: where the other blocks of an array begin, for a single read of it.
        blocks: the other blocks of a stream, for a single read of it.
    """

    rows: Rows
    whole: bool
    starts: np.ndarray | None = None
    blocks: Iterator[Rows] | None = None


def estimate(
    problem: Problem, plan: Plan, sample: Sample, start: Quadratic, watch: Watch
) -> Corrected:
    """The corrected estimate; `start` is the local model at the sample's optimum."""
    if sample.whole:
        return _small(problem, plan, sample, start, watch)
    if plan.passes == 1 or not problem.source.rereadable:
        return _once(problem, sample, start, watch)
    return _twice(problem, plan, sample, start, watch)


def _small(problem, plan, sample, start, watch) -> Corrected:
    """All rows are kept: reading them again costs nothing."""

    def read(phi: np.ndarray) -> Quadratic:
        watch.restart()
        return problem.read_blocks(phi, rows_in_blocks(sample.rows), watch)

    goal = Goal(ROUNDING, ROUNDING, MOST_READS)
    problem.tally = False
    done = correct(problem, start.point, sample.rows, goal, read)
    known = done.local.constants + problem.constants(sample.rows)
    return replace(done, reads=1, local=replace(done.local, constants=known))


def _once(problem, sample, start, watch) -> Corrected:
    if sample.starts is not None:
        stretch = stretches_of_array(problem, sample.starts, watch)
    else:
        stretch = stretches_of_blocks(problem, sample.blocks, watch)
    return single_read(problem, start, sample.rows, stretch)


def _twice(problem, plan, sample, start, watch) -> Corrected:
    """MasGrad, averaged, and correcting reads.

    Where a column is carried by a few rows MasGrad's batches hardly meet it, and its average is
    worse than its start: then all reads are correcting ones.
    """
    problem.path.append(("kept rows", start.point))
    phi = _averaged(problem, plan, sample, start, watch) if problem.spread else start.point
    before = int(problem.spread)
    known, reads = np.zeros(2), before

    def read(phi: np.ndarray) -> Quadratic:
        nonlocal reads
        watch.restart()
        if problem.stop.is_set():
            return problem.quadratic(phi, sample.rows)
        if reads > before:
            problem.path.append((f"read {reads}", phi))
        total, reads = problem.read(phi, watch), reads + 1
        check_length(problem, total.rows)
        known[:], problem.tally = (total.constants if problem.tally else known), False
        return replace(total, constants=known)

    def ordered(total: Quadratic) -> bool:
        return problem.source.ordered and watch.drift(problem.noise(total)) > SURPRISE

    longest = 0.1 if plan.passes == "converge" else np.inf
    goal = Goal(plan.tolerance, longest, max(1, plan.most - before))
    safe = level(problem, sample.rows) if problem.bounded else None
    back = start.point if safe is None else safe
    done = correct(problem, phi, sample.rows, goal, read, ordered, back)
    return replace(done, reads=done.reads + before)


def _averaged(problem, plan, sample, start, watch) -> np.ndarray:
    """Where the correcting reads begin: MasGrad's average, if it is worth something."""
    rng = np.random.default_rng([plan.seed, 1])
    count = problem.source.count or 10**9
    rows = min(count, int(PILOT * np.sqrt(len(start.point) * count)))
    batch = max(256, min(BLOCK, rows // STEPS))
    try:
        with contextlib.closing(problem.source.blocks(rng)) as blocks:
            seen = Counted(blocks)
            first = up_to(seen, rows)
            average = averaged_masgrad(problem, start, first, batch, plan.step_size, watch.tick)
    except BadBlock:  # it ran away, or a value is missing: then the next read finds it
        return start.point
    except KeyboardInterrupt:
        problem.stop.set()
        return start.point
    if seen.ended:
        check_length(problem, seen.rows)
    problem.path.append(("MasGrad, averaged", average))
    phi = _better(problem, sample.rows, average, start.point)
    problem.discarded = phi is not average
    return phi


def _better(problem: Problem, rows: Rows, phi: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The average, unless it is far worse on the sample than its start: a step too long."""
    if not np.isfinite(phi).all():
        return start
    fall = problem.losses(start, rows) - problem.losses(phi, rows)
    noise = fall.std() / np.sqrt(len(fall))
    return phi if fall.mean() >= -10 * noise else start


def take_sample(
    source: Source, single: bool, keep: int, room: int, rng: np.random.Generator
) -> Sample:
    """The rows to keep: at random from an array, the first ones of anything else.

    Args:
        source: all rows.
        single: whether the others are read once, after these.
        keep: how many.
        room: bytes that they may take, unless that were fewer than FEWEST of them.
        rng: for the choice from an array, and among row groups.
    """
    if isinstance(source, Arrays):
        return _from_array(source, single, keep, room, rng)
    blocks = source.blocks() if single else source.first_blocks(rng)
    first, rows, size = [], 0, 0
    for block in blocks:
        first.append(block)
        rows, size = rows + count_rows(block), size + _bytes(block)
        if rows >= keep or (size >= room and rows >= FEWEST):
            break
    else:
        if not first:
            raise InputError("the data hold no rows; at least one observation is needed")
        return Sample(_join(first), True)
    if single:
        return Sample(_join(first), False, blocks=blocks)
    blocks.close()
    return Sample(_join(first), False)


def _from_array(
    source: Arrays, single: bool, keep: int, room: int, rng: np.random.Generator
) -> Sample:
    one = _bytes(pick(lambda a: a[:1], source.rows))
    keep = min(keep, max(FEWEST, room // max(one, 1)))
    if keep >= source.count or not single:
        return Sample(source.sample(keep, rng), keep >= source.count)
    starts = rng.permutation(np.arange(0, source.count, source.block))
    first = -(-keep // source.block)
    rows = _join(list(source.slices(starts[:first])))
    return Sample(rows, first >= len(starts), starts=starts[first:])


def _bytes(rows: Rows) -> int:
    return sum(a.nbytes for a in jax.tree.leaves(rows))


def _join(blocks: list[Rows]) -> Rows:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *blocks)

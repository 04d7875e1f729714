"""From a start to an estimate: which reads are made, and in what order.

1. The optimum of a first sample, which is kept (`start.py`).
2. First read: mini-batch MasGrad from there with averaged iterates, over as many rows as it takes.
3. Correcting reads until the predicted remainder is below the tolerance.

If all rows are in the sample, they are read to convergence. Rows that can be read only once make a
single read (`one_pass.py`).
"""

from contextlib import closing
from dataclasses import replace

import numpy as np

from masgrad.data.arrays import BLOCK
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import BadBlock, Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate, StoppingRule
from masgrad.fitting.optimise.masgrad import averaged_masgrad
from masgrad.fitting.optimise.newton import Newton
from masgrad.fitting.optimise.one_pass import single_read
from masgrad.fitting.optimise.start import intercept_start
from masgrad.fitting.options import MOST_READS, Options
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

TO_ROUNDING = StoppingRule(remainder=1e-10, step=1e-10, most=MOST_READS)
"""When rows in memory have converged, in standard errors."""

CONVERGED_STEP = 0.1
"""Largest last step of "converge", in standard errors."""

MASGRAD_STEPS = 256
"""Smallest number of MasGrad steps in its read; batches are smaller if there are few rows."""

MASGRAD_ROWS = 96
"""MasGrad reads 96 sqrt(p N) rows, if there are more. After n rows its average is sqrt(p N/n)
standard errors away, all contrasts together, and what the correcting read's quadratic misses from
there is of the order of the square of that over sqrt(N): in each contrast, over sqrt(p) more, the
same share of a standard error for every N and p."""

UNKNOWN_COUNT = 10**9


def estimate(
    objective: Objective, reader: Reader, sample: Sample, start: LocalModel, options: Options
) -> Estimate:
    """The estimate; `start` is the local model at the sample's optimum."""
    if sample.complete:
        return estimate_in_memory(objective, reader, sample, start.point)
    if options.passes == 1 or not reader.source.rereadable:
        return single_read(objective, reader, sample, start, options)
    return _over_reads(objective, reader, sample, start, options)


def estimate_in_memory(
    objective: Objective, reader: Reader, sample: Sample, phi: np.ndarray
) -> Estimate:
    """The optimum of a complete sample, to rounding: reading it again costs nothing."""

    def read(of: Objective, at: np.ndarray, parts: Parts) -> LocalModel:
        reader.restart()
        return reader.read_sample(of, at, sample, parts)

    done = Newton(objective, reader, sample, read).minimise([phi], TO_ROUNDING)
    return replace(done, reads=1)


def _over_reads(
    objective: Objective, reader: Reader, sample: Sample, start: LocalModel, options: Options
) -> Estimate:
    """Averaged MasGrad, then correcting reads.

    If a few rows carry a column, or a batch has fewer rows than columns, MasGrad's average is worse
    than its start: then all reads are correcting ones. With "newton" they are so from a safe start,
    and pilot rows predict nothing.
    """
    plain = options.passes == "newton"

    def read(of: Objective, at: np.ndarray, parts: Parts) -> LocalModel:
        reader.restart()
        if reader.monitor.interrupted:
            return of.local_model(at, sample.rows)
        return reader.read(of, at, parts)

    def unlike(total: LocalModel) -> bool:
        if plain or not reader.source.ordered:
            return plain
        noise = objective.gradient_noise(total, sample.design_effect)
        return reader.monitor.drift(noise) > DRIFT_LIMIT

    safe, average = _safe_start(objective, sample, start), None
    stages, starts = [("pilot rows", start.point)], [safe] if plain else [start.point, safe]
    rows, batch = _rows_and_batch(reader.source.count or UNKNOWN_COUNT, len(start.point))
    before = int(not (sample.has_rare_columns or plain or batch < len(start.point)))
    if before:
        average = _average(objective, reader, start, (rows, batch), options)
    if average is not None:
        stages.append(("MasGrad, averaged", average))
        if _is_no_worse(objective, sample.rows, average, start.point):
            starts = [average, *starts]
    longest = CONVERGED_STEP if options.passes in ("converge", "newton") else np.inf
    rule = StoppingRule(options.tolerance, longest, max(1, options.most_reads - before))
    done = Newton(objective, reader, sample, read, unlike, safe).minimise(starts, rule)
    later = [(f"read {before + i}", at) for i, at in enumerate(done.points) if i]
    return replace(
        done,
        reads=done.reads + before,
        stages=(*stages, *later),
        average_discarded=average is not None and starts[0] is not average,
    )


def _safe_start(objective: Objective, sample: Sample, start: LocalModel) -> np.ndarray:
    """The estimate of earlier rows, or the mean response for every row, or else the start."""
    if objective.prior is not None:
        return objective.prior.point
    safe = intercept_start(objective, sample.rows)
    return start.point if safe is None else safe


def _rows_and_batch(count: int, p: int) -> tuple[int, int]:
    """Rows that MasGrad reads of so many, and those of a batch."""
    rows = min(count, int(MASGRAD_ROWS * np.sqrt(p * count)))
    return rows, max(256, min(BLOCK, rows // MASGRAD_STEPS))


def _average(
    objective: Objective, reader: Reader, start: LocalModel, size: tuple[int, int], options: Options
) -> np.ndarray | None:
    """MasGrad's average over the first read; None if it ran away or was interrupted.

    `size` has the rows that are read, and those of a batch.
    """
    rng, (rows, batch) = np.random.default_rng([options.seed, 1]), size
    with reader.interruptible(), closing(reader.shuffled(rng, rows)) as blocks:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return averaged_masgrad(objective, start, blocks, batch, options.step_size)
        except BadBlock:  # it ran away, or a value is missing: then the next read finds it
            return None
    return None


def _is_no_worse(objective: Objective, rows: Rows, phi: np.ndarray, start: np.ndarray) -> bool:
    """Whether the average is not far worse on the sample than its start (too long a step)."""
    if not np.isfinite(phi).all():
        return False
    with np.errstate(all="ignore"):
        fall = objective.losses(start, rows) - objective.losses(phi, rows)
        noise = fall.std() / np.sqrt(len(fall))
        return bool(fall.mean() >= -10 * noise)

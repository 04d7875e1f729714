"""One read only: local models at a running estimate, summed.

The pilot rows are fitted first. Every later segment of rows, each as long as all before it, is
summed at the optimum of what came before, so that few rows meet a poor estimate; at the end the
pilot rows are taken at the estimate itself. What the models miss is then measured on the pilot
rows, segment by segment, and subtracted.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.source import Arrays, up_to
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.newton import Estimate, with_prior
from masgrad.fitting.optimise.third_order import (
    predict_remainder,
    score_statistic,
    update_moments,
)
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

Segment = Callable[[np.ndarray, int], LocalModel | None]
"""From a point and a number of rows to the local model of the next rows; None at the end."""

PARTS = Parts(constants=True)


def single_read(
    objective: Objective, reader: Reader, sample: Sample, start: LocalModel
) -> Estimate:
    """The estimate from rows that are seen once; `start` is the local model of the pilot rows."""
    next_segment, seen = _segments(objective, reader, sample), []
    total = reduce(LocalModel.merge, with_prior(objective), start)
    phi = total.point + total.newton()
    stages = [(f"first {total.rows:,} rows", phi)]
    # The monitor compares gradients of all segments: their points are a few standard errors apart.
    while not reader.monitor.interrupted and (part := next_segment(phi, total.rows)) is not None:
        seen.append(part)
        total = total.merge(part)
        phi = total.point + total.newton()
        stages.append((f"{total.rows:,} rows", phi))
    end = _end(objective, sample, start, seen, phi)
    return replace(end, stages=tuple(stages), single_read=True)


def _end(
    objective: Objective,
    sample: Sample,
    start: LocalModel,
    seen: list[LocalModel],
    phi: np.ndarray,
) -> Estimate:
    """The estimate from all segments, with the pilot rows taken at phi."""
    others, pilot = with_prior(objective, *seen), objective.local_model(phi, sample.rows)
    total = reduce(LocalModel.merge, others, pilot)
    phi = total.point + total.newton()
    prediction = predict_remainder(objective, others, total, phi, sample)
    phi = phi + prediction.extra_step
    score = score_statistic(objective.local_model(phi, sample.rows), sample.design_effect)
    moved = total.rms_wald_norm(phi - start.point)
    local = update_moments(objective, total, prediction.parts, phi, sample.rows)
    local = prediction.at_end(local)
    return Estimate(
        replace(local, constants=local.constants + objective.constants(sample.rows)),
        reads=1,
        correction=total.wald_norm(phi - start.point),
        remainder=prediction.remainder_with_prior if prediction.trusted else moved,
        score_statistic=score,
        max_residual_shift=max(
            (q.max_residual_shift(phi - q.point, objective.dispersed) for q in seen), default=0.0
        ),
    )


def _segments(objective: Objective, reader: Reader, sample: Sample) -> Segment:
    remaining = sample.remaining
    if isinstance(remaining, np.ndarray):
        return segments_of_array(objective, reader, remaining)
    assert remaining is not None
    return segments_of_blocks(objective, reader, remaining)


def segments_of_array(objective: Objective, reader: Reader, starts: np.ndarray) -> Segment:
    """Segments over the blocks of an array that begin at these rows."""
    source, begin = reader.source, 0
    assert isinstance(source, Arrays)

    def segment(phi: np.ndarray, rows: int) -> LocalModel | None:
        nonlocal begin
        end = begin + max(1, round(rows / source.block))
        part, begin = starts[begin:end], end
        return reader.read_slices(objective, phi, part, PARTS) if len(part) else None

    return segment


def segments_of_blocks(objective: Objective, reader: Reader, blocks: Iterator[Rows]) -> Segment:
    """Segments over blocks as they come."""

    def segment(phi: np.ndarray, rows: int) -> LocalModel | None:
        first = next(blocks, None)
        if first is None:
            return None
        others = up_to(blocks, rows - count_rows(first))
        return reader.read_blocks(objective, phi, chain([first], others), rows, PARTS)

    return segment

"""The meat of rows that depend on their neighbours in time, by Bartlett's kernel.

    M = Gamma_0 + sum_{l <= L} (1 - l / (L + 1)) (Gamma_l + Gamma_l'),  Gamma_l = sum_t g_t g_{t-l}'

    HAC             g_t the score of row t, in the order of rows or of `time`
    HAC, `unit`     lag products within units alone
    DK              g_t the sum of the scores of all rows of time t

It is taken at the estimate, by a read in the order of storage unless `time` says the order.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from masgrad.data.groupings.grouping import Grouping
from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.kinds import observations
from masgrad.fitting.uncertainty.serial import by_time, by_unit
from masgrad.fitting.uncertainty.serial.axis import Axis
from masgrad.fitting.uncertainty.serial.lags import (
    check_lags,
    check_times,
    lags_of,
    on_gaps,
    on_lags,
)
from masgrad.fitting.uncertainty.serial.record import Serial, TimeScores
from masgrad.fitting.uncertainty.serial.score_reader import Codes, ScoreReader
from masgrad.fitting.uncertainty.serial.small_sample import Sizes, small_sample
from masgrad.fitting.uncertainty.serial.times import times_of
from masgrad.fitting.uncertainty.serial.windows import Windows, bartlett_with_gaps
from masgrad.types import Rows

ON_EARLIER = (
    "Scores of earlier rows are those at their own estimate: their lag products are off by the "
    "order of the step from there."
)


@dataclass(frozen=True)
class SerialMeat:
    """The meat, and what belongs to it.

    Args:
        meat: with the factor for small samples, (p, p), in phi.
        df: degrees of freedom of t; None for normal quantiles.
        notes: the kernel, its lags, and gaps.
        reads: of all rows that it took.
        record: for critical values and for rows that follow.
    """

    meat: np.ndarray
    df: int | None
    notes: tuple[str, ...]
    reads: int
    record: Serial


def serial_meat(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    local: LocalModel,
    options: Options,
    *,
    parameters: int,
    earlier: Serial | None = None,
) -> SerialMeat:
    """The meat of "HAC" or "DK" at the estimate `local.point`, for so many free parameters.

    `earlier` is the record of rows that came before these.
    """
    reading = ScoreReader(objective, reader, sample, local.point, options)
    time, unit = reading.grouping("time"), reading.grouping("unit")
    if options.cov_type == "DK" and time is None:
        raise InputError("cov_type='DK' sums scores by time; give time=, a column or an array")
    if options.cov_type == "DK" or (time and not unit):
        assert time is not None
        meat, record, notes = _by_time(reading, *time, earlier)
        reads = reading.reads(ordered=False)
    elif unit:
        if earlier is not None:
            raise InputError(
                "scores within units are not kept, so that units cannot go on in an update; fit "
                "old and new rows together"
            )
        axis = None if time is None else Axis.of(reading, *time)
        meat, record, notes = _within(reading, unit, axis)
        reads = reading.reads(ordered=True) if axis is None else 2 * reading.reads(ordered=False)
    else:
        meat, record, notes = _in_order(reading, local.rows, earlier)
        reads = reading.reads(ordered=True)
    count = observations(local.count, local.rows, options)
    sizes = Sizes(count, parameters, record.times)
    kind = "DK" if options.cov_type == "DK" else ("panel" if unit else "HAC")
    factor, df = small_sample(kind, options.small_sample, sizes)
    notes = notes if earlier is None else (*notes, ON_EARLIER)
    record = replace(
        record,
        chosen=options.lags is not None,
        small_sample=options.small_sample,
        time_gaps=options.time_gaps,
    )
    return SerialMeat(factor * meat, df, notes, reads, record)


def _in_order(
    reading: ScoreReader, rows: int, earlier: Serial | None
) -> tuple[np.ndarray, Serial, tuple[str, ...]]:
    """Rows in their order, after earlier ones."""
    check_times(rows, "HAC", "rows")
    lags, source = lags_of(reading.options, rows)
    if earlier is not None and reading.options.lags in (None, earlier.lags):
        lags, source = earlier.lags, " (those of the earlier rows)"
    check_lags(lags, rows, "rows")
    if 32 * lags * len(reading.point) > reading.options.memory:
        raise InputError(
            f"lags={lags:,} scores of {len(reading.point)} parameters at either end of each block "
            "are more than memory= holds; raise it, or take fewer lags"
        )
    windows = reading.total(partial(Windows.of, lags=lags), Windows.then)
    record = Serial(lags, windows.rows, (lags + 1) / windows.rows, windows)
    record = record if earlier is None else earlier.then(record)
    assert isinstance(record.kept, Windows)
    return record.kept.meat, record, (on_lags("HAC", lags, source),)


def _by_time(
    reading: ScoreReader, times: Grouping, codes: Codes, earlier: Serial | None
) -> tuple[np.ndarray, Serial, tuple[str, ...]]:
    """Scores summed by time."""
    kind, p = reading.options.cov_type, len(reading.point)

    def part(scores: np.ndarray, rows: Rows) -> by_time.BlockByTime:
        return by_time.block_by_time(codes(rows), scores)

    none = by_time.ScoresByTime(times, p, reading.options.memory)
    found = reading.gathered(part, by_time.ScoresByTime.add, none, ordered=False).all()
    if earlier is not None:
        joined_scores = earlier.then(Serial(0, len(found.keys), None, found)).kept
        assert isinstance(joined_scores, TimeScores)
        found = joined_scores
    if kind == "HAC":
        by_time.check_single_rows(found, times.name)
    return meat_of_times(found, times.name, reading.options)


def meat_of_times(
    found: TimeScores, name: str, options: Options
) -> tuple[np.ndarray, Serial, tuple[str, ...]]:
    """Bartlett's sum over scores by time, without a factor; its record, and notes."""
    T = len(found.keys)
    check_times(T, options.cov_type, f"values of {name}")
    axis = times_of(name, found.keys, options.time_gaps)
    lags, source = lags_of(options, T)
    check_lags(lags, axis.length, "times")
    meat = bartlett_with_gaps(found.scores, axis.places, lags)
    record = Serial(lags, T, (lags + 1) / axis.length, found)
    return meat, record, (on_lags(options.cov_type, lags, source), *on_gaps(name, axis))


def _within(
    reading: ScoreReader, unit: tuple[Grouping, Codes], axis: Axis | None
) -> tuple[np.ndarray, Serial, tuple[str, ...]]:
    """Scores within units: by time, or in the order of a unit's rows."""
    (units, unit_codes), options = unit, reading.options
    by_value = axis is not None and axis.times.unit is not None
    lags = options.lags if axis is None else lags_of(options, axis.count)[0]
    none = by_unit.Within(units, by_value, lags, options.memory)

    def part(scores: np.ndarray, rows: Rows) -> by_unit.UnitRows:
        at = np.empty(0, np.int64) if axis is None else axis.places(rows)
        return by_unit.UnitRows(unit_codes(rows), at, scores)

    within = reading.gathered(part, by_unit.Within.add, none, ordered=axis is None)
    T = within.longest if axis is None else axis.count
    check_times(T, "HAC", "rows of the longest unit" if axis is None else "times")
    chosen, source = lags_of(options, T)
    lags = within.lags if within.spilled else chosen  # those of the units that are summed
    assert lags is not None
    check_lags(lags, T if axis is None else axis.times.length, "times")
    name = f"HAC within {within.count:,} units ({units.name})"
    gaps = () if axis is None else on_gaps(axis.name, axis.times)
    return within.meat(lags), Serial(lags, T, None), (on_lags(name, lags, source), *gaps)

"""Scores in time order as JSON, so that rows that follow can be added to a loaded result."""

from typing import Any

import numpy as np

from masgrad.fitting.results.saved.arrays import pack, unpack
from masgrad.fitting.uncertainty.serial.record import Serial, TimeScores
from masgrad.fitting.uncertainty.serial.windows import Windows

MEASURES = ("lags", "times", "b")

CONVENTIONS = ("chosen", "small_sample", "time_gaps")
"""What files of an earlier format need not have."""


def serial_to_json(record: Serial | None) -> dict[str, Any] | None:
    """The record; None if there is none."""
    if record is None:
        return None
    body: dict[str, Any] = {name: getattr(record, name) for name in (*MEASURES, *CONVENTIONS)}
    match record.kept:
        case Windows() as kept:
            arrays = {name: pack(getattr(kept, name)) for name in ("head", "tail", "inner")}
            return body | {"windows": {"rows": kept.rows, **arrays}}
        case TimeScores() as kept:
            sums = {"scores": pack(kept.scores), "rows": pack(kept.rows)}
            return body | {"by_time": {"keys": [_plain(key) for key in kept.keys], **sums}}
    return body


def serial_from_json(body: dict[str, Any] | None) -> Serial | None:
    """The record of what `serial_to_json` made."""
    if body is None:
        return None
    lags, kept = int(body["lags"]), None
    if "windows" in body:
        held = body["windows"]
        arrays = (unpack(held[name]) for name in ("head", "tail", "inner"))
        kept = Windows(lags, int(held["rows"]), *arrays)
    if "by_time" in body:
        held = body["by_time"]
        keys = tuple(tuple(key) if isinstance(key, list) else key for key in held["keys"])
        kept = TimeScores(keys, unpack(held["scores"]), unpack(held["rows"]).astype(np.int64))
        if len(kept.scores) != len(keys) or len(kept.rows) != len(keys):
            raise ValueError(f"{len(kept.scores)} scores for {len(keys)} times")
    conventions = {name: body[name] for name in CONVENTIONS if name in body}
    return Serial(lags, int(body["times"]), body["b"], kept, **conventions)


def _plain(key: Any) -> Any:
    return list(key) if isinstance(key, tuple) else key

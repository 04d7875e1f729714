"""Times of rows as whole places on an axis, from the keys of their grouping.

By value, places are as far apart as the times are, in units of the greatest common divisor of their
distances: years 2000, 2005, 2010 are neighbours, and 2003 beside them would part them. Dates that
all fall on one day of the month, or all on its last, are counted in months, and others in days.
By rank the next time is the neighbour, however far away.
"""

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from masgrad.errors import InputError

MONTH_OR_QUARTER = re.compile(r"(\d{4})(?:[- ]?([QM])[- ]?|-)(\d{1,2})")
"""2024-03, 2024M03, 2024Q1, 2024-Q1."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Times:
    """Distinct times.

    Args:
        places: on the axis, (T,), from 0 on.
        unit: the distance of two places in words, such as "7 days"; None by rank.
        date: how a date is written that all times look like, which are read as whole numbers.
    """

    places: np.ndarray
    unit: str | None
    date: str = ""

    @property
    def length(self) -> int:
        """Number of places from the first time to the last."""
        return int(self.places.max()) + 1


class _Month(int):
    """The number of a month since year 0."""


def times_of(name: str, keys: Sequence[Any], gaps: str) -> Times:
    """The places of distinct times.

    Args:
        name: of the column, for messages.
        keys: the times, (T,): plain values, or tuples of them where columns are combined.
        gaps: "value" or "rank".
    """
    return _by_rank(name, keys) if gaps == "rank" else _by_value(name, keys)


def _by_rank(name: str, keys: Sequence[Any]) -> Times:
    values = list(zip(*map(_alike, zip(*map(_parts, keys), strict=True)), strict=True))
    try:
        order = sorted(range(len(keys)), key=values.__getitem__)
    except TypeError:
        raise InputError(
            f"{name} holds times of several kinds, which have no order; give whole "
            "numbers, or dates such as '2024-01-31'"
        ) from None
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys))
    return Times(places, None)


def _parts(key: Any) -> tuple[Any, ...]:
    """The keys that a key combines."""
    return key if isinstance(key, tuple) else (key,)


def _by_value(name: str, keys: Sequence[Any]) -> Times:
    if any(isinstance(key, tuple) for key in keys):
        raise InputError(
            f"time={name!r} combines columns, whose distances are not known; give one "
            "column of numbers or dates, or time_gaps='rank'"
        )
    times = _alike(keys)
    kinds = {type(time) for time in times}
    if len(kinds) != 1 or not kinds <= {int, _Month, date, datetime}:
        odd = next((time for time in times if isinstance(time, str)), times[0])
        raise InputError(
            f"{name} holds {odd!r} as a time; times are whole numbers, or dates such as "
            "'2024-01-31', all of one kind; time_gaps='rank' takes all that can be sorted"
        )
    kind = kinds.pop()
    values, unit = _numbers(times, kind)
    date_like = _date_like(values) if kind is int else ""
    values -= values.min()
    step = int(np.gcd.reduce(values)) or 1
    return Times(values // step, _in_words(step, unit), date_like)


def _in_words(step: int, unit: str) -> str:
    if unit == "microsecond":
        return f"{timedelta(microseconds=step)} h:mm:ss"
    return f"{step} {unit}{'s' * (step != 1)}" if unit else f"{step}"


def _numbers(times: list[Any], kind: type) -> tuple[np.ndarray, str]:
    """Times of one kind as whole numbers, and their unit."""
    if kind is datetime:
        return np.array([(t - EPOCH) // timedelta.resolution for t in times]), "microsecond"
    if kind is date:
        last = all(d.day == calendar.monthrange(d.year, d.month)[1] for d in times)
        if last or len({d.day for d in times}) == 1:
            return np.array([12 * d.year + d.month for d in times]), "month"
        return np.array([d.toordinal() for d in times]), "day"
    return np.array(times, np.int64), "month" if kind is _Month else ""


def _date_like(values: np.ndarray) -> str:
    """A date such as '2024-01' if whole numbers look like 202401, in several years; or ''.

    Likewise '2024-01-31' for 20240131, in several months. Their distances are not those of dates.
    """
    for digits, example in ((2, "2024-01"), (4, "2024-01-31")):
        year, rest = np.divmod(values, 10**digits)
        month, day = (rest, np.ones_like(rest)) if digits == 2 else np.divmod(rest, 100)
        alike = (year >= 1800) & (year <= 2200) & (month >= 1) & (month <= 12)
        if (alike & (day >= 1) & (day <= 31)).all() and len(np.unique(values // 100)) > 1:
            return example
    return ""


def _alike(keys: Sequence[Any]) -> list[Any]:
    """Keys as times; a date among moments is its midnight."""
    times = [_time(key) for key in keys]
    if any(type(time) is datetime for time in times):
        midnights = datetime.min.time()
        return [datetime.combine(t, midnights, UTC) if type(t) is date else t for t in times]
    return times


def _time(key: Any) -> Any:
    """A key as a whole number, a month, a date or a moment; other text as it is."""
    if isinstance(key, float) and key.is_integer():
        return int(key)
    if isinstance(key, int):
        return int(key)
    text = str(key)
    if found := MONTH_OR_QUARTER.fullmatch(text):
        part = int(found[3]) * (3 if found[2] == "Q" else 1)
        return _Month(12 * int(found[1]) + part) if 1 <= part <= 12 else text
    for read in (int, date.fromisoformat, _moment):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def _moment(text: str) -> datetime:
    """A date with a time of day; without a zone it is one of UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

"""Lag products within the units of a panel: rows of different units are independent.

Scores are kept with their unit and time until they fill the memory. Then the sums of all units but
that of the last row are taken and their scores let go: a unit whose rows stand together needs no
more memory than its own rows, in a table of any length. A unit that comes back later is refused.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from masgrad.data.groupings.grouping import Grouping
from masgrad.errors import InputError
from masgrad.fitting.uncertainty.serial.windows import bartlett_with_gaps

COPIES = 4
"""Copies of the scores that their sums take, about."""


class UnitRows(NamedTuple):
    """Rows with the codes of their units, (n,), places in time, (n,), and scores, (n, p).

    If no places are given, (0,), rows are numbered in their order.
    """

    units: np.ndarray
    places: np.ndarray
    scores: np.ndarray


def _joined(parts: Sequence[UnitRows]) -> UnitRows:
    return UnitRows(*map(np.concatenate, zip(*parts, strict=True)))


class Within:
    """The sum over units of Bartlett's sums, of parts that come one after the other.

    Args:
        units: the grouping of the units.
        by_value: whether places are as far apart as they say; neighbours are lag 1 otherwise.
        lags: L; None if it is not known before all parts have come.
        memory: bytes of scores that may be kept.
    """

    def __init__(self, units: Grouping, by_value: bool, lags: int | None, memory: int):
        self.units, self.by_value, self.lags, self.memory = units, by_value, lags, memory
        self._kept: list[UnitRows] = []
        self._bytes, self._meat = 0, 0.0
        self._rows, self._done = np.zeros(0, np.int64), np.zeros(0, bool)

    @property
    def longest(self) -> int:
        """The number of rows of the longest unit."""
        return int(self._rows.max())

    @property
    def count(self) -> int:
        """The number of units."""
        return int((self._rows > 0).sum())

    @property
    def spilled(self) -> bool:
        """Whether some units were summed before all parts had come."""
        return bool(self._done.any())

    def add(self, part: UnitRows) -> None:
        """Keep the rows of a part, or sum those of whole units where memory is full."""
        begin = int(self._rows.sum())
        if not len(part.places):
            part = part._replace(places=np.arange(begin, begin + len(part.units)))
        self._count(part.units)
        self._kept.append(part)
        self._bytes += COPIES * part.scores.nbytes
        if self._bytes > self.memory:
            self._let_go()

    def meat(self, lags: int) -> np.ndarray:
        """The sum over all units, (p, p)."""
        return self._meat + self._sum(_joined(self._kept), lags)

    def _count(self, units: np.ndarray) -> None:
        again = units[units < len(self._done)]
        again = again[self._done[again]]
        if again.size:
            raise self._too_large(f"{self._name(again[0])} comes back after rows of other units")
        rows = np.bincount(units, minlength=len(self._rows))
        rows[: len(self._rows)] += self._rows
        self._rows = rows

    def _let_go(self) -> None:
        """Take the sums of all units but the last one, and forget their rows."""
        part = _joined(self._kept)
        last = part.units == part.units[-1]
        if last.all():
            raise self._too_large(f"{self._name(part.units[-1])} alone has {len(last):,} rows")
        if self.lags is None:
            raise self._too_large("lags= by the longest unit are known only after all rows")
        before, rest = (UnitRows(*(a[mask] for a in part)) for mask in (~last, last))
        self._meat = self._meat + self._sum(before, self.lags)
        done = np.zeros(len(self._rows), bool)
        done[: len(self._done)] = self._done
        done[before.units] = True
        self._kept, self._done = [rest], done
        self._bytes = COPIES * rest.scores.nbytes

    def _sum(self, part: UnitRows, lags: int) -> np.ndarray:
        order = np.lexsort((part.places, part.units))
        units, places = part.units[order], part.places[order]
        twice = (np.diff(units) == 0) & (np.diff(places) == 0)
        if twice.any():
            raise InputError(
                f"{self._name(units[np.argmax(twice)])} has two rows of one time; HAC within units "
                "is for one row a unit and time: name what tells them apart, or use "
                "cov_type='cluster'"
            )
        at = places if self.by_value else np.arange(len(order))
        return bartlett_with_gaps(part.scores[order], at, lags, units)

    def _name(self, unit: int) -> str:
        return f"{self.units.name} {self.units.keys.key(int(unit))!r}"

    def _too_large(self, what: str) -> InputError:
        return InputError(
            f"{what}, and the scores of all rows are more than memory={self.memory / 2**20:,.0f}MB "
            "holds; sort the rows by unit and give lags=, or raise memory="
        )

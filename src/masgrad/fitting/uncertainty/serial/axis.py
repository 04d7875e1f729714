"""The axis of time of a panel: the times that rows of the fit have, and how far apart they are."""

from dataclasses import dataclass

import numpy as np

from masgrad.data.groupings.grouping import Grouping
from masgrad.fitting.uncertainty.serial.score_reader import Codes, ScoreReader
from masgrad.fitting.uncertainty.serial.times import Times, times_of
from masgrad.types import Rows


@dataclass(frozen=True)
class Axis:
    """The times of a column that rows of the fit have.

    Its grouping knows those of rows as well that are not in the fit, which would count as times
    and change how far apart others are.

    Args:
        name: of the column.
        times: their places.
        codes: of rows.
        place: by code, (number of codes,); only those of rows of the fit have one.
    """

    name: str
    times: Times
    codes: Codes
    place: np.ndarray

    @classmethod
    def of(cls, reading: ScoreReader, times: Grouping, codes: Codes) -> "Axis":
        """The axis of all rows, by a read of their times."""

        def met(rows: Rows) -> np.ndarray:
            return np.unique(codes(rows))

        none = np.zeros(times.size, bool)
        kept = np.flatnonzero(reading.gathered_rows(met, _mark, none, ordered=False))
        keys = [times.keys.key(code) for code in kept.tolist()]
        found = times_of(times.name, keys, reading.options.time_gaps)
        place = np.zeros(times.size, np.int64)
        place[kept] = found.places
        return cls(times.name, found, codes, place)

    @property
    def count(self) -> int:
        """T, the number of times."""
        return len(self.times.places)

    def places(self, rows: Rows) -> np.ndarray:
        return self.place[self.codes(rows)]


def _mark(seen: np.ndarray, codes: np.ndarray) -> None:
    seen[codes] = True

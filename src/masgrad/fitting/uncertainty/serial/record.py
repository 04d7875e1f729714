"""What a serial covariance was made of, as a result keeps it for rows that follow.

Rows that follow the old ones in time have neighbours among these: the last L scores are kept, or
the scores of each time. They are those at the old estimate. At the new one they are others by H_t
times the step, so that the lag products of the old rows are off by the order of the step, which
tends to 0 as the rows become many: an update with them is approximate.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.uncertainty.serial.windows import Windows


@dataclass(frozen=True)
class TimeScores:
    """Sums of scores by time.

    Args:
        keys: the times, (T,), plain values.
        scores: (T, p).
        rows: number of rows of each time, (T,).
    """

    keys: tuple[Any, ...]
    scores: np.ndarray
    rows: np.ndarray

    def in_coordinates(self, T: np.ndarray) -> "TimeScores":
        """The same scores where phi = T phi', in phi'."""
        return replace(self, scores=self.scores @ T)

    def then(self, later: "TimeScores") -> "TimeScores":
        """The sums over both; a time that is in both is one time."""
        codes = {key: code for code, key in enumerate(self.keys)}
        at = np.array([codes.setdefault(key, len(codes)) for key in later.keys], np.intp)
        new = len(codes) - len(self.keys)
        scores = np.concatenate([self.scores, np.zeros((new, self.scores.shape[1]))])
        rows = np.concatenate([self.rows, np.zeros(new, self.rows.dtype)])
        scores[at] += later.scores
        rows[at] += later.rows
        return TimeScores(tuple(codes), scores, rows)


@dataclass(frozen=True)
class Serial:
    """The lags of a serial covariance, and what later rows need of these.

    Args:
        lags: L of Bartlett's kernel.
        times: T, the number of times, or of rows in order.
        b: (L + 1) / T, for critical values at a fixed share of the times (`fixed_b`); None within
            the units of a panel, of which there are many.
        kept: windows over rows in order, or scores by time; None within units.
        chosen: whether the user chose L, rather than the rule for T times.
        small_sample: the convention of the factor and of the degrees of freedom.
        time_gaps: "value" or "rank", between times.
    """

    lags: int
    times: int
    b: float | None
    kept: Windows | TimeScores | None = None
    chosen: bool = False
    small_sample: str = "fixest"
    time_gaps: str = "value"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of a call that rows which follow get as these had them."""
        lags = self.lags if self.chosen else None
        return {"lags": lags, "small_sample": self.small_sample, "time_gaps": self.time_gaps}

    def in_coordinates(self, T: np.ndarray) -> "Serial":
        """The same record where phi = T phi', in phi'."""
        return self if self.kept is None else replace(self, kept=self.kept.in_coordinates(T))

    def then(self, later: "Serial") -> "Serial":
        """Both, of which the second follows in time."""
        if isinstance(self.kept, Windows) and isinstance(later.kept, Windows):
            if self.lags != later.lags:
                raise InputError(
                    f"the old rows have {self.lags} lags and the new ones {later.lags}; their sums "
                    f"are joined with the same: lags={self.lags}"
                )
            kept = self.kept.then(later.kept)
            return replace(self, times=kept.rows, b=(self.lags + 1) / kept.rows, kept=kept)
        if isinstance(self.kept, TimeScores) and isinstance(later.kept, TimeScores):
            kept = self.kept.then(later.kept)
            return replace(later, times=len(kept.keys), b=None, kept=kept)
        raise InputError(
            "old and new rows must both be in time order, or both have times; scores within units "
            "are not kept: fit all rows together"
        )

"""Scores by time: h_t, the sum of the scores of all rows of a time, in any order of rows.

meat = Bartlett's sum over h_t        (Driscoll & Kraay 1998; Newey & West 1987 if T = N)
"""

from typing import NamedTuple

import numpy as np

from masgrad.data.groupings.grouping import Grouping
from masgrad.errors import InputError
from masgrad.fitting.uncertainty.serial.record import TimeScores


class BlockByTime(NamedTuple):
    """The times of some rows by their codes, each once; sums of their scores; numbers of rows."""

    codes: np.ndarray
    scores: np.ndarray
    rows: np.ndarray


def block_by_time(codes: np.ndarray, scores: np.ndarray) -> BlockByTime:
    """Sums by time over rows with these codes, (n,), and scores, (n, p)."""
    order = np.argsort(codes, kind="stable")
    distinct, starts, rows = np.unique(codes[order], return_index=True, return_counts=True)
    return BlockByTime(distinct, np.add.reduceat(scores[order], starts), rows)


class ScoresByTime:
    """Sums over the parts seen so far, in their order.

    Args:
        grouping: of the times.
        p: number of parameters.
        memory: bytes that they may take.
    """

    def __init__(self, grouping: Grouping, p: int, memory: int):
        self.grouping, self.memory = grouping, memory
        self.scores, self.rows = np.zeros((0, p)), np.zeros(0, np.int64)

    def add(self, part: BlockByTime) -> None:
        """Add the sums over a part."""
        most, held = int(part.codes.max()) + 1, len(self.rows)
        if most > held:
            self._check_size(most)
            more = max(most, held + held // 2) - held
            self.scores = np.concatenate([self.scores, np.zeros((more, self.scores.shape[1]))])
            self.rows = np.concatenate([self.rows, np.zeros(more, np.int64)])
        self.scores[part.codes] += part.scores
        self.rows[part.codes] += part.rows

    def all(self) -> TimeScores:
        """The sums of all times that rows have."""
        seen = np.flatnonzero(self.rows)
        keys = tuple(self.grouping.keys.key(int(code)) for code in seen)
        return TimeScores(keys, self.scores[seen], self.rows[seen])

    def _check_size(self, times: int) -> None:
        p = self.scores.shape[1]
        if 8 * times * p > self.memory:
            raise InputError(
                f"{self.grouping.name} has {times:,} times or more, whose scores for {p} "
                f"parameters take {8 * times * p / 2**20:,.0f} MB, more than "
                f"memory={self.memory / 2**20:,.0f}MB; raise memory=, or for rows in time order "
                "leave time= out (cov_type='HAC')"
            )


def check_single_rows(found: TimeScores, name: str) -> None:
    """Refuse several rows of one time, whose order is not known."""
    if (found.rows > 1).any():
        k = int(np.argmax(found.rows > 1))
        raise InputError(
            f"{name} has {found.rows[k]:,} rows at {found.keys[k]!r}; HAC is for one row a time: "
            "give unit= for a panel, or cov_type='DK', which sums the rows of a time"
        )

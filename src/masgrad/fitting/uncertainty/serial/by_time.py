"""Scores by time: h_t, the sum of the scores of all rows of a time, in any order of rows.

meat = Bartlett's sum over h_t        (Driscoll & Kraay 1998; Newey & West 1987 if T = N)
"""

from collections.abc import Iterable
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


def scores_by_time(
    parts: Iterable[BlockByTime], grouping: Grouping, p: int, memory: int
) -> TimeScores:
    """Sums over all parts, added in their order.

    Args:
        parts: of the rows.
        grouping: of the times.
        p: number of parameters.
        memory: bytes that they may take.
    """
    scores, rows = np.zeros((0, p)), np.zeros(0, np.int64)
    for part in parts:
        most = int(part.codes.max()) + 1
        if most > len(rows):
            _check_size(grouping, most, p, memory)
            more = max(most, len(rows) + len(rows) // 2) - len(rows)
            scores = np.concatenate([scores, np.zeros((more, p))])
            rows = np.concatenate([rows, np.zeros(more, np.int64)])
        scores[part.codes] += part.scores
        rows[part.codes] += part.rows
    seen = np.flatnonzero(rows)
    keys = tuple(grouping.keys.key(int(code)) for code in seen)
    return TimeScores(keys, scores[seen], rows[seen])


def _check_size(grouping: Grouping, times: int, p: int, memory: int) -> None:
    if 8 * times * p > memory:
        raise InputError(
            f"{grouping.name} has {times:,} times or more, whose scores for {p} parameters take "
            f"{8 * times * p / 2**20:,.0f} MB, more than memory={memory / 2**20:,.0f}MB; raise "
            "memory=, or for rows in time order leave time= out (cov_type='HAC')"
        )


def check_single_rows(found: TimeScores, name: str) -> None:
    """Refuse several rows of one time, whose order is not known."""
    if (found.rows > 1).any():
        k = int(np.argmax(found.rows > 1))
        raise InputError(
            f"{name} has {found.rows[k]:,} rows at {found.keys[k]!r}; HAC is for one row a time: "
            "give unit= for a panel, or cov_type='DK', which sums the rows of a time"
        )

"""What is observed while rows are read: progress, their number, their order, and Ctrl-C.

In a random order, the mean gradients of successive segments of rows at one theta differ by sampling
error only: sum_b n_b (g_b - g)' M^-1 (g_b - g) is about chi-squared with p degrees of freedom for
every segment but one.
"""

import time
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.models.gram import factor
from masgrad.progress import Progress

SEGMENTS = 64
"""Neighbouring segments are merged in pairs when there are twice as many."""

DRIFT_LIMIT = 12.0
"""Standard deviations of the chi-squared statistic beyond which an order is not random."""

SMALLEST_MEDIAN = 0.4
"""Median size of segments' gradients, in standard deviations, in columns that all of them carry.

It is 0.67 for normal gradients, and about 0 where most segments hold no row of a rare level: there
a segment that holds a few is no outlier."""


class Monitor:
    """The state of the reads of one fit. The fit owns it, and `Reader` alone writes to it.

    Args:
        progress: the bar to show.
        pilot_rows: rows that were read before, as a sample: a complete read has at least as many.
        response_range: smallest and largest response among them.
    """

    def __init__(
        self,
        progress: Progress,
        pilot_rows: int = 0,
        response_range: tuple[float, float] = (np.inf, -np.inf),
    ):
        self.progress, self.pilot_rows = progress, pilot_rows
        self.response_range = response_range
        self.rows, self.length = 0, None
        self.interrupted = False
        self.started = time.perf_counter()
        self.restart()

    def restart(self) -> None:
        """Forget the segments: the next gradients are taken at another theta."""
        self.weights: list[float] = []
        self.sizes: list[int] = []
        self.gradients: list[np.ndarray] = []
        self.blocks_per_segment, self.blocks_in_last = 1, 0

    def state(self) -> Any:
        """All that has been seen but the time, for `restore`."""
        segments = [*self.weights], [*self.sizes], [*self.gradients]
        counts = self.blocks_per_segment, self.blocks_in_last
        return self.rows, self.length, self.response_range, *segments, *counts

    def restore(self, state: Any) -> None:
        """Have seen what was seen when the state was taken."""
        self.rows, self.length, self.response_range, *segments, each, last = state
        self.weights, self.sizes, self.gradients = map(list, segments)
        self.blocks_per_segment, self.blocks_in_last = each, last
        self.tick(0)

    def tick(self, rows: int) -> None:
        """Count rows, and show them."""
        self.rows += rows
        self.progress.update(self.rows)

    def see_responses(self, low: float, high: float) -> None:
        """Extend the range of the responses."""
        before = self.response_range
        self.response_range = min(before[0], low), max(before[1], high)

    def see_gradient(self, rows: int, weight: float, gradient: np.ndarray) -> None:
        """Add a block to the last segment, or begin another."""
        if self.blocks_in_last:
            self.sizes[-1] += rows
            self.weights[-1] += weight
            self.gradients[-1] = self.gradients[-1] + gradient
        else:
            self.sizes.append(rows)
            self.weights.append(weight)
            self.gradients.append(gradient)
        self.blocks_in_last = (self.blocks_in_last + 1) % self.blocks_per_segment
        if len(self.weights) == 2 * SEGMENTS and not self.blocks_in_last:
            self.weights, self.sizes = _in_pairs(self.weights), _in_pairs(self.sizes)
            self.gradients = _in_pairs(self.gradients)
            self.blocks_per_segment *= 2

    def check_length(self, rows: int) -> None:
        """Reject a complete read with another number of rows than an earlier one.

        A function that starts a stream may continue where it stopped instead of starting anew; an
        estimate from reads of different rows would be about none of them.
        """
        if self.interrupted:
            return
        if self.length is None:
            self.length = rows
        if rows != self.length:
            raise _lengths_differ(f"{self.length:,}", rows)
        if rows < self.pilot_rows:
            raise _lengths_differ(f"at least {self.pilot_rows:,}", rows)

    @property
    def rows_per_second(self) -> float:
        """Rows read in all, over the time since the fit began."""
        return self.rows / (time.perf_counter() - self.started)

    @property
    def has_segments(self) -> bool:
        """Whether there are enough segments to compare."""
        return len(self.weights) >= 4

    def drift(self, noise: np.ndarray) -> float:
        """Excess of the gradients' drift over that of a random order, in standard deviations.

        Args:
            noise: variance of the gradient of one observation, as the gradients were seen.
        """
        if not self.has_segments:
            return 0.0
        each, dof = self._statistics(noise)
        dof *= len(each) - 1
        return float((each.sum() - dof) / np.sqrt(2.0 * dof)) if dof else 0.0

    def outlying_segment(self, noise: np.ndarray, ordered: bool) -> tuple[float, str]:
        """Excess of the most outlying segment's gradient, in standard deviations, and its place.

        The place is empty if nothing can be judged: rare columns are left out.
        """
        common = self._common_columns(noise)
        if not common.any():
            return 0.0, ""
        each, dof = self._statistics(noise, common)
        worst = int(np.argmax(each))
        others = np.delete(each, worst).mean()
        begin, size = sum(self.sizes[:worst]), self.sizes[worst]
        place = f"rows {begin:,} to {begin + size:,}" if ordered else f"{size:,} neighbouring rows"
        return float((each[worst] - max(others, dof)) / np.sqrt(2.0 * max(dof, 1))), place

    def _common_columns(self, noise: np.ndarray) -> np.ndarray:
        """Mask of the columns that most segments carry; none if there are few segments."""
        if not self.has_segments:
            return np.zeros(len(noise), bool)
        n, away = self._deviations()
        middle, variance = np.median(n[:, None] * away**2, axis=0), np.diag(noise)
        return (variance > 0) & (middle > SMALLEST_MEDIAN**2 * variance)

    def _deviations(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the segments, and their mean gradients less that of all rows."""
        n, G = np.array(self.weights), np.array(self.gradients)
        return n, G / n[:, None] - G.sum(0) / n.sum()

    def _statistics(
        self, noise: np.ndarray, columns: np.ndarray | None = None
    ) -> tuple[np.ndarray, int]:
        """The chi-squared statistic of each segment, and its degrees of freedom."""
        n, away = self._deviations()
        columns = np.diag(noise) > 0 if columns is None else columns
        away, noise = away[:, columns], noise[columns][:, columns]
        if columns.any() and (found := factor(noise)) is not None:
            return n * np.square(found.whitened(away.T)).sum(0), len(noise)
        size = np.sqrt(np.diag(noise))
        values, Q = np.linalg.eigh(noise / np.outer(size, size))
        keep = values > 1e-9 * values.max(initial=0.0)
        along = (away / size) @ Q[:, keep]
        return (n[:, None] * along**2 / values[keep]).sum(1), int(keep.sum())


def _in_pairs(values: list) -> list:
    return [a + b for a, b in zip(values[::2], values[1::2], strict=True)]


def _lengths_differ(before: str, rows: int) -> InputError:
    return InputError(
        f"one read of the data gave {before} rows and a later one {rows:,}: every read must give "
        "the same rows; a function given to mg.Stream starts them anew at each call"
    )

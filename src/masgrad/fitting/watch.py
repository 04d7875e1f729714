"""What is watched while rows go by: progress, and whether their order is random.

If the order is random, the mean gradients of successive stretches of rows at one theta differ by
sampling error only: sum_b n_b (g_b - g)' M^-1 (g_b - g) is about chi-squared with p degrees of
freedom for each stretch but one.
"""

import threading

import numpy as np

from masgrad.progress import Progress

STRETCHES = 64
"""Neighbouring stretches are merged two by two when there are twice as many."""

SURPRISE = 12.0
"""Standard deviations of the chi-squared statistic at which an order is called one."""


class Watch:
    """Counts rows, and remembers the gradients of stretches of them."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.rows = 0
        self.lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        """Forget the gradients: the next ones are taken at another theta."""
        self.counts: list[float] = []
        self.seen: list[int] = []
        self.gradients: list[np.ndarray] = []
        self.grain, self.inside = 1, 0

    def tick(self, rows: int) -> None:
        with self.lock:
            self.rows += rows
            self.progress.update(self.rows)

    def __call__(self, rows: int, mass: float, gradient: np.ndarray) -> None:
        self.tick(rows)
        with self.lock:
            self._remember(rows, mass, gradient)

    def _remember(self, rows: int, mass: float, gradient: np.ndarray) -> None:
        if self.inside:
            self.seen[-1] += rows
            self.counts[-1] += mass
            self.gradients[-1] = self.gradients[-1] + gradient
        else:
            self.seen.append(rows)
            self.counts.append(mass)
            self.gradients.append(gradient)
        self.inside = (self.inside + 1) % self.grain
        if len(self.counts) == 2 * STRETCHES and not self.inside:
            self.counts = [a + b for a, b in zip(self.counts[::2], self.counts[1::2], strict=True)]
            self.seen = [a + b for a, b in zip(self.seen[::2], self.seen[1::2], strict=True)]
            pairs = zip(self.gradients[::2], self.gradients[1::2], strict=True)
            self.gradients = [a + b for a, b in pairs]
            self.grain *= 2

    def drift(self, meat: np.ndarray) -> float:
        """Standard deviations by which the gradient drifts more than random rows would.

        Args:
            meat: mean of g g' in the coordinates of the gradients that were seen.
        """
        if not self.examined:
            return 0.0
        each, free = self._surprises(meat)
        free *= len(each) - 1
        return float((each.sum() - free) / np.sqrt(2.0 * free)) if free else 0.0

    @property
    def examined(self) -> bool:
        """Whether there are stretches of rows to compare."""
        return len(self.counts) >= 4

    def outlying(self, meat: np.ndarray, ordered: bool) -> tuple[float, str]:
        """Standard deviations by which the gradient of one stretch stands out, and which it is."""
        if not self.examined:
            return 0.0, ""
        each, free = self._surprises(meat)
        worst = int(np.argmax(each))
        others = np.delete(each, worst).mean()
        begin, long = sum(self.seen[:worst]), self.seen[worst]
        place = f"rows {begin:,} to {begin + long:,}" if ordered else f"{long:,} neighbouring rows"
        return float((each[worst] - max(others, free)) / np.sqrt(2.0 * max(free, 1))), place

    def _surprises(self, meat: np.ndarray) -> tuple[np.ndarray, int]:
        """About chi-squared for each stretch if the order is random, and its degrees of freedom."""
        n, G = np.array(self.counts), np.array(self.gradients)
        away = G / n[:, None] - G.sum(0) / n.sum()
        size = np.sqrt(np.maximum(np.diag(meat), np.finfo(float).tiny))
        values, Q = np.linalg.eigh(meat / np.outer(size, size))
        keep = values > 1e-9 * values[-1]
        along = (away / size) @ Q[:, keep]
        return (n[:, None] * along**2 / values[keep]).sum(1), int(keep.sum())

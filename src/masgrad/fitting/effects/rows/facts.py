"""What the first read of rows with effects learns beside its sums."""

import numpy as np

from masgrad.fitting.effects.rows.kept import RowFacts
from masgrad.fitting.effects.rows.nesting import LevelClusters, Nesting


class Facts:
    """What the first read learns beside its sums.

    Args:
        room: bytes that the facts of rows may take; beyond that they are read again when needed.
        nesting: of effects in clusters.
        shards: among which the room is divided: what one cannot keep is not sent by it.
    """

    def __init__(self, room: int, nesting: Nesting, shards: int = 1):
        self.room, self.nesting, self.share = room, nesting, room // shards
        self.rows: list[RowFacts] | None = []
        self.largest: np.ndarray | float = 0.0
        self.responses, self.used = (np.inf, -np.inf), 0

    def add(
        self,
        rows: RowFacts,
        largest: np.ndarray | float,
        y: tuple[float, float],
        clusters: list[LevelClusters],
    ) -> None:
        """Take in those of a part."""
        self.nesting.add(clusters)
        self.used += rows.nbytes
        if self.rows is not None:
            self.rows.append(rows)
        if self.used > self.share:
            self.rows = None
        self._see(largest, y)

    def join(self, later: "Facts") -> None:
        """Take in those of rows that follow."""
        self.nesting.joined(later.nesting)
        self.used += later.used
        if self.rows is not None and later.rows is not None and self.used <= self.room:
            self.rows.extend(later.rows)
        else:
            self.rows = None
        self._see(later.largest, later.responses)

    def _see(self, largest: np.ndarray | float, y: tuple[float, float]) -> None:
        self.largest = np.maximum(self.largest, largest)
        low, high = self.responses
        self.responses = min(low, y[0]), max(high, y[1])

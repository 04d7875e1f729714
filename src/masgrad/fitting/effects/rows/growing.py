"""Sums over rows with effects, part after part."""

from typing import Any, NamedTuple

import numpy as np

from masgrad.fitting.effects.rows.facts import Facts
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.effects.total import GrowingSums, Room


class Part(NamedTuple):
    """Sums over a part of the rows.

    Args:
        sums: by level.
        rows: their number.
        scalars: numbers that are added.
        maxima: numbers of which the largest counts.
        first: what the first read learns of the part: the arguments of `Facts.add`.
    """

    sums: EffectSums
    rows: int
    scalars: np.ndarray
    maxima: np.ndarray
    first: tuple[Any, ...] | None = None


class Growing:
    """The total of the parts seen so far.

    Args:
        room: what there is memory for.
        facts: of a first read.
    """

    def __init__(self, room: Room, facts: Facts | None = None):
        self.sums, self.facts, self.rows = GrowingSums(room), facts, 0
        self.scalars: np.ndarray = np.zeros(1)
        self.maxima: np.ndarray = np.zeros(1)

    def plus(self, part: Part) -> "Growing":
        """The total with another part."""
        self.sums.add(part.sums)
        self._count(part.rows, part.scalars, part.maxima)
        if self.facts is not None and part.first is not None:
            self.facts.add(*part.first)
        return self

    def join(self, later: "Growing") -> "Growing":
        """The total of these rows and of those that follow."""
        self.sums = self.sums.join(later.sums)
        self._count(later.rows, later.scalars, later.maxima)
        if self.facts is not None and later.facts is not None:
            self.facts.join(later.facts)
        return self

    def _count(self, rows: int, scalars: np.ndarray, maxima: np.ndarray) -> None:
        self.rows += rows
        self.scalars = self.scalars + scalars
        self.maxima = np.maximum(self.maxima, maxima)

"""How many parameters effects are: levels, less those that others determine."""

from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.tables import EffectSums


class EffectCounts(NamedTuple):
    """How many parameters effects are.

    Args:
        levels: with rows, of each grouping.
        redundant: effects that the others determine. Of one grouping none, of two the number of
            connected components, which is exact. Of three and more the sum over groupings after
            the largest of its components with the largest: at least so many are redundant, so that
            the effects use at most sum(levels) - redundant parameters.
    """

    levels: tuple[int, ...]
    redundant: int

    @property
    def parameters(self) -> int:
        """Effects that are not redundant."""
        return sum(self.levels) - self.redundant


def effect_counts(sums: EffectSums) -> EffectCounts:
    """Count the effects' parameters."""
    levels = tuple(int((table.rows > 0).sum()) for table in sums.levels)
    main, total = largest(sums), 0
    for k in range(len(levels)):
        if k != main:
            total += sums.components(min(k, main), max(k, main)).count
    return EffectCounts(levels, total)


def largest(sums: EffectSums) -> int:
    """The grouping with most levels."""
    return int(np.argmax(sums.sizes))

"""How many parameters effects are: levels, less those that others determine."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.components import Components, effect_counts
from masgrad.fitting.effects.rows.kept import Kept
from masgrad.fitting.effects.tables import EffectSums


class Counted(NamedTuple):
    """Levels, components and parameters of effects.

    Args:
        sums: levels and pairs of levels that have rows.
        components: of the first grouping with each further one.
        parameters: effects that are not redundant.
    """

    sums: EffectSums
    components: tuple[Components, ...]
    parameters: int

    @classmethod
    def of(cls, sums: EffectSums, kept: Kept) -> "Counted":
        """The counts of the kept rows' levels."""
        sums = _of_kept(sums, kept)
        sizes, others = sums.sizes, range(1, len(sums.levels))
        components = tuple(Components.of(sums.pairs_of(0, k), (sizes[0], sizes[k])) for k in others)
        if len(components) == 1:
            return cls(sums, components, _levels(sums) - components[0].count)
        return cls(sums, components, effect_counts(sums).parameters)

    def balanced(self, levels: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Effects with the same sums in every row, and mean 0 in each further grouping's
        components."""
        first, *others = levels
        for k, (met, own) in enumerate(zip(self.components, others, strict=True)):
            known = met.second >= 0
            count = np.bincount(met.second[known], minlength=met.count)
            shift = np.bincount(met.second[known], own[known], met.count) / np.maximum(count, 1)
            shift = np.append(shift, 0.0)  # of no component
            others[k], first = own - shift[met.second], first + shift[met.first]
        return [first, *others]

    def outside(self, nested: np.ndarray) -> int:
        """Parameters of the effects that are not nested in clusters, but at least one."""
        if not nested.any():
            return self.parameters
        chosen = np.flatnonzero(~nested).tolist()
        if not chosen:
            return 1
        tables = tuple(self.sums.levels[k] for k in chosen)
        pairs = tuple(self.sums.pairs_of(k, m) for k, m in combinations(chosen, 2))
        return effect_counts(EffectSums(self.sums.products, tables, pairs)).parameters


def _levels(sums: EffectSums) -> int:
    return sum(int((table.rows > 0).sum()) for table in sums.levels)


def _of_kept(sums: EffectSums, kept: Kept) -> EffectSums:
    """The sums with rows and pairs of live levels alone, to be counted."""
    if kept.all:
        return sums
    lines = zip(sums.levels, kept.live, strict=True)
    tables = tuple(table._replace(rows=table.rows * live) for table, live in lines)
    pairs, places = [], combinations(range(len(tables)), 2)
    for (k, m), part in zip(places, sums.pairs, strict=True):
        pairs.append(part.only(kept.live[k][part.first] & kept.live[m][part.second]))
    return EffectSums(sums.products, tables, tuple(pairs))

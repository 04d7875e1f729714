"""How many parameters effects are: levels, less those that others determine."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.components import Components
from masgrad.fitting.effects.counting import effect_counts
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
        components = tuple(sums.components(0, k) for k in range(1, len(sums.levels)))
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
        return effect_counts(self.sums.of_groupings(chosen)).parameters


def _levels(sums: EffectSums) -> int:
    return sum(int((table.rows > 0).sum()) for table in sums.levels)


def _of_kept(sums: EffectSums, kept: Kept) -> EffectSums:
    """The sums with rows and pairs of live levels alone, to be counted."""
    if kept.all:
        return sums
    lines = zip(sums.levels, kept.live, strict=True)
    tables = tuple(table._replace(rows=table.rows * live) for table, live in lines)
    met = list(combinations(kept.live, 2))
    if sums.unpaired is not None:
        found = zip(sums.unpaired.components, met, strict=True)
        components = tuple(one.only(*live) for one, live in found)
        unpaired = sums.unpaired._replace(components=components)
        return EffectSums(sums.products, tables, (), unpaired)
    lines = zip(sums.pairs, met, strict=True)
    pairs = tuple(one.only(a[one.first] & b[one.second]) for one, (a, b) in lines)
    return EffectSums(sums.products, tables, pairs)

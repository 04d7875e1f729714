"""Keys of groups, learned from all shards before any sum is taken: codes are the same everywhere.

Each shard tells its distinct keys, and of combined ones the combinations that occur. They are given
codes in the order of the shards, after which no key is added.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.groupings.combined import CombinedKeys
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.groupings.keys import Keys
from masgrad.data.source import Source
from masgrad.fitting.objective.totals import ALL_BLOCKS, Addition
from masgrad.types import Rows


class Learned(NamedTuple):
    """What a shard has learned.

    Args:
        keys: of each column.
        combinations: of the codes of columns, (m, columns), for each grouping that combines some.
    """

    keys: list[list[Any]]
    combinations: list[np.ndarray]


def learn_keys(source: Source) -> None:
    """Fill the keys of the source's groupings, by a read."""
    columns, combined = _columns(source.groupings), _combined(source.groupings)
    if not any(keys.learns for keys in (*columns, *combined)):
        return

    def work(rows: Rows) -> bool:
        return True  # keys are learned while blocks are made

    def pack(_: bool) -> Learned:
        made = [np.column_stack(keys.columns_of(np.arange(len(keys)))) for keys in combined]
        return Learned([keys.values for keys in columns], made)

    def join(_: Any, found: Learned) -> None:
        own = [keys.codes_of_distinct(new) for keys, new in zip(columns, found.keys, strict=True)]
        of_column = {id(keys): codes for keys, codes in zip(columns, own, strict=True)}
        for keys, codes in zip(combined, found.combinations, strict=True):
            pairs = zip(keys.columns, codes.T, strict=True)
            keys.codes_of([of_column[id(column)][code] for column, code in pairs])

    addition = Addition(lambda a, b: a, None, join, pack)
    for _, part in source.spread.totals(source, work, ALL_BLOCKS, addition):
        if part is not None:
            join(None, part)


def _columns(groupings: Sequence[Grouping]) -> list[Keys]:
    """The keys of single columns, each once."""
    found: dict[int, Keys] = {}
    for grouping in groupings:
        keys = grouping.keys
        for one in keys.columns if isinstance(keys, CombinedKeys) else (keys,):
            found.setdefault(id(one), one)
    return list(found.values())


def _combined(groupings: Sequence[Grouping]) -> list[CombinedKeys]:
    return [grouping.keys for grouping in groupings if isinstance(grouping.keys, CombinedKeys)]

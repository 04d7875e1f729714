"""Keys of groups, learned from all shards before any sum is taken: codes are the same everywhere.

Each shard tells its distinct keys, and of combined ones the pairs that occur. They are given codes
in the order of the shards, after which no key is added.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from masgrad.data.groupings.combined import CombinedKeys
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.groupings.keys import Keys
from masgrad.data.regression import groups_of
from masgrad.data.source import Source
from masgrad.fitting.objective.totals import ALL_BLOCKS, Addition
from masgrad.types import Rows

Learned = tuple[list[list[Any]], np.ndarray]
"""Keys of each column, and the distinct combinations of their codes that occur, (m, columns)."""


def learn_keys(source: Source) -> None:
    """Fill the keys of the source's groupings, by a read."""
    groupings = source.groupings
    if not groupings:
        return
    columns = _columns(groupings)

    def work(rows: Rows) -> Learned:
        codes = groups_of(rows)
        assert codes is not None
        return [[], np.unique(_by_column(groupings, codes), axis=0)]

    def join(_: Any, later: Learned) -> Learned:
        keys, combinations = later
        own = [c.codes_of_distinct(values) for c, values in zip(columns, keys, strict=True)]
        every = [own[k][combinations[:, k]] for k in range(len(columns))]
        _combine(groupings, columns, every)
        return later

    addition = Addition(_both, None, join, lambda found: ([c.values for c in columns], found[1]))
    for _, part in source.spread.totals(source, work, ALL_BLOCKS, addition):
        if part is not None:
            join(None, part)
    for grouping in groupings:
        grouping.keys.close()


def _both(a: Learned, b: Learned) -> Learned:
    return a[0], np.unique(np.concatenate([a[1], b[1]]), axis=0)


def _columns(groupings: Sequence[Grouping]) -> list[Keys]:
    """The keys of single columns, each once."""
    found: dict[int, Keys] = {}
    for grouping in groupings:
        keys = grouping.keys
        for one in keys.columns if isinstance(keys, CombinedKeys) else (keys,):
            found.setdefault(id(one), one)
    return list(found.values())

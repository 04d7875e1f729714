"""What reads have learned beside their totals: keys of groups, and rows that were left out.

A read that is answered from the journal does not see the rows. What it would have learned of them
is kept with its total, as far as it is new since the read before.
"""

from typing import Any, NamedTuple

import numpy as np

from masgrad.data.groupings.combined import CombinedKeys
from masgrad.data.groupings.keys import Keys
from masgrad.data.left_out import LeftOut
from masgrad.data.source import Source


class Learned(NamedTuple):
    """What is known after a read.

    Args:
        begins: the number of keys of each column before.
        keys: those that are new.
        left_out: counts of rows that are left out; None if none may be.
        source: what the source remembers of its medium.
    """

    begins: list[int]
    keys: list[Any]
    left_out: Any
    source: Any


class Memory:
    """What the reads of a source learn.

    Args:
        source: of all rows.
        left_out: where rows that are left out are counted.
    """

    def __init__(self, source: Source, left_out: LeftOut | None):
        self.source, self.left_out = source, left_out
        self.known: dict[int, int] = {}

    def new(self, whole: bool) -> Learned:
        """What has been learned since the last whole read, of which this may be one."""
        every = {k: one.values for k, one in enumerate(self.keys)}
        begins = [self.known.get(k, 0) for k in every]
        found = [values[begin:] for begin, values in zip(begins, every.values(), strict=True)]
        if whole:
            ends = zip(begins, found, strict=True)
            self.known = {k: begin + len(new) for k, (begin, new) in enumerate(ends)}
        counted = None if self.left_out is None else self.left_out.state()
        return Learned(begins, [_compact(values) for values in found], counted, self.source.state())

    def restore(self, learned: Learned, whole: bool) -> None:
        """Know what was learned by a read, or by the part of it, that is not made again."""
        for keys, begin, new in zip(self.keys, learned.begins, learned.keys, strict=True):
            values = new.tolist() if hasattr(new, "tolist") else new
            keys.extend(values[len(keys) - begin :])
        ends = zip(learned.begins, learned.keys, strict=True)
        self.known = {k: begin + whole * len(new) for k, (begin, new) in enumerate(ends)}
        if self.left_out is not None:
            self.left_out.restore(learned.left_out)
        self.source.restore(learned.source)

    @property
    def keys(self) -> list[Keys]:
        """The keys of columns and of their combinations, each once."""
        found: dict[int, Keys] = {}
        for grouping in self.source.groupings:
            for one in _parts(grouping.keys):
                found.setdefault(id(one), one)
        return list(found.values())

    @property
    def live(self) -> list[Any]:
        """Objects that totals refer to, and that stay what they are."""
        groupings = self.source.groupings
        return [*self.keys, *groupings, groupings]


def _parts(keys: Keys) -> list[Keys]:
    """Combined keys, after those that they are made of."""
    if not isinstance(keys, CombinedKeys):
        return [keys]
    return [*keys.columns, *keys.stages, keys]


def _compact(values: list[Any]) -> Any:
    """Whole numbers as an array, which takes a fraction of the time to write."""
    plain = bool(values) and all(type(value) is int for value in values)
    fit = plain and max(max(values), -min(values)) < 2**63
    return np.array(values, np.int64) if fit else values

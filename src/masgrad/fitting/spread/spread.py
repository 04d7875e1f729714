"""Sums over rows where they are: every shard is read by whichever worker is free.

A round says what is summed, and each shard sends back one total, O(p^2) numbers for the local model
of a regression. Totals are joined in the order of the shards, so that neither the number of workers
nor their speed changes a digit.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from masgrad.data.groupings.keys import Keys
from masgrad.data.left_out import LeftOut
from masgrad.data.shards.shards import Shards
from masgrad.data.source import Source
from masgrad.distributed.payload import Packer
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.totals import Addition, Cut
from masgrad.fitting.spread.shard_reads import Order, Place, ShardDone, read_shard
from masgrad.models.model import Model
from masgrad.types import Rows

MANY_KEYS = 256
"""Keys of groups that are sent once, and not with every round."""


class Spread:
    """Reads the shards of a source.

    Args:
        shards: and the cluster that reads them.
        left_out: where rows that are left out are counted.
    """

    def __init__(self, shards: Shards, left_out: LeftOut | None):
        self.shards, self.left_out, self.packer = shards, left_out, Packer(_stays)

    def part(self, source: Source, number: int) -> Source:
        """The rows of one shard, in this process."""
        return source.part(self.shards.shards[number], self.shards.held(number))

    def totals(
        self,
        source: Source,
        work: Callable[[Rows], Any],
        cut: Cut,
        addition: Addition,
        done: int = 0,
    ) -> Iterator[tuple[int, Any]]:
        """The rows of each shard, and its total, after those that are done."""
        order = Order(source.outline(), work, cut, addition, self.left_out)
        for parts in self._read(order, done):
            yield from parts

    def each(
        self, source: Source, work: Callable[[Rows], Any], cut: Cut, done: int
    ) -> Iterator[tuple[int, list[Any]]]:
        """The rows of each shard, and the results of `work` on its pieces, after those done."""
        for parts in self._read(Order(source.outline(), work, cut, None, self.left_out), done):
            yield sum(rows for rows, _ in parts), [part for _, part in parts]

    def _read(self, order: Order, begin: int) -> Iterator[list[tuple[int, Any]]]:
        self.shards.check()
        payload, parts = self.packer.pack(order)
        counting = nullcontext() if self.left_out is None else self.left_out.read()
        with counting as tally:
            if tally is not None and begin:
                tally.join(self.left_out.before)  # pyright: ignore
            done: ShardDone
            places, tasks = self._places()[begin:], self.shards.tasks
            for done in tasks.each(read_shard, payload, parts, places):
                if tally is not None and done.tally is not None:
                    tally.join(done.tally)
                yield done.parts

    def _places(self) -> list[Place]:
        shards = self.shards
        places = zip(range(len(shards.shards)), shards.begins, shards.shards, strict=True)
        return [Place(*place) for place in places]


def _stays(value: Any) -> bool:
    """Whether an object is the same in every round."""
    if type(value) is Keys:
        return len(value) > MANY_KEYS
    return isinstance(value, Model | Coordinates)

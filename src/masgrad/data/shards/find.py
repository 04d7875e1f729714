"""Levels of categories in all shards of a table: found by workers, numbered by all rows."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import pyarrow as pa

from masgrad.data.left_out import Tally
from masgrad.data.shards.outline import Outline
from masgrad.data.tables.levels import Found
from masgrad.data.tables.medium import Medium
from masgrad.distributed.held import Shipped
from masgrad.distributed.payload import Packer, unpack
from masgrad.distributed.tasks import Tasks


class _Search(NamedTuple):
    """What workers are asked for."""

    outline: Outline
    names: Sequence[str]
    weight: str | None


class _InShard(NamedTuple):
    """The levels of a shard, columns that turned out to be text, and the rows left out."""

    found: dict[str, Found]
    text: dict[str, pa.DataType]
    tally: Tally | None


def find_levels(
    tasks: Tasks, shards: Sequence[Any], medium: Medium, names: Sequence[str], weight: str | None
) -> dict[str, Found]:
    """The levels of columns; what a shard reads as text is text in all of them."""
    while True:
        found, text = _round(tasks, shards, medium, names, weight)
        if not text:
            return found
        medium.types.update(text)


def _round(
    tasks: Tasks, shards: Sequence[Any], medium: Medium, names: Sequence[str], weight: str | None
) -> tuple[dict[str, Found], dict[str, pa.DataType]]:
    search = _Search(Outline(medium.types, medium.complete), tuple(names), weight)
    payload, parts = Packer(lambda _: False).pack(search)
    found, text = {name: Found() for name in names}, {}
    complete = medium.complete
    with nullcontext() if complete is None else complete.left_out.read() as tally:
        done: _InShard
        for done in tasks.each(find_in_shard, payload, parts, shards):
            for name, more in done.found.items():
                found[name].join(name, more)
            text |= done.text
            if tally is not None and done.tally is not None:
                tally.join(done.tally)
    return found, text


def find_in_shard(payload: bytes, parts: Mapping[str, Shipped], shard: Any, data: Any) -> _InShard:
    """The levels of a shard."""
    search: _Search = unpack(payload, parts)
    complete = search.outline.complete
    if complete is None:
        return _InShard(*_find(search, shard, data), None)
    with complete.left_out.of_part() as tally:
        found = _find(search, shard, data)
    return _InShard(*found, tally)


def _find(
    search: _Search, shard: Any, data: Any
) -> tuple[dict[str, Found], dict[str, pa.DataType]]:
    medium = shard.open(search.outline, data)
    before = dict(medium.types)
    found = medium.find(search.names, search.weight)
    return found, {name: kind for name, kind in medium.types.items() if kind != before[name]}

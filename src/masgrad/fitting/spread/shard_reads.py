"""What a worker does: it reads one shard, and sends back what its rows add up to."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from masgrad.cores import own_cores
from masgrad.data.left_out import LeftOut, Tally
from masgrad.data.source import Source
from masgrad.distributed.held import Shipped
from masgrad.distributed.payload import unpack
from masgrad.distributed.tasks import Failed
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.objective import BadBlock
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition, Cut
from masgrad.progress import Progress
from masgrad.types import Rows, float64


class Order(NamedTuple):
    """What a round asks of every shard.

    Args:
        source: all rows, without them.
        work: on the rows of each piece.
        cut: into pieces.
        addition: of the results; None if each is wanted.
        left_out: where rows that are left out are counted.
    """

    source: Source
    work: Callable[[Rows], Any]
    cut: Cut
    addition: Addition | None
    left_out: LeftOut | None


class Place(NamedTuple):
    """A shard, and where it stands.

    Args:
        number: of the shard.
        begin: the number of its first row among all rows.
        shard: what is read.
    """

    number: int
    begin: int
    shard: Any


class ShardDone(NamedTuple):
    """What a shard gives.

    Args:
        parts: numbers of rows and results: one total, or one for each piece.
        tally: of the rows that were left out, if any may be.
    """

    parts: list[tuple[int, Any]]
    tally: Tally | None


def read_shard(
    payload: bytes, parts: Mapping[str, Shipped], place: Place, data: Any
) -> ShardDone | Failed:
    """Read a shard as a round asks; errors in its rows are results, for they would come again."""
    order: Order = unpack(payload, parts)
    shard = place.shard
    with np.errstate(over="ignore", invalid="ignore"), own_cores():
        try:
            return _read(order, place, data)
        except BadBlock as bad:
            return Failed(BadBlock(bad.rows, place.number))
        except (InputError, InputTypeError) as error:
            said = str(error)
            raise type(error)(said if shard.name in said else f"{shard.name}: {said}") from None


@float64
def _read(order: Order, place: Place, data: Any) -> ShardDone:
    if order.left_out is None:
        return ShardDone(_parts(order, place, data), None)
    with order.left_out.of_part() as tally:
        parts = _parts(order, place, data)
    return ShardDone(parts, tally)


def _parts(order: Order, place: Place, data: Any) -> list[tuple[int, Any]]:
    """The total of the shard with its number of rows, or the result of each piece."""
    source = order.source.part(place.shard, data).beginning_at(place.begin)
    reader = Reader(source, 1, Monitor(Progress(None, False)))
    if order.addition is None:
        return reader.numbered(order.work, order.cut)
    total = reader.total(order.work, order.addition, 1, order.cut)
    pack = order.addition.pack
    total = total if total is None or pack is None else pack(total)
    return [(reader.monitor.rows, total)]

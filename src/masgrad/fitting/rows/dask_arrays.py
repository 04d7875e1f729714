"""Rows that Dask holds as arrays, or as X and y of its data frames: chunk after chunk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from masgrad.data.arrays import BLOCK
from masgrad.data.groupings.given import ArrayGroups, Asked, check_is_array
from masgrad.data.left_out import LeftOut, Tally
from masgrad.data.shards.arrays import ArrayShard, Chunk, DaskArrays
from masgrad.data.shards.collections import aligned, is_dask_frame, lengths_of, rows_of, size_of
from masgrad.data.stream import Block, Stream
from masgrad.errors import InputTypeError
from masgrad.fitting.rows.loss import rows_of_block
from masgrad.fitting.rows.regression import regression_checker
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.types import Rows


def dask_regression(
    model: GLM,
    data: Any,
    block: int | None,
    roles: Mapping[str, Any],
    groups: Sequence[Asked],
    *,
    left_out: LeftOut | None,
    client: Any,
    memory: int,
) -> DaskArrays:
    """The rows of X and y, and what stands beside them.

    Args:
        model: the regression.
        data: (X, y), one of which Dask holds.
        block: rows of a block.
        roles: weights, offset and exposure: None, or arrays.
        groups: clusters and the like, as arrays.
        left_out: which rows are left out.
        client: of the cluster that reads them; None if this process does.
        memory: bytes of chunks that a worker may keep from one read to the next.
    """
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise InputTypeError("a regression on Dask arrays needs (X, y), or a formula and a table")
    X, y = data
    coded, missing = ArrayGroups(), left_out is not None
    coded.begin(groups)
    named = {"X": X, "y": y, **_beside(roles, groups)}
    parts = partial(_regression_of, _without_values(groups))
    check = regression_checker(model, coded, missing, parts)
    names = tuple(map(str, X.columns)) if is_dask_frame(X) else ()
    count = rows_of(named) if roles["weights"] is None and not missing else None
    stream = _stream(check, block, True, coded, left_out)
    return _source(named, names, count, stream, client, memory)


def dask_rows(
    model: Model,
    data: Any,
    block: int | None,
    weights: Any,
    groups: Sequence[Asked],
    *,
    left_out: LeftOut | None,
    client: Any,
    memory: int,
) -> DaskArrays:
    """The rows of another loss: an array, or a pytree of arrays; the others as above."""
    import jax

    leaves, tree = jax.tree.flatten(data)
    coded, missing = ArrayGroups(), left_out is not None
    coded.begin(groups)
    keys = tuple(f"data[{k}]" for k in range(len(leaves)))
    named: dict[str, Any] = dict(zip(keys, leaves, strict=True))
    named |= _beside({"weights": weights}, groups)
    rest = _without_values(groups)

    def check(chunk: Chunk, tally: Tally) -> Rows | None:
        rows = jax.tree.unflatten(tree, [chunk[key] for key in keys])
        carried = Block(rows, weights=chunk.get("weights"), **_groups_by_role(rest, chunk))
        return rows_of_block(model, carried, tally, coded=coded, missing=missing)

    count = rows_of(named) if weights is None and not missing else None
    stream = _stream(check, block, False, coded, left_out)
    return _source(named, (), count, stream, client, memory)


def _stream(
    check: Callable[[Any, Tally], Rows | None],
    block: int | None,
    real: bool,
    coded: ArrayGroups,
    left_out: LeftOut | None,
) -> Stream:
    """A stream that `_source` gives its chunks."""
    about: dict[str, Any] = {"groupings": coded.groupings, "left_out": left_out}
    return Stream(lambda: iter(()), True, block or BLOCK, check=check, real=real, **about)


def _source(
    named: Mapping[str, Any],
    names: tuple[str, ...],
    count: int | None,
    stream: Stream,
    client: Any,
    memory: int,
) -> DaskArrays:
    """The rows of arrays; few enough are kept by the workers, others computed in every read."""
    chunks = aligned(named)
    if client is None:
        return DaskArrays(stream, chunks, names, count)
    if size_of(named) <= memory * len(client.nthreads()):
        chunks = client.persist(chunks)
    from masgrad.data.shards.shards import Shards  # pyarrow

    lengths = lengths_of(named) or (None,) * len(chunks)
    shards = [ArrayShard(k, rows) for k, rows in enumerate(lengths)]
    return DaskArrays(stream, chunks, names, count, client, Shards(client, shards, chunks))


# What stands beside the rows of a chunk.


def _beside(roles: Mapping[str, Any], groups: Sequence[Asked]) -> dict[str, Any]:
    """Arrays beside the rows, by name."""
    for role, value in roles.items():
        if isinstance(value, str):
            raise InputTypeError(
                f"{role}={value!r} names a column, and arrays have no names; give an array, or a "
                "formula and a table"
            )
    for one in groups:
        check_is_array(one)
    given = {role: value for role, value in roles.items() if value is not None}
    return given | {_key(one): one.value for one in groups}


def _key(one: Asked) -> str:
    return f"{one.role}: {one.name}"


def _without_values(groups: Sequence[Asked]) -> tuple[Asked, ...]:
    return tuple(replace(one, value=None) for one in groups)


def _regression_of(
    groups: Sequence[Asked], chunk: Chunk
) -> tuple[Any, dict[str, Any], tuple[Asked, ...]]:
    """(X, y) of a chunk, what stands beside them by role, and groupings."""
    roles = {role: chunk.get(role) for role in ("weights", "offset", "exposure")}
    keys = tuple(replace(one, value=chunk[_key(one)]) for one in groups)
    return (chunk["X"], chunk["y"]), roles, keys


def _groups_by_role(groups: Sequence[Asked], chunk: Chunk) -> dict[str, dict[str, Any]]:
    """The groupings of a chunk as a block has them."""
    found: dict[str, dict[str, Any]] = {}
    for one in groups:
        found.setdefault(one.role, {})[one.name] = chunk[_key(one)]
    return found

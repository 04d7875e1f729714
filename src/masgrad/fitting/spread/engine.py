"""Which engine reads the rows of a fit: this process, or the workers of a Dask cluster.

with engine_of(options, data) as (options, client):
    source = as_source(..., client=client)
    source = read_by_workers(source, options.left_out, data)
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from masgrad.data.left_out import LeftOut
from masgrad.data.shards.collections import holds_dask
from masgrad.data.source import Source
from masgrad.data.tables.paths import expand, is_paths
from masgrad.errors import InputError
from masgrad.fitting.journal.journal import NO_JOURNAL, Journal
from masgrad.fitting.journal.learned import Learned, Memory
from masgrad.fitting.options import Options
from masgrad.stores.path import located


@contextlib.contextmanager
def engine_of(options: Options, data: Any) -> Iterator[tuple[Options, Any]]:
    """The options without their cluster, and its client; None if this process reads the rows.

    A cluster that is started here is closed at the end.
    """
    given = {"client": options.client, "scheduler": options.scheduler}
    here = replace(options, engine=None, client=None, scheduler=None)
    if engine_for(options, data) == "local":
        for name, value in given.items():
            if value is not None:
                raise InputError(
                    f"{name}= is for engine='dask'; give that as well, or leave it out"
                )
        yield here, None
        return
    _check_files(data, options)
    from masgrad.distributed.cluster import cluster, connected_client  # for such fits alone

    client = options.client
    if client is None and options.scheduler is None:
        client = connected_client()
    with cluster(client, options.scheduler) as found:
        yield here, found


def _check_files(data: Any, options: Options) -> None:
    """Refuse files that are not there before any process is started, and those of this one."""
    if not is_paths(data):
        return
    listed = data if isinstance(data, list) else [data]
    if any(str(path).startswith("memory://") for path in listed):
        raise InputError(
            "memory:// is in this process, and workers of engine='dask' are others; write the "
            "files where they see them, or leave engine= out"
        )
    expand(located(data, options.storage_options))


def engine_for(options: Options, data: Any) -> str:
    """Who reads: the engine that is asked for, or Dask if it holds the data."""
    return options.engine or ("dask" if holds_dask(data) else "local")


def read_by_workers(
    source: Source, left_out: LeftOut | None, what: Any, journal: Journal = NO_JOURNAL
) -> Source:
    """The source as workers read it, whose keys of groups are learned first.

    `what` is what the user gave, for messages.
    """
    from masgrad.data.shards.shards import not_spread  # pyarrow, for such fits alone
    from masgrad.fitting.spread.keys import learn_keys
    from masgrad.fitting.spread.spread import Spread

    if source.shards is None:
        raise not_spread(f"a {type(what).__name__}")
    source = source.read_by(Spread(source.shards, left_out))
    memory = Memory(source, left_out)

    def learned() -> Learned:
        learn_keys(source)
        return memory.new(whole=True)

    memory.restore(journal.remember("keys of groups", learned), whole=True)
    for grouping in source.groupings:
        grouping.keys.close()
    return source

"""The engine of a run as the user chooses it: this process, or a Dask cluster."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from masgrad.chains.engine.crew import Crew, Hire, Threads
from masgrad.chains.engine.program import Program
from masgrad.chains.engine.workers import Workers
from masgrad.cores import cores
from masgrad.distributed.cluster import cluster, connected_client
from masgrad.errors import InputError
from masgrad.kernels.kernel import State


@contextlib.contextmanager
def crews(engine: str | None, client: Any, scheduler: str | None) -> Iterator[Hire]:
    """Makes the crew of a run; what it needs is started when it is made, and closed in the end.

    Args:
        engine: "local" or None for threads of this process, or "dask".
        client: a `distributed.Client`, which stays open.
        scheduler: the address of a scheduler. With neither, the client is taken that the user has
            connected, or processes of this machine are started, as many as cores and groups allow.
    """
    with contextlib.ExitStack() as open_until_the_end:

        def hire(program: Program, states: Sequence[State]) -> Crew:
            given = connected_client() if client is None and scheduler is None else client
            own = given is None and scheduler is None
            count = min(cores(), len(states)) if own else None
            found = open_until_the_end.enter_context(cluster(given, scheduler, count))
            return Workers(found, program, states)

        yield hire if engine == "dask" else Threads


def check_engine(engine: Any, client: Any, scheduler: Any) -> None:
    """Refuse engines that do not exist, and a cluster that would not be used."""
    if engine not in (None, "local", "dask"):
        raise InputError(
            f"engine={engine!r:.40}; 'local' runs in this process, 'dask' on a Dask cluster"
        )
    name, value = ("client", client) if client is not None else ("scheduler", scheduler)
    if engine != "dask" and value is not None:
        raise InputError(
            f"{name}= is given, and this run would not use it; write engine='dask', {name}=..., or "
            f"leave {name} out"
        )
    if client is not None and scheduler is not None:
        raise InputError("client and scheduler are both given; one of them says where to compute")

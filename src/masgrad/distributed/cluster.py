"""The Dask cluster that does the work: the user's, or one of processes on this machine.

    with cluster(client, scheduler) as client:
        client.submit(...)

A cluster that is started here has one process for each core, with one thread of BLAS and XLA, and
is closed in the end. Dask trims the heap of its workers all the time, which makes NumPy's
temporaries 2.4 times slower: blocks below MALLOC_MMAP_THRESHOLD_ are kept on the heap instead.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import platform
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from masgrad import version
from masgrad.checks import check_count
from masgrad.cores import cores
from masgrad.errors import ClusterError, InputError, InputTypeError, MissingPackageError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx|inproc)://.+")
"""What the address of a scheduler looks like."""

CONNECT_SECONDS = 8.0
"""How long a scheduler may take to answer."""

WORKER_SECONDS = 30.0
"""How long a cluster may take to have its first worker."""

START_SECONDS = 60.0
"""How long the processes of a local cluster may take to start."""

ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
"""Variables of a local worker, which are read when a process starts: NPROC is XLA's and ours."""


@contextlib.contextmanager
def cluster(
    client: Any = None, scheduler: str | None = None, workers: int | None = None
) -> Iterator["Client"]:
    """A client of a cluster whose machines have the same masgrad as this one.

    Args:
        client: a `distributed.Client`, which stays open.
        scheduler: the address of a scheduler, such as "tcp://10.0.0.1:8786".
        workers: the number of processes on this machine, if neither is given; as many as cores.
    """
    check_dask()
    if client is not None and scheduler is not None:
        raise InputError("client and scheduler are both given; one of them says where to compute")
    if workers is not None and (client is not None or scheduler is not None):
        raise InputError(
            f"workers={workers} is for a cluster on this machine; a given one has its own"
        )
    with contextlib.ExitStack() as stack:
        if client is not None:
            found = _checked(client)
        elif scheduler is not None:
            found = stack.enter_context(_connect(scheduler))
        else:
            found = stack.enter_context(_start(workers))
        yield found


def check_dask() -> None:
    """Refuse to go on without Dask."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            f"engine='dask' needs the package dask ({error}); pip install \"masgrad[dask]\""
        ) from None


def connected_client() -> Any:
    """The client that the user has connected already; None if there is none."""
    check_dask()
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _checked(client: Any) -> "Client":
    """The user's client, if it is connected to a cluster that can do the work."""
    from distributed import Client

    if not isinstance(client, Client):
        raise InputTypeError(
            f"client={client!r:.80}; a distributed.Client is needed, such as Client(cluster); an "
            "address is scheduler='tcp://...'"
        )
    if client.asynchronous:
        raise InputTypeError("client is asynchronous; one of Client(..., asynchronous=False) waits")
    if client.status != "running":
        raise ClusterError(f"client={client!r:.80} is {client.status}; connect a new one")
    check_cluster(client)
    return client


@contextlib.contextmanager
def _connect(address: Any) -> Iterator["Client"]:
    from distributed import Client

    if not isinstance(address, str):
        raise InputTypeError(f"scheduler={address!r:.80}; an address, 'tcp://10.0.0.1:8786'")
    if not ADDRESS.fullmatch(address):
        raise InputError(
            f"scheduler={address!r} is no address of a Dask scheduler; it prints one when it "
            "starts, such as 'tcp://10.0.0.1:8786'"
        )
    with _quiet():
        try:
            _ask(address)
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # what answers may be anything: a web server, another protocol
            raise ClusterError(
                f"scheduler={address!r} does not answer as a Dask scheduler within "
                f"{CONNECT_SECONDS:g} seconds ({type(error).__name__}: {error!s:.200}); check that "
                "`dask scheduler` runs there, that it prints this address and port, and that no "
                "firewall is in between"
            ) from None
    with client:
        check_cluster(client)
        yield client


def _ask(address: str) -> None:
    """Ask a scheduler who it is: the timeout of a Dask client does not cover the first greeting."""
    from distributed.core import rpc
    from distributed.security import Security

    async def identity() -> Any:
        machine = rpc(address, connection_args=Security().get_connection_args("client"))
        try:
            return await asyncio.wait_for(machine.identity(), CONNECT_SECONDS)
        finally:
            await machine.close_rpc()

    with ThreadPoolExecutor(1) as pool:  # a notebook's thread has a loop that runs already
        found = pool.submit(lambda: asyncio.run(identity())).result()
    if found["type"] != "Scheduler":
        raise ConnectionError(f"a {found['type']} answers")


@contextlib.contextmanager
def _start(workers: int | None) -> Iterator["Client"]:
    from distributed import Client

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ClusterError(
            "this script is imported by the processes that it starts, and would start more: put "
            "its commands under `if __name__ == '__main__':`, or give the client= of a cluster"
        )
    count = cores() if workers is None else check_count("workers", workers)
    with _quiet(), _processes(count) as local, Client(local, set_as_default=False) as client:
        client.register_plugin(_deaf())
        yield client


def _deaf() -> Any:
    """Lets workers ignore Ctrl-C, which a terminal sends to all: this process closes them."""
    from distributed import WorkerPlugin

    class Deaf(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Deaf()


def _processes(count: int) -> "LocalCluster":
    """Processes of one thread; what they hold is bounded by their tasks, not by Dask."""
    import dask.config
    from distributed import LocalCluster

    prefix = "distributed.nanny.pre-spawn-environ"
    settings = {f"{prefix}.{name}": value for name, value in ENVIRONMENT.items()}
    try:
        with dask.config.set(settings):
            return LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                silence_logs=logging.CRITICAL,
            )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ClusterError(
            f"{count} processes of a local cluster cannot be started ({error!s:.200}); in a script "
            "its commands belong under `if __name__ == '__main__':`, and a session without a file "
            "gives the client= of a cluster that runs"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Inside, Dask logs nothing: errors of tasks are raised here."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


# The same versions everywhere.


def versions() -> dict[str, str]:
    """What a machine computes with."""
    return version.versions() | {"Python": ".".join(platform.python_version_tuple()[:2])}


def check_cluster(client: "Client") -> None:
    """Refuse a cluster without workers, or whose machines have other versions than this one."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ClusterError(
            f"the scheduler {address_of(client)} has no workers after {WORKER_SECONDS:.0f} "
            f"seconds; start some, `dask worker {address_of(client)}`, or scale the cluster"
        ) from None
    here = versions()
    others: Any = client.run(versions, on_error="return")
    for machine, there in {"the scheduler": _of_scheduler(client), **others}.items():
        if there != here:
            raise ClusterError(
                f"{_named(machine)} has {_said(there)}, and this process {_said(here)}; install "
                "the same versions on all machines, and start their workers again"
            )


def address_of(client: "Client") -> str:
    return str(getattr(client.scheduler, "address", "of this client"))


def _of_scheduler(client: "Client") -> Any:
    try:
        return client.run_on_scheduler(versions)
    except Exception as error:
        return error


def _named(machine: str) -> str:
    return machine if machine.startswith("the ") else f"the worker {machine}"


def _said(found: Any) -> str:
    if isinstance(found, dict):
        return ", ".join(f"{name} {number}" for name, number in found.items())
    return f"no masgrad that can be used, or an older one ({type(found).__name__}: {found!s:.100})"

"""One task for each shard of the data, and their results in the order of the shards.

Tasks are futures, which Dask computes again when a worker dies: a shard's result does not depend on
the worker, and results come in a fixed order, so that a killed worker changes no digit. What a
round is told is held by the scheduler, which no killed worker takes along. A task that fails is
tried again, since a disk or a network may have been the reason; errors that masgrad raises on
purpose would come again, and are results.
"""

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from masgrad.distributed.held import Shipped, forget
from masgrad.errors import ClusterError, MasgradError, UnreadableError

RETRIES = 2
"""How often a task is tried again."""

SMALL = 1 << 16
"""Bytes that go along with every task; more are sent once to each worker."""


@dataclass(frozen=True)
class Failed:
    """The error of a task that would come again."""

    error: BaseException


@contextlib.contextmanager
def quiet_about_size() -> Iterator[None]:
    """Inside, Dask does not warn of large graphs, as those of collections made in memory are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def result_of(client: Any, delayed: Any) -> Any:
    """The result of one task.

    Dask's own `compute` leaves a task of its event loop behind when Ctrl-C ends it, whose failure
    is printed some time later.
    """
    future = client.compute(delayed)
    try:
        return future.result()
    finally:
        future.release()  # not cancelled: the user may hold the same


class Tasks:
    """Runs tasks on the workers of a cluster.

    Args:
        client: of the cluster.
        names: of the shards, for messages.
        data: a Dask object or a value for each shard, None for shards that a worker reads itself.
        done: what a task does to its shard, for messages: it is "read", or "advanced".
    """

    def __init__(self, client: Any, names: Sequence[str], data: Sequence[Any], done: str = "read"):
        self.client, self.names, self.data, self.done = client, names, list(data), done
        self._parts: dict[str, Any] = {}

    def send(self, parts: dict[str, Shipped]) -> None:
        """Bring parts to as many workers as there are shards, before the first round.

        Large ones would otherwise be where they came first, and tasks would crowd there. By tasks,
        not by Dask's `replicate`: a worker may die meanwhile.
        """
        held = list(self._held(parts).values())
        where = {"allow_other_workers": True, "pure": False}
        workers = list(self.client.nthreads())[: len(self.names)]
        sent = [self.client.submit(_arrived, held, workers=[w], **where) for w in workers]
        self.client.gather(sent, errors="skip")

    def drop(self, digests: Collection[str]) -> None:
        """Take parts back from the workers: rows that no later round needs fill their memory."""
        for digest in digests:
            self._parts.pop(digest, None)
        self.client.run(forget, list(digests), on_error="ignore")

    def each(
        self,
        call: Callable[..., Any],
        payload: bytes,
        parts: dict[str, Shipped],
        each: Sequence[Any],
    ) -> Iterator[Any]:
        """`call(payload, parts, shard, data)` for every shard, or the last ones, in order.

        Args:
            call: a function of a module.
            payload: what all of them are told.
            parts: to which the payload refers.
            each: what each of them is told.
        """
        futures = self._submit(call, payload, parts, each)
        try:
            yield from self._in_order(futures)
        finally:
            self.client.cancel(futures)

    def _submit(
        self,
        call: Callable[..., Any],
        payload: bytes,
        parts: dict[str, Shipped],
        each: Sequence[Any],
    ) -> list[Any]:
        from dask.delayed import delayed

        held = self._held(parts)
        told = payload if len(payload) <= SMALL else self._hold(payload)
        task = delayed(_attempt, pure=False)
        tasks = [
            task(call, told, held, shard, data)
            for shard, data in zip(each, self.data[len(self.data) - len(each) :], strict=True)
        ]
        with quiet_about_size():
            return self.client.compute(tasks, retries=RETRIES)

    def _held(self, parts: dict[str, Shipped]) -> dict[str, Any]:
        """The parts on the cluster, each sent there once."""
        for digest, part in parts.items():
            if digest not in self._parts:
                self._parts[digest] = self._hold(part)
        return {digest: self._parts[digest] for digest in parts}

    def _hold(self, value: Any) -> Any:
        """A value that any worker can get, and get again should the one that has it die."""
        with quiet_about_size():
            return self.client.submit(_same, value, pure=False)

    def _in_order(self, futures: list[Any]) -> Iterator[Any]:
        for number, future in enumerate(futures, len(self.names) - len(futures)):
            try:
                done = future.result()
            except UnreadableError:  # which names the file
                raise
            except Exception as error:
                raise self._failed(number, error) from error
            future.release()
            if isinstance(done, Failed):
                raise done.error
            yield done

    def _failed(self, number: int, error: Exception) -> ClusterError:
        """The error for a shard that fails however often it is tried."""
        killed = type(error).__name__ == "KilledWorker"
        why = (
            f"a worker was killed each time it was {self.done}: is there too little memory for it?"
            if killed
            else f"{type(error).__name__}: {error!s:.300}"
        )
        return ClusterError(
            f"{self.names[number]} cannot be {self.done}, after {RETRIES + 1} attempts: {why}; the "
            "logs of the workers say more"
        )


def _arrived(parts: list[Shipped]) -> None:
    """Needs parts, and does nothing with them."""


def _same(value: Any) -> Any:
    return value


def _attempt(
    call: Callable[..., Any], payload: bytes, parts: dict[str, Shipped], shard: Any, data: Any
) -> Any:
    """The result of a task, or the error that masgrad raised on purpose."""
    try:
        return call(payload, parts, shard, data)
    except UnreadableError:  # which the next attempt may read
        raise
    except MasgradError as error:
        return Failed(error)

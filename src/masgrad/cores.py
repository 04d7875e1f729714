"""The cores of this process: how many there are, and who owns them.

Our own threads do, with one BLAS thread each, on all cores. Where rows come from files, the caller
decodes them, with Arrow's threads, while ours make blocks of them and sum: it waits as soon as a
few are waiting for these, so that cores go to whichever there is more of. Sums over blocks are
added in the order of the blocks: the number of threads changes no digit.
"""

import contextlib
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")


def cores() -> int:
    """NPROC, which XLA reads too, if it is a positive number; otherwise the cores granted to us."""
    wanted = os.environ.get("NPROC", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):  # neither on macOS nor on Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(work: Callable[[Item], Done], items: Iterable[Item], threads: int) -> Iterator[Done]:
    """Results of `work` in the order of the items, computed by several threads."""
    if threads == 1:
        yield from map(work, items)
        return
    waiting, interrupted = deque(), None
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
        except KeyboardInterrupt as error:
            interrupted = error
        for job in waiting:  # after Ctrl-C as well: these were read
            yield job.result()
    if interrupted is not None:
        raise interrupted


def prefetch(blocks: Iterable[Any], depth: int = 2) -> Generator[Any]:
    """Read the blocks ahead in another thread while the caller computes."""
    waiting: queue.Queue = queue.Queue(depth)
    stopped = threading.Event()

    def put(item) -> None:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def read() -> None:
        try:
            for block in blocks:
                if stopped.is_set():
                    return
                put((block, None))
            put((None, None))
        except BaseException as error:  # the caller's to raise
            put((None, error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while True:
            block, error = waiting.get()
            if error is not None:
                raise error
            if block is None:
                return
            yield block
    finally:
        stopped.set()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # it looks for BLAS, which must be loaded

    return ThreadpoolController()


class _Fits:
    """Fits that are running in this process: the first sets limits, the last restores them."""

    lock = threading.Lock()
    running = 0
    blas: Any = None
    arrow = 0


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl grants that to one thread, and fits run in any."""
    from threadpoolctl import OpenBLASController

    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@contextlib.contextmanager
def own_cores() -> Iterator[None]:
    """Limit BLAS to one thread for each of ours, and Arrow to our cores."""
    with _Fits.lock:
        _Fits.running += 1
        if _Fits.running == 1:
            _take_control()
            _Fits.blas = _controller().limit(limits=1, user_api="blas")
        _Fits.arrow = _Fits.arrow or _limit_arrow()
    try:
        yield
    finally:
        with _Fits.lock:
            _Fits.running -= 1
            if _Fits.running == 0:
                _take_control()
                _Fits.blas.restore_original_limits()
                _restore_arrow()


def _limit_arrow() -> int:
    """Limit Arrow's threads and return their number before; 0 if nothing has imported Arrow."""
    if "pyarrow" not in sys.modules:
        return 0
    import pyarrow as pa

    before = pa.cpu_count()
    pa.set_cpu_count(min(before, cores()))
    return before


def _restore_arrow() -> None:
    if _Fits.arrow:
        import pyarrow as pa

        pa.set_cpu_count(_Fits.arrow)
        _Fits.arrow = 0

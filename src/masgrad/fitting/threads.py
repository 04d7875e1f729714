"""Who owns the cores: our own threads, with one BLAS thread each.

Rows in memory are summed on all cores. Where rows come from files, Arrow decodes them on one half
of the cores while the other half sums: on two cores one thread each was a quarter faster than two.
Sums over blocks are added in the order of the blocks: the number of threads changes no digit.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
from threadpoolctl import ThreadpoolController

from masgrad.cores import cores

Item = TypeVar("Item")
Done = TypeVar("Done")


def in_order(work: Callable[[Item], Done], items: Iterable[Item], threads: int) -> Iterator[Done]:
    """What work makes of each item, in the order of the items; a few are in work at once."""
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
        for job in waiting:  # on Ctrl-C too: these were read
            yield job.result()
    if interrupted is not None:
        raise interrupted


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _Fits:
    """Fits that run now in this process: the first sets limits, the last gives them back."""

    lock = threading.Lock()
    running = 0
    blas: Any = None
    arrow = 0


@contextlib.contextmanager
def own_cores() -> Iterator[None]:
    """Our own threads own the cores: BLAS gets one each, and Arrow one half of them."""
    with _Fits.lock:
        _Fits.running += 1
        if _Fits.running == 1:
            _Fits.blas = _controller().limit(limits=1, user_api="blas")
            _Fits.arrow = pa.cpu_count()
            pa.set_cpu_count(min(_Fits.arrow, half(cores())))
    try:
        yield
    finally:
        with _Fits.lock:
            _Fits.running -= 1
            if _Fits.running == 0:
                _Fits.blas.restore_original_limits()
                pa.set_cpu_count(_Fits.arrow)


def half(threads: int) -> int:
    """The share of those who read files, or of those who sum what is read."""
    return max(1, threads // 2)

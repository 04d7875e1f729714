"""Ctrl-C on the command line, which must not be lost, nor break what it meets.

JAX runs a callback (`_xla_gc_callback`) whenever Python collects garbage, and Python prints and
drops whatever is raised in one, or in a finalizer that the collection calls: a KeyboardInterrupt
that happens to be raised there would be swallowed, and the command go on to its end. A signal that
arrives there is asked for again a little later instead. Libraries that are stopped while they are
imported may end the process (JAX's do): until they are loaded, the signal waits as well.
"""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RETRY_SECONDS = 0.02
"""Delay until the next attempt to interrupt."""


@contextmanager
def heard() -> Iterator[None]:
    """Inside, Ctrl-C is a KeyboardInterrupt that reaches the command, whatever Python is doing.

    Nothing is changed where there is no such timer (Windows), where Ctrl-C is ignored (nohup), or
    where somebody else handles it.
    """
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not plain or not hasattr(signal, "setitimer"):
        yield
        return
    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGALRM, signal.SIGINT)
    }
    gc.callbacks.insert(0, _watch)
    try:
        yield
    finally:
        gc.callbacks.remove(_watch)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def postponed() -> Iterator[None]:
    """Inside, Ctrl-C waits for the end of the block, where it is a KeyboardInterrupt."""
    _Waiting.blocks += 1
    try:
        yield
    finally:
        _Waiting.blocks -= 1


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of both signals: Ctrl-C and its echo."""
    if _Waiting.blocks or _Garbage.collecting or _in_callback(frame):
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
    else:
        raise KeyboardInterrupt


class _Waiting:
    blocks = 0


class _Garbage:
    collecting = False


def _watch(phase: str, info: dict[str, int]) -> None:
    """The first callback: between its two phases finalizers run."""
    _Garbage.collecting = phase == "start"


def _in_callback(frame: FrameType | None) -> bool:
    """Whether a callback of the garbage collector is running, or something that it called."""
    codes = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False

"""Objects sent to workers, unpickled once in each process.

A loss defined in `__main__` or a notebook travels by value. Unpickled at every task it would be
another function each time, and JAX would compile it again: a worker keeps what it has unpickled,
by the hash of the bytes.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

from masgrad.errors import InputError

MOST_HELD = 16
"""Number of objects that a process keeps: those used last."""


@dataclass(frozen=True)
class Shipped:
    """An object as bytes; equal bytes are one object on a worker.

    Example:
        >>> sent = ship({"step": 0.1})
        >>> sent.here() is sent.here()
        True
    """

    payload: bytes = field(repr=False, compare=False)
    digest: str

    def here(self) -> Any:
        """The object, unpickled by the first call in this process."""
        with _Held.lock:
            if self.digest not in _Held.objects:
                import cloudpickle

                _Held.objects[self.digest] = cloudpickle.loads(self.payload)
            _Held.objects.move_to_end(self.digest)
            while len(_Held.objects) > MOST_HELD:
                _Held.objects.popitem(last=False)
            return _Held.objects[self.digest]


def forget(digests: Collection[str]) -> None:
    """Let this process drop the objects of these hashes."""
    with _Held.lock:
        for digest in digests:
            _Held.objects.pop(digest, None)


class _Held:
    """What this process has unpickled, the object used last at the end."""

    lock = threading.RLock()
    objects: ClassVar[OrderedDict[str, Any]] = OrderedDict()


def ship(value: Any) -> Shipped:
    """Pickle an object by value where it is defined in `__main__`, by reference otherwise."""
    import cloudpickle

    try:
        payload = cloudpickle.dumps(value)
    except Exception as error:
        raise unpicklable(value, error) from error
    return Shipped(payload, hashlib.sha256(payload).hexdigest())


def unpicklable(value: Any, error: Exception) -> InputError:
    """The error for an object that cannot be pickled."""
    return InputError(
        f"{value!r:.80} cannot be sent to other processes ({type(error).__name__}: "
        f"{error!s:.200}); it must not hold open files, locks or connections"
    )

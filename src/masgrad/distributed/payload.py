"""What a round of tasks is told, as bytes: small, because what stays the same was sent before.

A round says what is summed, and at which point. Parts of it that are the same in every round, such
as a loss, coordinates or the keys of groups, are pickled once (`Shipped`), and a worker unpickles
them once: a loss defined in a notebook is one function there, and is compiled once.
"""

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from masgrad.distributed.held import Shipped, ship, unpicklable
from masgrad.errors import MasgradError

IsPart = Callable[[Any], bool]
"""Whether an object stays the same from round to round, and is sent on its own."""


class Packer:
    """Packs rounds for workers, and remembers the parts that are sent on their own.

    Args:
        is_part: which objects these are.

    Example:
        >>> table = tuple(range(1000))
        >>> packer = Packer(lambda value: value is table)
        >>> payload, parts = packer.pack({"round": 1, "table": table})
        >>> len(payload) < 100, unpack(payload, parts)["table"] == table
        (True, True)
    """

    def __init__(self, is_part: IsPart):
        self.is_part = is_part
        self._known: dict[int, tuple[Any, Shipped]] = {}

    def pack(self, told: Any) -> tuple[bytes, dict[str, Shipped]]:
        """The bytes of a round, and the parts that it refers to, by their digests."""
        import cloudpickle

        used: dict[str, Shipped] = {}
        packer = self

        class Pickler(cloudpickle.Pickler):
            def persistent_id(self, obj: Any) -> str | None:
                if not packer.is_part(obj):
                    return None
                part = packer.part(obj)
                used[part.digest] = part
                return part.digest

        file = io.BytesIO()
        try:
            Pickler(file).dump(told)
        except MasgradError:  # of a part, which it names
            raise
        except Exception as error:
            raise unpicklable(told, error) from error
        return file.getvalue(), used

    def part(self, value: Any) -> Shipped:
        """The part as bytes, which are made once: the object is kept, so that its id is its own."""
        if id(value) not in self._known:
            self._known[id(value)] = value, ship(value)
        return self._known[id(value)][1]


def unpack(payload: bytes, parts: Mapping[str, Shipped]) -> Any:
    """What a round was told, with the parts that this process holds."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: str) -> Any:
            return parts[pid].here()

    return Unpickler(io.BytesIO(payload)).load()


def digest_of(payload: bytes) -> str:
    """The hash by which a payload is known."""
    return hashlib.sha256(payload).hexdigest()

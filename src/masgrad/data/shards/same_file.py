"""Whether a worker opens the file that was opened at first, and not one that replaced it.

Machines may see a shared file with different times of its last change, or copies of it, so that the
time is compared on the same machine alone. On all machines its size is, and the hash of its last
bytes: the footer of a Parquet or Arrow file, which says where each column lies and its least and
largest value. Of a file at a store its own mark is compared, such as an ETag.
"""

import hashlib
import platform
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from masgrad.errors import InputError
from masgrad.stores.path import AnyPath

LAST_BYTES = 1 << 16
"""Bytes at the end of a file whose hash is compared."""


@dataclass(frozen=True)
class FileMark:
    """What tells a file from others of its name.

    Args:
        size: in bytes.
        contents: the store's mark, or the hash of the last bytes.
        changed: the time of the last change, as this machine sees it; None at a store.
        machine: which this is.
    """

    size: int
    contents: str
    changed: int | None
    machine: str

    @classmethod
    def of(cls, path: AnyPath, stamp: tuple[int, Any]) -> "FileMark":
        """The mark of a file whose `Unchanged` has this stamp."""
        size, last = stamp
        if isinstance(path, Path):
            return cls(size, _hash_of_end(path, size), last, this_machine())
        return cls(size, str(last), None, "")

    def check(self, path: AnyPath, stamp: tuple[int, Any]) -> None:
        """Refuse another file than the one that has this mark."""
        found = FileMark.of(path, stamp)
        if found.machine != self.machine:
            found = replace(found, changed=self.changed, machine=self.machine)
        if found != self:
            raise InputError(
                f"{path} has changed while it was read, or is another file on the machine "
                f"{platform.node()}; fit again when it is complete, and the same for all workers"
            )


def _hash_of_end(path: Path, size: int) -> str:
    with path.open("rb") as file:
        file.seek(max(0, size - LAST_BYTES))
        return hashlib.sha256(file.read(LAST_BYTES)).hexdigest()


@cache
def this_machine() -> str:
    """The name of the machine, and of its last start where that has one."""
    started = ""
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{platform.node()} {started}"

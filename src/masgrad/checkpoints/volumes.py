"""Volumes: parts of a checkpoint that are written once, in files of their own beside it.

What a checkpoint has gathered grows, and would be written again at every save. So whatever is
complete goes into a volume as soon as there is much of it; the checkpoint itself lists the volumes
with their seals, and one that is missing, damaged or of another checkpoint is an error. A volume is
there before the checkpoint that lists it. Those that no checkpoint lists are left by processes that
were killed in between, and are removed.
"""

import glob
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from masgrad.checkpoints import file
from masgrad.errors import CheckpointError

TOKEN_BYTES = 4


class Volumes:
    """The volumes of a checkpoint.

    Args:
        path: of the checkpoint.
        listed: name and seal of each volume, in order.
    """

    def __init__(self, path: Path, listed: list[tuple[str, str]]):
        self.path, self.listed = path, listed

    def add(self, content: Any) -> None:
        """Write another volume."""
        token = secrets.token_hex(TOKEN_BYTES)
        path = self.path.with_name(f"{self.path.name}.{len(self.listed)}-{token}")
        file.write(path, file.Heading("volume", {}, "", True), content)
        self.listed.append((path.name, file.seal_of(path)))

    def read(self) -> Iterator[Any]:
        """The content of every volume."""
        for name, seal in self.listed:
            path = self.path.with_name(name)
            if not path.exists() or file.seal_of(path) != seal:
                raise CheckpointError(
                    f"{path}, a part of the checkpoint {self.path}, is missing or another one; "
                    "delete the checkpoint to begin anew"
                )
            yield file.read(path, lambda heading: None)[1]

    def remove_others(self) -> None:
        """Remove volumes beside the checkpoint that it does not list."""
        own = {name for name, _ in self.listed}
        pattern = f"{glob.escape(self.path.name)}.*-{'[0-9a-f]' * 2 * TOKEN_BYTES}"
        for found in self.path.parent.glob(pattern):
            number = found.name.removeprefix(f"{self.path.name}.").split("-")[0]
            if number.isdecimal() and found.name not in own:
                found.unlink(missing_ok=True)

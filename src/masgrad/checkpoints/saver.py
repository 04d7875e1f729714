"""`Saver`: when to save, where, and what may be continued.

Work that has begun asks `due()` as often as it could save; it is, once `every` seconds have passed
since the last save had ended. So a kill loses at most these seconds and one piece of work.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from masgrad.checkpoints import SECONDS, file
from masgrad.checkpoints.fingerprint import difference
from masgrad.checks import as_size
from masgrad.errors import CheckpointError, InputError, InputTypeError
from masgrad.files import check_destination, remove_leftovers


class Saver:
    """The checkpoint of one run or fit.

    Args:
        path: exactly this file is written.
        kind: "run" or "fit".
        fingerprint: what the checkpoint belongs to.
        every: seconds between saves; 0 saves at every opportunity.
        clock: seconds, from any origin.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        fingerprint: dict[str, str],
        every: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path, self.kind, self.fingerprint = path, kind, fingerprint
        self.every, self.clock = every, clock
        self.last = clock()

    def begin(self, resume: bool) -> tuple[file.Heading, Any] | None:
        """What was saved, if the work is to go on from it; None if it begins anew.

        A checkpoint of unfinished work is not overwritten unless it is continued.
        """
        check_destination(self.path)
        remove_leftovers(self.path)
        if not self.path.exists():
            return None
        if resume:
            return file.read(self.path, self._check)
        heading = file.read_heading(self.path)
        if heading.kind != self.kind or not heading.finished:
            raise CheckpointError(
                f"{self.path} holds an unfinished {heading.kind} ({heading.place}); give "
                "resume=True to go on from it, or another path, or delete it"
            )
        return None

    def due(self) -> bool:
        """Whether it is time to save."""
        return self.clock() - self.last >= self.every

    def save(self, state: Any, place: str, finished: bool = False) -> None:
        """Write the checkpoint; the next one is due `every` seconds from its end."""
        file.write(self.path, file.Heading(self.kind, self.fingerprint, place, finished), state)
        self.last = self.clock()

    def _check(self, heading: file.Heading) -> None:
        """Refuse to go on from the checkpoint of something else."""
        if heading.kind != self.kind:
            raise CheckpointError(f"{self.path} holds a {heading.kind}, and this is a {self.kind}")
        found = difference(heading.fingerprint, self.fingerprint)
        if found is not None:
            raise CheckpointError(
                f"{self.path} {found}; repeat the call that wrote it, or delete the file to begin "
                "anew"
            )


def check_checkpoint(path: Any, every: Any, resume: Any) -> Path | None:
    """The path of a checkpoint, with its options checked; None if there is none."""
    if not isinstance(resume, bool):
        raise InputTypeError(f"resume={resume!r}; True or False is needed")
    as_size("every", every, zero=True)
    if path is None:
        if resume:
            raise InputError("resume=True goes on from a checkpoint; give checkpoint=PATH")
        return None
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"checkpoint={path!r:.60}; the path of a file is needed")
    return Path(os.fspath(path)).expanduser()

"""Files of a table: as they were when they were opened, and the names of their rows."""

import os
from collections.abc import Sequence
from pathlib import Path

from masgrad.errors import InputError, UnreadableError
from masgrad.stores.path import AnyPath, side_by_side


class Unchanged:
    """Files as they were when they were opened: their sizes, and the times of their last change."""

    def __init__(self, paths: Sequence[AnyPath]):
        self.paths, self.absolute = paths, [path.absolute() for path in paths]
        self.stamps = self._now()

    def _now(self) -> list[tuple[int, int | str]]:
        return side_by_side(_stamp, self.absolute)

    def check(self) -> None:
        """Refuse files that have changed: their rows are no longer those of the read before."""
        for path, before, now in zip(self.paths, self.stamps, self._now(), strict=True):
            if before != now:
                raise InputError(
                    f"{path} has changed while it was read; fit again when it is complete"
                )


def _stamp(path: AnyPath) -> tuple[int, int | str]:
    if not isinstance(path, Path):
        return path.status()
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def unreadable(message: str, error: Exception) -> InputError:
    """The error for a file that cannot be read; it is another where a second attempt may help."""
    return (UnreadableError if isinstance(error, OSError) else InputError)(message)


def no_rows(paths: Sequence[AnyPath]) -> InputError:
    said = str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return InputError(f"{said}: no rows; at least one observation is needed")


def place_in(paths: Sequence[AnyPath | str], counts: Sequence[int | None], row: int) -> str:
    """The name of a row: its file, and its number in that file."""
    for path, count in zip(paths, counts, strict=True):
        if count is None or row < count:
            return f"row {row} of {path}"
        row -= count
    return f"row {row} after {paths[-1]}"

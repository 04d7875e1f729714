"""Files that are written whole or not at all.

A new file is written beside the old one under a temporary name and then takes its place, so that
neither a full disk nor Ctrl-C leaves half a file. File and folder are on the disk when the block
ends, also if the machine fails. The mode and the owner of the old file are kept; of a symbolic link
the target is replaced. Devices and pipes are written to as they are.
"""

import errno
import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""Errors that only writing has: a full disk, a quota, a limit on sizes, a read-only disk."""

SUFFIX = ".tmp"

DEFAULT_MODE = 0o666
"""Mode of a new file, from which the system takes the user's mask."""


def check_destination(path: Path) -> None:
    """Refuse a path that cannot be written to, before the work is done for it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; the name of a file is needed")
    target = _target(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}")
    for place in (target,) if _is_device(path) else (target.parent, target):
        if place.exists() and not os.access(place, os.W_OK):
            raise PermissionError(f"{path} cannot be written: no permission for {place}")


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `path` if nothing goes wrong."""
    check_destination(path)
    with _explained(path):
        if _is_device(path):
            with _opened(path) as file:
                yield file
            return
        target = _target(path)
        temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}{SUFFIX}")
        try:
            old = os.stat(target) if target.exists() else None
            mode = DEFAULT_MODE if old is None else stat.S_IMODE(old.st_mode)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(temporary, flags, mode), "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if old is not None:
                _take_over(temporary, old)
            os.replace(temporary, target)
            _sync_folder(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def remove_leftovers(path: Path) -> None:
    """Remove temporary files beside `path`, left by processes that were killed while they wrote."""
    target = _target(path)
    for left in target.parent.glob(f"{glob.escape(_prefix(target))}{'[0-9a-f]' * 8}{SUFFIX}"):
        left.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    """The beginning of the names of temporary files."""
    return f".{target.name[:100]}."


def _sync_folder(folder: Path) -> None:
    """Have the new name written to the disk, where folders can be (not on Windows)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):  # some network disks refuse, and folders that cannot be listed
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Name the file in errors of writing, which the system leaves out."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(f"{path} cannot be written: {error.strerror}; nothing was saved") from None


def _target(path: Path) -> Path:
    """The file that a symbolic link leads to, and a plain path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _is_device(path: Path) -> bool:
    """Whether this is no regular file, or is our own standard output."""
    return path.exists() and (not path.is_file() or _standard(path) is not None)


def _standard(path: Path) -> int | None:
    """The descriptor of standard output or error if it writes to this very file."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
    return None


def _opened(path: Path) -> IO[bytes]:
    descriptor = _standard(path)
    return open(path, "wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb")


def _take_over(temporary: Path, old: os.stat_result) -> None:
    """Give the new file the owner, as far as permitted, and the mode of the old one."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))

"""The file of a checkpoint: a zip archive of arrays that NumPy reads, sealed by a hash.

`np.savez` writes the arrays `0`, `1`, ... and `manifest`, which is JSON: the version of this
format, kind, fingerprint, place and structure of what was saved. The archive's comment, which is
the end of the file, is the SHA-256 of every byte before it: one flipped bit anywhere, or a missing
tail, is an error. Pickles are neither written nor read. A new file takes the place of the old one
at once (`masgrad.files.replaced`): a process that is killed leaves one or the other.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from masgrad.checkpoints.codec import decode, encode
from masgrad.errors import CheckpointError
from masgrad.files import replaced

FORMAT = 1
SEAL = b"masgrad checkpoint sha256 "
SEAL_BYTES = len(SEAL) + 64
COMMENT_LENGTH = 2
"""Bytes of a zip archive that say how long its comment is, at its end if there is none."""
HASH_BYTES = 2**20
FIRST_MEMBER, HEAD_BYTES = b"manifest.npy", 64
"""The name of the first array, and the bytes of the file in which it stands."""


@dataclass(frozen=True)
class Heading:
    """What a checkpoint says of itself.

    Args:
        kind: "run" or "fit".
        fingerprint: of data, settings and versions: a text for each name.
        place: how far the work has come, in words.
        finished: whether it is done.
    """

    kind: str
    fingerprint: dict[str, str]
    place: str
    finished: bool


def write(path: Path, heading: Heading, state: Any) -> None:
    """Write a checkpoint to exactly this path."""
    arrays, structure = encode(state)
    manifest = {"format": FORMAT, "heading": asdict(heading), "state": structure}
    text = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
    numbered: dict[str, Any] = {str(k): a for k, a in enumerate(arrays)}
    with replaced(path) as file:
        np.savez(file, manifest=text, **numbered)
        _seal(file)


def read(path: Path, accept: Callable[[Heading], None]) -> tuple[Heading, Any]:
    """Heading and state of a checkpoint; one that is damaged, foreign or newer is refused.

    `accept` may refuse the heading before anything of the state is rebuilt.
    """
    with _opened(path) as (archive, manifest):
        heading = Heading(**manifest["heading"])
        accept(heading)
        arrays = [archive[str(k)] for k in range(len(archive.files) - 1)]
        return heading, decode(arrays, manifest["state"])


def read_heading(path: Path) -> Heading:
    """The heading of a checkpoint."""
    with _opened(path) as (_, manifest):
        return Heading(**manifest["heading"])


def seal_of(path: Path) -> str:
    """The hash by which the end of a file seals it; it is not checked here."""
    with open(path, "rb") as file:
        file.seek(-min(64, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return file.read().decode("ascii", "replace")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The archive in a file, and its manifest."""
    with open(path, "rb") as file:
        _check_seal(file, path)
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            manifest = json.loads(archive["manifest"].tobytes())
            _check_format(manifest["format"], path)
            yield archive, manifest


def _check_format(number: int, path: Path) -> None:
    if number != FORMAT:
        raise CheckpointError(
            f"{path} has format {number} and this version of masgrad reads format {FORMAT}; use "
            "the version that wrote it, or delete the file"
        )


def _seal(file: IO[bytes]) -> None:
    """Make the hash of the archive its comment."""
    file.seek(-COMMENT_LENGTH, os.SEEK_END)
    file.write(struct.pack("<H", SEAL_BYTES))
    digest = _hash(file, file.tell())
    file.seek(0, os.SEEK_END)
    file.write(SEAL + digest)


def _check_seal(file: IO[bytes], path: Path) -> None:
    """Refuse a file whose bytes are not those that were written."""
    size = file.seek(0, os.SEEK_END)
    if size < SEAL_BYTES:
        raise CheckpointError(_unreadable(path, file))
    file.seek(size - SEAL_BYTES)
    seal = file.read()
    if seal != SEAL + _hash(file, size - SEAL_BYTES):
        raise CheckpointError(_unreadable(path, file))


def _unreadable(path: Path, file: IO[bytes]) -> str:
    """What is wrong with a file that has no valid seal."""
    file.seek(0)
    ours = FIRST_MEMBER in file.read(HEAD_BYTES)
    what = "is damaged or incomplete" if ours else "is no checkpoint of masgrad"
    return f"{path} {what}: its checksum does not hold; delete it, or give another path"


def _hash(file: IO[bytes], size: int) -> bytes:
    """SHA-256, in hexadecimal digits, of the first `size` bytes."""
    digest = hashlib.sha256()
    file.seek(0)
    while size and (part := file.read(min(size, HASH_BYTES))):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest().encode()

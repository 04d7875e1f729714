"""`StorePath`: a file at an object store, by its address and the options to get there.

It holds no connection: a process that it is sent to opens its own. Keys and tokens are in the
options, or in the address as user:password@ and behind a question mark; neither is ever shown.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from masgrad.errors import InputError, InputTypeError
from masgrad.stores.faults import explained, tried
from masgrad.stores.secrets import StorageOptions, secrets_in, without_secrets

URL = re.compile(r"[a-z][a-z0-9+.\-]*(::[a-z][a-z0-9+.\-]*)*://", re.IGNORECASE)
"""The beginning of an address: s3://, or of several in a chain, simplecache::s3://."""

LOCAL = ("file://", "local://")

MARKS = ("ETag", "etag", "e_tag", "generation", "md5Hash", "crc32c", "content_md5", "Content-MD5")
TIMES = (
    "LastModified",
    "last_modified",
    "updated",
    "Last-Modified",
    "mtime",
    "modified",
    "created",
)
"""What stores call the mark of a file's contents, and the time of its last change."""

AT_ONCE = 16
"""Requests about different files that wait for the store side by side."""

Done = TypeVar("Done")


@dataclass(frozen=True, repr=False)
class StorePath:
    """A file at a store, a folder or a pattern there.

    Args:
        url: the address as it was given, by which the store is found.
        options: of the connection.
        path: what the store itself calls the file, where this is one of several at the address.
    """

    url: str
    options: StorageOptions = field(default=StorageOptions(), compare=False)
    path: str | None = None

    def __str__(self) -> str:
        scheme = URL.match(self.url)[0]  # pyright: ignore[reportOptionalSubscript]
        inside = self.url if self.path is None else self.path
        begin = URL.match(inside)
        return without_secrets(scheme + (inside if begin is None else inside[begin.end() :]))

    def __repr__(self) -> str:
        return repr(str(self))

    def __lt__(self, other: "StorePath") -> bool:
        return str(self).split("/") < str(other).split("/")  # as paths are sorted

    @property
    def name(self) -> str:
        return str(self).rpartition("/")[2]

    def absolute(self) -> "StorePath":
        return self

    def at(self, path: str) -> "StorePath":
        """Another file at the same store."""
        return StorePath(self.url, self.options, path)

    @property
    def secrets(self) -> list[str]:
        """What errors must not repeat."""
        return [*self.options.secrets, *secrets_in(self.url)]

    def place(self) -> tuple[Any, str]:
        """The store, as fsspec has it, and what it calls the file."""
        with explained(self):
            from fsspec.core import url_to_fs

            store, path = url_to_fs(self.url, **self.options.given)
            return store, store._strip_protocol(path) if self.path is None else self.path

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of a range."""
        return self.read_ranges([(start, stop)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges, asked for side by side where the store can."""
        store, path = self.place()
        starts, stops = [a for a, _ in ranges], [b for _, b in ranges]
        places = [path] * len(ranges)
        with explained(self):
            found = tried(lambda: store.cat_ranges(places, starts, stops, on_error="raise"))
        for data, (start, stop) in zip(found, ranges, strict=True):
            if len(data) != stop - start:
                raise InputError(
                    f"{self}: {len(data)} bytes came where {stop - start} were asked for; the file "
                    "was changed, or the store does not serve parts of files: download it, or give "
                    f"'simplecache::{self}'"
                )
        return found

    def status(self) -> tuple[int, str]:
        """Size, and the mark or the time of the last change ("" if the store tells neither)."""
        store, path = self.place()
        with explained(self):
            store.invalidate_cache(path)
            found = store.info(path)
            size = found.get("size")
            if size is None:
                raise InputError(f"{self}: the store does not tell its size; download the file")
            known = [found[name] for name in (*MARKS, *TIMES) if found.get(name)]
            return int(size), str(known[0]) if known else ""


AnyPath = Path | StorePath
"""A file of this machine, or of a store."""


def is_url(item: Any) -> bool:
    return isinstance(item, str) and URL.match(item) is not None


def is_path(item: Any) -> bool:
    """Whether this names a file, a folder or a pattern."""
    return isinstance(item, str | os.PathLike | StorePath)


def located(data: Any, options: StorageOptions | None = None) -> Any:
    """Data with addresses as `StorePath`s, and those of files of this machine as paths.

    What is no address is as it was. Options that no address takes are an error.
    """
    several = isinstance(data, list | tuple) and all(map(is_path, data))
    items = list(data) if several else [data]
    found = [_located(item, options or StorageOptions()) for item in items]
    if options is not None and not any(isinstance(item, StorePath) for item in found):
        raise InputError(
            "storage_options are for files at stores, such as 's3://bucket/part-*.parquet', and "
            "the data are not; leave them out"
        )
    return found if several else found[0]


def _located(item: Any, options: StorageOptions) -> Any:
    if not is_url(item):
        return item
    for begin in LOCAL:
        if item.lower().startswith(begin):
            return item[len(begin) :].removeprefix("localhost")
    return StorePath(item, options)


def side_by_side(work: Callable[[Any], Done], paths: Sequence[AnyPath]) -> list[Done]:
    """What `work` makes of each file, in order; of several at stores at the same time."""
    if len(paths) < 2 or all(isinstance(path, Path) for path in paths):
        return [work(path) for path in paths]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, paths))


def as_storage_options(options: Any) -> StorageOptions | None:
    """The check of the keyword `storage_options`."""
    if options is None or isinstance(options, StorageOptions):
        return options
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise InputTypeError(
            f"storage_options is a {type(options).__name__}; a dictionary such as {{'anon': True}} "
            "is needed"
        )
    return StorageOptions(dict(options))

"""Files at a store as Python files: in any place, or ahead of their reader.

A reader of columns asks for a few kilobytes of one column after the other, and each answer of a
store takes as long as megabytes do. `AheadFile` knows what will be read, as batches of ranges in
the order of their use: a batch is asked for at once, side by side, and the next one while this one
is read. What has been read is forgotten, whatever the size of the file.
"""

import io
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from masgrad.stores.path import StorePath

Range = tuple[int, int]
"""The first byte, and the one after the last."""

STREAM_BYTES = 8 << 20
"""Bytes of a request for a file that is read from begin to end."""

GAP_BYTES = 1 << 16
"""Bytes between two ranges that are read with them, since another request would cost more."""


class StoreFile(io.RawIOBase):
    """A file at a store that is read in any place; nothing is read but what is asked for.

    Args:
        path: the file.
        size: in bytes, if it is known; the store is asked otherwise.
    """

    def __init__(self, path: StorePath, size: int | None = None):
        self.path, self.position = path, 0
        self.size = path.status()[0] if size is None else size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = (0, self.position, self.size)[whence] + offset
        return self.position

    def read(self, size: int | None = -1) -> bytes:
        start = min(self.position, self.size)
        stop = self.size if size is None or size < 0 else min(start + size, self.size)
        self.position = stop
        return self.range(start, stop) if stop > start else b""

    def range(self, start: int, stop: int) -> bytes:
        return self.path.read(start, stop)


class AheadFile(StoreFile):
    """The same, where it is known what will be read, each range once and from begin to end.

    Args:
        path: the file.
        size: in bytes.
        batches: ranges that are asked for at once, in the order of their use.
    """

    def __init__(self, path: StorePath, size: int, batches: Sequence[Sequence[Range]]):
        self.batches = batches
        self.places = sorted((*bounds, k) for k, batch in enumerate(batches) for bounds in batch)
        self.starts = [place[0] for place in self.places]
        self.asked: dict[int, Future[dict[int, memoryview]]] = {}
        self.thread = ThreadPoolExecutor(1)
        super().__init__(path, size)

    def range(self, start: int, stop: int) -> bytes:
        parts = []
        while start < stop:
            known = bisect_right(self.starts, start) - 1
            inside = known >= 0 and start < self.places[known][1]
            if inside:
                end = min(stop, self.places[known][1])
                parts.append(self._held(known, start, end))
            else:
                end = min([stop, *self.starts[known + 1 : known + 2]])
                parts.append(self.path.read(start, end))
            start = end
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.asked.clear()
        super().close()

    def _held(self, place: int, start: int, stop: int) -> bytes:
        """A part of a range, which is forgotten once its end has been read."""
        begin, end, number = self.places[place]
        for batch in (number, number + 1):
            if batch < len(self.batches) and batch not in self.asked:
                self.asked[batch] = self.thread.submit(ranges_of, self.path, self.batches[batch])
        held = self.asked[number].result()
        if begin not in held:
            return self.path.read(start, stop)
        found = bytes(held[begin][start - begin : stop - begin])
        if stop == end:
            del held[begin]
        return found


def ranges_of(path: StorePath, ranges: Sequence[Range]) -> dict[int, memoryview]:
    """Ranges of a file by their begin, asked for with small gaps between them."""
    wide = joined(ranges)
    begins = [begin for begin, _ in wide]
    data = dict(zip(wide, map(memoryview, path.read_ranges(wide)), strict=True))
    found = {}
    for start, stop in ranges:
        around = wide[bisect_right(begins, start) - 1]
        found[start] = data[around][start - around[0] : stop - around[0]]
    return found


def joined(ranges: Sequence[Range]) -> list[Range]:
    """Ranges in order, those with small gaps between them as one."""
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if found and start - found[-1][1] <= GAP_BYTES:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def streamed(path: StorePath) -> AheadFile:
    """A file that is read from begin to end."""
    size, _ = path.status()
    starts = range(0, size, STREAM_BYTES)
    return AheadFile(path, size, [[(start, min(start + STREAM_BYTES, size))] for start in starts])

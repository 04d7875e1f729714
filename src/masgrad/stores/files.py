"""Files at a store as Python files: in any place, or ahead of their reader.

A reader of columns asks for a few kilobytes of one column after the other, and each answer of a
store takes as long as megabytes do. `AheadFile` knows what will be read, as batches of ranges in
the order of their use: a batch is asked for at once, side by side, and the next one while this one
is read. A few batches are held, whatever the size of the file.
"""

import io
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from masgrad.stores.path import StorePath

Range = tuple[int, int]
"""The first byte, and the one after the last."""

STREAM_BYTES = 8 << 20
"""Bytes of a request for a file that is read from begin to end."""

HELD = 4
"""Batches that are held: columns are read side by side, some ahead of others."""


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
    """The same, where it is known what will be read.

    Args:
        path: the file.
        size: in bytes.
        batches: ranges that are asked for at once, in the order of their use.
    """

    def __init__(self, path: StorePath, size: int, batches: Sequence[Sequence[Range]]):
        super().__init__(path, size)
        self.batches = batches
        places = [
            (*bounds, k, i) for k, held in enumerate(batches) for i, bounds in enumerate(held)
        ]
        self.places = sorted(places)
        self.starts = [place[0] for place in self.places]
        self.held: OrderedDict[int, Future[list[bytes]]] = OrderedDict()
        self.thread = ThreadPoolExecutor(1)

    def range(self, start: int, stop: int) -> bytes:
        parts = []
        while start < stop:
            known = bisect_right(self.starts, start) - 1
            if known < 0 or self.places[known][1] <= start:  # which no batch has
                after = self.starts[known + 1] if known + 1 < len(self.starts) else stop
                end = min(stop, after)
                parts.append(super().range(start, end))
            else:
                begin, end, batch, number = self.places[known]
                end = min(stop, end)
                parts.append(self._batch(batch)[number][start - begin : end - begin])
            start = end
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.held.clear()
        super().close()

    def _batch(self, number: int) -> list[bytes]:
        """A batch that is held, or asked for now; the next one is asked for meanwhile."""
        for wanted in (number, number + 1):
            if wanted < len(self.batches) and wanted not in self.held:
                work = self.thread.submit(self.path.read_ranges, self.batches[wanted])
                self.held[wanted] = work
        self.held.move_to_end(number)
        found = self.held[number].result()
        while len(self.held) > HELD:
            self.held.popitem(last=False)
        return found


def streamed(path: StorePath) -> AheadFile:
    """A file that is read from begin to end."""
    size, _ = path.status()
    starts = range(0, size, STREAM_BYTES)
    return AheadFile(path, size, [[(start, min(start + STREAM_BYTES, size))] for start in starts])

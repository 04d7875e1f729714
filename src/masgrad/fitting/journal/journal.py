"""A journal of a fit: what its reads have given, so that a fit that was killed need not read again.

A fit is a function of the totals of its reads: repeated with the same data and settings it asks
the same questions in the same order. So the journal holds the total of every read, and of the read
in course the total of the first blocks. A fit that goes on begins at the beginning: its first reads
are answered by the journal, at once, and the read in course goes on after the blocks that were
done. Parts are added in the same order, and no bit of the result differs.

    reads     1 2 3 4 | 5 ........|..........          killed in read 5
    resumed   answered  restored   read, added

A read may fail at a point where sums overflow, and the fit take another. Of such a read the journal
notes how many blocks were good; it is made again from there, and fails again.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from masgrad.data.groupings.keys import Keys
from masgrad.data.left_out import LeftOut
from masgrad.data.source import Source
from masgrad.errors import ClusterError, UnreadableError

PASSING = (ClusterError, UnreadableError, OSError, MemoryError)
"""Errors that need not come again when a read is made again."""


class Page:
    """What the journal knows of one read, and is told of it. This one knows nothing.

    Attributes:
        answered: whether the read is complete.
        total: of the blocks done, or of all.
        blocks: the number of blocks done.
        rows: the number of rows in them.
    """

    answered, total, blocks, rows = False, None, 0, 0

    def note(self, total: Any, rows: int) -> None:
        """Another block of so many rows has been added to the total."""

    def __enter__(self) -> None:
        """The read begins or goes on, and is over at the end of the block of code."""

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            self.complete()
        elif issubclass(kind, (KeyboardInterrupt, *PASSING)):
            self.stop()
        elif issubclass(kind, Exception):
            self.fail()

    def complete(self) -> None:
        """The read has come to its end."""

    def fail(self) -> None:
        """The next block has no sums."""

    def stop(self) -> None:
        """Ctrl-C, or an error that is not of the rows, has ended the read."""


NO_PAGE = Page()


class Journal:
    """No journal: nothing is remembered, and nothing known.

    Attributes:
        path: of the checkpoint; None if there is none.
        stopped: whether Ctrl-C has ended what is recorded.
    """

    path: Path | None = None
    stopped = False

    def page(self, work: Callable[..., Any], monitor: Any, keys: Sequence[Keys] = ()) -> Page:
        """The page of the next read.

        Args:
            work: what is done with each block.
            monitor: what is observed on the way.
            keys: that `work` adds to.
        """
        del work, monitor, keys
        return NO_PAGE

    def check(self, name: str, value: Any) -> None:
        """Take note of a value that is the same whenever the fit is repeated."""

    def remember(self, name: str, compute: Callable[[], Any]) -> Any:
        """What a function returns, or has returned before."""
        del name
        return compute()

    def follow(self, source: Source, left_out: LeftOut | None) -> None:
        """Restore with each read what it has told of these rows."""

    def stop(self) -> None:
        """Ctrl-C: save what is known, and nothing of what follows."""

    def finish(self) -> None:
        """The fit has come to its end."""


NO_JOURNAL = Journal()

"""Passes over the blocks of a source, whose parts are added, gathered, or steps of a fold.

Blocks of linear predictors are summed by threads, each with single-threaded BLAS: blocks that stay
in a core's cache beat one product over all rows. Sums of other losses belong to XLA's threads.
Blocks are added in their order, so that the number of threads changes no digit. Ctrl-C ends a read
with the sums over the rows read so far. A journal is asked before every read, and told what it has
given.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from masgrad.cores import in_order
from masgrad.data.arrays import count_rows
from masgrad.data.groupings.keys import Keys
from masgrad.data.source import Source
from masgrad.fitting.journal.journal import NO_JOURNAL, Journal
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.totals import (
    ALL_BLOCKS,
    Addition,
    Cut,
    after,
    length_of,
    skip_local,
)
from masgrad.progress import Progress
from masgrad.types import Rows

ROWS_FOR_THREADS = 50_000
"""Fewer rows are summed by one thread: starting others would take as long."""

Done = TypeVar("Done")


@dataclass(frozen=True)
class Passes:
    """Passes over the blocks of a source.

    Args:
        source: the rows.
        threads: threads that sum over arrays.
        monitor: records what is seen on the way.
        journal: of what reads have given, in a checkpoint if there is one.
    """

    source: Source
    threads: int
    monitor: Monitor
    journal: Journal = NO_JOURNAL

    def threads_for(self, rows: int | None) -> int:
        """Number of threads that sum over this many rows of linear predictors."""
        if rows is not None and rows < ROWS_FOR_THREADS:
            return 1
        return self.threads

    def each(
        self, work: Callable[[Any], Done], pieces: Iterable[Any], workers: int = 1
    ) -> Iterator[Done]:
        """Results of `work` on each piece, in order; none after an interrupted one."""
        for done in in_order(work, pieces, workers):
            yield done
            if self.monitor.interrupted:
                return

    def gathered(
        self,
        work: Callable[[Rows], Done],
        take: Callable[[Any, Done], None],
        state: Any,
        workers: int | None = None,
        cut: Cut = ALL_BLOCKS,
    ) -> Any:
        """The state, once it has taken the result of `work` on every block, in their order."""
        page = self.journal.page(work, self.monitor)
        if page.answered:
            return page.total
        state = state if page.total is None else page.total
        found = self._gathered(work, workers, cut, page.blocks)
        with page:
            for rows, parts in self._counted(found, True, page.rows):
                for part in parts:
                    take(state, part)
                page.note(state, rows)
        return state

    def total(
        self,
        work: Callable[[Rows], Any],
        addition: Addition,
        workers: int | None = None,
        cut: Cut = ALL_BLOCKS,
        *,
        see: Callable[[Any], None] = lambda part: None,
        whole: bool = True,
        keys: Sequence[Keys] = (),
    ) -> Any:
        """The results of `work` on every block, added in their order; None if there are no rows.

        Args:
            work: on the rows of a block, in any thread; None if they have no part in the total.
            addition: of its results.
            workers: threads.
            cut: the pieces of the source, and what makes rows of each.
            see: looks at each result, or at the total of each shard, before it is added.
            whole: whether every row is needed; if not, Ctrl-C leaves the total of those read.
            keys: that `work` adds to, beside those of the source.
        """
        page = self.journal.page(work, self.monitor, keys)
        if page.answered:
            skip_local(cut, self.source)
            return page.total
        total, spread = page.total, None if cut.is_local else self.source.spread
        if spread is None:
            plus, parts = addition.plus, self._of_pieces(work, workers, cut, page.blocks)
        else:
            shards = spread.totals(self.source, work, cut, addition, page.blocks)
            plus, parts = addition.joined, shards
        try:
            with page:
                for rows, part in self._counted(parts, whole, page.rows):
                    if part is not None:
                        see(part)
                        total = plus(total, part)
                    page.note(total, rows)
        except KeyboardInterrupt:
            if whole:
                raise
            self.monitor.interrupted = True
        return total

    def holds(self, test: Callable[[Rows], bool], cut: Cut = ALL_BLOCKS) -> bool:
        """Whether a test holds for every block, by a read on the side that ends where it fails."""
        with self.unobserved() as quiet:
            page = quiet.journal.page(test, quiet.monitor)
            if page.answered:
                return page.total is not False
            found = quiet._counted(quiet._gathered(test, None, cut, page.blocks), False)
            with page, closing(found):
                for rows, parts in found:
                    page.note(all(parts), rows)
                    if not all(parts):
                        return False
            return True

    def numbered(self, work: Callable[[Rows], Done], cut: Cut) -> list[tuple[int, Done]]:
        """The number of rows of every piece that has some, and the result of `work` on them."""
        return [(rows, done) for rows, done in self._of_pieces(work, 1, cut) if rows]

    def _gathered(
        self, work: Callable[[Rows], Done], workers: int | None, cut: Cut, done: int
    ) -> Iterator[tuple[int, list[Done]]]:
        """The rows of every piece, or of every shard, and the results of `work` on its pieces.

        The first ones are passed over if they are `done`.
        """
        if self.source.spread is not None and not cut.is_local:
            return self.source.spread.each(self.source, work, cut, done)
        pieces = self._of_pieces(work, workers, cut, done)
        return ((rows, [part] if rows else []) for rows, part in pieces)

    def _of_pieces(
        self, work: Callable[[Rows], Done], workers: int | None, cut: Cut, done: int = 0
    ) -> Iterator[tuple[int, Done]]:
        """The number of rows of every piece, and the result of `work` on them if there are any.

        The first pieces are passed over if they are `done`.
        """
        pieces, make = after(cut, done).pieces(self.source)
        workers = workers or self.threads_for(self.source.count)

        def counted(piece: Any) -> tuple[int, Any]:
            rows = make(piece)
            return (0, None) if rows is None else (length_of(rows), work(rows))

        yield from self.each(counted, pieces, workers)

    def _counted(
        self, parts: Iterator[tuple[int, Done]], whole: bool, total: int = 0
    ) -> Generator[tuple[int, Done]]:
        """The same; rows are counted, after a `total` of them."""
        for rows, done in parts:
            total += rows
            self.monitor.tick(rows)
            yield rows, done
        if whole:
            self.monitor.check_length(total)

    def folded(
        self,
        step: Callable[[Any, Rows], Any],
        state: Any,
        rng: np.random.Generator,
        most: int | None = None,
    ) -> Any:
        """The state after a step for each block in a random order, until they hold `most` rows."""
        page = self.journal.page(step, self.monitor)
        if page.answered:
            return page.total
        state = state if page.total is None else page.total
        with page, closing(self.shuffled(rng, most, page.blocks)) as blocks:
            for block in blocks:
                state = step(state, block)
                page.note(state, count_rows(block))
        return state

    def shuffled(
        self, rng: np.random.Generator, most: int | None = None, done: int = 0
    ) -> Generator[Rows]:
        """Blocks in a random order, until they hold `most` rows; progress is shown.

        The first blocks are skipped if they are `done`.
        """
        seen, pieces = 0, self.source.blocks(rng)
        try:
            for number, block in enumerate(pieces):
                seen += count_rows(block)
                if number < done:
                    continue
                self.monitor.tick(count_rows(block))
                yield block
                if most is not None and seen >= most:
                    return
            self.monitor.check_length(seen)
        finally:
            pieces.close()

    def restart(self) -> None:
        """Begin another read: its gradients are taken at another point."""
        self.monitor.restart()

    def tick(self, rows: int) -> None:
        """Show progress of a read that sums nothing."""
        self.monitor.tick(rows)

    def __reduce__(self) -> Any:
        """Work that is sent to other processes leaves its reader behind: it is None there."""
        return type(None), ()

    @contextmanager
    def anew(self, source: Source | None = None) -> Iterator[Self]:
        """A reader for another estimate of the same fit, or of a part of its rows (`source`).

        Rows are counted on.
        """
        before = self.monitor
        monitor = Monitor(before.progress, before.pilot_rows, before.response_range)
        monitor.rows, monitor.started = before.rows, before.started
        monitor.length = before.length if source is None else None
        try:
            yield replace(self, source=source or self.source, monitor=monitor)
        finally:
            before.interrupted |= monitor.interrupted

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C ends the block of code, and is remembered by the monitor."""
        try:
            yield
        except KeyboardInterrupt:
            self.journal.stop()
            self.monitor.interrupted = True

    @contextmanager
    def unobserved(self, source: Source | None = None) -> Iterator[Self]:
        """A reader for reads on the side, of these rows or others: only Ctrl-C is remembered."""
        quiet = replace(self, source=source or self.source, monitor=Monitor(Progress(None, False)))
        try:
            yield quiet
        finally:
            self.monitor.interrupted |= quiet.monitor.interrupted

    @contextmanager
    def showing(self, progress: Progress) -> Iterator[None]:
        """Show another bar meanwhile."""
        before = self.monitor.progress
        with progress as self.monitor.progress:
            try:
                yield
            finally:
                self.monitor.progress = before

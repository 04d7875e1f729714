"""The journal in a checkpoint, and its pages."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from masgrad.checkpoints.digest import digest
from masgrad.checkpoints.saver import Saver
from masgrad.checkpoints.volumes import Volumes
from masgrad.checkpoints.watch import Watch
from masgrad.data.groupings.keys import Keys
from masgrad.data.left_out import LeftOut
from masgrad.data.source import Source
from masgrad.errors import CheckpointError
from masgrad.fitting.journal.entry import Entry, Packed
from masgrad.fitting.journal.journal import NO_PAGE, Journal, Page
from masgrad.fitting.journal.learned import Memory
from masgrad.fitting.journal.question import question

VOLUME_BYTES = 1 << 22
"""Bytes of entries that are written at every save, before they become a volume of their own."""


class Recorded(Journal):
    """The journal in a checkpoint.

    Args:
        saver: writes it.
        saved: what it wrote before, if the fit goes on from there.
    """

    def __init__(self, saver: Saver, saved: Any = None):
        self.saver, self.memory = saver, None
        self.volumes = Volumes(saver.path, [] if saved is None else saved["volumes"])
        self.recent: list[Entry] = [] if saved is None else saved["entries"]
        self.size = sum(entry.size for entry in self.recent)
        self.path, self.number = saver.path, 0
        self.course: Callable[[], Entry] | None = None
        self.saved: tuple[int, Entry | None] = 0, None
        self.watch = Watch(saver.path, (0, 0) if saved is None else saved["watch"])
        known = [] if saved is None or saved["course"] is None else [saved["course"]]
        self.known = self._entries([*self.recent, *known])

    def _entries(self, recent: Sequence[Entry]) -> Iterator[Entry]:
        for entries in self.volumes.read():
            yield from entries
        yield from recent

    def follow(self, source: Source, left_out: LeftOut | None) -> None:
        self.memory = Memory(source, left_out)
        source.watch(self.watch)

    @property
    def live(self) -> list[Any]:
        return [] if self.memory is None else self.memory.live

    def page(self, work: Callable[..., Any], monitor: Any, keys: Sequence[Keys] = ()) -> Page:
        if self.stopped:
            return NO_PAGE
        asked = question(work)
        found = self._next(asked)
        return RecordedPage(self, asked, monitor, keys, found)

    def _next(self, asked: str) -> Entry | None:
        """The entry of the next read, if there is one."""
        self.number += 1
        found = next(self.known, None)
        if found is not None and found.question != asked:
            raise self.unlike()
        return found

    def unlike(self) -> CheckpointError:
        """The read in course is not the one that was saved."""
        return CheckpointError(
            f"{self.saver.path} does not fit: read {self.number} asks for other sums than the one "
            "that was saved, so the data have changed since, or this machine computes other "
            "digits; delete the file to begin anew"
        )

    def check(self, name: str, value: Any) -> None:
        if not self.stopped and self._next(asked := digest([name, value])) is None:
            self._note(asked, None)

    def remember(self, name: str, compute: Callable[[], Any]) -> Any:
        if self.stopped:
            return compute()
        found = self._next(asked := digest(name))
        if found is not None:
            return found.total.value(())
        value = compute()
        self._note(asked, value)
        return value

    def _note(self, asked: str, value: Any) -> None:
        nothing = Packed.of(None, ())
        self.add(Entry(asked, Packed.of(value, ()), None, 0, False, nothing, nothing))

    def add(self, entry: Entry) -> None:
        """Keep the entry of a read that is over, and save if it is time."""
        self.course = None
        self.recent.append(entry)
        self.size += entry.size
        if self.size > VOLUME_BYTES:
            full, self.recent, self.size = self.recent, [], 0
            self.volumes.add(full)
        if self.saver.due():
            self.save()

    def go_on(self, course: Callable[[], Entry]) -> None:
        """Remember how to tell what is known of the read in course, and save if it is time."""
        self.course = course
        if self.saver.due() and not self.stopped:
            self.save()

    def save(self, finished: bool = False) -> None:
        """Write the checkpoint."""
        course = None if self.course is None else self.course()
        self._write(course, finished)
        self.saved = self.number, course

    def _write(self, course: Entry | None, finished: bool = False) -> None:
        watched = max(self.watch.seen, self.watch.expected)
        state = {"volumes": self.volumes.listed, "entries": self.recent}
        state |= {"course": course, "watch": watched}
        rows = "" if course is None else f", after {course.rows:,} rows of it"
        self.saver.save(state, "all reads" if finished else f"read {self.number}{rows}", finished)
        self.volumes.remove_others()

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.save()

    def stop_within(self) -> None:
        """Ctrl-C while a block was added: the blocks of the last save are the last good ones."""
        if not self.stopped:
            self.stopped, (number, course) = True, self.saved
            self._write(course if number == self.number else None)

    def finish(self) -> None:
        if not self.stopped:
            self.save(finished=True)


class RecordedPage(Page):
    """A page of a journal in a checkpoint.

    Args:
        journal: whose page it is.
        question: what the read asks.
        monitor: of the reader.
        keys: that the read adds to.
        found: what is known of the read; None if it is new.
    """

    def __init__(
        self,
        journal: Recorded,
        question: str,
        monitor: Any,
        keys: Sequence[Keys],
        found: Entry | None,
    ):
        self.journal, self.question, self.monitor, self.keys = journal, question, monitor, keys
        self.old = found
        if found is not None:
            self._restore(found)
        self.at = self.total, self.blocks, self.rows, monitor.rows

    def _restore(self, found: Entry) -> None:
        memory = self.journal.memory
        self.answered, self.blocks, self.rows = found.blocks is None, found.blocks or 0, found.rows
        learned, beside = found.learned.value(self.journal.live)
        if learned is not None and memory is not None:
            memory.restore(learned, self.answered)
        for keys, values in zip(self.keys, beside, strict=True):
            keys.extend(values[len(keys) :])
        self.monitor.restore(found.monitor.value(self.journal.live))
        self.total = found.total.value(self.journal.live)

    def note(self, total: Any, rows: int) -> None:
        _, blocks, before, _ = self.at
        self.at = total, blocks + 1, before + rows, self.monitor.rows
        self.journal.go_on(self._entry)

    def complete(self) -> None:
        if self.old is not None and self.old.failed:
            raise self.journal.unlike()
        self.journal.add(self._entry(complete=True))

    def fail(self) -> None:
        if self.old is None or not self.old.failed:
            self.journal.add(self._entry(failed=True))

    def stop(self) -> None:
        if self.at[3] == self.monitor.rows:  # no block has been added in part
            self.journal.stop()
        else:
            self.journal.stop_within()

    def _entry(self, complete: bool = False, failed: bool = False) -> Entry:
        """What the page knows by now."""
        total, blocks, rows, _ = self.at
        live, memory = self.journal.live, self.journal.memory
        learned = None if memory is None else memory.new(complete)
        return Entry(
            self.question,
            Packed.of(None if failed else total, live),
            None if complete else blocks,
            rows,
            failed,
            Packed.of(self.monitor.state(), live),
            Packed.of((learned, [keys.values for keys in self.keys]), live),
        )

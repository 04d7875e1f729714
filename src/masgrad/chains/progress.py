"""A progress bar that appears only when a run takes longer than two seconds."""

import sys
import time

PATIENCE = 2.0


class Progress:
    """Counts steps; `show` is True, False, or None for a bar on terminals only."""

    def __init__(self, total: int | None, show: bool | None = None, label: str = "steps"):
        self.total, self.label = total, label
        self.show = sys.stderr.isatty() if show is None else show
        self.started = time.perf_counter()
        self.bar = None

    def __enter__(self) -> "Progress":
        return self

    def update(self, done: int) -> None:
        if not self.show:
            return
        if self.bar is None and time.perf_counter() - self.started > PATIENCE:
            self._open()
        if self.bar is not None:
            self.bar.update(self.task, completed=done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn(self.label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.label, total=self.total)
        self.bar.start()

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.stop()

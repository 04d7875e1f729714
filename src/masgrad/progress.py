"""A progress bar that appears only when a run takes longer than two seconds."""

import sys
import time

PATIENCE_SECONDS = 2.0


class Progress:
    """Counts steps; `show` is True, False, or None for a bar on terminals only."""

    def __init__(self, total: int | None, show: bool | None = None, label: str = "steps"):
        self.total, self.first, self.label = total, total or 0, label
        self.show = _is_terminal() if show is None else show
        self.started = time.perf_counter()
        self.bar = None

    def __enter__(self) -> "Progress":
        return self

    def update(self, done: int) -> None:
        if not self.show:
            return
        while self.total and done > self.total:  # fits announce two reads, and may need more
            self.total += self.first // 2 or 1
        if self.bar is None and time.perf_counter() - self.started > PATIENCE_SECONDS:
            self._open()
        if self.bar is not None:
            count, speed = self._words(done)
            self.bar.update(self.task, completed=done, total=self.total, count=count, speed=speed)

    def _words(self, done: int) -> tuple[str, str]:
        """Such as "1.2M of 5M rows" and "400k rows/s"."""
        speed = done / max(time.perf_counter() - self.started, 1e-9)
        of = f" of {_short(self.total)}" if self.total else ""
        return f"{_short(done)}{of} {self.label}", f"{_short(speed)} {self.label}/s"

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.fields[count]}"),
            BarColumn(),
            TextColumn("{task.fields[speed]}"),
            *(
                (TimeRemainingColumn(), TextColumn("left"))
                if self.total
                else (TimeElapsedColumn(),)
            ),
        )
        self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.label, total=self.total, count="", speed="")
        self.bar.start()

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.stop()


def _is_terminal() -> bool:
    """Whether somebody sees a bar: not in a file, nor where stderr is closed."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:
        return False


def _short(number: float) -> str:
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / (1e3 if mark == 'k' else size):.3g}{mark}"
    return f"{number:.0f}"

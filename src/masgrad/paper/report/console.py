"""What every `masgrad paper` command shows: a bar while it works, tables, where the figure is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from masgrad.errors import InputError


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr; call what it gives with the name of each part that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)

        def advance(part: str) -> None:
            bar.update(task, advance=1, description=f"{label}: {part}")

        yield advance


def figure_path(out: Path, name: str) -> Path:
    """Where the figure goes; a place that cannot be written to is an error before the work."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; a directory is needed")
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=out):
        return out / f"{name}.png"


def show(*parts: Table | str) -> None:
    """Tables and lines on stdout."""
    console = Console()
    for part in parts:
        if isinstance(part, str):  # a path is not to be wrapped, coloured or read as markup
            console.print(part, markup=False, highlight=False, soft_wrap=True)
        else:
            console.print(part)

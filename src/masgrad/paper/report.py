"""What `masgrad paper` prints and draws."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from masgrad.paper.logistic import BATCH, CHAINS, ETA, Experiment, N, logistic_experiment
from masgrad.plots import plot_processes


def report_logistic(out: Path, steps: int, seed: int) -> None:
    """Run the logistic experiment with a progress bar; write `logistic.png`; print a table."""
    out.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{CHAINS} chains x {steps} steps", total=5)
        result = logistic_experiment(seed, steps, lambda name: bar.advance(task))
        path = out / "logistic.png"
        title = f"Logistic regression, N = {N}, n = {BATCH}, eta = {ETA}, {CHAINS} chains"
        plot_processes(result.traces, result.optimum, path, title)
        bar.advance(task)
    console = Console()
    console.print(_errors(result, steps))
    console.print(_distances(result, steps))
    console.print(f"Figure: {path}")


def _errors(result: Experiment, steps: int) -> Table:
    """Distance to the optimum on the way."""
    marks = sorted({0, steps // 4, steps // 2, steps})
    table = Table(title="Mean l2 distance to the optimum")
    table.add_column("process")
    for t in marks:
        table.add_column(f"t = {t}", justify="right")
    for name, trace in result.traces.items():
        error = trace.distance(result.optimum).mean(0)
        table.add_row(name, *(f"{error[t]:.3f}" for t in marks))
    return table


def _distances(result: Experiment, steps: int) -> Table:
    """How close each chain is to its diffusion at the last step."""
    table = Table(title=f"Chain against diffusion at t = {steps} (worst coordinate)")
    for column in ("process", "KS", "KS of copies", "W2", "W2 of copies"):
        table.add_column(column, justify="left" if column == "process" else "right")
    for name in ("MasGrad", "SGD"):
        c = result.closeness(name, steps)
        numbers = np.array([c.ks, c.ks_baseline, c.w2, c.w2_baseline])
        table.add_row(name, *(f"{x:.3f}" for x in numbers))
    return table

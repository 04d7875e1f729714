"""What `masgrad paper` prints and draws."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from masgrad.paper import laws, rotation
from masgrad.paper.laws_plot import plot_laws
from masgrad.paper.logistic import BATCH, CHAINS, ETA, Experiment, N, logistic_experiment
from masgrad.paper.rates import RatesExperiment, rates_experiment
from masgrad.paper.rates_plot import plot_rates
from masgrad.paper.rotation_plot import plot_rotation
from masgrad.plots import plot_processes


def report_logistic(out: Path, quick: bool, seed: int) -> None:
    """Run the logistic experiment with a progress bar; write `logistic.png`; print a table."""
    path, steps = _figure(out, "logistic"), 50 if quick else 100
    with _progress(f"{CHAINS} chains x {steps} steps", 5) as advance:
        result = logistic_experiment(seed, steps, lambda name: advance())
        title = f"Logistic regression, N = {N}, n = {BATCH}, eta = {ETA}, {CHAINS} chains"
        plot_processes(result.traces, result.optimum, path, title)
        advance()
    _show(path, _errors(result, steps), _distances(result, steps))


def report_rotation(out: Path, quick: bool, seed: int) -> None:
    """Measure the rotation of the rank-one root; write `rotation.png`; print tables."""
    path = _figure(out, "rotation")
    batches, steps = (10, 100) if quick else (40, rotation.STEPS)
    with _progress("roots and chains", len(rotation.DIMS) + 5) as advance:
        result = rotation.rotation_experiment(seed, batches, steps, lambda name: advance())
        plot_rotation(result, path)
        advance()
    _show(path, _rotations(result), _slowed(result, steps))


def report_rates(out: Path, quick: bool, seed: int) -> None:
    """Measure the theory's rates; write `rates.png`; print tables."""
    path = _figure(out, "rates")
    with _progress("rates", 8) as advance:
        result = rates_experiment(seed, quick, lambda name: advance())
        plot_rates(result, path)
        advance()
    _show(path, _slopes(result))


def report_laws(out: Path, quick: bool, seed: int) -> None:
    """Sample the known laws and exit times; write `laws.png`; print a table."""
    path = _figure(out, "laws")
    with _progress("laws and exit times", 4) as advance:
        result = laws.laws_experiment(seed, quick, lambda name: advance())
        advance()
        plot_laws(result, path)
        advance()
    _show(path, _exit_times(result.exits))


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr; call what it gives once for each part that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def _figure(out: Path, name: str) -> Path:
    """Where the figure goes; a place that cannot be written to is an error before the work."""
    out.mkdir(parents=True, exist_ok=True)
    return out / f"{name}.png"


def _show(path: Path, *tables: Table) -> None:
    console = Console()
    for table in tables:
        console.print(table)
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


def _rotations(result: rotation.RotationExperiment) -> Table:
    """Angle and descent at the paper's ridge and at a negligible one."""
    table = Table(title=f"Rotation of the root, n = {rotation.BATCH} (median over batches)")
    table.caption = (
        "descent: below 0, H b climbs for some gradient b; climbs: share of such batches"
    )
    for column in ("p", "ridge", "angle (degrees)", "descent", "climbs"):
        table.add_column(column, justify="right")
    paper = int(np.argmin(np.abs(rotation.RIDGES - rotation.PAPER_RIDGE)))
    for i, p in enumerate(rotation.DIMS):
        for j in (paper, 0):
            angle, descent = np.median(result.angle[i, j]), np.median(result.descent[i, j])
            climbs = (result.descent[i, j] < 0).mean()
            ridge = f"{rotation.RIDGES[j]:.0e}"
            table.add_row(str(p), ridge, f"{angle:.0f}", f"{descent:.2f}", f"{climbs:.0%}")
    return table


def _slowed(result: rotation.RotationExperiment, steps: int) -> Table:
    """Distance to the optimum of chains with either root."""
    marks = sorted({0, steps // 4, steps // 2, steps})
    table = Table(title=f"Mean l2 distance to the optimum, p = {rotation.DIMS[0]}")
    for column in ("root", "ridge", *(f"t = {t}" for t in marks)):
        table.add_column(column, justify="left" if column == "root" else "right")
    for (root, ridge), trace in result.chains.items():
        error = trace.distance(result.optimum).mean(0)
        table.add_row(root, f"{ridge:.0e}", *(f"{error[t]:.3f}" for t in marks))
    return table


def _slopes(result: RatesExperiment) -> Table:
    """Measured powers beside those of the theorems."""
    table = Table(title="Slopes on logarithmic axes")
    for column in ("what", "against", "measured", "theory"):
        table.add_column(column, justify="left" if column in ("what", "against") else "right")
    for name, it in result.iterations.items():
        theory = "1" if name.startswith("gradient") else "flatter" if "far" in name else "1/2"
        table.add_row(f"steps, {name}", "kappa(H)", f"{it.slope:.3f}", theory)
    close = result.closeness
    for name, power in (("KS", close.ks_power), ("W2 / sd", close.w2_power)):
        table.add_row(f"{name}, chain to diffusion", "n", f"{-power.slope:.3f}", "-1/2")
    for name, d in result.discretisation.items():
        worst = (d.distances / d.bounds).max()
        what = f"coupled distance to continuous time, {name} (at most {worst:.2f} of the bound)"
        table.add_row(what, "eta", f"{d.slope:.3f}", "1")
    return table


def _exit_times(exits: laws.Exits) -> Table:
    """Simulated and exact exit times, and the slopes of their logarithms in beta."""
    table = Table(title="Mean exit time from a basin")
    table.caption = (
        f"slope of the log in beta: {exits.slope:.4f} simulated, {exits.exact_slope:.4f} by the "
        f"integral, {laws.DEPTH} = the basin's depth in the limit"
    )
    for column in ("beta", "simulated", "standard error", "integral"):
        table.add_column(column, justify="right")
    rows = zip(exits.beta, exits.simulated, exits.standard_error, exits.exact, strict=True)
    for beta, mean, error, exact in rows:
        table.add_row(f"{beta:g}", f"{mean:.0f}", f"{error:.0f}", f"{exact:.0f}")
    return table

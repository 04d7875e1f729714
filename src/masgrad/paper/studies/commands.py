"""Studies of single results: what `masgrad paper rotation`, `rates` and `laws` print and draw."""

from pathlib import Path

import numpy as np
from rich.table import Table

from masgrad.paper.report.console import figure_path, progress_bar, show
from masgrad.paper.studies import laws, rotation
from masgrad.paper.studies.laws_plot import plot_laws
from masgrad.paper.studies.rates import RatesExperiment, rates_experiment
from masgrad.paper.studies.rates_plot import plot_rates
from masgrad.paper.studies.rotation_plot import plot_rotation
from masgrad.paper.studies.rows import EPSILON, RowsStudy
from masgrad.theory.samples.rates import Power


def rotation_study(out: Path, quick: bool, seed: int) -> None:
    """Measure the rotation of the rank-one root; write `rotation.png`; print tables."""
    path = figure_path(out, "rotation")
    batches, steps = (10, 100) if quick else (40, rotation.STEPS)
    with progress_bar("roots and chains", len(rotation.DIMS) + 5) as advance:
        result = rotation.rotation_experiment(seed, batches, steps, advance)
        plot_rotation(result, path)
        advance("figure")
    show(_rotations(result), _slowed(result, steps), f"Figure: {path}")


def rates_study(out: Path, quick: bool, seed: int) -> None:
    """Measure the theory's rates; write `rates.png`; print tables."""
    path = figure_path(out, "rates")
    with progress_bar("rates", 13) as advance:
        result = rates_experiment(seed, quick, advance)
        plot_rates(result, path)
        advance("figure")
    show(_slopes(result), _rows(result.rows), f"Figure: {path}")


def laws_study(out: Path, quick: bool, seed: int) -> None:
    """Sample the known laws and exit times; write `laws.png`; print a table."""
    path = figure_path(out, "laws")
    with progress_bar("laws and exit times", 4) as advance:
        result = laws.laws_experiment(seed, quick, advance)
        plot_laws(result, path)
        advance("figure")
    show(_exit_times(result.exits), f"Figure: {path}")


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
    """Measured powers beside those of the theorems; of rows, those of tr(A H) / lambda_min(A H)."""
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
    rows = result.rows
    for name in rows.by_kappa:
        theory = Power.fit(rows.kappas, rows.theory(name)).slope
        table.add_row(f"rows, {name}", "kappa(H)", f"{rows.slope(name):z.3f}", f"{theory:z.3f}")
    return table


def _rows(study: RowsStudy) -> Table:
    """The fewest rows of each method, with the setting that needs them."""
    table = Table(title=f"Rows n T to an excess risk of {EPSILON}, at the best n and eta")
    table.caption = "of constant steps and the last iterate; rows that estimate V are not counted"
    for column in ("kappa(H)", "method", "rows", "n", "T", "eta"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for i, kappa in enumerate(study.kappas):
        for name, found in study.by_kappa.items():
            best = found[i].best
            numbers = f"{best.rows:,}", str(best.batch_size), f"{best.steps:,}"
            table.add_row(f"{kappa:g}", name, *numbers, f"{best.step_size:.3g}")
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

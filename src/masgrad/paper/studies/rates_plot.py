"""The figure of the rates: iterations, rows, closeness and discretisation, on logarithmic axes."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.paper.studies.rates import GROWTH_ETA, RatesExperiment
from masgrad.paper.studies.rows import EPSILON, PAPER_KAPPA, P, RowsStudy
from masgrad.plots import COLOURS
from masgrad.theory.samples.rates import ClosenessRate

BLUE, LIGHT, RED, ORANGE = COLOURS.values()
GREY = "#666666"
STYLES = {
    "gradient descent, linear": (RED, "s"),
    "Nesterov, linear": (ORANGE, "v"),
    "MasGrad, linear": (BLUE, "o"),
    "MasGrad, logistic": (LIGHT, "D"),
    "MasGrad, linear, far start": (GREY, "^"),
}
ROWS_STYLES = {"MasGrad": (BLUE, "o"), "SGD": (RED, "s"), "natural gradient": (GREY, "^")}


def plot_rates(result: RatesExperiment, path: Path) -> None:
    """Six panels; the legend has the slope of every line that has one."""
    figure, axes = plt.subplots(2, 3, figsize=(14.5, 9.2), layout="constrained")
    _iterations(axes[0, 0], result)
    _rows_against_kappa(axes[0, 1], result.rows)
    _rows_against_epsilon(axes[0, 2], result.rows)
    _closeness(axes[1, 0], result.closeness)
    _discretisation(axes[1, 1], result)
    _growth(axes[1, 2], result)
    for ax in axes.flat:
        ax.legend(fontsize=8)
        ax.grid(alpha=0.25, which="major")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _iterations(ax: Axes, result: RatesExperiment) -> None:
    for name, it in result.iterations.items():
        colour, marker = STYLES[name]
        label = f"{name}: slope {it.slope:.2f}"
        ax.loglog(it.kappa, it.steps, marker=marker, color=colour, label=label)
    ax.set(
        title="Deterministic update",
        xlabel="condition number of H",
        ylabel="steps to a relative error of 1e-4",
    )


def _rows_against_kappa(ax: Axes, study: RowsStudy) -> None:
    for name, found in study.by_kappa.items():
        colour, marker = ROWS_STYLES[name]
        rows, theory = np.array([f.rows for f in found]), study.theory(name)
        ax.loglog(study.kappas, rows, marker=marker, color=colour, label=name)
        ax.loglog(study.kappas, theory * rows[0] / theory[0], "--", color=colour)
    ax.plot([], [], "--", color="black", label="tr(A H) / lambda_min(A H), to scale")
    ax.axhline(P / (2 * EPSILON), ls=":", color=GREY, label="ERM: p / (2 epsilon)")
    ax.set(
        title=f"Rows n T to an excess risk of {EPSILON}",
        xlabel="condition number of H",
        ylabel="rows, at the best n and eta",
    )


def _rows_against_epsilon(ax: Axes, study: RowsStudy) -> None:
    for name, found in study.by_epsilon.items():
        colour, marker = ROWS_STYLES[name]
        rows = [f.rows for f in found]
        ax.loglog(study.epsilons, rows, marker=marker, color=colour, label=name)
    erm = P / (2 * study.epsilons)
    ax.loglog(study.epsilons, erm, ":", color=GREY, label="ERM: p / (2 epsilon)")
    ax.invert_xaxis()
    ax.set(
        title=f"Rows n T at condition number {PAPER_KAPPA}",
        xlabel="excess risk epsilon (noise variance 1)",
        ylabel="rows, at the best n and eta",
    )


def _closeness(ax: Axes, rate: ClosenessRate) -> None:
    n = rate.batch_sizes
    for values, floor, name, colour, marker, power in (
        (rate.ks, rate.ks_baseline, "KS", BLUE, "o", rate.ks_power),
        (rate.w2, rate.w2_baseline, "W2 / sd", ORANGE, "s", rate.w2_power),
    ):
        ax.loglog(n, values, marker=marker, color=colour, label=f"{name}: slope {-power.slope:.2f}")
        ax.loglog(n, floor, ":", color=colour, label=f"{name} of two copies of the diffusion")
    ax.set_xticks(n, [str(k) for k in n])
    ax.minorticks_off()
    ax.set_ylim(top=5 * rate.w2.max())  # room for the legend
    ax.set(
        title=f"Chain against diffusion, step {rate.steps}",
        xlabel="batch size n",
        ylabel="distance (worst coordinate)",
    )


def _discretisation(ax: Axes, result: RatesExperiment) -> None:
    for (name, d), colour, marker in zip(
        result.discretisation.items(), (BLUE, RED), ("o", "s"), strict=True
    ):
        label = f"{name}: slope {d.slope:.2f}"
        ax.loglog(d.step_sizes, d.distances, marker=marker, color=colour, label=label)
        ax.loglog(d.step_sizes, d.bounds, "--", color=colour, label=f"{name}: the lemma's bound")
    top = max(d.bounds.max() for d in result.discretisation.values())
    ax.set_ylim(top=20 * top)  # room for the legend
    steps = np.sort(next(iter(result.discretisation.values())).step_sizes)
    ax.set_xticks(steps, [f"{s:g}" for s in steps])
    ax.minorticks_off()
    ax.set(
        title="Diffusion against continuous time, t = 2",
        xlabel="step size eta",
        ylabel="Wasserstein-2 (coupled)",
    )


def _growth(ax: Axes, result: RatesExperiment) -> None:
    cases = {"hilltop": "smooth", "gentle slope": "convex", "bowl": "strongly convex"}
    for (name, g), colour, marker in zip(
        result.growth.items(), (RED, LIGHT, BLUE), ("s", "D", "o"), strict=True
    ):
        ax.semilogy(g.times, g.distances, marker=marker, color=colour, label=name)
        ax.semilogy(g.times, g.bounds, "--", color=colour, label=f"{name}: bound, {cases[name]}")
    ax.set_ylim(top=1e8)  # room for the legend
    ax.set(
        title=f"Diffusion against continuous time, eta = {GROWTH_ETA:g}",
        xlabel="time t = k eta",
        ylabel="Wasserstein-2 (coupled)",
    )

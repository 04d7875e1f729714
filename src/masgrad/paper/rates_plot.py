"""The figure of the rates: iterations, closeness and discretisation, all on logarithmic axes."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.paper.rates import RatesExperiment
from masgrad.plots import COLOURS
from masgrad.theory.rates import ClosenessRate

BLUE, LIGHT, RED, ORANGE = COLOURS.values()
GREY = "#666666"
STYLES = {
    "gradient descent, linear": (RED, "s"),
    "MasGrad, linear": (BLUE, "o"),
    "MasGrad, logistic": (LIGHT, "D"),
    "MasGrad, linear, far start": (GREY, "^"),
}


def plot_rates(result: RatesExperiment, path: Path) -> None:
    """Three panels; in each the slope of every line is in the legend."""
    figure, axes = plt.subplots(1, 3, figsize=(14.5, 4.6), layout="constrained")
    _iterations(axes[0], result)
    _closeness(axes[1], result.closeness)
    _discretisation(axes[2], result)
    for ax in axes:
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

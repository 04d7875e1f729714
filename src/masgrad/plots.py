"""Pictures, with colours that colour-blind readers can tell apart (Okabe & Ito).

A data chain is a filled band, its diffusion an outline, so that neither hides the other.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from masgrad.chains.trace import Trace

COLOURS = {"MasGrad": "#0072B2", "diff_MasGrad": "#56B4E9", "SGD": "#D55E00", "diff_SGD": "#E69F00"}


def plot_processes(
    traces: dict[str, Trace], optimum: np.ndarray, path: Path, title: str, steps: int
) -> None:
    """The paper's figure: bands of the iterate for each coordinate, and the log error below."""
    p = len(optimum)
    figure, axes = plt.subplot_mosaic(
        [[f"w{i}" for i in range(p)], ["error"] * p],
        figsize=(3.1 * p, 6.4),
        layout="constrained",
    )
    for i in range(p):
        draw_coordinate(axes[f"w{i}"], {n: t.finite()[..., i] for n, t in traces.items()}, steps)
        draw_level(axes[f"w{i}"], optimum[i])
        axes[f"w{i}"].set_title(f"coordinate {i + 1}")
    draw_error(axes["error"], {n: t.distance(optimum) for n, t in traces.items()}, steps)
    axes["w0"].set_ylabel("parameter (95 % of the chains)")
    save(figure, axes["w0"], path, f"{title}, {len(traces['SGD'].theta)} chains")


def draw_coordinate(ax: Axes, values: dict[str, np.ndarray], steps: int) -> None:
    """95 % bands of one coordinate, (chains, records), for each process."""
    for name, value in values.items():
        _band(ax, name, value[:, : steps + 1])
    ax.set(xlabel="step t")


def draw_level(ax: Axes, level: float, label: str = "optimum of the rows") -> None:
    """Where the optimum is."""
    ax.axhline(level, color="black", lw=1, ls=":", label=label)


def draw_error(ax: Axes, errors: dict[str, np.ndarray], steps: int) -> None:
    """Mean and 95 % band of the log error, (chains, records), for each process."""
    for name, error in errors.items():
        log_error = np.log(error[:, : steps + 1])
        _band(ax, name, log_error)
        style = "--" if name.startswith("diff_") else "-"
        ax.plot(log_error.mean(0), style, color=COLOURS[name], lw=1.8)
    ax.set(xlabel="step t", ylabel="log of the l2 error (mean, 95 % band)")


def save(figure: Figure, legend: Axes, path: Path, title: str) -> None:
    """One legend below all, a title above, and the file."""
    handles, labels = legend.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=len(once))
    figure.suptitle(title)
    figure.savefig(path, dpi=200)
    plt.close(figure)


def _band(ax: Axes, name: str, values: np.ndarray) -> None:
    lower, upper = np.quantile(values, [0.025, 0.975], axis=0)
    steps = np.arange(len(lower))
    if name.startswith("diff_"):
        ax.plot(steps, lower, "--", color=COLOURS[name], lw=1.2, label=name)
        ax.plot(steps, upper, "--", color=COLOURS[name], lw=1.2)
    else:
        ax.fill_between(steps, lower, upper, color=COLOURS[name], alpha=0.3, lw=0, label=name)
        ax.plot(steps, lower, steps, upper, color=COLOURS[name], lw=0.6)

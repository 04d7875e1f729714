"""Pictures, with colours that colour-blind readers can tell apart (Okabe & Ito).

A data chain is a filled band, its diffusion an outline, so that neither hides the other.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from masgrad.chains.trace import Trace

COLOURS = {"MasGrad": "#0072B2", "diff_MasGrad": "#56B4E9", "SGD": "#D55E00", "diff_SGD": "#E69F00"}
LEGEND_COLUMNS = 6
"""The most entries in a row of a legend."""


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
    axes["w0"].set_ylabel("parameter")
    save(figure, path, f"{title}, {len(traces['SGD'].theta)} chains")


def draw_coordinate(ax: Axes, values: dict[str, np.ndarray], steps: int) -> None:
    """95 % bands of one coordinate, (chains, records), for each process."""
    for name, value in values.items():
        _band(ax, name, value[:, : steps + 1])
    ax.set(xlabel="step t")


def draw_level(ax: Axes, level: float, label: str = "optimum of the rows") -> None:
    """Where the optimum is."""
    ax.axhline(level, color="black", lw=1, ls=":", label=label)


def draw_error(ax: Axes, errors: dict[str, np.ndarray], steps: int) -> None:
    """Mean and 95 % band of the natural log of the error, (chains, records), for each process."""
    for name, error in errors.items():
        log_error = np.log(error[:, : steps + 1])
        _band(ax, name, log_error)
        draw_mean(ax, name, log_error.mean(0))
    ax.set(xlabel="step t", ylabel="natural log of the l2 error")


def draw_mean(ax: Axes, name: str, values: np.ndarray) -> None:
    """A thick line for a process, dash-dotted for a diffusion, whose band is dashed."""
    style = "-." if name.startswith("diff_") else "-"
    ax.plot(values, style, color=COLOURS[name], lw=2.2, label=f"{name}, mean")


def save(figure: Figure, path: Path, title: str) -> None:
    """One legend below all for what any panel has labelled, a title above, and the file."""
    once: dict[str, Artist] = {}
    for ax in figure.axes:
        handles, labels = ax.get_legend_handles_labels()
        once |= dict(zip(labels, handles, strict=True))
    columns = -(-len(once) // -(-len(once) // LEGEND_COLUMNS))
    figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=columns)
    figure.suptitle(title)
    figure.savefig(path, dpi=200)
    plt.close(figure)


def _band(ax: Axes, name: str, values: np.ndarray) -> None:
    lower, upper = np.quantile(values, [0.025, 0.975], axis=0)
    steps = np.arange(len(lower))
    if name.startswith("diff_"):
        ax.plot(steps, lower, "--", color=COLOURS[name], lw=1.2, label=f"{name}, 95 % band")
        ax.plot(steps, upper, "--", color=COLOURS[name], lw=1.2)
    else:
        label = f"{name}, 95 % band"
        ax.fill_between(steps, lower, upper, color=COLOURS[name], alpha=0.3, lw=0, label=label)
        ax.plot(steps, lower, steps, upper, color=COLOURS[name], lw=0.6)

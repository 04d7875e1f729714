"""Pictures, with colours that colour-blind readers can tell apart (Okabe & Ito)."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.chains.trace import Trace

COLOURS = {"MasGrad": "#0072B2", "diff_MasGrad": "#56B4E9", "SGD": "#D55E00", "diff_SGD": "#E69F00"}


def plot_processes(traces: dict[str, Trace], optimum: np.ndarray, path: Path, title: str) -> None:
    """The paper's figure: bands of the iterate for each coordinate, and the log error below.

    The data chain is a filled band, its diffusion an outline, so that neither hides the other.
    """
    p = len(optimum)
    figure, axes = plt.subplot_mosaic(
        [[f"w{i}" for i in range(p)], ["error"] * p],
        figsize=(3.1 * p, 6.4),
        layout="constrained",
    )
    for i in range(p):
        _coordinate(axes[f"w{i}"], traces, optimum, i)
    _error(axes["error"], traces, optimum)
    axes["w0"].set_ylabel("parameter (95 % of the chains)")
    figure.legend(*axes["w0"].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _coordinate(ax: Axes, traces: dict[str, Trace], optimum: np.ndarray, i: int) -> None:
    for name, trace in traces.items():
        lower, upper = (band[:, i] for band in trace.interval(0.95))
        _band(ax, name, trace.steps, lower, upper)
    ax.axhline(optimum[i], color="black", lw=1, ls=":", label="optimum of the rows")
    ax.set(title=f"coordinate {i + 1}", xlabel="step t")


def _error(ax: Axes, traces: dict[str, Trace], optimum: np.ndarray) -> None:
    for name, trace in traces.items():
        log_error = np.log(trace.distance(optimum))
        lower, upper = np.quantile(log_error, [0.025, 0.975], axis=0)
        _band(ax, name, trace.steps, lower, upper)
        style = "--" if name.startswith("diff_") else "-"
        ax.plot(trace.steps, log_error.mean(0), style, color=COLOURS[name], lw=1.8)
    ax.set(xlabel="step t", ylabel="log of the l2 error (mean, 95 % band)")


def _band(ax: Axes, name: str, steps: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
    if name.startswith("diff_"):
        ax.plot(steps, lower, "--", color=COLOURS[name], lw=1.2, label=name)
        ax.plot(steps, upper, "--", color=COLOURS[name], lw=1.2)
    else:
        ax.fill_between(steps, lower, upper, color=COLOURS[name], alpha=0.3, lw=0, label=name)

"""The network's figure: one experiment's coordinates and error, and the losses of all fifty."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.chains.trace import Trace
from masgrad.plots import COLOURS, draw_coordinate, draw_error, draw_level, save


def plot_network(
    traces: dict[str, Trace],
    truth: np.ndarray,
    errors: dict[str, np.ndarray],
    numbers: dict,
    path: Path,
    title: str,
) -> None:
    """One experiment's coordinates, three a row; below, its error and all experiments."""
    rows = -(-len(truth) // 3) + 1
    figure, grid = plt.subplots(rows, 3, figsize=(13, 3.2 * rows), layout="constrained")
    coordinates, (error, dots, longer) = grid[:-1].ravel(), grid[-1]
    steps = len(traces["SGD"].steps) - 1
    for i, ax in enumerate(coordinates[: len(truth)]):
        draw_coordinate(ax, {n: t.finite()[..., i] for n, t in traces.items()}, steps)
        draw_level(ax, truth[i], "true parameter")
        ax.set_title(f"coordinate {i + 1}")
    for ax in grid[:-1, 0]:
        ax.set_ylabel("parameter")
    draw_error(error, errors, steps)
    error.set_title("to the optimum next to the truth, relabelled")
    _dots(dots, numbers, steps)
    _longer(longer, numbers, steps)
    chains = len(traces["SGD"].theta)
    dead, number = numbers["dead_starts"], numbers["shown_experiment"]
    text = f"{title}; experiment {number} of {numbers['experiments']}, {chains} chains"
    save(figure, path, f"{text}; starts without a gradient: {dead}")


def _dots(ax: Axes, numbers: dict, steps: int) -> None:
    """A dot-plot histogram of each experiment's population loss, SGD's hanging below."""
    names = {"diff_MasGrad": 1, "SGD": -1}
    losses = {name: np.array(numbers[f"losses_{name.lower()}"]) for name in names}
    losses = {name: loss[np.isfinite(loss)] for name, loss in losses.items()}
    pooled = np.concatenate(list(losses.values()))
    edges = np.geomspace(pooled.min() * 0.999, pooled.max() * 1.001, 31)
    for name, sign in names.items():
        bins = np.digitize(losses[name], edges) - 1
        for b in np.unique(bins):
            heights = sign * (np.arange((bins == b).sum()) + 0.6)
            middle = np.full(len(heights), np.sqrt(edges[b] * edges[b + 1]))
            ax.plot(middle, heights, "o", ms=4, color=COLOURS[name])
    ax.axhline(0, color="black", lw=0.8)
    ax.set(xscale="log", xlabel=f"population loss after {steps} steps", ylabel="experiments")
    ax.yaxis.set_major_formatter(lambda y, _: f"{abs(y):.0f}")
    wins = f"{numbers['wins']} of {numbers['experiments']}"
    ax.set_title(f"diff_MasGrad above: lower in {wins}")


def _longer(ax: Axes, numbers: dict, steps: int) -> None:
    """Each experiment's loss of SGD after more steps over diff_MasGrad's after few."""
    target = np.array(numbers["losses_diff_masgrad"])
    columns = [(steps, numbers["losses_sgd"])]
    columns += [(row["steps"], row["losses_sgd"]) for row in numbers["longer"]]
    spread = np.linspace(-0.25, 0.25, len(target))
    for place, (_, losses) in enumerate(columns):
        ratio = np.sort(np.array(losses) / target)
        ax.plot(place + spread, ratio, "o", ms=3, color=COLOURS["SGD"])
    ax.axhline(1, color="black", lw=1, ls=":")
    ax.set(yscale="log", xlabel="steps of SGD", ylabel=f"loss / diff_MasGrad's at {steps}")
    ax.set_xticks(range(len(columns)), [str(t) for t, _ in columns])
    ax.set_title("SGD run longer: a dot a start, sorted")

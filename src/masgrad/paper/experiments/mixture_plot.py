"""The mixture's figure: a row for each separation.

Coordinates and errors are those of the chains from the first start that settled in the order of
coordinates that is most common there; arrivals are over all chains.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.plots import draw_coordinate, draw_error, draw_level, draw_mean, save

if TYPE_CHECKING:
    from masgrad.paper.experiments.mixture import Separation


def plot_mixture(found: dict[str, "Separation"], radius: float, path: Path, title: str) -> None:
    """Per separation: three coordinates, the log error, and the share of chains that arrived."""
    figure, axes = plt.subplots(len(found), 5, figsize=(16, 3.6 * len(found)), layout="constrained")
    _share_y(axes[:, :3])
    _share_y(axes[:, 3])
    for row, (case, separation) in zip(axes, found.items(), strict=True):
        chains = {n: c for n, c in separation.settled_together().items() if len(c)}
        steps = separation.traces["SGD"].theta.shape[1] - 1
        _coordinates(row[:3], separation, chains, steps)
        errors = {n: separation.distance(n)[c] for n, c in chains.items()}
        draw_error(row[3], errors, steps)
        row[3].set_title("to the nearest permutation")
        _arrivals(row[4], separation, radius)
        row[0].set_ylabel(f"SNR = {separation.snr} ({case})\nparameter")
    any_one = next(iter(found.values()))
    starts = len(any_one.traces["SGD"].theta) // any_one.chains
    text = f"{title}; the first of {starts} starts with {any_one.chains} chains each"
    save(figure, path, text)


def _share_y(axes: np.ndarray) -> None:
    """One y axis for all, so that separations and coordinates can be compared."""
    first, *others = axes.ravel()
    for ax in others:
        ax.sharey(first)


def _coordinates(
    axes: np.ndarray, found: "Separation", chains: dict[str, np.ndarray], steps: int
) -> None:
    for i, ax in enumerate(axes):
        values = {n: found.traces[n].theta[c, :, i] for n, c in chains.items()}
        draw_coordinate(ax, values, steps)
        for level in found.optimum:
            draw_level(ax, level, "a coordinate of the optimum")
        ax.set_title(f"coordinate {i + 1}")


def _arrivals(ax: Axes, found: "Separation", radius: float) -> None:
    for name in found.traces:
        arrived = np.maximum.accumulate(found.distance(name) < radius, axis=1).mean(0)
        draw_mean(ax, name, arrived)
    ax.set(xlabel="step t", ylabel=f"share within {radius}", ylim=(-0.03, 1.03))
    ax.set_title("arrivals, all chains")

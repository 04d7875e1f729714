"""The proximal figure: gaps against steps and against seconds, a row for each problem."""

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.paper.proximal.claims import TITLES
from masgrad.paper.proximal.methods import ACCURACY, NAMES
from masgrad.plots import COLOURS, save

if TYPE_CHECKING:
    from masgrad.paper.proximal.experiment import Race

BLUE, LIGHT, RED, ORANGE = COLOURS.values()
STYLES = {
    "madprox": (BLUE, "-", 2.4),
    "diagonal": (LIGHT, "-", 1.8),
    "proximal_gradient": (RED, "-", 1.8),
    "fista": (ORANGE, "-", 1.8),
    "subgradient": ("#999999", "-", 1.0),
    "explicit": ("#555555", "--", 1.0),
}
LEAST = 1e-10
"""The smallest gap drawn, as a share of the first."""


def plot_proximal(races: dict[str, "Race"], path: Path, title: str) -> None:
    """Both axes are logarithmic; seconds are those of a mean step times the steps."""
    figure, axes = plt.subplots(
        len(races), 2, figsize=(12, 3.9 * len(races)), sharey="row", layout="constrained"
    )
    for row, (name, race) in zip(axes, races.items(), strict=True):
        for key in NAMES:
            steps = np.arange(1, len(race.gaps[key]))
            _line(row[0], key, steps, race.gaps[key][1:])
            _line(row[1], key, steps * race.step_seconds[key], race.gaps[key][1:])
        kappa = race.metrics["proximal_gradient"].kappa
        row[0].set_ylabel(f"{TITLES[name]}, condition number {kappa:.0f}\ngap / first gap")
        row[0].set_ylim(LEAST, 2)
    for column, label in zip(axes.T, ("step t", "seconds"), strict=True):
        for ax in column:
            ax.axhline(ACCURACY, color="black", lw=0.8, ls=":")
            ax.grid(alpha=0.25, which="major")
            ax.set_xlabel(label)
    save(figure, path, title)


def _line(ax: Axes, key: str, x: np.ndarray, gaps: np.ndarray) -> None:
    colour, style, width = STYLES[key]
    shown = gaps > LEAST / 10
    ax.loglog(x[shown], gaps[shown], style, color=colour, lw=width, label=NAMES[key])

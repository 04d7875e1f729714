"""A landscape as a picture: levels of the stationary points, and the minima with intervals.

Figures are made without pyplot's state: no window is opened, and none has to be closed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot  # noqa: F401  (notebooks learn from it to show figures)
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from masgrad.errors import printable
from masgrad.fitting.figures import BLUE, GREY, ORANGE, save_figure

if TYPE_CHECKING:  # for annotations alone
    from masgrad.modes.records import Landscape

MOST_PARAMETERS, MOST_MINIMA = 16, 8
"""Parameters and minima that are drawn; beyond, the first and the lowest."""

COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Of the minima, lowest first (Okabe & Ito)."""

LABEL_DISTANCE = 0.04
"""Distance of two risks, as a share of the panel, below which their numbers share a line."""

MARKERS = {"minimum": "o", "saddle": "X", "maximum": "^", "flat": "s"}


def plot(landscape: "Landscape", path: str | Path | None, alpha: float) -> Figure:
    """A panel of levels, and one of parameters if there is a minimum."""
    drawn = landscape.minima[:MOST_MINIMA]
    panels = 2 if drawn else 1
    figure = Figure(figsize=(4.2 * panels + 0.8, 4.2), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, panels))
    _levels(axes[0], landscape)
    if drawn:
        _parameters(axes[1], landscape, alpha)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    title = f"{landscape.model}, {landscape.rows:,} rows, {landscape.starts} starts"
    figure.suptitle(printable(title), fontsize="medium", parse_math=False)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


def _levels(ax: Axes, landscape: "Landscape") -> None:
    """The risk of every point above its number of negative eigenvalues."""
    minima = landscape.minima
    for kind, marker in MARKERS.items():
        if any(point.kind == kind for point in landscape):
            ax.plot([], [], marker, color=GREY, label=kind)
    for point in landscape:
        own = minima.index(point) if point in minima else len(COLOURS)
        colour = COLOURS[own] if own < len(COLOURS) else GREY
        fill = colour if point.is_morse or not point.halves else "none"
        at = point.signature.negative
        ax.plot(at, point.risk, MARKERS[point.kind], color=colour, mfc=fill, ms=8)
    most = max((point.signature.negative for point in landscape), default=0)
    ax.set_xlim(-0.3, most + 0.9)
    ax.set_xticks(range(most + 1))
    ax.margins(y=0.1)
    for negative in range(most + 1):
        _numbers(ax, landscape, negative)
    said = "number of the point, share of starts; open: doubtful"
    ax.set_xlabel(f"negative eigenvalues of H\n({said})")
    ax.set_ylabel("mean loss")
    ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.6)
    _legend(ax)


def _numbers(ax: Axes, landscape: "Landscape", negative: int) -> None:
    """The numbers of the points of one column, those of nearly equal risk on one line."""
    low, high = ax.get_ylim()
    lines: list[tuple[float, list[str]]] = []
    for k, point in enumerate(landscape):
        if point.signature.negative != negative:
            continue
        said = f"{k} ({point.share:.0%})" if point.share else f"{k}"
        if lines and point.risk - lines[-1][0] < LABEL_DISTANCE * (high - low):
            lines[-1][1].append(said)
        else:
            lines.append((point.risk, [said]))
    for height, said in lines:
        ax.annotate(
            ", ".join(said), (negative, height), (9, 0), textcoords="offset points",
            va="center", fontsize="small",
        )  # fmt: skip


def _legend(ax: Axes) -> None:
    """What marks mean, in a line above the panel."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(
            handles, labels, frameon=False, fontsize="small", ncols=4, loc="lower left",
            bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, handletextpad=0.2, columnspacing=1.0,
        )  # fmt: skip


def _parameters(ax: Axes, landscape: "Landscape", alpha: float) -> None:
    """The parameters of the minima, side by side, with intervals where there is a result."""
    minima = landscape.minima[:MOST_MINIMA]
    p = min(len(minima[0].theta), MOST_PARAMETERS)
    heights = np.arange(p)
    for own, point in enumerate(minima):
        at = heights + 0.6 * ((own + 0.5) / len(minima) - 0.5)
        number, marker = landscape.modes.index(point), "x"
        if point.result is not None:
            ends, marker = np.asarray(point.result.conf_int(alpha))[:p], "|"
            ax.hlines(at, ends[:, 0], ends[:, 1], color=COLOURS[own], lw=5, alpha=0.5)
        ax.plot(point.theta[:p], at, marker, color=COLOURS[own], ms=8, label=f"minimum {number}")
    names = landscape.names or tuple(f"theta[{j}]" for j in range(p))
    ax.set_yticks(heights, [printable(name) for name in names[:p]], parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"parameter, {100 * (1 - alpha):.4g} % intervals")
    ax.grid(axis="x", color=GREY, alpha=0.2, lw=0.6)
    _legend(ax)

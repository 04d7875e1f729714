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
    """The risk of every point above its number of negative eigenvalues; areas are shares."""
    minima, seen = landscape.minima, set()
    for k, point in enumerate(landscape):
        label = point.kind if point.kind not in seen else None
        seen.add(point.kind)
        own = minima.index(point) if point in minima else len(COLOURS)
        colour = COLOURS[own] if own < len(COLOURS) else GREY
        fill = colour if point.is_morse or not point.halves else "none"
        at = point.signature.negative
        ax.plot(at, point.risk, MARKERS[point.kind], color=colour, mfc=fill, ms=8, label=label)
        said = f"  {k}" + (f"  ({point.share:.0%})" if point.share else "")
        ax.annotate(said, (at, point.risk), (6, 0), textcoords="offset points", va="center",
                    fontsize="small")  # fmt: skip
    most = max((point.signature.negative for point in landscape), default=0)
    ax.set_xlim(-0.4, most + 0.8)
    ax.set_xticks(range(most + 1))
    ax.margins(y=0.08)
    ax.set_xlabel(
        "negative eigenvalues of H\n(number of the point, share of starts; open: doubtful)"
    )
    ax.set_ylabel("mean loss")
    ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.6)
    if seen:
        ax.legend(frameon=False, fontsize="small")


def _parameters(ax: Axes, landscape: "Landscape", alpha: float) -> None:
    """The parameters of the minima, side by side, with intervals where there is a result."""
    minima = landscape.minima[:MOST_MINIMA]
    p = min(len(minima[0].theta), MOST_PARAMETERS)
    heights = np.arange(p)
    for own, point in enumerate(minima):
        at = heights + 0.6 * ((own + 0.5) / len(minima) - 0.5)
        if point.result is not None:
            ends = np.asarray(point.result.conf_int(alpha))[:p]
            ax.hlines(at, ends[:, 0], ends[:, 1], color=COLOURS[own], lw=2.2, alpha=0.5)
        number = landscape.modes.index(point)
        ax.plot(point.theta[:p], at, "o", color=COLOURS[own], ms=4, label=f"minimum {number}")
    names = landscape.names or tuple(f"theta[{j}]" for j in range(p))
    ax.set_yticks(heights, [printable(name) for name in names[:p]], parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"parameter, {100 * (1 - alpha):.4g} % intervals")
    ax.grid(axis="x", color=GREY, alpha=0.2, lw=0.6)
    ax.legend(frameon=False, fontsize="small")

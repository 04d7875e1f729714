"""The picture of the benchmark: times of other programs over masgrad's, problem by problem."""

import pathlib
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from fit_files import ONE_SCAN
from fit_peers import FEOLS, GLUM, GRAM, SKLEARN, STATSMODELS
from fit_report import Ratio

STYLES = {
    GLUM: ("#c0392b", "o"),
    STATSMODELS: ("#2c5f8a", "s"),
    SKLEARN: ("#d68910", "D"),
    FEOLS: ("#6c3483", "^"),
    GRAM: ("#7f8c8d", "|"),
    ONE_SCAN: ("#2c3e50", "|"),
}
"""Colour and marker of each program; what is no fit is a tick."""


def draw(ratios: Sequence[Ratio], path: pathlib.Path, caption: str) -> None:
    """One line for each problem; dots are medians, bars ranges over the seeds."""
    problems = list(dict.fromkeys(ratio.problem for ratio in ratios))
    figure, ax = plt.subplots(figsize=(9, 1.5 + 0.52 * len(problems)), layout="constrained")
    draw_background(ax, ratios, problems)
    labelled: set[str] = set()
    for ratio in ratios:
        label = "" if ratio.program in labelled else ratio.program
        labelled.add(ratio.program)
        draw_ratio(ax, ratio, problems.index(ratio.problem), label)
    ax.set_title("Time of other programs over masgrad's", loc="left", weight="bold")
    ax.set_xlabel(f"time over masgrad's, logarithmic scale\n{caption}")
    figure.legend(loc="outside lower center", ncols=len(labelled), frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_background(ax: Axes, ratios: Sequence[Ratio], problems: Sequence[str]) -> None:
    """The axes, the line at 1, and the side on which masgrad is slower in grey."""
    low = 0.8 * min(min(ratio.values) for ratio in ratios)
    high = 1.6 * max(max(ratio.values) for ratio in ratios)
    ax.set_xscale("log")
    ax.set_xlim(min(low, 0.2), max(high, 5))
    ax.set_ylim(len(problems) - 0.5, -0.85)
    ax.axvspan(ax.get_xlim()[0], 1, color="#f2f2f2", zorder=0)
    ax.axvline(1, color="black", linewidth=1.2, zorder=1)
    for side, text in (
        (-1, "\N{LEFTWARDS ARROW} masgrad slower"),
        (1, "masgrad faster \N{RIGHTWARDS ARROW}"),
    ):
        ax.annotate(
            text, (1, -0.55), (8 * side, 0), textcoords="offset points", va="center",
            ha="left" if side > 0 else "right", fontsize=9, color="#555555",
        )  # fmt: skip
    ax.set_yticks(range(len(problems)), problems)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", color="#dddddd", linewidth=0.8)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def draw_ratio(ax: Axes, ratio: Ratio, line: int, label: str) -> None:
    color, marker = STYLES[ratio.program]
    ax.plot([min(ratio.values), max(ratio.values)], [line, line], color=color, linewidth=2.5)
    tick = {"markersize": 14, "markeredgewidth": 2.5}
    dot = {"markersize": 7.5, "markeredgewidth": 0}
    style = tick if marker == "|" else dot
    ax.plot(ratio.median, line, marker, color=color, label=label or None, zorder=3, **style)
    if ratio.program == GLUM:
        ax.annotate(
            f"{ratio.median:.2g}", (ratio.median, line), (0, 7), textcoords="offset points",
            ha="center", fontsize=8, color=color,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip

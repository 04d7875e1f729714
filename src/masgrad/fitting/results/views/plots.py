"""A result as a picture: coefficients with their intervals, and the path of the fit.

Figures are made without pyplot's state: no window is opened, and none has to be closed.
"""

import re
from pathlib import Path

import matplotlib.pyplot  # noqa: F401  (notebooks learn from it to show figures)
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from masgrad.errors import printable
from masgrad.fitting.figures import BLUE, GREY, ORANGE, save_figure
from masgrad.fitting.results.inference import Tested

DWARFING_INTERCEPT = 5.0
"""An intercept this many times as far from 0 as all else is left out, with a note."""
MOST_COEFFICIENTS = 100
"""Coefficients that are drawn; beyond, the first of them, with a note."""
NAME_LENGTH = 28
"""Characters of a name on one line."""


def plot(result: Tested, path: str | Path | None = None, alpha: float = 0.05) -> Figure:
    """A panel of coefficients, and below it one of the path where the fit recorded one."""
    ends = np.asarray(result.conf_int(alpha))
    shown, note = _shown(result, ends)
    names = [_wrapped(printable(result.labels[j])) for j in shown]
    rows = max(0.8, (0.27 if len(names) <= 20 else 0.19) * sum(map(len, names)))
    heights = [rows, 1.3] if result.fit_info.path else [rows]
    size = 7.5, sum(heights) + 0.4 + 0.7 * len(heights)
    figure = Figure(figsize=size, layout="constrained")
    panels = np.atleast_1d(figure.subplots(len(heights), height_ratios=heights))
    _coefficients(panels[0], result, ends, shown, names)
    said = f"{100 * (1 - alpha):.4g} % intervals for {result.target}"
    penalised = "" if result.penalized is None else "\ndiamonds: with the penalty"
    words = printable(f"coefficient, {said}{penalised}{note}", "\n")
    panels[0].set_xlabel(words, parse_math=False)
    title = f"{result.kind}, {result.nobs:,} rows, {result.status}"
    figure.suptitle(printable(title), fontsize="medium", parse_math=False)
    if result.fit_info.path:
        _path(panels[1], result.fit_info.path)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


def _shown(result: Tested, ends: np.ndarray) -> tuple[list[int], str]:
    """Indices of the coefficients that are drawn, and a note on the others."""
    reach = np.abs(np.where(np.isfinite(ends), ends, 0.0)).max(1)
    j, shown, note = _intercept(result), list(range(len(reach))), ""
    if (
        j is not None
        and len(reach) > 1
        and reach[j] > DWARFING_INTERCEPT * np.delete(reach, j).max()
    ):
        shown.remove(j)
        said = f"{result.labels[j]}, {ends[j, 0]:.4g} to {ends[j, 1]:.4g}"
        note = f"\nnot drawn, for its size: {said}"
    if len(shown) > MOST_COEFFICIENTS:
        note += f"\nthe first {MOST_COEFFICIENTS} of {len(shown)}"
    return shown[:MOST_COEFFICIENTS], note


def _intercept(result: Tested) -> int | None:
    """The constant column, which the fit has found, or one of that name."""
    if "Intercept" in result.names:
        return result.names.index("Intercept")
    return result.constant


def _coefficients(
    ax: Axes, result: Tested, ends: np.ndarray, shown: list[int], names: list[list[str]]
) -> None:
    """An interval a line, the first on top; one that is not identified is said to be so."""
    lines = np.array([len(name) for name in names])
    heights = np.cumsum(lines) - lines / 2
    ax.axvline(0.0, color=GREY, lw=0.8, ls=":")
    for j, at in zip(shown, heights, strict=True):
        if np.isfinite(ends[j]).all():
            ax.plot(ends[j], [at, at], color=BLUE, lw=2.2, alpha=0.55, solid_capstyle="butt")
            ax.plot(result.theta[j], at, "o", color=BLUE, ms=4.5)
            if result.penalized is not None:
                ax.plot(result.penalized[j], at, "D", color=ORANGE, ms=4.0, mfc="none")
        else:
            ax.annotate(
                "not identified", (0.5, at), xycoords=ax.get_yaxis_transform(), va="center",
                ha="center", color=GREY, fontsize="small",
            )  # fmt: skip
    size = "medium" if len(shown) <= 20 else "small"
    ax.set_yticks(heights, ["\n".join(name) for name in names], parse_math=False, fontsize=size)
    ax.set_ylim(lines.sum() + 0.2, -0.2)
    ax.margins(x=0.04)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=GREY, alpha=0.2, lw=0.6)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _wrapped(name: str) -> list[str]:
    """A name in lines, broken after a sign where it can be."""
    lines = [""]
    for part in re.findall(r"[^\W_]*[\W_]?", name):
        if lines[-1] and len(lines[-1] + part) > NAME_LENGTH:
            lines.append("")
        lines[-1] += part
    return lines


def _path(ax: Axes, path: tuple[tuple[str, float], ...]) -> None:
    """Distances from the estimate after each stage, on a logarithmic scale."""
    labels, distances = zip(*path, strict=True)
    seen = np.array(distances, float)
    floor = seen[seen > 0].min(initial=1.0) / 10
    ax.plot(np.maximum(seen, floor), "o-", color=BLUE, ms=4.5, lw=1.4)
    for j in np.flatnonzero(seen == 0):
        ax.annotate("0", (j, floor), (0, 6), textcoords="offset points", ha="center")
    ax.axhline(1.0, color=GREY, lw=0.8, ls=":")
    ax.set_yscale("log")
    ax.set_xticks(range(len(labels)), list(map(printable, labels)), parse_math=False)
    ax.set_ylabel("distance (s.e.)")
    ax.set_xlabel("path of the fit: from the estimate, in standard errors")
    ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)

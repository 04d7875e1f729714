"""A path of penalised estimates as a picture: coefficients, and the criterion, against lam."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from masgrad.errors import printable
from masgrad.fitting.figures import BLUE, GREY, ORANGE, save_figure

if TYPE_CHECKING:  # for annotations alone
    from masgrad.fitting.penalised.path import PenaltyPath

NAMED_LINES = 10
"""Coefficients with a name beside their line: the largest at the end of the path."""
LABEL_DISTANCE = 0.045
"""Distance between two names, as a share of the range."""


def plot_path(path: "PenaltyPath", file: str | Path | None = None) -> Figure:
    """A panel of coefficients, and one of the criterion if there was one."""
    panels = 2 if path.criterion else 1
    figure = Figure(figsize=(7.5, 3.4 * panels), layout="constrained")
    axes = np.atleast_1d(figure.subplots(panels, sharex=True))
    _coefficients(axes[0], path)
    if path.criterion:
        _criterion(axes[1], path)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=GREY, alpha=0.2, lw=0.6)
        if path.criterion:
            ax.axvline(path.lam, color=ORANGE, lw=1.2, ls="--")
    axes[-1].set_xscale("log")
    axes[-1].xaxis.set_minor_formatter(NullFormatter())
    axes[-1].invert_xaxis()
    axes[-1].set_xlabel("lam")
    if file is not None:
        save_figure(figure, Path(file))
    return figure


def _coefficients(ax: Axes, path: "PenaltyPath") -> None:
    """A line for each coefficient that is 0 at first; a constant's is left out."""
    lines = np.flatnonzero(path.coefs[0] == 0)
    ax.plot(path.lams, path.coefs[:, lines], color=BLUE, lw=1.2, alpha=0.7)
    end = np.abs(path.coefs[-1, lines])
    named = lines[np.argsort(end)[::-1][: min(NAMED_LINES, np.count_nonzero(end))]]
    named = named[np.argsort(path.coefs[-1, named])]
    for j, height in zip(
        named,
        _apart(path.coefs[-1, named], LABEL_DISTANCE * np.ptp(path.coefs[:, lines])),
        strict=True,
    ):
        name = printable(path.names[j]) if path.names else f"theta[{j}]"
        ax.annotate(
            name, (path.lams[-1], height), (4, 0), textcoords="offset points", va="center",
            fontsize="small", parse_math=False,
        )  # fmt: skip
    ax.set_ylabel("penalised coefficient")


def _apart(heights: np.ndarray, least: float) -> list[float]:
    """Rising heights, moved up where two would overlap."""
    out: list[float] = []
    for height in heights:
        out.append(max(float(height), out[-1] + least) if out else float(height))
    return out


def _criterion(ax: Axes, path: "PenaltyPath") -> None:
    label = {"cv": "loss on rows left out"}.get(path.criterion, path.criterion.upper())
    if path.errors.any():
        low, high = path.values - path.errors, path.values + path.errors
        ax.fill_between(path.lams, low, high, color=BLUE, alpha=0.2, lw=0)
    ax.plot(path.lams, path.values, "o-", color=BLUE, ms=3, lw=1.2)
    ax.set_ylabel(label)

"""The figure of the rotation experiment: angle, descent, and a chain with either root."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.paper.rotation import BATCH, DIMS, PAPER_RIDGE, RIDGES, RotationExperiment

COLOURS = ("#0072B2", "#E69F00", "#009E73")
STYLES = {"symmetric": "-", "rank_one": "--"}


def plot_rotation(result: RotationExperiment, path: Path) -> None:
    """Three panels; bands are the middle 80 % of the batches."""
    figure, (angle, descent, chains) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    _over_ridges(angle, result.angle)
    angle.set(ylabel="largest angle of the rotation (degrees)", title="How far H_n is turned")
    _over_ridges(descent, result.descent)
    descent.axhline(0, color="black", lw=1)
    descent.set_yscale("symlog", linthresh=1)
    descent.set(
        ylabel="smallest eigenvalue of (H + H')/2,\nrelative to the symmetric root's",
        title="Below 0, H_n b climbs for some b",
    )
    _errors(chains, result)
    figure.suptitle(f"The root of the rank-one recursion, batches of n = {BATCH}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _over_ridges(ax: Axes, values: np.ndarray) -> None:
    for p, colour, rows in zip(DIMS, COLOURS, values, strict=True):
        low, middle, high = np.quantile(rows, [0.1, 0.5, 0.9], axis=-1)
        ax.fill_between(RIDGES, low, high, color=colour, alpha=0.25, lw=0)
        ax.plot(RIDGES, middle, color=colour, label=f"p = {p}")
    ax.axvline(PAPER_RIDGE, color="grey", ls=":", label="the paper's, 1 / (n - 1)")
    ax.set(xscale="log", xlabel="ridge (the largest eigenvalue of Sigma is 1)")
    ax.legend(fontsize="small")


def _errors(ax: Axes, result: RotationExperiment) -> None:
    for (root, ridge), trace in result.chains.items():
        colour = COLOURS[0] if ridge == PAPER_RIDGE else COLOURS[1]
        error = trace.distance(result.optimum).mean(0)
        label = f"{root}, ridge {ridge:.0e}"
        ax.plot(trace.steps, error, STYLES[root], color=colour, label=label)
    ax.set(yscale="log", xlabel="step t", ylabel="mean l2 distance to the optimum")
    ax.set_title(f"MasGrad with V of the batch, p = {DIMS[0]}")
    ax.legend(fontsize="small")

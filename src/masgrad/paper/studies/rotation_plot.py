"""The figure of the rotation experiment: angle, descent, and a chain with either root."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from masgrad.paper.studies.rotation import (
    BATCH,
    CHAINS,
    DIMS,
    PAPER_RIDGE,
    RIDGES,
    SMALL_RIDGE,
    RotationExperiment,
)

COLOURS = ("#0072B2", "#E69F00", "#009E73")
CHAIN_COLOURS = {PAPER_RIDGE: "black", SMALL_RIDGE: "#CC79A7"}
STYLES = {"symmetric": "-", "rank_one": "--"}


def plot_rotation(result: RotationExperiment, path: Path) -> None:
    """Three panels: angle and descent against the ridge, and chains with either root."""
    figure, (angle, descent, chains) = plt.subplots(1, 3, figsize=(13.5, 4.6), layout="constrained")
    _over_ridges(angle, result.angle)
    angle.set(ylabel="largest angle (degrees)", title="How far H turns the symmetric root")
    angle.legend(fontsize="small")
    _over_ridges(descent, result.descent)
    descent.axhline(0, color="black", lw=1)
    descent.set(
        ylabel="smallest eigenvalue of (H + H')/2\nover that of the symmetric root",
        title="Below 0, H b climbs for some gradient b",
    )
    _errors(chains, result)
    batches = result.angle.shape[-1]
    figure.suptitle(
        f"The inverse root H of the rank-one recursion, n = {BATCH}: median and middle 80 % of "
        f"{batches} batches"
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _over_ridges(ax: Axes, values: np.ndarray) -> None:
    ax.axvline(PAPER_RIDGE, color="grey", ls=":", label="the paper's, 1 / (n - 1)")
    for p, colour, rows in zip(DIMS, COLOURS, values, strict=True):
        low, middle, high = np.quantile(rows, [0.1, 0.5, 0.9], axis=-1)
        ax.fill_between(RIDGES, low, high, color=colour, alpha=0.25, lw=0)
        ax.plot(RIDGES, middle, color=colour, label=f"p = {p}")
    ax.set(xscale="log", xlabel="ridge (the largest eigenvalue of Sigma is 1)")


def _errors(ax: Axes, result: RotationExperiment) -> None:
    for (root, ridge), trace in result.chains.items():
        error = trace.distance(result.optimum).mean(0)
        width = 1.5 if root == "symmetric" else 2.5  # the dashes show where two lines agree
        label = f"{root}, ridge {ridge:.0e}"
        style = {"color": CHAIN_COLOURS[ridge], "lw": width, "label": label}
        ax.plot(trace.steps, error, STYLES[root], **style)
    ax.set(yscale="log", xlabel="step t", ylabel=f"mean l2 distance of {CHAINS} chains")
    ax.set_title(f"MasGrad, V of the batch, p = {DIMS[0]}")
    ax.legend(fontsize="small")

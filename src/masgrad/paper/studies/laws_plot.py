"""The figure of the known laws: Gibbs, Ornstein-Uhlenbeck, MasGrad's own, and exit times."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from masgrad.paper.studies import laws
from masgrad.paper.studies.laws import LawsExperiment
from masgrad.plots import COLOURS
from masgrad.theory.processes.invariant import spherical_law

BLUE, LIGHT, RED, _ = COLOURS.values()


def plot_laws(result: LawsExperiment, path: Path) -> None:
    """Four panels: a histogram, a cloud with its ellipse, log densities, exit times."""
    figure, grid = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    axes = grid.ravel()
    _gibbs(axes[0], result.gibbs[:, 0])
    _ornstein_uhlenbeck(axes[1], result.ornstein_uhlenbeck)
    _own(axes[2], result.own)
    _exits(axes[3], result.exits)
    for ax in axes:
        ax.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _gibbs(ax: Axes, sample: np.ndarray) -> None:
    beta = laws.gibbs_beta()
    cdf = laws.gibbs_cdf(laws.GIBBS_DEPTH, beta)
    ax.hist(sample, 100, density=True, color=LIGHT, label="diffusion of SGD, V = I")
    density = np.gradient(cdf, laws.GRID)
    ax.plot(laws.GRID, density, color=RED, label="Gibbs law, exp(-beta L)")
    ax.set(title=f"Double well, beta = {beta:g}", xlabel="theta", ylabel="density", xlim=(-2, 2))
    ax.set_ylim(top=1.3 * density.max())  # room for the legend


def _ornstein_uhlenbeck(ax: Axes, sample: np.ndarray) -> None:
    some = sample[:3000]
    ax.plot(*some.T, ".", ms=2, color=LIGHT, label="diffusion of SGD")
    values, vectors = np.linalg.eigh(laws.ornstein_uhlenbeck_cov())
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 2 * np.sqrt(5.991 * values[::-1])
    label = "95 % of N(0, S), C S + S C' = (2/beta) V V'"
    ax.add_patch(Ellipse((0, 0), width, height, angle=angle, fill=False, color=RED, label=label))
    ax.set(title="Linear b, constant V", xlabel="theta 1", ylabel="theta 2", aspect="equal")


def _own(ax: Axes, samples: dict[float, np.ndarray]) -> None:
    """Both laws have the same Gaussian at the optimum, N(0, sigma / beta), and other tails."""
    beta, edges = laws.own_beta(), np.linspace(0.0, 1.6, 65)
    for (kurtosis, sample), colour in zip(samples.items(), (BLUE, RED), strict=True):
        counts, _ = np.histogram(np.abs(sample[:, 0]), edges)
        density = counts / counts.sum() / np.diff(edges)
        rows = "normal rows" if kurtosis == 1 else f"heavy-tailed rows, c = {kurtosis:g}"
        centres = (edges[1:] + edges[:-1]) / 2
        seen = counts >= 5
        ax.plot(centres[seen], density[seen], ".", color=colour, label=f"diffusion, {rows}")
        law = spherical_law(1, beta, 1.0, kurtosis)
        label = f"exp(-(beta / k) sqrt(k d^2 + 1)), k = {3 * kurtosis - 1:g}"
        ax.plot(law.points, law.density, color=colour, label=label)
    gaussian = 2 * np.sqrt(beta / (2 * np.pi)) * np.exp(-beta * edges**2 / 2)
    ax.plot(edges, gaussian, ":", color="black", label="N(0, 1 / beta), the linearised law")
    ax.set(
        yscale="log",
        title=f"MasGrad's own law: y = x theta* + noise, beta = {beta:g}",
        xlabel="d = |theta - theta*|",
        ylabel="density (log scale)",
        xlim=(0, 1.6),
        ylim=(1e-4, 10),
    )


def _exits(ax: Axes, exits: laws.Exits) -> None:
    label = f"simulated, 2 standard errors: slope {exits.slope:.4f}"
    ax.errorbar(
        exits.beta, exits.simulated, 2 * exits.standard_error, fmt="o", color=BLUE, label=label
    )
    ax.plot(exits.beta, exits.exact, color=RED, label=f"integral: slope {exits.exact_slope:.4f}")
    kramers = np.exp(laws.DEPTH * (exits.beta - exits.beta[0])) * exits.exact[0]
    ax.plot(
        exits.beta,
        kramers,
        ":",
        color="black",
        label=f"slope h = {laws.DEPTH} from the first point",
    )
    ax.set(
        yscale="log",
        title="Leaving a basin of depth h",
        xlabel="beta = 2n / eta",
        ylabel="mean exit time t = k eta",
    )

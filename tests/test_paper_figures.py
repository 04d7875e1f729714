"""The mixture's, the network's and MadProx's figures at sizes that take seconds."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.optimize import minimize

from masgrad.covariance.moments import moments
from masgrad.kernels.methods import masgrad
from masgrad.kernels.stability import linearise
from masgrad.paper.experiments import mixture, network, network_basins, network_population
from masgrad.paper.proximal.methods import NAMES
from masgrad.paper.proximal.plot import plot_proximal


@pytest.fixture
def kept(monkeypatch):
    """Figures that were saved, still open."""
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    yield figures
    monkeypatch.undo()
    for figure in figures:
        plt.close(figure)


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.long
def test_a_small_mixture(tmp_path, monkeypatch, kept):
    """Numbers of 20 chains by hand; coordinates on one axis, errors on another."""
    monkeypatch.setattr(mixture, "QUICK", mixture.Size(1000, 2, 10))
    found = mixture.mixture_experiment(0, quick=True)
    for case, snr in mixture.SNR.items():
        x = found.numbers[case]
        assert x["snr"] == snr and len(x["reached_by_start_sgd"]) == 2
        assert sum(x["permutations_masgrad"].values()) == 20
        assert np.mean(x["reached_by_start_sgd"]) == pytest.approx(x["reached_sgd"])
    assert found.numbers["hard"]["reached_masgrad"] > found.numbers["hard"]["reached_sgd"]
    found.draw(tmp_path / "mixture.png")
    grid = np.array(kept[0].axes).reshape(2, 5)
    assert len({ax.get_ylim() for ax in grid[:, :3].ravel()}) == 1
    assert len({ax.get_ylim() for ax in grid[:, 3]}) == 1 != len({ax.get_ylim() for ax in grid[0]})
    assert all(ax.get_xlabel() == "step t" for ax in grid.ravel())
    assert "natural log" in grid[0, 3].get_ylabel()
    for name in ("MasGrad", "diff_MasGrad", "SGD", "diff_SGD"):
        assert {f"{name}, mean", f"{name}, 95 % band"} <= set(legend_of(kept[0]))


@pytest.fixture
def few(monkeypatch):
    """Six starts with five chains each, and short runs beyond step 100."""
    for module in (network, network_population):
        monkeypatch.setattr(module, "EXPERIMENTS", 6)
    monkeypatch.setattr(network, "FEW_CHAINS", 5)
    monkeypatch.setattr(network, "LONGER", (200, 300))
    monkeypatch.setattr(network, "LONGER_MASGRAD", 200)


@pytest.mark.long
@pytest.mark.usefixtures("few")
def test_a_small_network_shows_a_start_that_moves(tmp_path, kept):
    """No row has a gradient at the first start of seed 5: it is counted, and not shown."""
    landscape = network_population.network_rows(2, 2, 5)
    assert not landscape.model.gradients(landscape.starts[0], landscape.rows).any()
    assert landscape.live.tolist() == [False] + [True] * 5
    found = network.network_experiment(5, quick=True)
    x = found.numbers
    assert x["dead_starts"] == 1 and x["shown_experiment"] == 2 and x["experiments"] == 6
    assert x["losses_masgrad"][0] == x["losses_sgd"][0]  # neither moves
    assert x["wins"] == (np.array(x["losses_diff_masgrad"]) < x["losses_sgd"]).sum()
    assert [row["steps"] for row in x["longer"]] == [200, 300]
    first = next(c for c in found.claims if "45 of 50" in c.claim)
    assert first.measured.endswith("1 starts have no gradient. Reproduced: at least 80%")
    found.draw(tmp_path / "network.png")
    (figure,) = kept
    assert figure.get_suptitle().endswith("starts without a gradient: 1")
    assert "experiment 2 of 6" in figure.get_suptitle()
    for ax in figure.axes[:6]:
        paths = [line for line in ax.lines if line.get_label() != "true parameter"]
        assert len(paths) == 8 and all(np.ptp(path.get_ydata()) > 0 for path in paths)


def test_basins_are_of_the_optimum_that_a_point_leads_to():
    """SciPy's Nelder-Mead, without a gradient, finds the polished points no better."""
    landscape = network_population.network_rows(2, 2, 0)
    ends = network_basins.polished(landscape, landscape.starts[:4])
    for start, end in zip(landscape.starts, ends, strict=False):
        risk = landscape.model.risk(end, landscape.rows)
        assert risk <= landscape.model.risk(start, landscape.rows)
        other = minimize(
            lambda t: landscape.model.risk(t, landscape.rows), end, method="Nelder-Mead",
            options={"maxfev": 200},
        ).fun  # fmt: skip
        assert other > risk - 1e-6


def test_the_networks_step_is_near_masgrads_longest_at_some_optima():
    """Of the ten populations in PAPER.md's erratum: the shortest, and the longest."""
    for seed, longest in ((4, 0.069), (2, 0.300)):
        landscape = network_population.network_rows(2, 2, seed)
        m = moments(landscape.model, network_population.fit(landscape), landscape.rows)
        assert linearise(masgrad(0.1), m).longest_step() == pytest.approx(longest, abs=0.002)


def test_every_panel_of_the_proximal_figure_says_what_its_axis_is(tmp_path, kept):
    gaps = {key: np.geomspace(1, 1e-8, 9) for key in NAMES}
    metrics = {"proximal_gradient": SimpleNamespace(kappa=10.0)}
    race = SimpleNamespace(gaps=gaps, step_seconds=dict.fromkeys(NAMES, 1e-3), metrics=metrics)
    plot_proximal({"lasso": race, "trace": race}, tmp_path / "proximal.png", "title")
    assert [ax.get_xlabel() for ax in kept[0].axes] == ["step t", "seconds"] * 2
    assert legend_of(kept[0]) == list(NAMES.values())

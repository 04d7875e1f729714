"""The paper's experiments at their quick sizes: the numbers of NAME.json against what is known."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.stats import binomtest, ks_2samp, norm
from sklearn.linear_model import Lasso

import masgrad as mg
from conftest import alpha
from masgrad.chains.trace import Trace
from masgrad.paper.experiment import Claim, Experiment
from masgrad.paper.experiments import (
    convergence,
    linear,
    logistic,
    mixture,
    network_population,
    processes,
)
from masgrad.paper.proximal import claims as proximal_claims
from masgrad.paper.proximal import methods as proximal_methods
from masgrad.paper.proximal import problems as proximal_problems
from masgrad.paper.report.commands import report
from masgrad.paper.report.page import page
from masgrad.paper.report.registry import ENTRIES, Entry
from masgrad.paper.report.spread import spread

VERDICTS = {"reproduced", "partly", "not", None}


def written(name, out, seed):
    """Run an experiment at its quick size; what it wrote."""
    report(name, out, True, seed)
    content = json.loads((out / f"{name}.json").read_text())
    assert (out / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert content["seed"] == seed and content["quick"] and content["settings"]
    assert content["versions"]["masgrad"] == mg.__version__
    assert content["claims"] and {c["verdict"] for c in content["claims"]} <= VERDICTS
    for key in ENTRIES[name].headline:
        node = content
        for part in key.split("."):
            node = node[part]
        assert node is None or isinstance(node, int | float)
    return content


def verdict(content, words):
    (found,) = [c["verdict"] for c in content["claims"] if words in c["claim"]]
    return found


# The linear experiment.


@pytest.mark.long  # the command line runs it in make test
@pytest.mark.statistical(4)
def test_linear(tmp_path, seed):
    """Slopes are the local rates', floors those of the stationary law, chains as diffusions."""
    x = written("linear", tmp_path, seed)
    (X, y), _ = linear.linear_rows(seed)
    values = np.linalg.eigvalsh(X.T @ X)
    assert x["condition_number"] == pytest.approx(values[-1] / values[0])
    assert x["kappa_masgrad"] == pytest.approx(np.sqrt(x["condition_number"]), rel=0.25)
    assert x["kappa_masgrad"] < x["kappa_masgrad_over_region"]
    assert x["settings"]["step_sizes"]["SGD"] == pytest.approx(500 / values[-1])
    optimum = np.linalg.lstsq(X, y, rcond=None)[0]
    V = mg.moments(mg.Linear(), optimum, (X, y)).root().solve(np.eye(4))
    gamma = np.linalg.eigvals(V @ X.T @ X / 500).real.max()
    assert x["settings"]["step_sizes"]["MasGrad"] == pytest.approx(1 / gamma, rel=1e-6)
    for name in ("masgrad", "diff_masgrad", "sgd", "diff_sgd"):
        method = name.removeprefix("diff_")
        allowed = norm.isf(alpha() / 2) * x[f"error_se_{name}"]
        predicted = x[f"predicted_error_{method}"]
        assert abs(x[f"error_{name}"] - predicted) < allowed + 0.05 * predicted
        assert x[f"slope_{name}"] == pytest.approx(_expected_slope(x, method, (X, y)), rel=0.3)
    assert x["slope_ratio"] > 2 and verdict(x, "twice") == "reproduced"
    assert x["floor_masgrad"] > x["floor_sgd"]
    assert x["unevenness_masgrad"] < x["unevenness_sgd"]
    assert x["slope_sgd"] == pytest.approx(x["local_slope_sgd"], rel=0.5)
    assert x["reject_share_masgrad"] < 0.2 and x["reject_share_sgd"] < 0.25


def _expected_slope(x, method, data):
    """Of the deterministic update's error with the stationary one added, from the same start."""
    kernel = {"masgrad": mg.masgrad, "sgd": mg.sgd}[method]
    eta = x["settings"]["step_sizes"]["MasGrad" if method == "masgrad" else "SGD"]
    start, optimum = (np.array(x["settings"][k]) for k in ("start", "optimum"))
    path = mg.run(kernel(eta), mg.Linear(), data, start, 300, None, 1)
    floor = x[f"predicted_error_{method}"]
    curve = np.log(np.hypot(path.distance(optimum)[0], floor))
    return convergence.slope(curve, np.log(floor))


@pytest.mark.statistical(1)
def test_the_share_of_rejections_is_that_of_exact_tests(rng):
    """On independent columns: as SciPy's test decides, and at its exact level."""
    a, b = (Trace(rng.normal(size=(100, 251, 8)), np.arange(251)) for _ in range(2))
    columns = [(t.theta[:, 1:].reshape(100, -1)) for t in (a, b)]
    p_values = [ks_2samp(u, v)[1] for u, v in zip(*(c.T for c in columns), strict=True)]
    share = processes.reject_share(a, b, 250)
    assert share == np.mean(np.array(p_values) <= 0.05)
    level = ks_2samp(np.arange(100), np.arange(100) + 19.5)[1]  # the least distance rejected
    assert binomtest(round(share * 2000), 2000, level).pvalue > alpha()
    shifted = Trace(a.theta + 1.0, a.steps)
    assert processes.reject_share(shifted, b, 250) > 0.99


def test_a_claim_of_closeness_is_a_rank_test():
    for share, words in ((0.06, "reproduced"), (0.07, "partly"), (0.3, "not")):
        numbers = {f"reject_share_{m}": share for m in ("masgrad", "sgd")}
        numbers |= {f"reject_shares_copies_{m}": [0.02, 0.06] for m in ("masgrad", "sgd")}
        assert {c.verdict for c in processes.closeness_claims(numbers)} == {words}


def test_rates_floors_and_times_of_known_curves():
    t = np.arange(200)
    curve = np.log(np.exp(-0.1 * t) * 8 + 0.01)
    level = convergence.floor(curve, 50)
    assert level == pytest.approx(np.log(0.01), abs=1e-3)
    assert convergence.slope(curve, level) == pytest.approx(-0.1, rel=0.1)  # it bends at the floor
    assert convergence.reaches(curve, level + np.log(2)) == np.ceil(np.log(800) / 0.1)
    assert convergence.reaches(curve, -99.0) is None
    mean = np.stack([np.exp(-t / 7.5), 2 - np.exp(-t / 31.5)], 1)
    times = convergence.time_constants(mean, np.array([0.0, 2.0]))
    assert times == [8, 32] and convergence.unevenness(times) == 4
    assert convergence.time_constants(mean[:9], np.array([0.0, 2.0])) == [8, None]
    assert convergence.latest([3, 7]) == 7 and convergence.latest([3, None]) is None


@pytest.mark.statistical(1)
def test_settling_is_seen_where_it_happens(rng):
    """An autoregression from 10 standard deviations away: e^(-t/20) falls below 0.04 at t = 65."""
    a, chains = np.exp(-1 / 20), 4000
    theta = np.empty((chains, 601, 1))
    theta[:, 0] = 10.0
    for t in range(600):
        theta[:, t + 1] = a * theta[:, t] + np.sqrt(1 - a**2) * rng.normal(size=(chains, 1))
    last = slice(400, 601)
    (step,) = convergence.settled(theta, last, 50)
    allowed = norm.isf(alpha() / 2) / np.sqrt(chains)  # the mean's error, in standard deviations
    late = -20 * np.log((0.4 - allowed) / 10)
    assert -20 * np.log((0.4 + allowed) / 10) - 1 <= step <= late + 1
    # Passing through the mean of its own last records is not being stationary.
    moving = theta[:, -1:] + 10 * np.exp(-np.arange(601) / 200)[:, None]
    assert convergence.settled(moving, last, 50) == [None]


# The logistic experiment.


@pytest.mark.statistical(1)
def test_logistic(tmp_path, seed):
    """MasGrad's error at step 100 is its stationary law's; SGD is still on its way."""
    x = written("logistic", tmp_path, seed)
    data, _ = logistic.logistic_rows(seed)
    optimum = np.array(x["settings"]["optimum"])
    assert np.abs(mg.moments(mg.Logistic(), optimum, data).mean).max() < 1e-6
    law = mg.stationary_law(mg.Logistic(), data, optimum, mg.masgrad(0.2), 25)
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(4), law.cov, 100_000)
    lengths = np.linalg.norm(draws, axis=1)
    allowed = norm.isf(alpha() / 2) * lengths.std() / 10  # 100 chains
    assert abs(x["final_error_masgrad"] - lengths.mean()) < allowed + 0.2 * lengths.mean()
    assert x["stationary_step_sgd"] is None
    assert x["final_error_sgd"] > x["final_error_masgrad"]
    assert x["stationary_step_masgrad"] < 150
    assert len(x["stationary_steps_sgd"]) == 4
    assert x["slope_ratio"] == pytest.approx(
        x["local_slope_masgrad"] / x["local_slope_sgd"], rel=0.35
    )
    assert [row["eta"] for row in x["step_sizes"]] == [0.1, 0.4]
    _check_page(x, tmp_path)


def _check_page(x, out):
    """One file with the figure in it, the verdicts, the spread, and nothing from elsewhere."""
    keys = ENTRIES["logistic"].headline
    others = {k: {"median": 1.0, "min": 0.5, "max": 2.0, "values": [0.5, None]} for k in keys}
    counts = {c["claim"]: {"reproduced": 2, "partly": 0, "not": 1} for c in x["claims"]}
    over = {"seeds": [1, 2, 3], "numbers": others, "verdicts": counts}
    text = page({"logistic": x | {"spread": over}}, {"logistic": keys}, {"soon": "<why>"}, out)
    (image,) = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert base64.b64decode(image) == (out / "logistic.png").read_bytes()
    assert (
        "quick size" in text and "2 reproduced, 1 not" in text and "1 (0.5 to 2), none in 1" in text
    )
    assert "&lt;why&gt;" in text and not re.search(r"https?:|<script|<link|url\(", text)


# The mixture.


@pytest.mark.long
def test_mixture(tmp_path):
    """With well separated components SGD is quicker; with overlapping ones MasGrad is (seed 0)."""
    seed = 0
    x = written("mixture", tmp_path, seed)
    for number, (case, snr) in enumerate(mixture.SNR.items()):
        rows = mixture.mixture_rows(snr, mixture.QUICK.rows, [seed, number])
        optimum = np.array(x[case]["optimum"])
        m = mg.moments(mg.GaussianMixture(3, 1 / snr), optimum, rows)
        assert np.abs(m.mean).max() < 1e-7 and np.linalg.eigvalsh(m.hessian).min() > 0
        for name in ("masgrad", "diff_masgrad", "sgd", "diff_sgd"):
            counts, there = x[case][f"permutations_{name}"], x[case][f"there_at_end_{name}"]
            assert sum(counts.values()) == 100 and len(counts) == 7
            assert counts["elsewhere"] == round(100 * (1 - there))
            assert there <= x[case][f"reached_{name}"]
    easy, hard = x["easy"], x["hard"]
    assert easy["reached_masgrad"] > 0.6 and easy["reached_sgd"] > 0.6
    assert easy["median_step_masgrad"] > easy["median_step_sgd"]
    assert verdict(x, "SNR 3.3 (easy): quicker") != "reproduced"
    assert hard["reached_masgrad"] > hard["reached_sgd"]
    assert verdict(x, "SNR 1.0 (hard): quicker") == "reproduced"


def test_arrivals_orders_and_gaps_of_known_paths():
    """Two chains of one start: one arrives at step 2 in the order 213, one never."""
    optimum = np.array([1.0, 2.0, 3.0])
    there = np.array([[0.0, 0.0, 3.0], [2.0, 0.0, 3.0], [2.0, 1.1, 3.0]])
    never = np.tile([5.0, 6.0, 9.0], (3, 1))
    trace = Trace(np.stack([there, never]), np.arange(3))
    found = mixture.Separation(1.0, optimum, dict.fromkeys(processes.NAMES, trace), 2)
    np.testing.assert_allclose(found.distance("SGD")[0], [np.sqrt(5), 1.0, 0.1])
    x = mixture._numbers(found)
    assert x["reached_sgd"] == 0.5 and x["median_step_sgd"] == 2
    assert x["median_step_all_sgd"] is None
    counts = x["permutations_sgd"]
    assert counts["213"] == counts["elsewhere"] == 1 and sum(counts.values()) == 2


# The network.


@pytest.mark.long
@pytest.mark.statistical(1)
def test_network(tmp_path):
    """Wins beyond what chance gives (seed 0), and no loss below that of the noise."""
    x = written("network", tmp_path, 0)
    assert x["experiments"] == 50
    for wins in (x["wins"], x["wins_masgrad"]):
        assert binomtest(wins, 50, 0.5, "greater").pvalue < 1e-4
    noise = network_population.NOISE**2 / 2
    allowed = norm.isf(alpha() / 2) * np.sqrt(2 / network_population.FRESH)
    for name in ("diff_masgrad", "masgrad", "sgd"):
        assert len(x[f"losses_{name}"]) == 50
        assert min(x[f"losses_{name}"]) > noise * (1 - allowed)
    ahead = np.array(x["losses_diff_masgrad"]) < np.array(x["losses_sgd"])
    assert x["wins"] == ahead.sum()
    last = x["longer"][-1]
    assert last["steps"] == 3000 and last["wins"] < x["wins"]
    assert last["sgd_stuck"] <= last["sgd_clearly_worse"] <= x["wins"]
    assert verdict(x, "non-Gaussian") is None  # 20 chains are too few to judge it


def test_unevenness_is_of_the_way_to_the_order_that_is_common():
    """Two coordinates with time constants 4 and 8 steps; the third starts where it ends."""
    t = np.arange(60)
    path = np.stack([1 + 4 * np.exp(-t / 3.5), 2 - 3 * np.exp(-t / 7.5), np.full(60, 3.1)], 1)
    trace = Trace(path[None], t)
    optimum = np.array([1.0, 2.0, 3.0])
    found = mixture.Separation(1.0, optimum, dict.fromkeys(processes.NAMES, trace), 1)
    assert mixture._numbers(found)["unevenness_masgrad"] == 2


def test_losses_and_labels_of_networks(rng):
    landscape = network_population.network_rows(3, 2, 0)
    theta = rng.normal(size=(4, 8))
    W1, W2 = theta[:, :6].reshape(4, 2, 3), theta[:, 6:]
    X, y = landscape.fresh
    hidden = np.maximum(1 + np.einsum("khd,nd->knh", W1, X), 0)
    out = np.maximum(1 + np.einsum("knh,kh->kn", hidden, W2), 0)
    expected = ((y - out) ** 2 / 2).mean(1).reshape(2, 2)
    np.testing.assert_allclose(network_population.population_loss(landscape, theta, 2), expected)
    same = network_population.relabelled(landscape.model, theta[0])
    assert len(same) == 2 and not np.allclose(*same)
    first, second = network_population.predict(landscape.model, np.array(same), X)
    np.testing.assert_allclose(first, second)


# MadProx.


@pytest.mark.long
def test_proximal(tmp_path, seed):
    """What the proposition says of every V, and of the root of H."""
    x = written("proximal", tmp_path, seed)
    for problem, kappa in ("lasso", 1000.0), ("trace", 100.0):
        n = x[problem]
        assert n["kappa_gd"] == pytest.approx(kappa) and n["kappa_ratio"] == pytest.approx(1)
        assert 1.5 < n["kappa_ratio_diagonal"] < 0.9 * np.sqrt(kappa)  # neither V nor I
        for key in proximal_methods.METRICS:
            assert n[f"increases_{key}"] == 0 and n[f"gap_over_epsilon_{key}"] <= 1
            assert n[f"early_steps_{key}"] < n[f"steps_{key}"] <= n[f"theory_steps_{key}"]
        assert n["inner_steps_madprox"] > 0 and n["inner_steps_proximal_gradient"] == 0
        assert n["increases_fista"] > 0 and n["steps_madprox"] < n["steps_fista"]
        assert n["steps_explicit"] is None and n["steps_subgradient"] is None
    n = x["lasso"]
    assert n["slow_direction_in_support"] > 0.99 and n["inner_steps_diagonal"] == 0
    fewer = n["steps_proximal_gradient"] / n["steps_madprox"]
    assert fewer == pytest.approx(np.sqrt(1000), rel=0.25)
    assert n["nonzeros_madprox"] == n["nonzeros"] < n["nonzeros_explicit"] == 40
    assert x["trace"]["rank_madprox"] == x["trace"]["rank"] < x["trace"]["rank_explicit"] == 10
    for words in ("at most epsilon", "increases the loss"):
        assert verdict(x, words) == "reproduced"
    assert verdict(x, "about sqrt(kappa_GD)") != "not"


def test_optima_of_the_proximal_problems(seed):
    """The lasso's is scikit-learn's; the matrix's meets the nuclear norm's conditions."""
    a = proximal_problems.lasso(seed)
    X, y = a.rows
    np.testing.assert_allclose(X.T @ X / len(y), a.H, atol=1e-12)
    other = Lasso(float(a.penalty.lam), fit_intercept=False, tol=1e-14, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(a.optimum, other.coef_, atol=1e-8)
    b = proximal_problems.trace_regression(seed, 6)
    z = -(b.H @ b.optimum - b.c).reshape(6, 6) / float(b.penalty.lam)
    U, s, Vh = np.linalg.svd(b.optimum.reshape(6, 6))
    rank = (s > 1e-9 * s[0]).sum()
    assert rank < 6
    np.testing.assert_allclose(z @ Vh[:rank].T, U[:, :rank], atol=1e-9)
    assert np.linalg.norm(z, 2) < 1 + 1e-9
    for problem in (a, b):
        assert problem.optimum_error < 1e-20
        w = problem.optimum + np.linspace(-1, 1, len(problem.c))
        risk = [problem.model.risk(v, problem.rows) for v in (w, problem.optimum)]
        value = [float(problem.penalty.value(v)) for v in (w, problem.optimum)]
        direct = risk[0] + value[0] - risk[1] - value[1]
        assert problem.gap(w[None])[0] == pytest.approx(direct, rel=1e-9)


def test_verdicts_about_madprox_do_not_hang_on_times():
    """Numbers of a problem at which all holds, and one at a time is spoiled."""
    keys = (*proximal_methods.METRICS, "fista", "subgradient", "explicit")
    good = dict.fromkeys(
        (f"{name}_{key}" for name in ("steps", "seconds", "step_seconds") for key in keys), 10.0
    )
    good |= dict.fromkeys((f"{n}_{k}" for n in ("last_step", "final_gap", "rank") for k in keys), 1)
    good |= dict.fromkeys((f"increases_{key}" for key in keys), 0)
    for key in proximal_methods.METRICS:
        good |= {f"theory_steps_{key}": 20, f"gap_over_epsilon_{key}": 0.5, f"inner_steps_{key}": 2}
    good |= {"kappa_gd": 100.0, "kappa_madprox": 10.0, "kappa_diagonal": 50.0, "rank": 2}
    good |= {"kappa_ratio": 1.0, "kappa_ratio_of_rows": 1.2, "kappa_ratio_diagonal": 5.0}
    good |= {"steps_proximal_gradient": 100.0}

    def verdicts(**spoiled):
        return [c.verdict for c in proximal_claims.claims({"lasso": good, "trace": good | spoiled})]

    fine = ["reproduced"] * 4 + [None] * 4
    assert verdicts() == verdicts(seconds_madprox=1e3, step_seconds_madprox=1e3) == fine
    for place, spoiled, expected in (
        (0, {"gap_over_epsilon_diagonal": 1.1}, "partly"),
        (0, {"gap_over_epsilon_madprox": 1.1}, "not"),
        (1, {"increases_diagonal": 1}, "partly"),
        (1, {"increases_madprox": 1}, "not"),
        (2, {"kappa_ratio_of_rows": 2.1}, "partly"),
        (2, {"kappa_ratio": 1.2}, "not"),
        (3, {"steps_madprox": 30.0}, "partly"),
        (3, {"steps_madprox": None}, "not"),
    ):
        found = verdicts(**spoiled)
        assert found[place] == expected and found[:place] == fine[:place]


# The command.


def test_a_seed_without_an_optimum_is_named_and_left_out():
    def run(seed, quick, report):
        if seed == 6:
            raise mg.errors.MasgradError("no optimum")
        numbers = {"a": seed, "b": {"c": None if seed == 5 else 2.5}, "list": [1]}
        claims = [Claim("it holds", "", "partly" if seed == 7 else "reproduced")]
        return Experiment("x", "", "", {}, numbers, claims, lambda path: None)

    found = spread(Entry(run, 1, 1, ()), 4, 4, lambda part: None)
    assert found["seeds"] == [5, 7, 8] and found["failed"] == {6: "no optimum"} and found["quick"]
    assert found["numbers"]["a"] == {"median": 7, "min": 5, "max": 8, "values": [5, 7, 8]}
    assert found["numbers"]["b.c"]["values"] == [None, 2.5, 2.5]
    assert found["verdicts"] == {"it holds": {"reproduced": 2, "partly": 1, "not": 0}}


@pytest.mark.long
def test_a_run_is_on_disk_before_other_seeds_begin(tmp_path, monkeypatch):
    def interrupted(entry, seed, count, report):
        assert json.loads((tmp_path / "linear.json").read_text())["seed"] == 0
        raise KeyboardInterrupt

    monkeypatch.setattr("masgrad.paper.report.commands.spread", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report("linear", tmp_path, True, 0, seeds=2)
    assert (tmp_path / "linear.png").exists()


@pytest.mark.long
def test_all_of_them_quickly(tmp_path):
    """In two minutes at most with nothing compiled before; a page of all five."""
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    env = {k: v for k, v in env.items() if not k.startswith("JAX_") and k != "NPROC"}
    command = [sys.executable, "-m", "masgrad.cli", "paper", "all", "--quick", "--out"]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, env=env, check=True
    )
    assert time.perf_counter() - started < 120
    assert "skipped" not in done.stdout
    text = (tmp_path / "index.html").read_text()
    assert text.count("data:image/png") == len(ENTRIES) == 5 and "Skipped" not in text


@pytest.mark.long
def test_ctrl_c_keeps_what_is_done(tmp_path):
    command = [sys.executable, "-m", "masgrad.cli", "paper", "all", "--quick", "--out"]
    started = subprocess.Popen([*command, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "linear.json").exists():
        time.sleep(0.2)
        assert started.poll() is None
    time.sleep(3)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode != 0 and "Traceback" not in said
    assert "Linear" in (tmp_path / "index.html").read_text()
    assert not (tmp_path / "network.json").exists()

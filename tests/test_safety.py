"""Fits that cannot run away: the tables of issue reports, against an exact Newton oracle.

Each of these broke a fit of many rows once: rare levels, a column that a few rows carry, sorted
rows, links with a domain, nearly separated responses.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import masgrad as mg
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.optimise.estimate import Trial, falls_where_flat
from masgrad.fitting.optimise.line_search import Proposal, descend, descent_step

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from campaign_losses import Loss
from campaign_oracle import solve

PASSES = ("auto", 1)
pytestmark = pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")


def check(family, link, X, y, data=None, *, passes="auto"):
    """The estimate is within 0.1 standard errors of the optimum, its errors within 2 %."""
    r = mg.fit(mg.GLM(family, link), (X, y) if data is None else data, passes=passes)
    alpha = 1.0 if family == "negative_binomial" else None
    best = solve(Loss(family, link, alpha), X, y, also=r.params)
    assert best.status == "optimum"
    away = np.max(np.abs(r.params - best.theta) / best.unit)
    assert away < 0.1, (r.params, best.theta)
    np.testing.assert_allclose(r.bse, best.se, rtol=0.02, atol=1e-3 * best.model_se.min())
    return r, away


def in_order(X, y, rows=8192):
    return mg.Stream(lambda: ((X[i : i + rows], y[i : i + rows]) for i in range(0, len(y), rows)))


def response(rng, family, mean):
    draw = {
        "gaussian": lambda: mean + 0.3 * rng.normal(size=len(mean)),
        "poisson": lambda: rng.poisson(mean).astype(float),
        "gamma": lambda: rng.gamma(2.0, mean / 2),
        "inverse_gaussian": lambda: rng.wald(mean, 2.0),
        "negative_binomial": lambda: rng.poisson(mean * rng.gamma(1.0, 1.0, len(mean))).astype(
            float
        ),
    }
    return draw[family]()


def rare_levels(rng, n, share=0.002):
    """30 levels, five of which have this share of the rows each; a mean of 0.08."""
    sizes = np.r_[np.full(25, (1 - 5 * share) / 25), np.full(5, share)]
    level = rng.choice(30, n, p=sizes)
    dummies = (level[:, None] == np.arange(1, 30)).astype(float)
    X = np.column_stack([np.ones(n), rng.normal(size=n), dummies])
    return X, X @ np.r_[-2.6, 0.2, 0.3 * rng.normal(size=29)]


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("seed", range(2))
def test_rare_levels_of_counts(seed, passes):
    rng = np.random.default_rng(seed)
    X, t = rare_levels(rng, 60_000, 0.004)
    check("poisson", "log", X, response(rng, "poisson", np.exp(t)), passes=passes)


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian", "gaussian"])
def test_dummies_of_three_rows_in_ten_thousand(family, passes):
    rng = np.random.default_rng(7)
    X = np.column_stack(
        [np.ones(120_000), rng.normal(size=120_000), rng.random((120_000, 6)) < 3e-4]
    )
    mean = np.exp(X @ np.r_[0.3, 0.2, rng.uniform(0.1, 0.5, 6)])
    check(family, "log", X, response(rng, family, mean), passes=passes)


@pytest.mark.parametrize("rows", [1, 3, 10])
@pytest.mark.parametrize("family", ["gaussian", "gamma", "inverse_gaussian"])
def test_a_dummy_that_a_few_rows_carry(family, rows):
    """Curvatures may be negative where the pilot rows lack the column."""
    rng = np.random.default_rng(rows)
    X = np.column_stack([np.ones(80_000), 0.3 * rng.normal(size=80_000), np.zeros(80_000)])
    X[rng.choice(80_000, rows, replace=False), 2] = 1
    check(family, "log", X, response(rng, family, np.exp(X @ [0.1, 0.3, 1.4])))


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("family", ["gaussian", "gamma", "inverse_gaussian"])
def test_a_dummy_that_occurs_only_at_the_end(family, passes):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(80_000), 0.3 * rng.normal(size=80_000), np.zeros(80_000)])
    X[76_000:, 2] = rng.random(4000) < 0.5
    y = response(rng, family, np.exp(X @ [0.1, 0.3, 1.4]))
    check(family, "log", X, y, in_order(X, y), passes=passes)


@pytest.mark.parametrize("family", ["poisson", "gamma"])
@pytest.mark.parametrize("seed", range(2))
def test_a_stream_sorted_by_a_lognormal_column(family, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(np.exp(rng.normal(size=60_000)))
    X = np.column_stack([np.ones(60_000), x, rng.normal(size=60_000)])
    y = response(rng, family, np.exp(np.minimum(X @ [0.1, 0.083, 0.2], 8)))
    check(family, "log", X, y, in_order(X, y))


@pytest.mark.parametrize(
    ("family", "link"),
    [("poisson", "sqrt"), ("poisson", "identity"), ("gamma", "inverse"), ("gamma", "identity"),
     ("negative_binomial", "identity")],
)  # fmt: skip
def test_links_with_a_domain_and_an_optimum_inside(family, link):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(50_000), rng.exponential(size=(50_000, 2))])
    t = X @ [0.4, 0.5, 0.3]
    mean = {"sqrt": t * t, "identity": t, "inverse": 1 / t}[link]
    r, _ = check(family, link, X, response(rng, family, mean))
    assert (X @ r.params > 0).all()


def test_probit_rows_that_one_label_keeps_from_being_separated():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(100_000), rng.normal(size=100_000)])
    y = (X[:, 1] > 0).astype(float)
    odd = np.argmin(np.abs(X[:, 1] - 0.3))
    y[odd] = 0.0
    r, _ = check("bernoulli", "probit", X, y)
    assert r.status is mg.Status.CONVERGED


def carried_beside_an_outlier(rng, n, carrying=8):
    """A dummy that a few rows carry, in which the next column is 180 units out."""
    few = np.zeros(n)
    few[rng.choice(n, carrying, replace=False)] = 1.0
    return np.column_stack([np.ones(n), few, 180 * few + rng.normal(size=n)])


@pytest.mark.parametrize("rows", [20_000, 60_000])
@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian"])
@pytest.mark.parametrize("seed", range(2))
def test_rows_that_start_on_a_plateau(family, seed, rows):
    """Far out their loss is flat: gradient and curvature vanish where no optimum is."""
    rng = np.random.default_rng(seed)
    X = carried_beside_an_outlier(rng, rows)
    mean = np.exp(0.7 - 67.9 * X[:, 1] + 0.38 * X[:, 2])
    check(family, "log", X, response(rng, family, mean))


@pytest.mark.parametrize("rows", [5_000, 50_000])
@pytest.mark.parametrize("passes", ["auto", "converge", "newton"])
def test_a_loss_that_stays_flat_is_said_to_be(passes, rows):
    """Means of a Gaussian log-link tend to 0 for negative responses: there is no optimum."""
    rng = np.random.default_rng(1)
    X = carried_beside_an_outlier(rng, rows, carrying=4)[:, :2]
    y = np.where(X[:, 1] > 0, -0.7, np.exp(0.7) + 0.3 * rng.normal(size=rows))
    with pytest.warns(mg.errors.SeparationWarning, match="no information is left along 1"):
        r = mg.fit(mg.GLM("gaussian", "log"), (X, y), passes=passes)
    assert r.status is mg.Status.SEPARATION_UNDECIDED
    assert np.isinf(r.bse[1])
    np.testing.assert_allclose(r.params[0], np.log(y[X[:, 1] == 0].mean()), rtol=1e-6)


def test_a_number_of_reads_is_kept_to_on_a_plateau():
    rng = np.random.default_rng(0)
    X = carried_beside_an_outlier(rng, 60_000)
    y = response(rng, "inverse_gaussian", np.exp(0.7 - 67.9 * X[:, 1] + 0.38 * X[:, 2]))
    with pytest.warns(mg.errors.MasgradWarning):
        r = mg.fit(mg.GLM("inverse_gaussian", "log"), (X, y), passes=3)
    assert r.fit_info.reads <= 4  # the last is that of the dispersion
    assert not r.status.ok


def test_a_start_on_the_border_of_a_link():
    """Of the pilot rows none that carries the dummy has an event: their share starts at 0."""
    rng = np.random.default_rng(3)
    few = carried_beside_an_outlier(rng, 60_000, carrying=9)[:, 1]
    X, y = np.column_stack([np.ones(60_000), few]), (rng.random(60_000) < 0.4).astype(float)
    carrying = np.flatnonzero(few)
    y[carrying], y[carrying[-1]] = 0.0, 1.0
    r, _ = check("bernoulli", "identity", X, y)
    assert r.status.ok


def test_newtons_method_alone_is_what_statsmodels_gives():
    rng = np.random.default_rng(2)
    X, t = rare_levels(rng, 50_000, 0.004)
    y = response(rng, "poisson", np.exp(t))
    r, away = check("poisson", "log", X, y, passes="newton")
    assert away < 1e-6 and r.fit_info.remainder < 1e-5
    assert r.fit_info.path[0][0] == "pilot rows" and "MasGrad, averaged" not in dict(
        r.fit_info.path
    )


def test_no_result_has_a_higher_loss_than_the_mean_response():
    """A Gaussian log likelihood has plateaus on which an estimate could end."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(60_000), np.sort(rng.standard_t(4, size=60_000))])
    y = np.exp(np.clip(X @ [0.5, 0.1], -6, 6)) + 0.5 * rng.normal(size=60_000)
    r = mg.fit(mg.GLM("gaussian", "log"), in_order(X, y))
    assert np.sum((y - np.exp(X @ r.params)) ** 2) < np.sum((y - y.mean()) ** 2)


@pytest.mark.parametrize("rows", [30_000, 60_000])
def test_a_single_read_states_how_far_it_may_be(rows):
    rng = np.random.default_rng(rows)
    X, t = rare_levels(rng, 4 * rows, 0.004)
    y = response(rng, "poisson", np.exp(t))
    r, away = check("poisson", "log", X, y, passes=1)
    assert away < r.fit_info.remainder < 1


@pytest.mark.filterwarnings("ignore::masgrad.errors.AccuracyWarning")
@pytest.mark.parametrize("passes", [2, 3, 4])
@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian"])
def test_a_number_of_reads_does_not_run_away(family, passes):
    """The result is not worse than the mean of the pilot rows, and says that it is no optimum."""
    rng = np.random.default_rng(0)
    x = np.sort(np.exp(rng.normal(size=60_000)))
    X = np.column_stack([np.ones(60_000), x, rng.normal(size=60_000)])
    y = response(rng, family, np.exp(np.minimum(X @ [0.1, 0.083, 0.2], 8)))
    r = mg.fit(mg.GLM(family, "log"), in_order(X, y), passes=passes)
    flat = np.r_[np.log(y[:32_768].mean()), 0.0, 0.0]
    loss = mg.GLM(family, "log").row_losses
    assert loss(r.params, (X, y)).sum() <= loss(flat, (X, y)).sum() + 1e-6
    assert r.status.ok or r.fit_info.remainder > 0.01


@pytest.mark.filterwarnings("ignore::masgrad.errors.AccuracyWarning")
@pytest.mark.parametrize("passes", ["auto", "newton", 3])
def test_an_optimum_on_the_border_of_a_link_leaves_no_row_without_a_mean(passes):
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(50_000), rng.normal(size=50_000)])
    y = response(rng, "negative_binomial", np.maximum(0.2 + 0.3 * X[:, 1], 0.0))
    try:
        r = mg.fit(mg.GLM("negative_binomial", "identity"), (X, y), passes=passes)
    except mg.errors.InputError as error:
        assert "border" in str(error) or "no minimum" in str(error)
    else:
        assert (X @ r.params > 0).all() and not r.status.ok


def test_a_plateau_of_means_near_0_is_left_downhill():
    """A level whose means are e^-60 has no curvature, and Newton's step does not move it."""
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(5000), rng.random(5000) < 0.1])
    rows = X, rng.poisson(np.exp(0.2 + 0.3 * X[:, 1])) * 1.0
    objective = Objective(mg.Poisson(), identity(2))

    def propose(at, count):
        step = descent_step(objective.local_model(at, rows))
        return Proposal(at + step, last=count > 0 and bool(np.abs(step).max() < 1e-12))

    def value(at):
        with np.errstate(over="ignore"):
            return objective.losses(at, rows).sum()

    phi, _ = descend(value, propose, np.array([0.2, -60.0]), 200)
    wanted = mg.fit(mg.Poisson(), rows)
    np.testing.assert_allclose(phi, wanted.theta, rtol=1e-8)


def test_a_gradient_without_curvature_is_no_optimum():
    """A row far on the wrong side of its response has both; an empty column has neither."""
    point, H, M = np.zeros(2), np.diag([1.0, 0.0]), np.eye(2)
    assert falls_where_flat(LocalModel(10.0, point, np.array([0.0, -1.0]), H, M))
    assert not falls_where_flat(LocalModel(10.0, point, np.array([0.0, 0.0]), H, M))
    assert not falls_where_flat(LocalModel(10.0, point, np.array([1.0, -1.0]), np.eye(2), M))


def test_a_long_step_without_curvature_is_judged_by_the_loss():
    """In standard errors it has no length."""
    H, M = np.diag([1.0, 1e-30]), np.eye(2)
    start = LocalModel(10.0, np.zeros(2), np.zeros(2), H, M, loss=100.0)
    trial = Trial(start, np.array([0.0, 2000.0]))
    assert not trial.is_accepted(replace(start, point=trial.end, loss=4e6))
    assert trial.is_accepted(replace(start, point=trial.end, loss=100.0))

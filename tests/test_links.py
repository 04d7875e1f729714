"""Fits with links that are not canonical: values that are missing, borders, likelihoods."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import masgrad as mg
from masgrad.errors import AccuracyWarning, InputError
from masgrad.models.families.choices import LINKS
from masgrad.models.glm import make_family
from scenarios import two_columns

PAIRS = [(name, link) for name, links in LINKS.items() for link in links]


@pytest.mark.parametrize(("name", "link"), PAIRS)
def test_a_missing_value_is_named_with_every_link(name, link):
    frame, rng = two_columns(200)
    frame["y"] = rng.integers(0, 2, 200) if name == "bernoulli" else rng.gamma(2.0, 1.0, 200)
    frame.loc[17, "a"] = np.nan
    with pytest.raises(InputError, match="'a' holds nan at row 17"):
        mg.glm("y ~ a + b", frame, name, link)


@pytest.mark.parametrize("seed", range(4))
def test_a_loss_that_is_not_convex_where_the_reads_begin(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(100_000), rng.uniform(0, 1, (100_000, 2))])
    y = 1 / (X @ [0.5, 0.5, 0.3]) + rng.normal(size=100_000)
    r = mg.fit(mg.GLM("gaussian", "inverse"), (X, y))
    link = sm.families.links.InversePower()
    theirs = sm.GLM(y, X, family=sm.families.Gaussian(link)).fit(tol=1e-12, cov_type="HC0")
    assert np.abs((r.params - theirs.params) / theirs.bse).max() < 0.01
    np.testing.assert_allclose(r.bse, theirs.bse, rtol=5e-3)


def test_chains_that_leave_the_links_domain_leave_the_sandwich():
    frame, rng = two_columns(60_000)
    X = np.column_stack([np.ones(60_000), frame.to_numpy()])
    y = rng.poisson(X @ [0.02, 0.3, 0.5]).astype(float)
    model = mg.GLM("poisson", "identity")
    with pytest.warns(AccuracyWarning, match="HC0"):
        r = mg.fit(model, (X, y), method="chains")
    np.testing.assert_allclose(r.bse, mg.fit(model, (X, y)).bse)


@pytest.mark.parametrize("name", ["negative_binomial", "inverse_gaussian"])
def test_one_read_is_as_good_with_either_covariance(name):
    frame, rng = two_columns(100_000)
    X = np.column_stack([np.ones(100_000), frame.to_numpy()])
    mean = np.exp(X @ [0.3, 0.5, -0.4])
    draws = {
        "negative_binomial": lambda: rng.poisson(mean * rng.gamma(1.0, 1.0, 100_000)).astype(float),
        "inverse_gaussian": lambda: rng.wald(mean, 2.0),
    }
    y, model = draws[name](), mg.GLM(make_family(name, "log"))
    best = mg.fit(model, (X, y), passes="converge", cov_type="nonrobust")
    for passes in ("auto", 1):
        r = mg.fit(model, (X, y), passes=passes, cov_type="nonrobust")
        same = mg.fit(model, (X, y), passes=passes)
        np.testing.assert_allclose(r.params, same.params, rtol=1e-9)  # H in double, or in single
        np.testing.assert_allclose(r.bse, best.bse, rtol=5e-3)
        assert r.log_likelihood == pytest.approx(best.log_likelihood, abs=0.3)


@pytest.mark.parametrize(
    ("name", "link"),
    [("poisson", "identity"), ("binomial", "identity"), ("binomial", "log")],
)
@pytest.mark.parametrize("rows", [40, 50_000])
def test_an_optimum_on_the_border_of_a_link_is_said(name, link, rows):
    """A cell without events, and for log one without anything else."""
    rng = np.random.default_rng(0)
    cell = np.arange(rows) % 2
    X = np.column_stack([np.ones(rows), cell])
    y = np.where(cell == 1, float(link == "log"), rng.integers(0, 2, rows))
    with pytest.raises(InputError, match=f"{link} link of the {name} family needs x'theta"):
        mg.fit(mg.GLM(name, link), (X, y))


@pytest.mark.parametrize("name", ["gamma", "inverse_gaussian", "gaussian"])
def test_likelihoods_with_a_dispersion_are_those_at_the_estimate(name):
    """Of a wrong model: there an error in the dispersion is one of first order."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=100_000)
    frame = pd.DataFrame({"a": a, "z": np.exp(0.3 + 0.3 * a + 0.8 * rng.normal(size=100_000))})
    r, best = (mg.glm("z ~ a", frame, name, "log", passes=p) for p in ("auto", "converge"))
    assert r.log_likelihood == pytest.approx(best.log_likelihood, abs=0.05)
    assert r.deviance == pytest.approx(best.deviance, abs=0.05)


@pytest.mark.parametrize("link", ["log", "inverse"])
@pytest.mark.parametrize("rows", [500, 40_000])
def test_responses_that_positive_means_cannot_approach_are_refused(link, rows, rng, tmp_path):
    """Means would fall to 0 for ever."""
    frame = pd.DataFrame({"x": rng.uniform(size=rows), "loss": -1 - rng.random(rows)})
    frame.to_parquet(tmp_path / "rows.parquet")
    words = f"no value of the response 'loss' is above 0.* gaussian family with the {link} link"
    for data in (frame, tmp_path / "rows.parquet"):
        with pytest.raises(InputError, match=words):
            mg.glm("loss ~ x", data, link=link)


def test_a_border_met_where_the_loss_is_not_convex_is_named(rng):
    g = rng.choice(["a", "b", "c"], 60_000)
    frame = pd.DataFrame({"g": g, "y": np.where(g == "c", 0, rng.poisson(1.0, 60_000))})
    with pytest.raises(InputError, match="identity link of the negative_binomial family needs x'"):
        mg.glm("y ~ g", frame, family="negative_binomial", link="identity", passes=1)

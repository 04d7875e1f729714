"""Weights that are no frequencies: inverse variances, inverse probabilities of being sampled."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import masgrad as mg


@pytest.fixture
def rows(rng):
    X = np.column_stack([np.ones(800), rng.normal(size=(800, 3))])
    w = rng.uniform(0.2, 3.0, 800)
    return X, X @ [1.0, 0.5, -1.0, 0.0] + rng.normal(size=800) / np.sqrt(w), w


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "HC3"])
def test_analytic_weights_have_the_errors_of_weighted_least_squares(rows, cov_type):
    X, y, w = rows
    r = mg.fit(mg.Linear(), (X, y), weights=w, weights_type="analytic", cov_type=cov_type)
    theirs = sm.WLS(y, X, weights=w).fit(cov_type=cov_type)
    np.testing.assert_allclose(r.params, theirs.params, rtol=1e-10)
    np.testing.assert_allclose(r.bse, theirs.bse, rtol=1e-10)
    assert r.dispersion == pytest.approx(theirs.scale)
    assert r.log_likelihood is None and r.aic is None and r.nobs == 800


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_analytic_weights_are_the_variance_weights_of_other_families(rows, cov_type):
    X, y, w = rows
    y = (y > 1).astype(float)
    r = mg.fit(mg.Logistic(), (X, y), weights=w, weights_type="analytic", cov_type=cov_type)
    model = sm.GLM(y, X, family=sm.families.Binomial(), var_weights=w)
    np.testing.assert_allclose(r.bse, model.fit(tol=1e-14, cov_type=cov_type).bse, rtol=1e-9)


def test_probability_weights_have_the_robust_errors_of_analytic_ones(rows):
    X, y, w = rows
    same = {"weights": w, "cov_type": "HC1"}
    r = mg.fit(mg.Linear(), (X, y), weights_type="probability", **same)
    np.testing.assert_allclose(r.bse, sm.WLS(y, X, weights=w).fit(cov_type="HC1").bse, rtol=1e-10)


@pytest.mark.parametrize("weights_type", ["analytic", "probability"])
def test_their_scale_does_not_matter(rows, weights_type):
    X, y, w = rows
    a, b = (
        mg.fit(mg.Linear(), (X, y), weights=c * w, weights_type=weights_type) for c in (1.0, 1e-3)
    )
    np.testing.assert_allclose(a.bse, b.bse, rtol=1e-10)
    np.testing.assert_allclose(a.params, b.params, rtol=1e-10)


@pytest.fixture
def panel(rng):
    n = 2000
    table = pd.DataFrame({"f": np.arange(n) % 40, "x": rng.normal(size=n)})
    table["w"] = rng.uniform(0.5, 4.0, n)
    eta = 0.4 * table.x + np.sin(table.f)
    table["y"] = eta + rng.normal(size=n) / np.sqrt(table.w)
    table["poisson"] = rng.poisson(np.exp(eta)).astype(float)
    table["binomial"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    table["gamma"] = rng.gamma(2.0, np.exp(eta) / 2)
    return table


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
@pytest.mark.parametrize("right", ["x | f", "x + C(f)"])
def test_their_dispersion_is_that_of_weighted_least_squares_and_there_is_no_likelihood(
    panel, right, cov_type
):
    given = {"weights": "w", "weights_type": "analytic", "cov_type": cov_type}
    r = mg.glm(f"y ~ {right}", panel, **given)
    D = np.column_stack([panel.x, pd.get_dummies(panel.f, dtype=float)])
    theirs = sm.WLS(panel.y, D, weights=panel.w).fit(cov_type=cov_type)
    assert r.dispersion == pytest.approx(theirs.scale, rel=1e-9)
    assert r.bse["x"] == pytest.approx(theirs.bse["x1"], rel=1e-9)
    assert r.log_likelihood is None and r.aic is None and r.bic is None and r.deviance is None
    assert "Log-likelihood" not in str(r.summary()) and r.nobs == len(panel)


def test_a_penalised_estimate_without_intervals_has_their_dispersion(rng):
    X, w = rng.normal(size=(40, 60)), rng.uniform(0.5, 4.0, 40)
    y = 2 * X[:, 0] + rng.normal(size=40)
    given = {"penalty": mg.L1(0.3), "weights": w, "weights_type": "analytic"}
    with pytest.warns(mg.errors.IdentificationWarning, match="No intervals"):
        r = mg.fit(mg.Linear(), (X, y), **given)
    left = y - X @ np.asarray(r.penalized_params)
    assert r.dispersion == pytest.approx((w * left**2).mean(), rel=1e-6)
    assert r.log_likelihood is None


@pytest.mark.parametrize("family", ["poisson", "binomial", "gamma"])
def test_their_scale_does_not_decide_where_reads_of_effects_end(panel, family):
    given = {"family": family, "link": {"gamma": "log"}.get(family)}
    given |= {"weights": "w", "weights_type": "probability"}
    a, b, c = (
        mg.glm(f"{family} ~ x | f", panel.assign(w=scale * panel.w), **given)
        for scale in (1.0, 1e-8, 1e4)
    )
    for other in (b, c):
        assert other.fit_info.reads == a.fit_info.reads and other.notes == a.notes
        assert other.fit_info.remainder == pytest.approx(a.fit_info.remainder, rel=1e-3)
        assert other.bse["x"] == pytest.approx(a.bse["x"], rel=1e-8)


def test_a_loss_of_ones_own_has_them_as_well(rows):
    X, y, w = rows
    loss = mg.CustomLoss(lambda theta, z: 0.5 * (z["y"] - z["x"] @ theta) ** 2, dim=4)
    same = {"weights": w, "weights_type": "analytic"}
    r = mg.fit(loss, {"x": X, "y": y}, **same)
    np.testing.assert_allclose(r.bse, mg.fit(mg.Linear(), (X, y), **same).bse, rtol=1e-8)


def test_files_and_single_reads_have_them_as_well(rng):
    X = np.column_stack([np.ones(40_000), rng.normal(size=(40_000, 2))])
    w = rng.uniform(0.5, 2.0, len(X))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-X @ [0.2, 0.5, -0.5]))).astype(float)

    def blocks():
        for k in range(0, len(X), 5000):
            yield X[k : k + 5000], y[k : k + 5000], w[k : k + 5000]

    model = sm.GLM(y, X, family=sm.families.Binomial(), var_weights=w)
    theirs = model.fit(tol=1e-14, cov_type="HC0").bse
    for data in (blocks(), mg.Stream(blocks)):
        r = mg.fit(mg.Logistic(), data, weights_type="probability")
        np.testing.assert_allclose(r.bse, theirs, rtol=1e-3)


def test_an_update_of_them_is_refused(rows):
    X, y, w = rows
    r = mg.fit(mg.Linear(), (X, y), weights=w, weights_type="analytic")
    with pytest.raises(mg.errors.InputError, match="fit old and new rows together"):
        r.update((X, y), weights=w, weights_type="analytic")
    with pytest.raises(mg.errors.InputError, match="fit old and new rows together"):
        r.update((X, y), weights=w)


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"weights_type": "probability", "cov_type": "nonrobust"}, "no likelihood knows of"),
        ({"weights_type": "analytic", "method": "chains"}, "by their frequency"),
        ({"weights_type": "aweights"}, "use one of frequency, analytic, probability"),
    ],
)
def test_what_they_do_not_have_is_refused(rows, asked, said):
    X, y, w = rows
    with pytest.raises(mg.errors.InputError, match=said):
        mg.fit(mg.Linear(), (X, y), weights=w, **asked)

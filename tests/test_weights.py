"""Weights are frequencies, offsets a known part of the predictor, penalties a part of the loss."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import masgrad as mg
from masgrad.errors import InputError, InputTypeError

FAMILIES = ["gaussian", "binomial", "poisson", "gamma"]


def regression(family, rows=600, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(rows), rng.uniform(-1, 1, (rows, 2))])
    mean = mg.GLM(family).family.mean(X @ [1.5, 0.4, -0.3])
    y = {
        "gaussian": lambda: mean + rng.normal(size=rows),
        "binomial": lambda: (rng.random(rows) < mean).astype(float),
        "poisson": lambda: rng.poisson(mean).astype(float),
        "gamma": lambda: rng.gamma(2.0, mean / 2),
    }[family]()
    return X, y, rng


def same(a, b, tol=1e-9):
    se = np.asarray(b.bse)
    assert np.abs((np.asarray(a.params) - np.asarray(b.params)) / se).max() < tol
    np.testing.assert_allclose(a.bse, b.bse, rtol=tol)


@pytest.mark.parametrize("cov_type", ["robust", "HC1", "HC3", "nonrobust"])
@pytest.mark.parametrize("family", FAMILIES)
def test_weight_two_is_a_row_twice_and_weight_zero_is_no_row(family, cov_type):
    X, y, rng = regression(family)
    often = rng.integers(0, 4, len(y))
    many = np.repeat(np.arange(len(y)), often)
    a = mg.fit(mg.GLM(family), (X, y), weights=often, cov_type=cov_type)
    b = mg.fit(mg.GLM(family), (X[many], y[many]), cov_type=cov_type)
    same(a, b)
    assert a.nobs == (often > 0).sum() and b.nobs == len(many)
    for of in ("log_likelihood", "aic", "bic", "deviance", "dispersion"):
        assert getattr(a, of) == pytest.approx(getattr(b, of), rel=1e-10)


def test_rows_of_weight_zero_are_not_looked_at():
    X, y, _ = regression("poisson")
    weights = np.ones(len(y))
    weights[[3, 50]] = 0
    X, bad = X.copy(), y.copy()
    X[3], bad[50] = np.nan, -1
    r = mg.fit(mg.Poisson(), (X, bad), weights=weights)
    same(r, mg.fit(mg.Poisson(), (np.delete(X, [3, 50], 0), np.delete(y, [3, 50]))))


@pytest.mark.parametrize("how", [{}, {"passes": 1}, {"method": "chains"}, {"passes": "converge"}])
def test_weights_of_many_rows(how):
    """The paths of large data: two reads, one, and chains."""
    X, y, rng = regression("poisson", 60_000)
    often = rng.integers(1, 4, len(y)).astype(float)
    many = np.repeat(np.arange(len(y)), often.astype(int))
    a = mg.fit(mg.Poisson(), (X, y), weights=often, seed=1, **how)
    b = mg.fit(mg.Poisson(), (X[many], y[many]), passes="converge")
    assert np.abs((a.params - b.params) / b.bse).max() < 0.01
    tolerance = 4 / np.sqrt(2 * 19) if "method" in how else 2e-3
    np.testing.assert_allclose(a.bse, b.bse, rtol=tolerance)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("passes", ["auto", 1])
def test_large_tables_are_fitted_as_arrays_are(zeros, passes, tmp_path):
    """In memory, in Parquet, with an offset and weights, of which some may be 0."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": rng.normal(size=80_000), "g": rng.choice(list("abc"), 80_000)})
    table["w"] = rng.integers(0 if zeros else 1, 4, 80_000)
    table["o"] = rng.uniform(-1, 1, 80_000)
    rate = np.exp(0.3 * table["x"] + 0.5 * (table["g"] == "b") + table["o"])
    table["y"] = rng.poisson(rate)
    X = np.column_stack([np.ones(80_000), table["g"] == "b", table["g"] == "c", table["x"]])
    roles = {"weights": table["w"], "offset": table["o"]}
    wanted = mg.fit(mg.Poisson(), (X, table["y"]), passes="converge", **roles)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=10_000)
    for data in (table, tmp_path / "t.parquet"):
        r = mg.glm("y ~ g + x", data, "poisson", weights="w", offset="o", passes=passes)
        assert np.abs((r.params - wanted.params) / wanted.bse).max() < 0.01
        np.testing.assert_allclose(r.bse, wanted.bse, rtol=5e-3)
        assert r.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-7)
        assert r.nobs == (table["w"] > 0).sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_constant_offset_moves_the_intercept_only(family):
    X, y, _ = regression(family)
    a = mg.fit(mg.GLM(family), (X, y), offset=np.full(len(y), 0.3))
    b = mg.fit(mg.GLM(family), (X, y))
    np.testing.assert_allclose(a.params - b.params, [-0.3, 0, 0], atol=1e-9)
    np.testing.assert_allclose(a.bse, b.bse, rtol=1e-9)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-10)


@pytest.mark.parametrize("rows", [2000, 50_000])
@pytest.mark.parametrize("start", [100.0, -50.0, 700.0])
def test_neither_a_large_offset_nor_a_far_start_loses_the_way(rows, start):
    """From an exponent of 100 Newton's steps lead back by 1 each."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=rows)])
    y = rng.poisson(np.exp(X @ [0.1, 0.3]))
    wanted = mg.fit(mg.Poisson(), (X, y), passes="converge")
    moved = mg.fit(mg.Poisson(), (X, y), "converge", offset=np.full(rows, start))
    from_afar = mg.fit(mg.Poisson(), (X, y), "converge", start=[start, 0.0])
    for r, shift in ((moved, start), (from_afar, 0.0)):
        away = (r.params - wanted.params + np.array([shift, 0.0])) / wanted.bse
        assert np.abs(away).max() < 1e-6 and r.fit_info.reads <= 4
        np.testing.assert_allclose(r.bse, wanted.bse, rtol=1e-6)


@pytest.mark.parametrize("passes", ["auto", 1])
def test_exposure_is_the_offset_log_exposure(passes):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(50_000), rng.normal(size=50_000)])
    time = rng.uniform(0.5, 20, 50_000)
    y = rng.poisson(time * np.exp(X @ [0.2, 0.5]))
    a = mg.fit(mg.Poisson(), (X, y), exposure=time, passes=passes)
    b = mg.fit(mg.Poisson(), (X, y), offset=np.log(time), passes=passes)
    np.testing.assert_array_equal(a.params, b.params)
    assert np.abs((a.params - [0.2, 0.5]) / a.bse).max() < 4.5


def test_an_offset_is_added_in_predictions():
    X, y, _ = regression("poisson")
    offset = np.linspace(-1, 1, len(y))
    r = mg.fit(mg.Poisson(), (X, y), offset=offset)
    mean = r.predict(X, offset=offset)
    np.testing.assert_allclose(mean, np.exp(X @ r.params + offset))
    with pytest.raises(InputError, match="offset"):
        r.predict(X)
    one = r.predict(X, offset=offset, interval=0.95)
    np.testing.assert_allclose(one["mean"], mean)


def test_weights_that_are_none():
    X, y, _ = regression("poisson")
    for weights, message in (
        (np.full(600, -1.0), "row 0"),
        (np.where(np.arange(600) == 7, np.nan, 1.0), "row 7"),
        (np.ones(5), "600"),
        (np.zeros(600), "every weight is 0"),
    ):
        with pytest.raises(InputError, match=message):
            mg.fit(mg.Poisson(), (X, y), weights=weights)
    with pytest.raises(InputError, match=r"exposure.*row 2"):
        mg.fit(mg.Poisson(), (X, y), exposure=np.where(np.arange(600) == 2, 0.0, 1.0))
    with pytest.raises(InputError, match="weights needs a regression; GaussianMixture"):
        mg.fit(mg.GaussianMixture(2, 1.0), y, weights=np.ones(600))
    loss = mg.CustomLoss(lambda theta, z: (z[1] - z[0] @ theta) ** 2, 3)
    with pytest.raises(InputError, match="offset needs a regression; CustomLoss"):
        mg.fit(loss, (X, y), offset=np.ones(600))


# Penalties.


def test_a_ridge_is_that_of_scikit_learn():
    X, y, _ = regression("gaussian")
    lam = 0.3
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L2(lam))
    theirs = Ridge(alpha=lam * len(y), tol=1e-12).fit(X[:, 1:], y)
    wanted = [theirs.intercept_, *theirs.coef_]
    np.testing.assert_allclose(r.penalized_params, wanted, rtol=1e-8)
    # one step of the full inverse is OLS, whatever lam; errors after a penalty are HC1
    same(r, mg.fit(mg.Linear(), (X, y), cov_type="HC1"))
    assert r.target == "theta*"


@pytest.mark.parametrize("rows", [600, 60_000])
def test_a_penalised_logistic_regression_is_that_of_scikit_learn(rows):
    X, y, _ = regression("binomial", rows)
    lam = 0.05
    r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L2(lam), passes="converge")
    theirs = LogisticRegression(C=1 / (lam * rows), tol=1e-12, max_iter=10_000).fit(X[:, 1:], y)
    wanted = np.array([*theirs.intercept_, *theirs.coef_[0]])
    assert np.abs((r.penalized_params - wanted) / r.bse).max() < 1e-4
    same(r, mg.fit(mg.Logistic(), (X, y), passes="converge", cov_type="HC1"), 1e-5)


def test_separated_responses_have_intervals_about_the_penalised_target():
    x = np.linspace(-2, 2, 200)
    X, y = np.column_stack([np.ones(200), x]), (x > 0.1).astype(float)
    r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L2(0.01))
    assert r.target == "the penalised optimum" and np.isfinite(r.conf_int()).all()
    np.testing.assert_array_equal(r.params, r.penalized_params)
    assert "penalised" in r.summary()
    with pytest.raises(InputError, match="penalised"):
        r.update((X, y))


def test_intervals_about_the_penalised_target_cover_it():
    """200 replications of 95 %: 3.9 standard errors are 6 points."""
    beta = np.array([1.0, -1.0])
    lam, rng = 0.5, np.random.default_rng(0)
    target = beta / (1 + lam)  # E[xx'] = I
    covered = []
    for _ in range(200):
        X = rng.normal(size=(300, 2))
        y = X @ beta + rng.normal(size=300)
        r = mg.fit(mg.Linear(), (np.column_stack([X, X[:, :1]]), y), penalty=mg.L2(2 * lam))
        # the doubled column shares its coefficient: a + a' with penalty 2 lam on each
        both = r.contrast([1.0, 0.0, 1.0])
        low, high = np.asarray(both.conf_int()).ravel()
        covered.append(low <= target[0] <= high)
    assert abs(np.mean(covered) - 0.95) < 0.06


def test_penalties_that_are_none():
    X, y, _ = regression("gaussian")
    for lam in (-1.0, 0.0, np.nan):
        with pytest.raises(InputError, match="lam"):
            mg.L2(lam)
    with pytest.raises(InputTypeError, match="penalty='l2'"):
        mg.fit(mg.Linear(), (X, y), penalty="l2")
    with pytest.raises(InputError, match="iterator"):
        mg.fit(mg.Linear(), iter([(X, y)]), penalty=mg.L2(1.0))


def test_fewer_rows_than_columns_need_a_penalty():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 12)), rng.normal(size=8)
    with pytest.raises(InputError, match="12 parameters"):
        mg.fit(mg.Linear(), (X, y))
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L2(0.5))
    wanted = np.linalg.solve(X.T @ X / 8 + 0.5 * np.eye(12), X.T @ y / 8)
    np.testing.assert_allclose(r.penalized_params, wanted, rtol=1e-8)
    assert "8 rows for 12 parameters: HC0 errors are too small; use more rows." in r.notes


@pytest.mark.parametrize("rows", [6, 12])
def test_a_penalty_where_rows_are_as_few_as_columns(rows):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 12)), rng.normal(size=rows)
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L2(0.5))
    assert np.isfinite(r.bse).all() and r.dispersion is None and "nan" not in r.summary()
    for cov_type in ("HC1", "nonrobust"):
        with pytest.raises(InputError, match="divides by N - p"):
            mg.fit(mg.Linear(), (X, y), penalty=mg.L2(0.5), cov_type=cov_type)


def test_weights_that_sum_to_less_than_the_columns():
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(InputError, match=r"weights sum to 0\.5, and there are 2"):
        mg.fit(mg.Linear(), (X, X[:, 0]), weights=np.full(50, 0.01), cov_type="HC1")


def test_the_likelihood_of_a_penalised_fit_is_without_the_penalty():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60_000, 2))
    X = np.column_stack([x, x[:, 0]])
    y = x @ [2.0, 1.0] + rng.normal(size=60_000)
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L2(0.5))
    rss = np.square(y - X @ r.params).sum()
    assert r.target != "theta*" and r.deviance == pytest.approx(rss, rel=1e-8)
    assert r.dispersion == pytest.approx(rss / (60_000 - 3), rel=1e-8)


def test_exposure_needs_the_log_link():
    X = np.ones((20, 1))
    with pytest.raises(InputError, match="exposure is for the log link"):
        mg.fit(mg.Linear(), (X, np.arange(20.0)), exposure=np.ones(20))

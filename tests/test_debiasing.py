"""Intervals after a penalty: one step without it, and where there is none to make."""

import numpy as np
import pytest
import statsmodels.api as sm

import masgrad as mg
from masgrad.errors import IdentificationWarning, InputError, SeparationWarning
from scenarios import sigmoid, sparse


@pytest.mark.parametrize(
    "penalty",
    [mg.L1(0.01), mg.L1(0.5), mg.L1(1e3), mg.ElasticNet(0.2), mg.NonNegative(), mg.L1("cv")],
    ids=repr,
)
def test_for_least_squares_one_step_is_ols_whatever_lam(rng, penalty):
    X, y = sparse(rng)
    r = mg.fit(mg.Linear(), (X, y), penalty=penalty)
    ols = sm.OLS(y, X).fit(cov_type="HC1")
    np.testing.assert_allclose(r.params, ols.params, atol=1e-10)
    np.testing.assert_allclose(r.bse, ols.bse, rtol=1e-8)
    assert r.cov_type == "HC1" and r.target == "theta*"
    assert r.log_likelihood == pytest.approx(ols.llf, rel=1e-9)


def test_nonrobust_errors_are_those_of_ols(rng):
    X, y = sparse(rng)
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1), cov_type="nonrobust")
    np.testing.assert_allclose(r.bse, sm.OLS(y, X).fit().bse, rtol=1e-8)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_one_step_by_hand(rng, family):
    X, y = sparse(rng, family=family)
    model = mg.GLM(family)
    r = mg.fit(model, (X, y), penalty=mg.L1(0.01))
    w, N, p = r.penalized_params, *X.shape
    mean = sigmoid(X @ w) if family == "bernoulli" else np.exp(X @ w)
    curvature = mean * (1 - mean) if family == "bernoulli" else mean
    H, G = X.T @ (curvature[:, None] * X), (mean - y)[:, None] * X
    bread = np.linalg.inv(H)
    np.testing.assert_allclose(r.params, w - bread @ G.sum(0), rtol=1e-8, atol=1e-9)
    cov = bread @ (G.T @ G) @ bread * N / (N - p)
    np.testing.assert_allclose(r.cov_params(), cov, rtol=1e-7, atol=1e-12)
    assert np.abs(r.params - w).max() > 0.005


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_a_heavier_penalty_changes_nothing_but_the_penalised_estimate(rng, family):
    """The step starts from a light penalty, whatever lam is; bounds are dropped altogether."""
    X, y = sparse(rng, N=3000, family=family)
    model = mg.GLM(family)
    fits = [mg.fit(model, (X, y), penalty=mg.L1(lam)) for lam in (0.05, 0.5, 50.0)]
    plain = mg.fit(model, (X, y))
    for r in fits:
        np.testing.assert_allclose(r.params, fits[0].params, atol=0.01 * fits[0].bse.min())
        np.testing.assert_allclose(r.bse, fits[0].bse, rtol=1e-3)
        assert np.abs((r.params - plain.params) / plain.bse).max() < 0.2
        assert r.fit_info.remainder < 0.05
    assert not fits[2].penalized_params[1:].any()
    box = mg.fit(model, (X, y), penalty=mg.Box(-0.1, 0.1))
    np.testing.assert_allclose(box.params, plain.params, atol=1e-6)


@pytest.mark.parametrize("N", [2000, 40_000])
def test_separated_columns_have_no_interval_and_the_others_do(N):
    """As without the penalty: also beyond the kept rows, and for counts."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(N), rng.normal(size=N), rng.random(N) < 0.02])
    never = np.where(X[:, 2] == 1, 0, rng.poisson(np.exp(0.2 * X[:, 1])))
    always = np.where(X[:, 2] == 1, 1, rng.random(N) < sigmoid(X[:, 1]))
    for model, y in ((mg.Logistic(), always.astype(float)), (mg.Poisson(), never.astype(float))):
        with pytest.warns(SeparationWarning, match="along 2"):
            r = mg.fit(model, (X, y), penalty=mg.L1(1e-3))
        assert np.isinf(r.bse[2]) and np.isfinite(r.bse[:2]).all()


def test_another_link_takes_the_observed_curvature(rng):
    X, y = sparse(rng, family="bernoulli")
    r = mg.fit(mg.GLM("bernoulli", "probit"), (X, y), penalty=mg.L1(0.01))
    w = r.penalized_params
    probit = mg.GLM("bernoulli", "probit")
    m = mg.moments(probit, w, (X, y))
    np.testing.assert_allclose(r.params, w - np.linalg.solve(m.hessian, m.mean), atol=1e-8)
    inner = -m.mean[1:]
    np.testing.assert_allclose(inner[w[1:] != 0], 0.01 * np.sign(w[1:][w[1:] != 0]), atol=1e-8)


def test_lam_0_is_no_penalty(rng):
    for family in ("gaussian", "bernoulli"):
        data = sparse(rng, family=family)
        r = mg.fit(mg.GLM(family), data, penalty=mg.L1(0.0), cov_type="HC0")
        plain = mg.fit(mg.GLM(family), data)
        np.testing.assert_allclose(r.penalized_params, plain.params, atol=1e-8)
        np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-6)


# Where there are no intervals.


def test_no_interval_where_rows_are_fewer_than_columns(rng):
    X = rng.normal(size=(40, 60))
    y = 2 * X[:, 0] + rng.normal(size=40)
    with pytest.warns(IdentificationWarning, match="40 rows for 60 coefficients"):
        r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.3))
    np.testing.assert_array_equal(r.params, r.penalized_params)
    assert np.isinf(r.bse).all() and np.isinf(r.conf_int()).all() and np.isnan(r.pvalues).all()
    assert "No intervals" in r.summary() and r.predict(X[:2]).shape == (2,)
    with pytest.raises(InputError, match="no estimate"):
        r.update((X, y))


def test_no_interval_for_collinear_columns(rng):
    X, y = sparse(rng)
    with pytest.warns(IdentificationWarning, match="collinear"):
        r = mg.fit(mg.Linear(), (np.column_stack([X, X[:, 2]]), y), penalty=mg.L1(0.1))
    assert np.isinf(r.bse).all() and r.penalized_params[[2, 12]].sum() > 0.5


@pytest.mark.parametrize("penalty", [None, mg.L1(0.1)], ids=str)
def test_a_column_of_zeros_among_others_is_empty_and_not_collinear(penalty):
    """Rounding in the others' part of a null direction is no reason to call it collinear."""
    rng = np.random.default_rng(0)  # with which that part was not exactly 0
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 5))])
    y = X @ [0.2, 1.0, 0.0, 0.0, -0.5, 0.0] + rng.normal(size=300)
    X[:, 2] = 0.0
    with pytest.warns(IdentificationWarning, match="0 in every row"):
        r = mg.fit(mg.Linear(), (X, y), penalty=penalty)
    assert np.isnan(r.params[2]) and np.isfinite(np.delete(r.bse, 2)).all()

"""Paths of penalised estimates, and the choice of lam."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import masgrad as mg
from masgrad.errors import IdentificationWarning
from scenarios import regression, sigmoid, sparse

TIGHT = {"tol": 1e-14, "max_iter": 10**6}


def test_a_path_has_the_optima_of_its_lams(rng):
    X, y = sparse(rng)
    path = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.01), count=7)
    assert path.lams[-1] == pytest.approx(0.01) and (np.diff(path.lams) < 0).all()
    for lam, coefs in zip(path.lams, path.coefs, strict=True):
        theirs = Lasso(alpha=lam, **TIGHT).fit(X[:, 1:], y)
        np.testing.assert_allclose(coefs, [theirs.intercept_, *theirs.coef_], atol=1e-9)
        alone = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(lam)).penalized_params
        np.testing.assert_allclose(coefs, alone, atol=1e-9)
    assert not path.coefs[0, 1:].any() and path.coefs[1, 1:].any()
    top = np.abs((X - X.mean(0)).T @ (y - y.mean())).max() / len(y)
    assert path.lams[0] == pytest.approx(top, rel=1e-8)
    np.testing.assert_array_equal(path.df, (path.coefs != 0).sum(1))


def test_cross_validation_is_that_of_its_folds(rng):
    from masgrad.fitting.penalised.folds import fold_of_rows

    X, y = sparse(rng)
    path = mg.penalty_path(mg.Linear(), (X, y), mg.L1("cv"))
    fold = fold_of_rows(len(y), 5, 0, 0)
    losses = []
    for f in range(5):
        out = fold == f
        fitted = Lasso(alpha=path.lams[5], **TIGHT).fit(X[~out, 1:], y[~out])
        losses.append(np.square(y[out] - fitted.predict(X[out, 1:])).sum() / 2)
    assert path.values[5] == pytest.approx(sum(losses) / len(y), rel=1e-8)
    assert path.lam == path.lams[np.argmin(path.values)]
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1("cv"))
    np.testing.assert_allclose(r.penalized_params, path.coefs[path.chosen], atol=1e-9)


def test_information_criteria_by_hand(rng):
    X, y = sparse(rng, family="bernoulli")
    N = len(y)
    for criterion, price in (("bic", np.log(N)), ("aic", 2.0)):
        path = mg.penalty_path(mg.Logistic(), (X, y), mg.L1(criterion))
        risk = [mg.Logistic().risk(w, (X, y)) for w in path.coefs]
        np.testing.assert_allclose(path.values, 2 * N * np.array(risk) + price * path.df)
    X, y = sparse(rng)
    path = mg.penalty_path(mg.Linear(), (X, y), mg.L1("bic"))
    squares = np.square(y[:, None] - X @ path.coefs.T).mean(0)
    np.testing.assert_allclose(path.values, N * np.log(squares) + np.log(N) * path.df)


def test_a_choice_over_many_rows_is_that_of_all_of_them(rng):
    """Past the kept rows folds are local models at a pilot, and nearly what the rows say."""
    X, y = regression(rng, "bernoulli", N=40_000, p=6)
    X = np.column_stack([X, rng.normal(size=(40_000, 6))])
    r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1("bic"))
    assert r.path.local
    risk = [2 * 40_000 * mg.Logistic().risk(w, (X, y)) for w in r.path.coefs]
    exact = np.array(risk) + np.log(40_000) * r.path.df
    near = np.abs(np.arange(len(exact)) - r.path.chosen) <= 5
    assert np.ptp(exact[near] - r.path.values[near]) < 0.5
    assert np.argmin(exact) == pytest.approx(r.path.chosen, abs=1)


def test_a_path_over_many_rows_has_exact_optima(rng):
    """An optimum is where a step down the gradient, and lam towards 0, leads back to it."""
    X, y = regression(rng, "bernoulli", N=40_000, p=5)
    path = mg.penalty_path(mg.Logistic(), (X, y), mg.L1(0.01), count=4)
    assert not path.coefs[0].any() and not path.local
    assert path.lams[0] == pytest.approx(np.abs(X.T @ (0.5 - y)).max() / 40_000, rel=1e-6)
    for lam, coefs in zip(path.lams, path.coefs, strict=True):
        step = coefs + X.T @ (y - sigmoid(X @ coefs)) / 40_000
        back = np.sign(step) * np.maximum(np.abs(step) - lam, 0)
        np.testing.assert_allclose(coefs, back, rtol=0, atol=1e-9)
        alone = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1(lam)).penalized_params
        np.testing.assert_allclose(coefs, alone, atol=1e-5)


def test_choices_at_an_end_are_told(rng):
    X, y = rng.normal(size=(60, 200)), rng.normal(size=60)
    with pytest.warns(IdentificationWarning):
        r = mg.fit(mg.Linear(), (X, y + 3 * X[:, :20].sum(1)), penalty=mg.L1("aic"))
    assert r.path.df.max() < 60 and "smallest that was tried" in " ".join(r.summary().split())


def test_a_path_of_a_loss_of_ones_own_and_of_links_without_a_mean_at_0(rng):
    X, y = sparse(rng, N=5000)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - z[0] @ t) ** 2, X.shape[1])
    free = np.arange(12) > 0
    own = mg.penalty_path(loss, (X, y), mg.L1(0.1, weights=free), count=3)
    known = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.1), count=3)
    np.testing.assert_allclose(own.coefs, known.coefs, atol=1e-4)
    gamma = rng.gamma(2.0, 0.5, 5000) / (1 + 0.5 * np.abs(X[:, 2]))
    path = mg.penalty_path(mg.Gamma(), (np.abs(X), gamma), mg.L1("cv"))
    assert np.isfinite(path.values).all()


def test_at_lam_max_everything_is_0_and_that_is_said(rng):
    X, y = sparse(rng)
    top = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.1), count=2).lams[0]
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(1.0001 * top))
    assert not r.penalized_params[1:].any()
    assert f"lam_max = {top:.4g}" in " ".join(r.summary().split())
    below = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.9999 * top))
    assert below.penalized_params[1:].any() and "lam_max" not in below.summary()

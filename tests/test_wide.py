"""Wide problems: hundreds of columns, with few rows for each."""

import numpy as np
import pytest
import statsmodels.api as sm

import masgrad as mg
from masgrad.errors import SeparationWarning
from masgrad.models.gram import Bordered, factor, is_definite, is_semidefinite

FAMILIES = {
    "gaussian": (mg.Linear, sm.families.Gaussian()),
    "binomial": (mg.Logistic, sm.families.Binomial()),
    "poisson": (mg.Poisson, sm.families.Poisson()),
}


def wide(family, N, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, p)) + 0.5 * rng.standard_normal((N, 1))
    X[:, 0] = 1.0
    t = X @ rng.standard_normal(p) / np.sqrt(p)
    if family == "binomial":
        return X, (rng.random(N) < 1 / (1 + np.exp(-t))).astype(float)
    return X, rng.poisson(np.exp(t / 2)) * 1.0 if family == "poisson" else t + rng.normal(size=N)


@pytest.mark.parametrize("family", FAMILIES)
def test_wide_fits_are_those_of_statsmodels_with_all_rows_kept_or_few(family):
    X, y = wide(family, 3000, 400)
    model, theirs = FAMILIES[family]
    wanted = sm.GLM(y, X, family=theirs).fit(cov_type="HC0", tol=1e-12)
    for memory in ("512MB", "1MB"):
        r = mg.fit(model(), (X, y), memory=memory)
        assert r.status is mg.Status.CONVERGED
        assert np.abs((r.params - wanted.params) / wanted.bse).max() < 1e-3
        np.testing.assert_allclose(r.bse, wanted.bse, rtol=1e-3)


@pytest.mark.parametrize("memory", ["1MB", "64MB"])
def test_a_wide_fit_takes_no_eigenvectors_and_few_reads(memory, monkeypatch):
    X, y = wide("binomial", 6000, 400)
    seen, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda A: seen.append(len(A)) or eigh(A))
    r = mg.fit(mg.Logistic(), (X, y), memory=memory)
    assert r.fit_info.reads <= 8
    assert not seen


def test_a_separated_column_is_found_among_many():
    X, y = wide("binomial", 4000, 300)
    X[:, 7] = (np.random.default_rng(1).random(4000) < 0.1) * y
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, y), memory="1MB")
    assert r.status is mg.Status.SEPARATED
    assert np.isposinf(r.params[7]) and np.isfinite(np.delete(r.params, 7)).all()


def test_factors_solve_and_invert():
    rng = np.random.default_rng(0)
    X, b = rng.standard_normal((200, 70)) * np.logspace(-3, 3, 70), rng.standard_normal((70, 3))
    A = X.T @ X
    found = factor(A)
    assert found is not None
    np.testing.assert_allclose(found.solve(b), np.linalg.solve(A, b), rtol=1e-9)
    np.testing.assert_allclose(found.solve(b[:, 0]), np.linalg.solve(A, b[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(found.inverse() @ A, np.eye(70), atol=1e-7)
    assert found.norm(b[:, 0]) ** 2 == pytest.approx(b[:, 0] @ np.linalg.solve(A, b[:, 0]))


def test_nearly_singular_and_indefinite_matrices_have_no_factor():
    empty, near = np.diag([1.0, 0.0]), np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])
    for A in (empty, near, np.diag([1.0, -1.0]), np.full((2, 2), np.nan), np.empty((0, 0))):
        assert factor(A) is None
    assert is_semidefinite(empty) and not is_definite(empty)
    assert not is_semidefinite(np.diag([1.0, -1.0]))


@pytest.mark.parametrize("k", [None, 3])
def test_a_bordered_matrix_multiplies_as_a_dense_one(k):
    rng = np.random.default_rng(0)
    d, A, X = rng.random(9) + 0.5, rng.standard_normal((9, 9)), rng.standard_normal((4, 9))
    r = None if k is None else rng.standard_normal(9) * (np.arange(9) != k)
    J, A, found = np.diag(d), A + A.T, Bordered(d) if k is None else Bordered(d, k, r)
    if k is not None:
        J[k] += r
    back = np.linalg.inv(J)
    np.testing.assert_allclose(found.rows(X), X @ J)
    np.testing.assert_allclose(found.moment(A), J.T @ A @ J)
    np.testing.assert_allclose(found.covariance(A), J @ A @ J.T)
    np.testing.assert_allclose(found.inverse().moment(A), back.T @ A @ back)

"""Rows that are all in memory: each sum over them is made once, and only if it is needed."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import sparse

import masgrad as mg
from masgrad.data.designs.sparse import SparseDesign
from masgrad.data.regression import column_sizes
from masgrad.data.source import Arrays
from masgrad.errors import InterruptedWarning
from masgrad.fitting.objective import objective as objectives
from masgrad.fitting.objective.coordinates import of_design
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.optimise import newton
from masgrad.fitting.sources import take_sample

FAMILIES = {
    "binomial": (mg.Logistic, sm.families.Binomial()),
    "poisson": (mg.Poisson, sm.families.Poisson()),
    "gamma": (lambda: mg.Gamma("log"), sm.families.Gamma(sm.families.links.Log())),
}


def drawn(family, N, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, p)) + 0.5 * rng.standard_normal((N, 1))
    X[:, 0] = 1.0
    t = 0.3 + X @ rng.standard_normal(p) / np.sqrt(p)
    if family == "binomial":
        return X, (rng.random(N) < 1 / (1 + np.exp(-t))).astype(float)
    return X, rng.poisson(np.exp(t / 2)) * 1.0 if family == "poisson" else rng.gamma(2, np.exp(t))


def summed(monkeypatch):
    """Which of H and M each block of rows is summed for, as it happens."""
    seen, real = [], objectives.linear_sums

    def sums(family, rows, theta, hessian, meat, **more):
        seen.append((len(rows[1]), hessian, meat))
        return real(family, rows, theta, hessian, meat, **more)

    monkeypatch.setattr(objectives, "linear_sums", sums)
    return seen


@pytest.mark.parametrize("p", [6, 40, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_in_memory_are_fitted_to_rounding(family, p):
    X, y = drawn(family, 2500, p)
    model, theirs = FAMILIES[family]
    r = mg.fit(model(), (X, y))
    wanted = sm.GLM(y, X, family=theirs).fit(cov_type="HC0", tol=1e-14, maxiter=200)
    assert r.status is mg.Status.CONVERGED
    assert np.abs((r.params - wanted.params) / wanted.bse).max() < 1e-7
    # statsmodels takes the expected H
    np.testing.assert_allclose(r.bse, wanted.bse, rtol=0.2 if family == "gamma" else 1e-7)


def test_a_wide_fit_sums_M_near_its_end_and_H_a_few_times(monkeypatch):
    X, y = drawn("binomial", 3000, 300)
    seen = summed(monkeypatch)
    mg.fit(mg.Logistic(), (X, y))
    with_meat = sum(rows for rows, _, meat in seen if meat)
    with_hessian = sum(rows for rows, hessian, _ in seen if hessian)
    assert with_meat <= 2 * 3000 + 1024  # all rows at the last two points, a few at the start
    assert with_hessian <= 7 * 3000 + 1024


def test_a_step_that_cannot_be_the_last_is_not_predicted(monkeypatch):
    X, y = drawn("binomial", 3000, 150)
    seen, real = [], newton.predict_remainder
    monkeypatch.setattr(newton, "predict_remainder", lambda *a: seen.append(1) or real(*a))
    mg.fit(mg.Logistic(), (X, y))
    assert len(seen) == 1


def test_an_array_within_memory_is_its_own_sample():
    X, y = drawn("binomial", 3000, 50)
    source, rng = Arrays((X, y), ()), np.random.default_rng(0)
    room = X.nbytes + y.nbytes
    whole = take_sample(source, False, room // 8 + 1, rng)
    assert whole.complete and np.shares_memory(whole.rows[0], X)
    assert not take_sample(source, False, room // 16, rng).complete


def test_sizes_of_columns_are_sums_of_powers(rng):
    U = rng.standard_normal((500, 4))
    U[:, 1] = rng.random(500) < 0.02  # rare and even
    U[:, 2] = 0.0
    U[3, 2] = 7.0  # one outlier
    for parts in ([U], [U[:130], U[130:]], [SparseDesign(sparse.csr_array(U))]):
        sizes = column_sizes(parts)
        for found, k in zip(sizes[2:], (2, 3, 4), strict=True):
            np.testing.assert_allclose(found, (np.abs(U) ** k).sum(0))
        np.testing.assert_allclose(sizes.largest, np.abs(U).max(0))
        np.testing.assert_array_equal(sizes.even, [False, True, False, False])
        assert sizes.rows == 500 and not sizes.are_represented
    assert column_sizes([U[:, :1]]).are_represented


def test_without_M_a_step_is_measured_as_if_the_model_were_true():
    X, y = drawn("gamma", 400, 3)
    objective = Objective(mg.Gamma("log"), of_design(X))
    local = objective.local_model(np.zeros(3), (X, y), Parts(meat=False))
    step, noise = np.array([0.1, -0.2, 0.05]), local.squares / local.count
    true = replace(local, meat=local.hessian * noise)
    assert not local.has_meat and true.has_meat
    assert local.wald_norm(step) == pytest.approx(true.wald_norm(step))


def test_least_squares_sum_H_and_M_once(monkeypatch):
    X, _ = drawn("binomial", 3000, 300)
    y = X @ np.linspace(-1, 1, 300) + np.random.default_rng(1).standard_normal(3000)
    seen = summed(monkeypatch)
    r = mg.fit(mg.Linear(), (X, y))
    assert sum(rows for rows, hessian, _ in seen if hessian) <= 3000 + 1024
    assert sum(rows for rows, _, meat in seen if meat) <= 3000 + 1024
    wanted = sm.OLS(y, X).fit(cov_type="HC0")
    np.testing.assert_allclose(r.params, wanted.params, atol=1e-9)
    np.testing.assert_allclose(r.bse, wanted.bse, rtol=1e-9)


@pytest.mark.parametrize("call", [8, 12, 16])
def test_ctrl_c_leaves_M_of_all_rows_that_were_seen(rng, monkeypatch, call):
    """Of one block, of the first rows here, which have little noise, M would be much too small."""
    n, p = 30_000, 60
    X = rng.normal(size=(n, p))
    noise = np.where(np.arange(n) < 6000, 0.01, 1.0)
    y = X @ np.full(p, 0.1) + noise * rng.normal(size=n)
    wanted, calls, real = mg.fit(mg.Linear(), (X, y)).bse, [], Objective.block_summer

    def summer(self, phi, parts):
        sums_over = real(self, phi, parts)

        def stopped(block):
            calls.append(1)
            if len(calls) == call:
                raise KeyboardInterrupt
            return sums_over(block)

        return stopped

    monkeypatch.setattr(Objective, "block_summer", summer)
    with pytest.warns(InterruptedWarning):
        r = mg.fit(mg.Linear(), (X, y))
    np.testing.assert_allclose(r.bse * np.sqrt(r.nobs / n), wanted, rtol=0.3)

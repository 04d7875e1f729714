"""Rows on which a Newton step, or a sample of rows, misleads: `fit` must not."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from threadpoolctl import threadpool_info, threadpool_limits

import masgrad as mg
from masgrad.cores import own_cores
from masgrad.errors import (
    AccuracyWarning,
    InputError,
    InputTypeError,
    PerfectFitWarning,
    SeparationWarning,
)
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.optimise.line_search import SHARES, Trial, best_share, diverges
from masgrad.fitting.optimise.third_order import information_covers, is_homogeneous
from scenarios import regression, sigmoid


def newton(X, y, steps=60):
    """The logistic MLE by halved Newton steps, and its HC0 errors."""
    theta = np.zeros(X.shape[1])

    def loss(t):
        return np.logaddexp(0, X @ t).sum() - y @ (X @ t)

    for _ in range(steps):
        p = sigmoid(X @ theta)
        H = X.T @ ((p * (1 - p))[:, None] * X)
        move, share = np.linalg.solve(H, X.T @ (p - y)), 1.0
        while loss(theta - share * move) > loss(theta) + 1e-9 and share > 1e-12:
            share /= 2
        theta = theta - share * move
    M = X.T @ (((p - y) ** 2)[:, None] * X)
    return theta, np.sqrt(np.diag(np.linalg.solve(H, np.linalg.solve(H, M).T)))


def close(r, theta, se, bar=0.01, relative=5e-3):
    assert np.abs((r.theta - theta) / se).max() < bar
    np.testing.assert_allclose(r.bse, se, rtol=relative)


def with_dummy(rng, N, ones, effect):
    x, d = rng.normal(size=N), np.zeros(N)
    d[rng.choice(N, ones, replace=False)] = 1
    return np.column_stack([np.ones(N), x, d]), -2 + 0.5 * x + effect * d


@pytest.mark.parametrize("case", range(4))
def test_a_rare_dummy_of_a_logistic_model(case):
    """Twenty rows of 150,000, of which the sample has seen four, or none."""
    rng = np.random.default_rng([case, 1])
    X, t = with_dummy(rng, 150_000, 20, 2.0)
    y = (rng.random(len(t)) < sigmoid(t)).astype(float)
    y[np.flatnonzero(X[:, 2])[:2]] = [0, 1]  # not separated
    close(mg.fit(mg.Logistic(), (X, y)), *newton(X, y, 25))


def test_a_rare_dummy_of_a_poisson_model(rng):
    X, t = with_dummy(rng, 150_000, 20, 3.0)
    y = rng.poisson(np.exp(t)).astype(float)
    done = sm.GLM(y, X, family=sm.families.Poisson()).fit(tol=1e-13, cov_type="HC0")
    close(mg.fit(mg.Poisson(), (X, y)), done.params, done.bse)


def test_a_rare_dummy_that_separates(rng):
    X, t = with_dummy(rng, 150_000, 8, 0.0)
    y = (rng.random(len(t)) < sigmoid(t)).astype(float)
    y[X[:, 2] == 1] = 1.0
    with pytest.warns(SeparationWarning, match="along 2"):
        r = mg.fit(mg.Logistic(), (X, y))
    assert np.isinf(r.bse[2]) and np.isnan(r.pvalues[2])
    rest = X[:, 2] == 0
    close_to = newton(X[rest, :2], y[rest], 20)
    np.testing.assert_allclose(r.params[:2], close_to[0], atol=1e-5)
    with pytest.warns(SeparationWarning, match="along 2"):
        once = mg.fit(mg.Logistic(), (X, y), passes=1)
    assert (
        once.params[2] == np.inf
        and np.abs((once.params[:2] - r.params[:2]) / r.bse[:2]).max() < 0.1
    )


def test_rare_events(rng):
    X = np.column_stack([np.ones(100_000), rng.normal(size=(100_000, 3))])
    y = rng.binomial(1, sigmoid(X @ [-6.5, 0.5, 0.5, -0.5])).astype(float)
    close(mg.fit(mg.Logistic(), (X, y)), *newton(X, y, 30))


@pytest.mark.parametrize("df", [1.0, 1.25, 2.0])
def test_heavy_tails(rng, df):
    X = np.column_stack([np.ones(60_000), rng.standard_t(df, size=(60_000, 2))])
    y = rng.binomial(1, sigmoid(X @ [0.1, 0.5, 0.3])).astype(float)
    close(mg.fit(mg.Logistic(), (X, y)), *newton(X, y))


@pytest.mark.parametrize("N", [2000, 60_000])
def test_one_outlier_does_not_separate(rng, N):
    X = np.column_stack([np.ones(N), rng.normal(size=N)])
    y = rng.binomial(1, sigmoid(X @ [-0.2, 1.0])).astype(float)
    X[0, 1], y[0] = 1e4, 1.0
    close(mg.fit(mg.Logistic(), (X, y)), *newton(X, y))


def test_large_coefficients_are_not_separation():
    """Iris: the MLE exists, with standard errors of 15 and fitted probabilities near 0 and 1."""
    from sklearn.datasets import load_iris

    data = load_iris()
    X, y = sm.add_constant(data.data), (data.target == 2).astype(float)
    close(mg.fit(mg.Logistic(), (X, y)), *newton(X, y))
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (data.target == 0).astype(float)))
    assert np.isinf(r.bse).all() and r.summary()
    x = sm.add_constant(np.arange(20.0))
    bounded = mg.fit(mg.Logistic(), (x, (np.arange(20) > 9) * 0.99))
    assert np.isfinite(bounded.bse).all()


@pytest.mark.parametrize("case", ["leverage", "outlier", "lognormal"])
def test_standard_errors_where_single_rows_matter(rng, case):
    """The meat is that of the estimate, not of the average a few standard errors away."""
    N = 60_000
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
    if case == "lognormal":
        X = rng.lognormal(0, 1.5, (N, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=N) * (X[:, 0] if case == "lognormal" else 1)
    if case == "leverage":
        X[5, 2] = 100.0
    if case == "outlier":
        X[5, 2], y[7] = 1e4, 1e6
    done = sm.OLS(y, X).fit(cov_type="HC0")
    close(mg.fit(mg.Linear(), (X, y)), done.params, done.bse, relative=1e-6)


def test_large_counts(rng):
    X = rng.normal(size=(60_000, 3))
    y = rng.poisson(np.exp(X @ [2.0, 1.0, 1.0])).astype(float)
    done = sm.GLM(y, X, family=sm.families.Poisson()).fit(tol=1e-13, cov_type="HC0")
    close(mg.fit(mg.Poisson(), (X, y)), done.params, done.bse)


@pytest.mark.parametrize("shift", [(1e9, 5, -3), (1e8, 1, 0), (1e9, 0, 0), (-1e9, 2, 1e9)])
def test_the_first_column_shifted_without_an_intercept(rng, shift):
    """A reflection computed as d - |d| e_1 would cancel here; fitted values tell."""
    U = rng.normal(size=(200, 3))
    X, d = U + np.array(shift), np.array(shift)
    U = X - d  # as rounded
    y = 3 + U @ [0.5, 2.0, 1.0] + rng.normal(size=200)
    r = mg.fit(mg.Linear(), (X, y))
    e = d / np.linalg.norm(d)
    rest = np.linalg.svd(e[None])[2][1:].T
    G = np.column_stack([1 + U @ e / np.linalg.norm(d), U @ rest])
    least = np.square(y - G @ np.linalg.lstsq(G, y, rcond=None)[0]).sum()
    assert np.square(y - r.predict(X)).sum() == pytest.approx(least, rel=1e-5)


PERFECT = {
    "linear": (mg.Linear(), lambda t: t),
    "constant": (mg.Linear(), lambda t: np.full_like(t, 2.0)),
    "log": (mg.GLM("gaussian", "log"), lambda t: np.exp(0.1 * t)),
    "poisson": (mg.Poisson(), lambda t: np.full_like(t, 3.0)),
    "gamma": (mg.Gamma("log"), lambda t: np.exp(0.1 * t)),
    "constant gamma": (mg.Gamma(), lambda t: np.full_like(t, 3.0)),
}


@pytest.mark.parametrize("name", PERFECT)
@pytest.mark.parametrize("rows", [300, 60_000])
def test_a_perfect_fit_is_said_and_tests_nothing(rng, name, rows):
    model, response = PERFECT[name]
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    with pytest.warns(PerfectFitWarning, match="fitted to rounding"):
        r = mg.fit(model, (X, response(X @ [1.0, 2.0, 3.0])))
    np.testing.assert_array_equal(r.bse, 0)
    assert np.isnan(r.pvalues).all() and np.isnan(r.contrast(np.eye(3)[1:]).pvalues).all()
    assert np.isfinite([r.fit_info.correction, r.fit_info.remainder]).all()
    assert "nan" not in r.summary().split("coef")[0]
    np.testing.assert_allclose(r.predict(X), response(X @ [1.0, 2.0, 3.0]), rtol=1e-9)


@pytest.mark.parametrize("noise", [1e-3, 1e-9])
def test_little_noise_is_not_a_perfect_fit(rng, noise):
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    y = X @ [1.0, 2.0, 3.0] + noise * rng.normal(size=300)
    r = mg.fit(mg.Linear(), (X, y))
    np.testing.assert_allclose(r.bse, sm.OLS(y, X).fit(cov_type="HC0").bse, rtol=1e-4)


@pytest.mark.parametrize("rows", [2000, 60_000])
@pytest.mark.parametrize("model", [mg.Linear(), mg.Logistic()], ids=["linear", "logistic"])
def test_standard_errors_of_powers_of_the_year(rng, rows, model):
    """Raw powers are far from 0 and nearly collinear: condition 2e10; centred ones are neither."""
    year = rng.integers(1950, 2020, rows).astype(float)
    u = (year - 1984) / 20
    y = (rng.random(rows) < sigmoid(0.3 * u - 0.2 * u**3)).astype(float)
    raw, centred = (np.column_stack([x**k for k in range(4)]) for x in (year, u))
    for cov_type in ("robust", "nonrobust"):
        a, b = (mg.fit(model, (X, y), cov_type=cov_type) for X in (raw, centred))
        assert a.bse[3] * 20**3 == pytest.approx(b.bse[3], rel=2e-3)
        assert abs(a.params[3] * 20**3 - b.params[3]) < 1e-3 * b.bse[3]


def test_tiny_and_huge_units(rng):
    X, y = regression(rng, N=300, p=2)
    one = np.ones(300)
    plain = mg.fit(mg.Linear(), (np.column_stack([one, X]), y))
    for unit in (1e-100, 1e100):
        r = mg.fit(mg.Linear(), (np.column_stack([one, X * unit]), y))
        np.testing.assert_allclose(r.zvalues, plain.zvalues, rtol=1e-8)


# The watches over steps.


def test_a_step_onto_a_plateau_is_not_accepted():
    """A logistic loss of 19 positive rows and a negative one, from the left."""

    def at(t):
        p, loss = sigmoid(np.array([t])), 20 * np.logaddexp(0, t) - 19 * t
        H = 20 * np.diag(p * (1 - p))
        return LocalModel(20, np.array([t]), 20 * p - 19, H, np.eye(1), loss=loss)

    far, near = Trial(at(-2.0), np.array([30.0])), Trial(at(-2.0), np.array([5.0]))
    assert not far.is_accepted(at(28.0))
    assert near.is_accepted(at(3.0))
    falls = np.array([at(-2.0).loss - at(-2.0 + 30 * share).loss for share in SHARES])
    assert abs(-2.0 + 30 * best_share(falls) - np.log(19)) < 6
    assert best_share(-np.abs(falls)) == 0


def test_a_fall_within_rounding_is_judged_by_the_slope():
    H = np.eye(1)
    start = LocalModel(10, np.zeros(1), np.full(1, 1e-5), H, H, loss=1e9)
    step = Trial(start, np.full(1, -1e-5))
    better = LocalModel(10, step.end, np.full(1, 1e-8), H, H, loss=1e9)
    worse = LocalModel(10, step.end, np.full(1, 1e-4), H, H, loss=1e9)
    assert step.is_accepted(better) and not step.is_accepted(worse)


def test_steps_that_shrink_are_not_steady():
    d = np.array([1.0, 2.0])
    towards, away = [d * 0.5**k for k in range(6)], [d] * 4
    assert not any(diverges(towards[:k]) for k in range(7))
    assert [diverges(away[:k]) for k in range(1, 5)] == [False, False, True, True]


def test_some_rows_inform_about_others(rng):
    H = np.diag([1.0, 2.0, 3.0])
    full = LocalModel(1000, np.zeros(3), np.zeros(3), 1000 * H, 1000 * H)
    sample = LocalModel(100, np.zeros(3), np.zeros(3), 100 * H, 100 * H)
    blind = LocalModel(100, np.zeros(3), np.zeros(3), 100 * np.diag([1.0, 2, 0.1]), 100 * H)
    assert information_covers(sample, full) and not information_covers(blind, full)
    assert is_homogeneous(sample, full)
    pulled = LocalModel(100, np.zeros(3), np.full(3, 200.0), 100 * H, 100 * H)
    assert not is_homogeneous(pulled, full)


# Updates, names, options.


def test_an_update_with_other_rows_says_how_far_it_may_be(rng):
    """New x from elsewhere: what the old quadratic misses cannot be seen on them."""
    X, Z = rng.normal(size=(20_000, 2)), rng.normal(size=(20_000, 2)) + 2
    both = np.vstack([X, Z])
    y = (rng.random(40_000) < sigmoid(np.sin(both[:, 0]) + both[:, 1] ** 2 / 4)).astype(float)
    with pytest.warns(AccuracyWarning):
        r = mg.fit(mg.Logistic(), (X, y[:20_000])).update((Z, y[20_000:]))
    whole = mg.fit(mg.Logistic(), (both, y))
    assert np.abs((r.theta - whole.theta) / whole.bse).max() < 3 * r.fit_info.remainder


def test_remainders_of_updates_add_up(rng):
    X, y = regression(rng, "bernoulli", N=4000)
    r = mg.fit(mg.Logistic(), (X[:1000], y[:1000]))
    left = []
    for i in range(1000, 4000, 1000):
        r = r.update((X[i : i + 1000], y[i : i + 1000]))
        left.append(r.fit_info.remainder)
    assert left[2] > left[0] > 0


def test_columns_are_matched_by_name(rng):
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = 2 * X.a + X.b + rng.normal(size=400)
    r = mg.fit(mg.Linear(), (X, y))
    turned = X[["b", "a"]]
    np.testing.assert_allclose(r.predict(turned), r.predict(X))
    twice = r.update((turned, y))
    np.testing.assert_allclose(twice.params, r.params, rtol=1e-9)
    with pytest.raises(InputError, match="no column 'b'"):
        r.predict(X[["a"]])
    with pytest.raises(InputError, match="no column 'a'"):
        r.update((X.rename(columns={"a": "z"}), y))
    with pytest.raises(InputError, match="different indexes"):
        mg.fit(mg.Linear(), (X, y.sort_values()))
    with pytest.raises(InputError, match="old rows had 2"):
        r.update((X.to_numpy()[:, :1], y.to_numpy()))
    with pytest.raises(InputTypeError, match=r"update\(\) got an unexpected"):
        r.update((X, y), foo=3)


REFUSED = {
    "no parentheses": (lambda X, y: mg.fit(mg.Logistic, (X, y)), "parentheses"),
    "a name": (lambda X, y: mg.fit("logistic", (X, y)), "a model is needed"),
    "chains once": (lambda X, y: mg.fit(mg.Linear(), iter([(X, y)]), method="chains"), "once"),
    "twice once": (lambda X, y: mg.fit(mg.Linear(), iter([(X, y)]), passes=2), "once"),
    "few for chains": (lambda X, y: mg.fit(mg.Linear(), (X, y), method="chains"), "too few"),
    "chains and HC3": (
        lambda X, y: mg.fit(mg.Linear(), (X, y), method="chains", cov_type="HC3"),
        "of their own",
    ),
    "penalty": (lambda X, y: mg.fit(mg.Linear(), (X, y), penalty=1.0), "L2"),
    "nonrobust": (
        lambda X, y: mg.fit(
            mg.CustomLoss(lambda t, z: (z[1] - z[0] @ t) ** 2, 4), (X, y), cov_type="nonrobust"
        ),
        "log-likelihood",
    ),
    "no minimum": (
        lambda X, y: mg.fit(mg.CustomLoss(lambda t, z: jnp.exp(-t[0]) + 0 * z, 1), y),
        "no minimum",
    ),
    "linear loss": (
        lambda X, y: mg.fit(mg.CustomLoss(lambda t, z: z * t[0] + t[0], 1), y),
        "the loss is linear",
    ),
    "push": (
        lambda X, y: mg.fit(mg.Linear(), (X, y)).law.push(lambda t: jnp.log(-(t[0] ** 2))),
        "finite",
    ),
    "words": (lambda X, y: mg.fit(mg.Linear(), (X, y)).wald_test("x = 0"), "no parameter 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_mean_nothing_is_refused(rng, name):
    X, y = regression(rng, N=300)
    with pytest.raises((InputError, InputTypeError), match=REFUSED[name][1]):
        REFUSED[name][0](X, y)


def test_negative_counts_are_named_before_anything_else():
    with pytest.raises(InputError, match="y is -1 at row 1"):
        mg.fit(mg.Poisson(), (np.ones((3, 1)), np.array([0.0, -1, 0])))


@pytest.mark.parametrize("block_size", [16, 63, 5000])
def test_any_block_size(rng, block_size):
    X, y = regression(rng, "bernoulli", N=40_000)
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    r = mg.glm("y ~ a + b + c + d - 1", table, "binomial", block_size=block_size)
    assert np.abs((r.theta - mg.fit(mg.Logistic(), (X, y)).theta) / r.bse.to_numpy()).max() < 2e-3


def test_ragged_batches_of_chains(rng):
    """One row more than whole blocks: the last step is as short as its batch."""
    N = 4096 * 20 + 1
    X = rng.normal(size=(N, 1))
    y = X[:, 0] + rng.normal(size=N)
    table = pd.DataFrame({"x": X[:, 0], "y": y})
    r = mg.glm("y ~ x - 1", table, method="chains", chains=100)
    plain = mg.fit(mg.Linear(), (X, y))
    assert r.bse.iloc[0] == pytest.approx(plain.bse[0], rel=0.3)


def test_chains_need_directions_that_have_estimates(rng):
    X, y = regression(rng, N=2000)
    with pytest.warns(Warning, match="is 0 in every row"):
        r = mg.fit(mg.Linear(), (np.column_stack([X, np.zeros(2000)]), y), method="chains")
    assert r.df is None and "not run" in " ".join(r.notes)


def blas():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.mark.parametrize("leaves", [0, 1])
def test_blas_and_arrow_get_their_threads_back_from_fits_at_once(leaves):
    """Whichever of two leaves first, the limits stay for the other."""
    arrow, fits = pa.cpu_count(), [ExitStack(), ExitStack()]
    with threadpool_limits(2, "blas"):
        for fit in fits:
            fit.enter_context(own_cores())
        fits.pop(leaves).close()
        assert blas() == {1}
        fits.pop().close()
        assert blas() == {2} and pa.cpu_count() == arrow


def test_blas_gets_its_threads_back_from_fits_in_two_threads():
    """The thread that came first leaves first."""
    outer, first, last = ExitStack(), ExitStack(), ExitStack()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(lambda: outer.enter_context(threadpool_limits(2, "blas"))).result()
        one.submit(first.enter_context, own_cores()).result()
        other.submit(last.enter_context, own_cores()).result()
        during = blas()
        one.submit(first.close).result()
        other.submit(last.close).result()
        after = blas()
        one.submit(outer.close).result()
    assert (during, after) == ({1}, {2})


def test_every_fit_warns_for_itself(rng, recwarn):
    X = np.column_stack([np.ones(200), rng.normal(size=200), np.zeros(200)])
    for _ in range(3):
        mg.fit(mg.Linear(), (X, rng.normal(size=200)))
    places = [w for w in recwarn if "is 0 in every row" in str(w.message)]
    assert places and all(w.filename == __file__ for w in places)


def test_memory_is_a_bound_for_wide_rows():
    """p = 300 in 8 MB: the rows kept and the blocks on their way, not 32,768 rows of 2.4 KB."""
    import tracemalloc

    def blocks():
        rng = np.random.default_rng(0)
        for _ in range(80):
            X = rng.normal(size=(500, 300))
            yield X, X[:, 0] + rng.normal(size=500)

    tracemalloc.start()
    mg.fit(mg.Linear(), mg.Stream(blocks), memory="8MB")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 45e6


def test_a_network_with_a_unit_too_many(rng):
    """Flat directions, not a failure: rounding of a zero eigenvalue is not a negative one."""
    X = rng.normal(size=(1500, 2))
    y = np.maximum(0, 1 + 0.7 * np.maximum(0, 1 + X @ [1.0, -0.5])) + 0.1 * rng.normal(size=1500)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - (t[0] + t[1]) * z[0][0]) ** 2, 2)
    with pytest.warns(Warning, match="flat in 1 of 2"):
        r = mg.fit(loss, (X, y))
    best = minimize(lambda b: np.square(y - b * X[:, 0]).sum(), 0.0).x
    assert r.law.push(lambda t: t[0] + t[1]).mean == pytest.approx(best, rel=1e-4)

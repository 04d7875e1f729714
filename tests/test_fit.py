"""`fit` on linear predictors: the MLE and its robust errors, however the rows are read."""

import warnings
from functools import partial, reduce

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import masgrad as mg
from masgrad.data.source import Arrays
from masgrad.errors import AccuracyWarning, OrderWarning
from masgrad.fitting.objective import coordinates
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.optimise.masgrad import (
    Average,
    averaged_masgrad,
    batches,
    masgrad_step,
    warm_up,
)
from masgrad.fitting.optimise.third_order import (
    sampling_error,
    third_order_step,
    update_moments,
)
from scenarios import regression

FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "bernoulli": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
}


def real(name):
    """(family, X, y) of a data set of statsmodels."""
    data = getattr(sm.datasets, name).load_pandas()
    X = sm.add_constant(np.asarray(data.exog, float), has_constant="skip")
    family = {"spector": "bernoulli", "randhie": "poisson", "cpunish": "poisson"}
    return family.get(name, "gaussian"), X, np.asarray(data.endog, float)


def in_errors(r, theta):
    """Largest distance of the estimate from theta in standard errors."""
    return np.abs((np.asarray(r.params) - theta) / np.asarray(r.bse)).max()


def worst_contrast(r, theta):
    away = r.theta - theta
    return np.sqrt(away @ np.linalg.solve(r.cov, away))


def pieces(X, y, size):
    return ((X[i : i + size], y[i : i + size]) for i in range(0, len(y), size))


def ar_logistic(rng, N, p):
    X = rng.standard_normal((N, p))
    for j in range(1, p):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(1 - 0.81) * X[:, j]
    t = X @ np.linspace(0, 0.2, p)
    return X, (rng.random(N) < 1 / (1 + np.exp(-t))).astype(float)


@pytest.fixture(scope="module")
def many():
    """Rows enough for a MasGrad read, and their optimum."""
    X, y = ar_logistic(np.random.default_rng(5), 200_000, 20)
    return (X, y), mg.fit(mg.Logistic(), (X, y), passes="converge")


@pytest.mark.parametrize("name", ["spector", "randhie", "cpunish", "longley", "engel", "stackloss"])
@pytest.mark.parametrize("robust", [True, False])
def test_real_data_give_the_mle_of_statsmodels(name, robust):
    family, X, y = real(name)
    done = sm.GLM(y, X, family=FAMILIES[family]).fit(
        tol=1e-14, cov_type="HC0" if robust else "nonrobust"
    )
    r = mg.fit(mg.GLM(family), (X, y), cov_type="robust" if robust else "nonrobust")
    assert in_errors(r, done.params) < 1e-5
    np.testing.assert_allclose(r.bse, done.bse, rtol=1e-5)
    np.testing.assert_allclose(r.pvalues, done.pvalues, atol=1e-6)
    np.testing.assert_allclose(r.conf_int(0.1), done.conf_int(0.1), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("kind", ["HC1", "HC3"])
def test_small_sample_covariances_are_those_of_statsmodels(kind):
    _, X, y = real("engel")
    r = mg.fit(mg.Linear(), (X, y), cov_type=kind)
    np.testing.assert_allclose(r.bse, sm.OLS(y, X).fit(cov_type=kind).bse, rtol=1e-9)


def test_hc3_of_a_logistic_model_is_the_formula(rng):
    """g over 1 - h with the leverage h of the weighted rows."""
    X, y = regression(rng, "bernoulli", N=80)
    r = mg.fit(mg.Logistic(), (X, y), cov_type="HC3")
    mu = 1 / (1 + np.exp(-X @ r.params))
    inverse = np.linalg.inv((X * (mu * (1 - mu))[:, None]).T @ X)
    h = mu * (1 - mu) * np.einsum("ij,jk,ik->i", X, inverse, X)
    G = X * ((y - mu) / (1 - h))[:, None]
    np.testing.assert_allclose(r.cov, inverse @ (G.T @ G) @ inverse, rtol=1e-8)


def test_few_rows_get_a_note_about_hc3(rng):
    X, y = regression(rng, N=60)
    assert any("HC3" in note for note in mg.fit(mg.Linear(), (X, y)).notes)
    assert not mg.fit(mg.Linear(), (X, y), cov_type="HC3").notes


def test_two_reads_are_enough_and_the_remainder_is_predicted(many):
    """With some seeds a standard error moves by 0.6 % over the last step: then there is a third."""
    data, exact = many
    r = mg.fit(mg.Logistic(), data, seed=1)
    assert r.fit_info.reads == 2 and r.fit_info.remainder < 1e-3
    assert worst_contrast(exact, r.theta) < 5 * r.fit_info.remainder
    assert in_errors(exact, r.theta) < 1e-3
    np.testing.assert_allclose(r.bse, exact.bse, rtol=5e-3)
    assert exact.fit_info.remainder < 1e-6


def test_the_optimum_is_statsmodels(many):
    (X, y), exact = many
    done = sm.GLM(y, X, family=sm.families.Binomial()).fit(tol=1e-12, cov_type="HC0")
    assert in_errors(exact, done.params) < 1e-6
    np.testing.assert_allclose(exact.bse, done.bse, rtol=1e-4)


@pytest.mark.parametrize("form", ["array", "iterator"])
def test_a_single_read_is_nearly_as_good(many, form):
    """The bars are 0.1 standard errors (root mean square) and 0.3 in the worst contrast."""
    (X, y), exact = many
    if form == "array":
        r = mg.fit(mg.Logistic(), (X, y), passes=1)
    else:
        r = mg.fit(
            mg.Logistic(), ((X[i : i + 7000], y[i : i + 7000]) for i in range(0, 200_000, 7000))
        )
    assert r.fit_info.reads == 1 and r.nobs == 200_000
    away = (r.theta - exact.theta) / exact.bse
    assert np.sqrt(np.mean(away**2)) < 0.02
    assert worst_contrast(exact, r.theta) < min(0.1, 5 * r.fit_info.remainder)
    np.testing.assert_allclose(r.bse, exact.bse, rtol=5e-3)


def test_how_rows_are_read_does_not_matter(many):
    (X, y), exact = many
    order = np.random.default_rng(3).permutation(len(y))
    fits = [
        mg.fit(mg.Logistic(), (X, y), block_size=1000),
        mg.fit(mg.Logistic(), (X, y), threads=1),
        mg.fit(mg.Logistic(), (X, y), seed=9),
        mg.fit(mg.Logistic(), (X[order], y[order])),
        mg.fit(mg.Logistic(), (np.asfortranarray(X), y)),
    ]
    assert all(in_errors(exact, r.theta) < 1e-3 for r in fits)
    exactly = [
        mg.fit(mg.Logistic(), (X, y), "converge", block_size=1000, threads=1, seed=4),
        mg.fit(mg.Logistic(), (X[order], y[order]), "converge"),
    ]
    assert all(in_errors(exact, r.theta) < 1e-6 for r in exactly)


def test_threads_change_no_digit(many):
    (X, y), _ = many
    fits = [mg.fit(mg.Logistic(), (X, y), threads=k) for k in (1, 2, 5)]
    for r in fits[1:]:
        np.testing.assert_array_equal(r.params, fits[0].params)
        np.testing.assert_array_equal(r.bse, fits[0].bse)


def test_masgrad_reads_no_more_than_it_takes(many, monkeypatch):
    """MASGRAD_ROWS sqrt(p N) rows; the correcting read makes up for what its average misses.

    It is asked for here: of so few rows in memory a gradient read is cheaper.
    """
    (X, y), exact = many
    taken = []

    def counted(*rest):
        taken.append(len(rest[-1][1]))
        return averaged_masgrad(*rest)

    first_read = "masgrad.fitting.optimise.first_read."
    monkeypatch.setattr(first_read + "averaged_masgrad", counted)
    monkeypatch.setattr(first_read + "MASGRAD_ROWS", 32)
    monkeypatch.setattr(first_read + "LARGEST_MASGRAD_SHARE", {True: 1.0})
    r = mg.fit(mg.Logistic(), (X, y))
    assert 32 * np.sqrt(X.size) <= sum(taken) < 32 * np.sqrt(X.size) + 5000
    assert in_errors(exact, r.theta) < 2e-3 and r.fit_info.reads <= 3


def test_the_step_size_does_not_matter(many):
    """Over three decades and beyond what is stable: the correcting reads remove its trace."""
    data, exact = many
    for step_size in (0.01, 0.1, 1.0, 10.0):
        r = mg.fit(mg.Logistic(), data, step_size=step_size)
        assert in_errors(exact, r.theta) < 1e-3 and r.fit_info.reads <= 4


def test_rows_sorted_by_the_response(many):
    """The first rows are of one class. Reads that correct do not mind, nor does a single one that
    may keep rows; else it says so."""
    (X, y), _ = many
    order = np.argsort(y, kind="stable")
    X = np.column_stack([np.ones(len(y)), X[:, :3]])
    exact = mg.fit(mg.Logistic(), (X, y), "converge")
    assert in_errors(exact, mg.fit(mg.Logistic(), (X[order], y[order])).theta) < 1e-3
    with pytest.warns(OrderWarning, match="drift"):
        r = mg.fit(mg.Logistic(), mg.Stream(lambda: pieces(X[order], y[order], 5000)))
    assert in_errors(exact, r.theta) < 1e-3
    r = mg.fit(mg.Logistic(), pieces(X[order], y[order], 5000))
    assert in_errors(exact, r.theta) < 1e-6 and r.status.ok
    with pytest.warns() as seen:
        r = mg.fit(mg.Logistic(), pieces(X[order], y[order], 5000), memory="1MB")
    assert in_errors(exact, r.theta) < r.fit_info.remainder
    said = {w.category: str(w.message) for w in seen}
    assert "single read" in said[OrderWarning] and "may still be" in said[AccuracyWarning]


def test_passes_is_the_most_reads(many):
    data, exact = many
    assert mg.fit(mg.Logistic(), data, passes=2).fit_info.reads == 2
    assert exact.fit_info.reads in (3, 4)


def test_an_unfinished_fit_says_so(rng, monkeypatch):
    monkeypatch.setattr("masgrad.fitting.options.MOST_READS", 2)
    X = np.column_stack([np.ones(60_000), rng.normal(size=(60_000, 2)) * 3])
    y = rng.poisson(np.exp(0.2 + X[:, 1])).astype(float)
    order = np.argsort(y)
    blocks = mg.Stream(lambda: pieces(X[order], y[order], 5000))
    with pytest.warns(AccuracyWarning, match="may still be"), warnings.catch_warnings():
        warnings.simplefilter("ignore", OrderWarning)
        mg.fit(mg.Poisson(), blocks)


# The parts.


def objective_of(data, family="bernoulli"):
    return Objective(mg.GLM(family), coordinates.of_design(data[0]))


def test_the_warm_up_begins_with_masgrad_and_ends_at_the_samples_optimum(rng):
    X, y = regression(rng, "bernoulli", N=2000)
    P = objective_of((X, y))
    first = P.local_model(np.zeros(4), (X, y))
    b, m = (
        first.gradient / 2000,
        mg.moments(mg.Logistic(), np.zeros(4), (X @ P.coordinates.matrix, y)),
    )
    V = m.root().matrix()
    gamma = np.linalg.eigvals(np.linalg.solve(V, m.hessian)).real.max()
    np.testing.assert_allclose(masgrad_step(first), -np.linalg.solve(V, b) / gamma, rtol=1e-3)
    end = warm_up(P, (X, y), np.zeros(4))
    optimum = sm.GLM(y, X, family=sm.families.Binomial()).fit(tol=1e-14).params
    np.testing.assert_allclose(P.coordinates.theta(end.point), optimum, atol=2e-4)


def test_averaged_masgrad_lands_a_few_standard_errors_from_the_optimum(many):
    data, exact = many
    P = objective_of(data)
    sample = Arrays(data).sample(8192, np.random.default_rng(1))
    start = warm_up(P, sample, np.zeros(20))
    blocks = Arrays(data).blocks(np.random.default_rng(2))
    phi = reduce(partial(averaged_masgrad, P, 2000, 1.0), blocks, Average.at(start)).mean
    before, after = (worst_contrast(exact, P.coordinates.theta(v)) for v in (start.point, phi))
    assert after < 12 < before  # sqrt(p) is 4.5, of a sample 22


def test_batches_have_all_rows():
    rows = np.arange(1000.0)[:, None], np.arange(1000.0)
    cut = list(batches(iter([rows, rows]), 300))
    assert [len(y) for _, y in cut] == [333, 333, 334] * 2
    np.testing.assert_array_equal(np.concatenate([y for _, y in cut]), np.tile(rows[1], 2))


def test_quadratics_move_and_merge(rng):
    """For least squares a local model is the loss itself, wherever it was taken."""
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    P = objective_of((X, y), "gaussian")
    points = rng.normal(size=(3, 3))
    parts = [P.local_model(f, (X[i::3], y[i::3])) for i, f in enumerate(points)]
    total = parts[0].merge(parts[1]).merge(parts[2])
    other = parts[2].merge(parts[0].merge(parts[1])).at(total.point)
    for name in ("gradient", "hessian", "squares"):
        np.testing.assert_allclose(getattr(total, name), getattr(other, name), rtol=1e-9)
    theta = P.coordinates.theta(total.point + total.newton())
    np.testing.assert_allclose(theta, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-9)
    at = total.at(total.point + total.newton())
    np.testing.assert_allclose(at.squares, np.square(y - X @ theta).sum(), rtol=1e-9)


def test_what_a_quadratic_misses_is_the_gradient_after_the_step(rng):
    X, y = regression(rng, "poisson", N=4000)
    P = objective_of((X, y), "poisson")
    local = P.local_model(np.zeros(4), (X, y))
    step = 0.7 * local.newton()
    extra, deviations = third_order_step(P, local, [local], step, (X, y))
    gradient = P.local_model(step, (X, y)).gradient
    np.testing.assert_allclose(extra, -local.solve(gradient - local.at(step).gradient), rtol=1e-9)
    assert 0 < sampling_error(local, deviations) < local.wald_norm(extra)


def test_errors_are_standard_errors_of_the_worst_contrast(rng):
    X, y = regression(rng, "bernoulli", N=500, misspecified=True)
    P = objective_of((X, y))
    local = P.local_model(np.zeros(4), (X, y))
    step = rng.normal(size=4)
    C = local.sandwich()
    assert local.wald_norm(step) == pytest.approx(np.sqrt(step @ np.linalg.solve(C, step)))
    best = np.linalg.solve(C, step)
    assert local.wald_norm(step) == pytest.approx(abs(best @ step) / np.sqrt(best @ C @ best))


DESIGNS = {
    "plain": lambda X: X,
    "constant": lambda X: np.column_stack([X, np.full(len(X), 2.0)]),
    "shifted": lambda X: X + np.array([0, 0, 1e9]),
    "two shifted": lambda X: X + np.array([3e8, 0, 1e9]),
    "shifted, constant": lambda X: np.column_stack([np.ones(len(X)), X + np.array([0, 1e7, 0])]),
    "scales": lambda X: X * [1e-8, 1.0, 1e8],
}


@pytest.mark.parametrize("name", DESIGNS)
def test_frames_are_linear_maps(rng, name):
    """Features times phi are X theta, of size 1 and well conditioned."""
    X = DESIGNS[name](rng.normal(size=(400, 3)))
    frame = coordinates.of_design(X)
    assert frame.transforms_rows == ("shifted" in name)
    p = X.shape[1]
    U = frame.design(X) if frame.transforms_rows else X @ frame.matrix
    phi = rng.normal(size=p)
    exact = np.sum(X.astype(np.longdouble) * frame.theta(phi), 1)
    np.testing.assert_allclose(np.asarray(U @ phi, float), exact.astype(float), atol=1e-5)
    np.testing.assert_allclose(frame.phi(frame.theta(phi)), phi, atol=1e-5)
    assert np.linalg.cond(U.T @ U / 400) < 20


@pytest.mark.parametrize("family", FAMILIES)
def test_units_and_shifts_do_not_matter(rng, family):
    """z values of slopes are the same in any units; a shift moves the intercept alone."""
    X, y = regression(rng, family, N=800, p=3)
    one = np.ones(len(y))
    plain = mg.fit(mg.GLM(family), (np.column_stack([one, X]), y))
    scaled = mg.fit(mg.GLM(family), (np.column_stack([one, X * [1e-8, 1, 1e8]]), y))
    np.testing.assert_allclose(scaled.zvalues, plain.zvalues, rtol=1e-8)
    Z = X + np.array([0, 1e9, 0])
    rounded = mg.fit(mg.GLM(family), (np.column_stack([one, Z - [0, 1e9, 0]]), y))
    shifted = mg.fit(mg.GLM(family), (np.column_stack([one, Z]), y))
    np.testing.assert_allclose(shifted.zvalues[1:], rounded.zvalues[1:], rtol=1e-8)
    np.testing.assert_allclose(shifted.params[1:], rounded.params[1:], rtol=1e-8)


def test_a_shift_without_an_intercept(rng):
    """Against a QR factorisation: normal equations of the raw columns would have no digit."""
    X = rng.normal(size=(500, 3)) + np.array([0, 1e6, 1e6])
    y = X[:, 0] + 2 * (X[:, 1] - X[:, 2]) + rng.normal(size=500)
    r = mg.fit(mg.Linear(), (X, y))
    Q, R = np.linalg.qr(X)
    assert in_errors(r, np.linalg.solve(R, Q.T @ y)) < 1e-4


def test_invariances(rng):
    X, y = regression(rng, "bernoulli", N=700)
    r = mg.fit(mg.Logistic(), (X, y))
    flipped = mg.fit(mg.Logistic(), (X, 1 - y))
    np.testing.assert_allclose(flipped.params, -r.params, rtol=1e-9)
    columns = mg.fit(mg.Logistic(), (X[:, ::-1], y))
    np.testing.assert_allclose(columns.params[::-1], r.params, rtol=1e-9)
    narrow = mg.fit(mg.Logistic(), (X.astype(np.float32), y.astype(bool)))
    np.testing.assert_allclose(narrow.params, r.params, atol=1e-6)


def test_a_dummy_that_the_sample_has_not_seen(rng):
    """Ten rows of 100,000: neither the warm-up nor V know the column."""
    X, y = regression(rng, N=100_000, p=2)
    X = np.column_stack([np.ones(len(y)), X, np.arange(len(y)) >= len(y) - 10])
    r, done = mg.fit(mg.Linear(), (X, y)), sm.OLS(y, X).fit(cov_type="HC0")
    assert in_errors(r, done.params) < 1e-6
    np.testing.assert_allclose(r.bse, done.bse, rtol=1e-6)


@pytest.mark.long
def test_a_million_rows_against_glum(rng):
    from glum import GeneralizedLinearRegressor

    X, y = ar_logistic(rng, 1_000_000, 50)
    glum = GeneralizedLinearRegressor(
        family="binomial", alpha=0, fit_intercept=False, gradient_tol=1e-10
    ).fit(X, y)
    robust = np.sqrt(np.diag(glum.covariance_matrix(X, y, robust=True)))
    two, one = (mg.fit(mg.Logistic(), (X, y), passes=k) for k in ("auto", 1))
    assert in_errors(two, glum.coef_) < 0.01
    np.testing.assert_allclose(two.bse, robust, rtol=5e-3)
    assert np.sqrt(np.mean(((one.theta - glum.coef_) / two.bse) ** 2)) < 0.1
    assert worst_contrast(two, one.theta) < 0.3


def test_threads_sum_the_same_rows(rng):
    X, y = regression(rng, "poisson", N=120_000)
    one, four = (mg.fit(mg.Poisson(), (X, y), "converge", threads=k) for k in (1, 4))
    np.testing.assert_allclose(one.params, four.params, rtol=1e-9)
    np.testing.assert_allclose(one.bse, four.bse, rtol=1e-9)


def test_quantiles_of_a_normal(rng):
    X, y = regression(rng)
    r = mg.fit(mg.Linear(), (X, y))
    half = np.diff(r.conf_int(0.1))[:, 0] / 2
    np.testing.assert_allclose(half, stats.norm.ppf(0.95) * r.bse)


def test_nothing_is_compiled(rng):
    import jax

    X, y = regression(rng, N=1000, p=5)
    with jax.log_compiles(), warnings.catch_warnings():
        import logging

        seen = []
        handler = logging.Handler()
        handler.emit = lambda record: seen.append(record.getMessage())
        logging.getLogger("jax").addHandler(handler)
        try:
            mg.fit(mg.Linear(), (X, y))
        finally:
            logging.getLogger("jax").removeHandler(handler)
    assert not [line for line in seen if "ompil" in line]


def test_restricting_holds_directions_fixed(rng):
    from masgrad.fitting.uncertainty.kinds import restrict

    X, y = regression(rng)
    local = objective_of((X, y), "gaussian").local_model(np.zeros(4), (X, y))
    part, B = restrict(local, np.eye(4)[:, [1]])
    assert isinstance(part, LocalModel) and B.shape == (4, 3)
    np.testing.assert_allclose(B[1], 0, atol=1e-12)
    C = B @ part.inverse() @ B.T
    keep = [0, 2, 3]
    expected = np.linalg.inv(local.hessian[np.ix_(keep, keep)])
    np.testing.assert_allclose(C[np.ix_(keep, keep)], expected, rtol=1e-9)


def test_moments_are_moved_to_the_estimate_for_every_family(rng):
    """Three local models of the same rows, each at its own point: H and M at phi are known.

    X^2 is 0 for a family without a dispersion, up to rounding, whose sign must not decide.
    """
    for family in ("poisson", "bernoulli", "gaussian"):
        for _ in range(4):
            X, y = regression(rng, family, N=300)
            P = objective_of((X, y), family)
            parts = [P.local_model(0.1 * rng.normal(size=4), (X, y)) for _ in range(3)]
            total, phi = reduce(LocalModel.merge, parts), 0.1 * rng.normal(size=4)
            moved, there = update_moments(P, total, parts, phi, (X, y)), P.local_model(phi, (X, y))
            np.testing.assert_allclose(moved.hessian, 3 * there.hessian, rtol=1e-9)
            np.testing.assert_allclose(moved.meat, 3 * there.meat, rtol=1e-9)


def test_a_column_far_from_0_can_be_saved(rng, tmp_path):
    """Years: their coordinates transform rows, and the flag that says so was no bool of JSON."""
    X = np.column_stack([np.ones(200), 2000 + rng.normal(size=200)])
    r = mg.fit(mg.Linear(), (X, rng.normal(size=200)))
    r.save(tmp_path / "r.json")
    np.testing.assert_array_equal(mg.load(tmp_path / "r.json").params, r.params)

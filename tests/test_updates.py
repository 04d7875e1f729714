"""Rows that come in batches: updates agree with one fit of all rows, and say how nearly.

The campaign over families, designs and batches is benchmarks/updates.py; this is a small part.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
from masgrad.errors import AccuracyWarning
from masgrad.fitting.later_rows import MOST_COLUMNS, missed_by_cubic
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.results.update import LARGEST_UPDATE_REMAINDER
from masgrad.fitting.status import Status
from scenarios import regression, sigmoid


def negative_binomial(theta, z):
    x, y = z
    t = x @ theta
    return (y + 1.0) * jnp.logaddexp(0.0, t) - y * t


def in_batches(model, X, y, first, size, **options):
    r = mg.fit(model, (X[:first], y[:first]), **options)
    for start in range(first, len(y), size):
        r = r.update((X[start : start + size], y[start : start + size]))
    return r


def distance(r, whole):
    """In standard errors, of the worst coefficient."""
    return np.abs((r.theta - whole.theta) / whole.bse).max()


@pytest.mark.parametrize("size", [5, 30])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_errors_after_many_small_updates_are_those_of_one_fit(family, size):
    """A new row's residual falls along the step that it caused: it must not move the others'."""
    X, y = regression(np.random.default_rng(1), family, N=300 + 40 * size, p=3)
    r = in_batches(mg.GLM(family), X, y, 300, size, cov_type="HC1")
    whole = mg.fit(mg.GLM(family), (X, y), cov_type="HC1")
    np.testing.assert_allclose(r.bse, whole.bse, rtol=0.02)
    assert distance(r, whole) <= r.fit_info.remainder + 1e-9
    assert r.fit_info.remainder < 0.1


def test_errors_move_with_coefficients_that_drift():
    """Least squares: M of the old rows at the new estimate, to second order."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1000, 2))
    y = X @ [1.0, 0.5] * np.linspace(0, 2, 1000) + rng.normal(size=1000)
    r, whole = in_batches(mg.Linear(), X, y, 200, 20), mg.fit(mg.Linear(), (X, y))
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-8)


@pytest.mark.parametrize(
    "model, family",
    [
        (mg.Poisson(), "poisson"),
        (mg.Logistic(), "bernoulli"),
        (mg.NegativeBinomial(1.0), "poisson"),
        (mg.Gamma("log"), "gamma"),
        (mg.CustomLoss(negative_binomial, 3), "poisson"),
    ],
    ids=["poisson", "logistic", "negative binomial", "gamma", "custom"],
)
def test_the_stated_remainder_of_updates_is_a_bound(model, family):
    rng = np.random.default_rng(3)
    X, y = regression(rng, family, N=4000, p=3)
    y = y + 0.1 if family == "gamma" else y
    r, whole = in_batches(model, X, y, 1000, 250), mg.fit(model, (X, y))
    assert 1e-6 < distance(r, whole) <= r.fit_info.remainder < 30 * distance(r, whole)
    np.testing.assert_allclose(r.bse, whole.bse, rtol=0.005)


def test_old_rows_are_represented_by_themselves_and_not_by_new_ones():
    """New rows lie elsewhere: they cannot show what the old rows' quadratic misses."""
    rng = np.random.default_rng(4)
    X, Z = rng.normal(size=(2000, 2)), 0.1 * rng.normal(size=(2000, 2)) + 1
    both = np.vstack([X, Z])
    y = rng.poisson(np.exp(both @ [0.4, -0.3])).astype(float)
    r = mg.fit(mg.Poisson(), (X, y[:2000])).update((Z, y[2000:]))
    whole = mg.fit(mg.Poisson(), (both, y))
    assert distance(r, whole) <= r.fit_info.remainder < 0.01


def test_a_remainder_above_a_tenth_is_in_the_status():
    rng = np.random.default_rng(5)
    X, Z = rng.normal(size=(5000, 2)), rng.normal(size=(5000, 2)) + 2
    both = np.vstack([X, Z])
    y = (rng.random(10_000) < sigmoid(np.sin(both[:, 0]) + both[:, 1] ** 2 / 4)).astype(float)
    with pytest.warns(AccuracyWarning, match="fit them together"):
        r = mg.fit(mg.Logistic(), (X, y[:5000])).update((Z, y[5000:]))
    assert r.fit_info.remainder > LARGEST_UPDATE_REMAINDER and r.status is Status.READS_USED_UP
    assert distance(r, mg.fit(mg.Logistic(), (both, y))) <= r.fit_info.remainder


def test_the_gradient_after_an_extra_step_is_the_predicted_one():
    """A prior whose gradient was left at its linear extrapolation would pull the next estimate."""
    X, y = regression(np.random.default_rng(6), "poisson", N=80_000, p=3)
    r = mg.fit(mg.Poisson(), (X, y), passes=1)
    local = r.local_model
    exact = Objective(mg.Poisson(), r.coordinates).local_model(local.point, (X, y))
    off = (local.gradient - exact.gradient) / np.sqrt(np.diag(exact.meat))
    assert np.abs(off).max() < 3e-3


@pytest.mark.parametrize(
    "model",
    [mg.Poisson(), mg.Gamma("log"), mg.Gamma("inverse"), mg.CustomLoss(negative_binomial, 3)],
    ids=["poisson", "gamma log", "gamma inverse", "custom"],
)
def test_third_order_terms_are_derivatives_of_the_moments(model):
    rng = np.random.default_rng(7)
    X = np.column_stack([np.ones(300), rng.uniform(-1, 1, (300, 2))])
    y = rng.gamma(2.0, np.exp(X @ [0.4, 0.2, -0.1]) / 2) + 0.01
    y = np.floor(y) if isinstance(model, mg.CustomLoss) else y
    r = mg.fit(model, (X, y))
    local, objective = r.local_model, Objective(model, r.coordinates)
    step = 1e-2 * np.sqrt(np.diag(np.linalg.inv(local.hessian))) * [1, -1, 1]
    moved, exact = local.at(local.point + step), objective.local_model(local.point + step, (X, y))
    for name in ("hessian", "meat", "gradient"):
        change = getattr(exact, name) - getattr(local, name)
        left = getattr(exact, name) - getattr(moved, name)
        assert np.abs(left).max() < 1e-2 * np.abs(change).max(), name
    if objective.dispersed:
        assert abs(exact.squares - moved.squares) < 0.05 * abs(exact.squares - local.squares)


def test_a_cubic_expanded_elsewhere_is_the_same_polynomial():
    X, y = regression(np.random.default_rng(8), "poisson", N=400, p=3)
    local = mg.fit(mg.Poisson(), (X, y)).local_model
    a, b = 0.01 * np.array([[1.0, -1.0, 0.5], [0.5, 1.0, 1.0]])
    once, twice = local.at(local.point + a + b), local.at(local.point + a).at(local.point + a + b)
    for name in ("gradient", "hessian", "meat", "loss"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name), rtol=1e-9)
    assert missed_by_cubic(twice) == pytest.approx(missed_by_cubic(once), rel=0.05)
    assert missed_by_cubic(local) == 0


def test_a_batch_of_one_class_is_no_error():
    X, y = regression(np.random.default_rng(9), "bernoulli", N=300, p=2)
    r = mg.fit(mg.Logistic(), (X[:280], y[:280])).update((X[280:], np.ones(20)))
    assert r.nobs == 300 and r.status.ok


def test_a_loaded_result_is_updated_like_the_one_that_was_saved(tmp_path):
    X, y = regression(np.random.default_rng(10), "poisson", N=900, p=3)
    r = in_batches(mg.Poisson(), X[:600], y[:600], 300, 50)
    r.save(tmp_path / "r.json")
    again = mg.load(tmp_path / "r.json").update((X[600:], y[600:]))
    r = r.update((X[600:], y[600:]))
    np.testing.assert_array_equal(again.bse, r.bse)
    assert again.fit_info.remainder == r.fit_info.remainder


@pytest.mark.filterwarnings("ignore::masgrad.errors.AccuracyWarning")
def test_results_with_many_columns_state_their_remainder_too():
    """Beyond MOST_COLUMNS no third-order terms are kept."""
    p = MOST_COLUMNS + 1
    X, y = regression(np.random.default_rng(11), "poisson", N=9000, p=p)
    X, r = X / np.sqrt(p), None
    r = in_batches(mg.Poisson(), X, y, 3000, 2000)
    assert r.local_model.third is None
    assert distance(r, mg.fit(mg.Poisson(), (X, y))) <= r.fit_info.remainder


def test_a_result_does_not_grow_with_updates(tmp_path):
    X, y = regression(np.random.default_rng(12), "bernoulli", N=700, p=3)
    r, sizes = mg.fit(mg.Logistic(), (X[:100], y[:100])), []
    for k in range(60):
        r = r.update((X[100 + 10 * k : 110 + 10 * k], y[100 + 10 * k : 110 + 10 * k]))
        if k in (9, 59):
            r.save(tmp_path / "r.json")
            sizes.append((tmp_path / "r.json").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 500


# HC3, and offsets.


def hc3(r, model, X, y):
    """HC3 by its definition, with leverages of the expected weights."""
    theta, family = np.asarray(r.params), model.family
    t = X @ theta
    w, H = family.information(t), model.hessian_sum(theta, (X, y))
    h = w * np.einsum("ij,jk,ik->i", X, np.linalg.inv(X.T @ (w[:, None] * X)), X)
    G = (family.slope(t, y) / (1 - h))[:, None] * X
    return np.sqrt(np.diag(np.linalg.solve(H, np.linalg.solve(H, G.T @ G).T))), h


def test_leverages_of_hc3_come_from_expected_weights():
    """Observed curvatures gave a row a leverage beyond 1, and errors of 1e12."""
    rng = np.random.default_rng(5)
    x = rng.uniform(1, 5, 15)
    X, y = np.column_stack([np.ones(15), x]), rng.gamma(1.0, 1 + 2 * x)
    model = mg.GLM("gamma", "identity")
    r = mg.fit(model, (X, y), cov_type="HC3")
    expected, h = hc3(r, model, X, y)
    assert h.max() < 1
    np.testing.assert_allclose(r.bse, expected, rtol=1e-8)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_hc3_is_not_defined_where_one_row_determines_a_coefficient(family):
    rng = np.random.default_rng(6)
    X = np.column_stack([np.ones(41), rng.normal(size=41), np.arange(41) == 40]).astype(float)
    y = rng.poisson(3.0, 41) + 1.0
    r = mg.fit(mg.GLM(family), (X, y), cov_type="HC3")
    assert np.isnan(r.bse[2]) and "nonrobust" in r.notes[0] and "theta[2]" in r.notes[0]
    others = mg.fit(mg.GLM(family), (X[:40, :2], y[:40]), cov_type="HC3")
    np.testing.assert_allclose(r.bse[:2], others.bse, rtol=1e-6)
    assert r.contrast([[1.0, 2.0, 0.0]]).se[0] > 0
    assert np.isnan(r.contrast([[1.0, 0.0, 1.0]]).se[0])
    low = np.asarray(r.predict(X[[0, 40]], interval=0.9))[:, 1]
    assert np.isfinite(low[0]) and np.isnan(low[1])


def test_hc3_of_separated_responses_is_no_error():
    x = np.linspace(-1, 1, 40)
    with pytest.warns(mg.errors.SeparationWarning):
        r = mg.fit(
            mg.Logistic(), (np.column_stack([np.ones(40), x]), (x > 0) * 1.0), cov_type="HC3"
        )
    assert np.isinf(r.bse).all() and r.status is Status.SEPARATED


@pytest.mark.parametrize("size", [3e4, -1e7])
def test_an_offset_moves_the_intercept_and_nothing_else(size):
    rng = np.random.default_rng(7)
    X = np.column_stack([np.ones(500), rng.normal(size=500)])
    y = (rng.random(500) < sigmoid(X @ [0.2, 0.4])).astype(float)
    r = mg.fit(mg.Logistic(), (X, y), offset=np.full(500, size))
    plain = mg.fit(mg.Logistic(), (X, y))
    np.testing.assert_allclose(r.params + np.array([size, 0]), plain.params, atol=1e-6)
    np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-6)


def test_an_offset_that_leaves_no_information_is_refused():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(500, 1)), rng.integers(0, 2, 500).astype(float)
    with pytest.raises(mg.errors.InputError, match="offset too large, or an intercept missing"):
        mg.fit(mg.Logistic(), (X, y), offset=np.full(500, 3e4))


@pytest.mark.parametrize("rows", [3000, 45_000])
@pytest.mark.parametrize("family", ["poisson", "gamma", "negative_binomial"])
def test_likelihoods_after_an_update_are_those_of_all_rows(family, rows):
    rng = np.random.default_rng(rows)
    X = np.column_stack([np.ones(2 * rows), rng.normal(size=(2 * rows, 2))])
    mean = np.exp(X @ [0.3, 0.4, -0.2])
    y = rng.gamma(2.0, mean / 2) if family == "gamma" else rng.poisson(mean).astype(float)
    model = mg.GLM(family, "log")
    one, first = mg.fit(model, (X, y)), mg.fit(model, (X[:rows], y[:rows]))
    two = first.update((X[rows:], y[rows:]))
    for name in ("deviance", "log_likelihood", "aic"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), abs=0.5)

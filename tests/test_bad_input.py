"""What cannot be used is refused before the run, with what was given, needed and to do."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.chains.footprint import check_footprint
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.stability import minimise


@pytest.fixture
def good(rng):
    return {
        "kernel": mg.masgrad(0.1),
        "model": mg.Logistic(),
        "data": scenarios.regression(rng, "bernoulli"),
        "theta0": np.zeros(4),
        "steps": 2,
        "batch_size": 10,
        "chains": 2,
    }


def spoiled(data, row, value, column=None):
    X, y = (a.copy() for a in data)
    (y if column is None else X)[row if column is None else (row, column)] = value
    return X, y


CASES = {
    "theta0 too long": (lambda g: {"theta0": np.zeros(5)}, r"theta0 has shape \(5,\).*\(4,\)"),
    "theta0 not finite": (lambda g: {"theta0": np.full(4, np.nan)}, "theta0"),
    "one start too few": (lambda g: {"theta0": np.zeros((3, 4))}, r"\(2, 4\)"),
    "NaN in X": (lambda g: {"data": spoiled(g["data"], 7, np.nan, 2)}, "row 7, column 2"),
    "inf in y": (lambda g: {"data": spoiled(g["data"], 9, np.inf)}, "y holds inf at row 9"),
    "y above one": (lambda g: {"data": spoiled(g["data"], 3, 2.0)}, r"y is 2 at row 3.*\[0, 1\]"),
    "lengths differ": (lambda g: {"data": (g["data"][0], g["data"][1][:-1])}, "300.*299"),
    "no rows": (lambda g: {"data": (np.zeros((0, 4)), np.zeros(0))}, "no rows"),
    "X of matrices": (lambda g: {"data": (np.zeros((5, 2, 2)), np.zeros(5))}, "TraceRegression"),
    "X not a matrix": (lambda g: {"data": (np.zeros(5), np.zeros(5))}, "matrix"),
    "y a matrix": (lambda g: {"data": (g["data"][0], np.zeros((300, 1)))}, r"\(300, 1\)"),
    "data not a pair": (lambda g: {"data": g["data"][0]}, r"data=\(X, y\)"),
    "negative counts": (
        lambda g: {"model": mg.Poisson(), "data": spoiled(g["data"], 5, -1.0)},
        "-1 at row 5",
    ),
    "empty batch": (lambda g: {"batch_size": 0}, "batch_size=0"),
    "batch above N": (lambda g: {"batch_size": 301, "replace": False}, "301.*300"),
    "small batch covariance": (
        lambda g: {"kernel": mg.masgrad(0.1, "batch"), "batch_size": 4},
        "singular covariance of 4",
    ),
    "small running covariance": (
        lambda g: {"kernel": mg.masgrad(0.1, "running"), "batch_size": 4},
        "singular covariance of 4",
    ),
    "batch covariance of one row": (
        lambda g: {"kernel": mg.masgrad(0.1, "batch", ridge=1.0), "batch_size": 1},
        "at least 2",
    ),
    "no steps": (lambda g: {"steps": 0}, "steps=0"),
    "no chains": (lambda g: {"chains": 0}, "chains=0"),
    "thin": (lambda g: {"thin": 0}, "thin=0"),
    "keep": (lambda g: {"keep": "everything"}, "everything"),
    "summary of one chain": (lambda g: {"keep": "summary", "chains": 1}, "at least 2"),
    "endless deterministic": (
        lambda g: {
            "model": mg.Linear(),
            "data": scenarios.gaussian_design(np.zeros(4)).data,
            "batch_size": None,
        },
        "no end",
    ),
    "thin that loses the last step": (lambda g: {"thin": 7}, "thin=7 does not divide steps=2"),
    "negative seed": (lambda g: {"seed": -1}, "seed=-1"),
    "huge seed": (lambda g: {"seed": 2**63}, "below 2"),
    "no columns": (lambda g: {"data": (g["data"][0][:, :0], g["data"][1])}, "at least one column"),
    "masked rows": (
        lambda g: {"data": (np.ma.masked_less(g["data"][0], -1.0), g["data"][1])},
        "X has masked entries",
    ),
    "ragged list": (lambda g: {"data": ([[1.0], [1.0, 2.0]], [0.0, 1.0])}, "X is not a rect"),
    "untraceable schedule": (
        lambda g: {"kernel": mg.sgd(lambda t: 0.1 if t < 3 else 0.01)},
        "schedule cannot be traced",
    ),
    "vector schedule": (lambda g: {"kernel": mg.sgd(lambda t: jnp.ones(3))}, r"at step 0"),
    "infinite schedule": (lambda g: {"kernel": mg.sgd(lambda t: 0.1 / t)}, "inf at step 0"),
    "negative schedule": (lambda g: {"kernel": mg.sgd(lambda t: -0.1 * t + 0.05)}, "at step 1"),
    "frozen simulator": (
        lambda g: {
            "data": mg.Simulator(lambda key, n: np.random.default_rng(0).normal(size=(n, 4)))
        },
        "same rows for two keys",
    ),
    "simulator of another length": (
        lambda g: {"data": mg.Simulator(lambda key, n: jax.random.normal(key, (10, 4)))},
        r"axis 0 must be 64 rows",
    ),
    "simulator with wrong moments": (
        lambda g: {
            "model": scenarios.mean_model(4),
            "data": mg.Simulator(lambda k, n: jax.random.normal(k, (n, 4)), lambda t: (t, t)),
        },
        r"Sigma \(4, 4\)",
    ),
    "failing simulator": (
        lambda g: {"data": mg.Simulator(lambda key: key)},
        "cannot be traced",
    ),
    "non-finite loss at another start": (
        lambda g: {
            "model": mg.CustomLoss(lambda t, z: jnp.sum(jnp.log(t)) + z[1], 4),
            "theta0": np.array([[1.0] * 4, [-1.0] * 4]),
        },
        "nan at theta0",
    ),
    "covariance of one row": (
        lambda g: {"data": (g["data"][0][:1], g["data"][1][:1]), "model": mg.Linear()},
        "at least 2 rows",
    ),
    "non-scalar loss": (
        lambda g: {"model": mg.CustomLoss(lambda t, z: t * z[1], 4)},
        r"float64 of shape \(4,\)",
    ),
    "integer loss": (
        lambda g: {"model": mg.CustomLoss(lambda t, z: jnp.sum(t > 0), 4)},
        "real scalar",
    ),
    "untraceable loss": (
        lambda g: {"model": mg.CustomLoss(lambda t, z: float(t[0]), 4)},
        "cannot be traced",
    ),
    "non-finite loss": (
        lambda g: {"model": mg.CustomLoss(lambda t, z: jnp.log(t[0] + z[1]), 4)},
        "-inf at theta0 for row",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_refused_before_the_run(good, name, monkeypatch):
    monkeypatch.setattr("masgrad.chains.drive._drive", lambda *a: pytest.fail("the run started"))
    change, message = CASES[name]
    with pytest.raises(ValueError, match=message):
        mg.run(**(good | change(good)))


def test_a_gradient_that_is_not_finite_is_refused(good):
    """sqrt(|t|) is finite at 0, its derivative is not."""
    root = mg.CustomLoss(lambda t, z: jnp.sum(jnp.sqrt(jnp.abs(t))) + z[1], 4)
    with pytest.raises(ValueError, match="gradient"):
        mg.run(**(good | {"model": root}))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"kernel": 0.1}, "kernel=0.1; a kernel"),
        ({"model": "logistic"}, "model='logistic'; a model"),
        ({"steps": 1.5}, "steps=1.5; a whole number"),
        ({"seed": None}, "seed=None; a whole number"),
        ({"seed": 0.5}, "seed=0.5; a whole number"),
        ({"theta0": "zeros"}, "theta0='zeros'; an array of real numbers"),
        ({"theta0": np.zeros(4) * 1j}, "theta0=array.*; an array of real numbers"),
        ({"batch_size": "all"}, "batch_size='all'; a whole number"),
        ({"data": (np.array([["a", "b"]]), np.zeros(1))}, "X has dtype <U1; real numbers"),
        ({"data": (np.array([[object()]]), np.zeros(1))}, "X holds objects that are not numbers"),
        ({"data": (np.ones((2, 1)) * 1j, np.zeros(2))}, "X has dtype complex128; real numbers"),
    ],
)
def test_objects_of_the_wrong_kind(good, change, words):
    with pytest.raises(InputTypeError, match=words):
        mg.run(**(good | change))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: mg.sgd(0.0), "step_size=0.0; one finite number > 0"),
        (lambda: mg.sgd(-1.0), "step_size=-1.0; one finite number > 0"),
        (lambda: mg.sgd(np.nan), "step_size=nan; one finite number > 0"),
        (lambda: mg.sgd([0.1, 0.2]), r"step_size=\[0.1, 0.2\]; one finite number > 0"),
        (lambda: mg.masgrad(0.1, covariance="hessian"), "covariance='hessian' is not known"),
        (lambda: mg.masgrad(0.1, root="cholesky"), "root 'cholesky' is not known"),
        (lambda: mg.masgrad(0.1, ridge=-1.0), "ridge=-1.0; .* >= 0"),
        (lambda: mg.masgrad(0.1, "batch", "low_rank"), "'low_rank' .* needs ridge > 0"),
        (lambda: mg.masgrad(0.1, "batch", "rank_one"), "'rank_one' .* needs ridge > 0"),
        (lambda: mg.masgrad(0.1, root="rank_one", ridge=0.1), "covariance='population' keeps none"),
        (lambda: mg.masgrad(0.1, "running", "rank_one", 0.1), "covariance='running' keeps none"),
        (lambda: mg.GaussianMixture(0, 1.0), r"\(0, 1.0\): needs components >= 1"),
        (lambda: mg.GaussianMixture(2.5, 1.0), r"\(2.5, 1.0\): needs components >= 1"),
        (lambda: mg.GaussianMixture(2, 0.0), r"\(2, 0.0\): needs .* sigma > 0"),
        (lambda: mg.CustomLoss(lambda t, z: 0.0, "3"), "dim='3'.*: a whole number of at least 1"),
        (lambda: mg.CustomLoss(lambda t, z: 0.0, 0), "dim=0.*: a whole number of at least 1"),
        (lambda: mg.GaussianMixture(2, 1.0, [0.5, 0.6]), "2 components is needed, with sum 1"),
        (lambda: mg.GaussianMixture(2, 1.0, [1.0, 0.0]), "one positive number for each of 2"),
        (lambda: mg.GaussianMixture(2, 1.0, [1.0]), "one positive number for each of 2"),
        (lambda: mg.ReluNetwork(2, 2, np.inf), "constant=inf; a finite number"),
        (lambda: mg.ReluNetwork(0, 2), r"ReluNetwork\(0, 2\): sizes must be >= 1"),
        (lambda: mg.TraceRegression(2, 0), r"TraceRegression\(2, 0\): .* at least 1"),
        (lambda: mg.Simulator(lambda key, n: None, reference=1), "reference=1; at least 2 rows"),
        (lambda: mg.moments(mg.Linear(), [0.0], scenarios.gaussian_design([0.0]).data),
         r"data=\(X, y\).* got Simulator"),
        (lambda: mg.ReluNetwork(2, 2).risk(np.zeros(6), (np.zeros((3, 3)), np.zeros(3))),
         r"X has shape \(3, 3\); .* needs \(N, 2\)"),
        (lambda: mg.TraceRegression(2, 2).risk(np.zeros(4), (np.zeros((3, 4)), np.zeros(3))),
         r"X has shape \(3, 4\); .* needs \(N, 2, 2\)"),
        (lambda: mg.GaussianMixture(2, 1.0).risk(np.zeros(2), np.zeros((3, 3))),
         r"data has shape \(3, 3\); .* needs \(N,\)"),
        (lambda: mg.Linear().risk(np.zeros(2), ()), r"data=\(X, y\).* got tuple"),
        (lambda: mg.CustomLoss(lambda t, z: t[0], 1).risk(np.zeros(1), 3.0), "data is a scalar"),
        (lambda: mg.Linear().risk(np.array([np.nan]), (np.zeros((3, 1)), np.zeros(3))),
         "theta is nan"),
    ],
)  # fmt: skip
def test_objects_that_cannot_be(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_wrong_kinds_of_parameters():
    for bad in ("fast", "0.1", True, None):
        with pytest.raises(TypeError, match="number"):
            mg.sgd(bad)
    with pytest.raises(TypeError, match="function"):
        mg.Simulator(np.zeros(3))
    with pytest.raises(TypeError, match="function"):
        mg.CustomLoss(3, 1)


@pytest.mark.parametrize("kernel", [mg.sgd, mg.masgrad, mg.natural_gradient])
def test_an_unstable_step_is_warned_about_with_the_safe_value(good, kernel):
    """The value in the warning is right: just below it all is quiet, just above it warns."""
    with pytest.warns(mg.errors.StepSizeWarning, match="below") as caught:
        mg.run(**(good | {"kernel": kernel(100.0)}))
    safe = float(str(caught[0].message).rsplit(" ", 1)[1])
    mg.run(**(good | {"kernel": kernel(0.98 * safe)}))
    with pytest.warns(mg.errors.StepSizeWarning):
        mg.run(**(good | {"kernel": kernel(1.02 * safe)}))


def test_an_unstable_step_does_leave_the_optimum(rng):
    """On a quadratic the safe value is sharp: deterministic runs shrink below it, grow above."""
    X, y = scenarios.regression(rng)
    safe = 2 / np.linalg.eigvalsh(X.T @ X / len(y))[-1]
    optimum = np.linalg.lstsq(X, y, rcond=None)[0]
    args = (mg.Linear(), (X, y), optimum + 0.01, 400, None, 1)
    calm = mg.run(mg.sgd(0.97 * safe), *args).distance(optimum)[0]
    with pytest.warns(mg.errors.StepSizeWarning, match=f"below {safe:.3g}"):
        wild = mg.run(mg.sgd(1.03 * safe), *args).distance(optimum)[0]
    assert calm[-1] < calm[0] < wild[-1]


def test_separable_rows_do_not_stop_a_run(rng):
    """They have no optimum, so there is nothing to warn about."""
    X = rng.normal(size=(50, 2))
    assert minimise(mg.Logistic(), (X, (X[:, 0] > 0) * 1.0)) is None
    mg.run(mg.sgd(0.1), mg.Logistic(), (X, (X[:, 0] > 0) * 1.0), np.zeros(2), 3, 5, 2)


def test_lists_are_arrays(good):
    X, y = good["data"]
    a, b = (mg.run(**(good | {"data": d})).theta for d in ((X, y), (X.tolist(), y.tolist())))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kernel", [mg.sgd(0.1), mg.masgrad(0.1), mg.natural_gradient(0.1)])
def test_noise_free_data_run_without_nan(rng, kernel):
    """At a perfect fit Sigma vanishes with b; V^-1 b walks on with steps of length eta."""
    X = rng.normal(size=(60, 2))
    for start in ([0.0, 0.0], [1.0, 2.0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mg.errors.SingularWarning)
            tr = mg.run(kernel, mg.Linear(), (X, X @ [1.0, 2.0]), start, 30, 10, 3)
        assert np.isfinite(tr.theta).all()
    one = mg.run(mg.sgd(0.1), mg.Linear(), (X[:1], X[:1, 0]), [0.0, 0.0], 3, 1, 2)
    assert np.isfinite(one.theta).all()


def test_an_unidentified_direction_has_no_stationary_law(rng):
    X = rng.normal(size=(100, 2))
    X, y = np.column_stack([X, X.sum(1)]), X[:, 0] + rng.normal(size=100)
    optimum = np.linalg.lstsq(X, y, rcond=None)[0]
    for kernel in (mg.sgd(0.1), mg.masgrad(0.1)):
        with pytest.raises(InputError, match="singular"):
            mg.stationary_law(mg.Linear(), (X, y), optimum, kernel, 10)
    saddle = mg.GaussianMixture(2, 0.3)
    z = np.concatenate([rng.normal(-1, 0.3, 100), rng.normal(1, 0.3, 100)])
    with pytest.raises(ValueError, match="no minimum"):
        mg.stationary_law(saddle, z - z.mean(), [0.0, 0.0], mg.sgd(0.01), 10)


def test_moments_at_two_points_do_not_merge(rng):
    data = scenarios.regression(rng)
    a, b = (mg.moments(mg.Linear(), np.full(4, c), data, "mean") for c in (0.0, 1.0))
    with pytest.raises(ValueError, match="two thetas"):
        a.merge(b)


def test_the_recursion_needs_a_batch(good):
    kernel = mg.masgrad(0.1, "batch", "rank_one", 0.1)
    with pytest.raises(ValueError, match="batch_size"):
        mg.run(**(good | {"kernel": kernel, "batch_size": None}))


@pytest.mark.parametrize(
    "kernel, words",
    [
        (mg.masgrad(0.1), "20000 x 20000 covariances.*low_rank"),
        (mg.diffusion(mg.sgd(0.1)), "20000 x 20000"),
        (mg.masgrad(0.1, "running", ridge=0.1), "20000 x 20000"),
        (mg.masgrad(0.1, "batch", "rank_one", ridge=0.1), "20000 x 20000"),
    ],
)
def test_a_step_that_does_not_fit_is_refused_before_it_starts(rng, kernel, words):
    data = rng.normal(size=(5, 20_000)), rng.normal(size=5)
    with pytest.raises(ValueError, match=words):
        mg.run(kernel, mg.Linear(), data, np.zeros(20_000), 1, 100, chains=300)


def test_a_simulators_covariance_is_checked():
    data = mg.Simulator(
        lambda key, n: jax.random.normal(key, (n, 2)),
        lambda theta: (theta, jnp.diag(jnp.array([1.0, -1.0]))),
    )
    with pytest.raises(ValueError, match="semidefinite"):
        mg.run(mg.masgrad(0.1), scenarios.mean_model(2), data, np.zeros(2), 1, 10)


def test_a_ridge_is_part_of_the_law(rng):
    """A trace and a law say how V was regularised, and where n <= p that the ridge rules."""
    X, y = scenarios.regression(rng)
    optimum = np.linalg.lstsq(X, y, rcond=None)[0]
    args = (mg.Linear(), (X, y), optimum, 2)
    few = mg.run(mg.masgrad(0.1, "batch", "auto", 0.01), *args, batch_size=4, chains=3)
    assert "V V' = Sigma + 0.01 I; with batches of 4 for 4 parameters the ridge" in repr(few)
    many = mg.run(mg.masgrad(0.1, "batch", ridge=0.01), *args, 40, 3, keep="summary")
    assert many.note == "V V' = Sigma + 0.01 I" and many.note in repr(many)
    assert mg.run(mg.masgrad(0.1), *args, 40, 3).note == ""
    law = mg.stationary_law(mg.Linear(), (X, y), optimum, mg.masgrad(0.1, ridge=0.5), 40)
    assert "Sigma + 0.5 I" in repr(law)


def test_large_batches_are_drawn_in_chunks_and_not_refused(rng):
    """n x p gradients of a draw are never whole in memory unless V is made from them."""
    check_footprint(mg.sgd(0.1), 200_000, 20, 100)
    check_footprint(mg.adagrad(0.1), 200_000, 20, 100)
    check_footprint(mg.masgrad(0.1, "batch"), 200_000, 20, 100)
    with pytest.raises(ValueError, match="GiB"):
        check_footprint(mg.masgrad(0.1, "running"), 2000, 1000, 1000)
    with pytest.raises(ValueError, match=r"300 x 20000 gradients.*smaller batch_size"):
        check_footprint(mg.masgrad(0.1, "batch", "low_rank", ridge=0.1), 300, 20_000, 300)

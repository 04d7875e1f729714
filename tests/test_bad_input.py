"""What cannot be used is refused before the run, with what was given, needed and to do."""

import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
import scenarios


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
            "data": scenarios.gaussian_design(np.zeros(4)),
            "batch_size": None,
        },
        "no end",
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
    monkeypatch.setattr("masgrad.chains.run._drive", lambda *a: pytest.fail("the run started"))
    change, message = CASES[name]
    with pytest.raises(ValueError, match=message):
        mg.run(**(good | change(good)))


def test_a_gradient_that_is_not_finite_is_refused(good):
    """sqrt(|t|) is finite at 0, its derivative is not."""
    root = mg.CustomLoss(lambda t, z: jnp.sum(jnp.sqrt(jnp.abs(t))) + z[1], 4)
    with pytest.raises(ValueError, match="gradient"):
        mg.run(**(good | {"model": root}))


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": 0.1},
        {"model": "logistic"},
        {"steps": 1.5},
        {"batch_size": "all"},
        {"data": (np.array([["a", "b"]]), np.zeros(1))},
        {"data": (np.array([[object()]]), np.zeros(1))},
        {"data": (np.ones((2, 1)) * 1j, np.zeros(2))},
    ],
)
def test_objects_of_the_wrong_kind(good, change):
    with pytest.raises(TypeError):
        mg.run(**(good | change))


@pytest.mark.parametrize(
    "make",
    [
        lambda: mg.sgd(0.0),
        lambda: mg.sgd(-1.0),
        lambda: mg.sgd(np.nan),
        lambda: mg.sgd([0.1, 0.2]),
        lambda: mg.masgrad(0.1, covariance="hessian"),
        lambda: mg.masgrad(0.1, root="cholesky"),
        lambda: mg.masgrad(0.1, ridge=-1.0),
        lambda: mg.masgrad(0.1, covariance="batch", root="low_rank"),
        lambda: mg.GaussianMixture(0, 1.0),
        lambda: mg.GaussianMixture(2, 0.0),
        lambda: mg.ReluNetwork(0, 2),
        lambda: mg.TraceRegression(2, 0),
        lambda: mg.CustomLoss(lambda t, z: 0.0, 0),
        lambda: mg.Simulator(lambda key, n: None, reference=1),
        lambda: mg.ReluNetwork(2, 2).risk(np.zeros(6), (np.zeros((3, 3)), np.zeros(3))),
        lambda: mg.TraceRegression(2, 2).risk(np.zeros(4), (np.zeros((3, 4)), np.zeros(3))),
        lambda: mg.GaussianMixture(2, 1.0).risk(np.zeros(2), np.zeros((3, 3))),
        lambda: mg.Linear().risk(np.zeros(2), ()),
        lambda: mg.CustomLoss(lambda t, z: t[0], 1).risk(np.zeros(1), 3.0),
        lambda: mg.Linear().risk(np.array([np.nan]), (np.zeros((3, 1)), np.zeros(3))),
    ],
)
def test_objects_that_cannot_be(make):
    with pytest.raises(ValueError):
        make()


def test_wrong_kinds_of_parameters():
    with pytest.raises(TypeError, match="number"):
        mg.sgd("fast")
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
    mg.run(mg.sgd(0.1), mg.Logistic(), (X, (X[:, 0] > 0) * 1.0), np.zeros(2), 3, 5, 2)

"""MasGrad on the moments of least squares alone: no rows, and no cost that grows with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.errors import InputError, InputTypeError


@pytest.fixture
def problem(rng):
    X, y = scenarios.regression(rng, N=500, misspecified=True)
    moments = mg.LeastSquaresMoments(4)
    for rows in np.array_split(np.arange(500), 7):
        moments = moments.update(X[rows], y[rows])
    return (X, y), moments, 0.3 * rng.normal(size=4)


@pytest.mark.parametrize(
    "kernel",
    [
        mg.masgrad(0.1),
        pytest.param(mg.natural_gradient(0.1), marks=pytest.mark.long),
        pytest.param(mg.masgrad(0.1, root="auto", ridge=0.1), marks=pytest.mark.long),
        pytest.param(mg.sgd(0.1), marks=pytest.mark.long),
    ],
)
def test_moments_run_as_the_rows_do(problem, kernel):
    """The deterministic update, and the diffusion with the same key, are the table's."""
    data, moments, theta = problem
    for k, n in ((kernel, None), (mg.diffusion(kernel), 25)):
        ours, rows = (mg.run(k, mg.Linear(), d, theta, 20, n, 3, 5) for d in (moments, data))
        np.testing.assert_allclose(ours.theta, rows.theta, rtol=1e-9, atol=1e-12)


def test_without_replacement_the_noise_knows_the_number_of_rows(problem):
    data, moments, theta = problem
    kernel = mg.diffusion(mg.masgrad(0.1))
    ours, rows = (
        mg.run(kernel, mg.Linear(), d, theta, 3, 100, 3, 5, replace=False) for d in (moments, data)
    )
    np.testing.assert_allclose(ours.theta, rows.theta, rtol=1e-9)


@pytest.mark.statistical(4)
def test_a_simulator_may_take_its_moments(problem):
    """Rows drawn at each step, V from one pass: MasGrad with sampled gradients, no pass a step."""
    (X, y), moments, theta = problem

    def sample(key, n):
        rows = jax.random.randint(key, (n,), 0, len(y))
        return jnp.asarray(X)[rows], jnp.asarray(y)[rows]

    data = mg.Simulator(sample, moments.population())
    one = mg.run(mg.masgrad(0.1), mg.Linear(), data, theta, 50, 25, 400, 1)
    table = mg.run(mg.masgrad(0.1), mg.Linear(), (X, y), theta, 50, 25, 400, 2)
    error = np.sqrt(2 * table.cov()[-1].diagonal() / 400)
    assert np.all(np.abs(one.mean()[-1] - table.mean()[-1]) < norm.isf(alpha() / 2) * error)


def test_an_unstable_step_is_seen_without_rows(problem):
    _, moments, theta = problem
    with pytest.warns(mg.errors.StepSizeWarning, match="use a step below"):
        mg.run(mg.sgd(50.0), mg.Linear(), moments, theta, 1, None, 1)


def test_what_needs_rows_is_refused(problem):
    _, moments, theta = problem
    for words, bad in (
        ("hold no rows", lambda: mg.run(mg.masgrad(0.1), mg.Linear(), moments, theta, 1, 10)),
        ("Linear", lambda: mg.run(mg.masgrad(0.1), mg.Logistic(), moments, theta, 1, None)),
        ("theta0", lambda: mg.run(mg.masgrad(0.1), mg.Linear(), moments, theta[:2], 1, None)),
        ("no rows yet", lambda: mg.run(
            mg.masgrad(0.1), mg.Linear(), mg.LeastSquaresMoments(4), theta, 1, None)),
    ):  # fmt: skip
        with pytest.raises((InputError, InputTypeError), match=words):
            bad()

"""`root_every`: MasGrad with a V from past batches whose root is taken every k steps."""

import numpy as np
import pytest
from scipy.stats import chi2

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.chains.footprint import check_footprint
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.stability import minimise
from scenarios import root
from test_kernels import CHAINS, ETA, N_BATCH, SEED, drawn_rows


@pytest.fixture
def problem(rng):
    X, y = scenarios.regression(rng, "bernoulli", misspecified=True)
    return mg.Logistic(), (X, y), 0.3 * rng.normal(size=4)


def is_due(t, k):
    """Steps 0, 1, 2, 4, 8, ... below k, and the multiples of k."""
    return t % k == 0 or (t < k and t in (1, 2, 4, 8, 16, 32))


def lagged_roots(covs, k):
    """The V that each step uses, from the covariances of the batches, (p, p) each."""
    used, past, V = [], covs[0], None
    for t, cov in enumerate(covs):
        V = root(past) if is_due(t, k) else V
        used.append(V)
        past = past + max(1 / (t + 1), 0.05) * (cov - past)
    return used


@pytest.mark.parametrize("kind", ["symmetric", "diagonal"])
def test_lagged_steps_by_hand(problem, kind):
    """27 steps, no multiple of 10: the first ones, some periods and a part of the last."""
    model, data, theta0 = problem
    k = 10
    kernel = mg.masgrad(ETA, "running", kind, root_every=k)
    paths = mg.run(kernel, model, data, theta0, 27, N_BATCH, CHAINS, SEED).theta
    for chain, path in enumerate(paths):
        theta, covs = theta0, []
        for t in range(27):
            X, y = drawn_rows(data, t)
            G = model.gradients(theta, (X[:, chain], y[:, chain]))
            cov = np.cov(G.T)
            covs.append(np.diag(np.diag(cov)) if kind == "diagonal" else cov)
            theta = theta - ETA * np.linalg.solve(lagged_roots(covs, k)[-1], G.mean(0))
            np.testing.assert_allclose(path[t + 1], theta, rtol=1e-10, atol=1e-10)


def test_a_root_at_every_step_is_the_default(problem):
    model, data, theta = problem
    default, every, tenth = (
        mg.run(mg.masgrad(ETA, "running", **lag), model, data, theta, 40, N_BATCH, CHAINS, SEED)
        for lag in ({}, {"root_every": 1}, {"root_every": 10})
    )
    np.testing.assert_array_equal(every.theta, default.theta)
    early = slice(0, 4)  # roots at 0, 1, 2
    np.testing.assert_allclose(tenth.theta[:, early], default.theta[:, early], rtol=1e-10)
    assert np.all(tenth.theta[:, 5:] != default.theta[:, 5:])
    assert default.note == "" and "every 10 steps" in tenth.note


def test_records_and_chunks_do_not_move_the_steps_with_a_root(problem):
    model, data, theta = problem
    kernel = mg.masgrad(ETA, "running", root_every=10)
    run = lambda thin: mg.run(kernel, model, data, theta, 90, N_BATCH, CHAINS, thin=thin)  # noqa: E731
    np.testing.assert_array_equal(run(15).theta, run(1).theta[:, ::15])


def test_a_lagged_proximal_step_has_one_v(problem):
    """V (theta - theta') / eta - g is a subgradient at theta' for the same lagged V."""
    model, data, theta0 = problem
    kernel = mg.madprox(0.5, mg.L1(0.15), "running", accuracy=1e-9, root_every=4)
    for chain, path in enumerate(
        mg.run(kernel, model, data, theta0, 8, N_BATCH, CHAINS, SEED).theta
    ):
        batches = [
            model.gradients(path[t], tuple(a[:, chain] for a in drawn_rows(data, t)))
            for t in range(8)
        ]
        roots = lagged_roots([np.cov(G.T) for G in batches], 4)
        for V, G, here, there in zip(roots, batches, path, path[1:], strict=False):
            z, on = V @ (here - there) / 0.5 - G.mean(0), there != 0
            np.testing.assert_allclose(z[on], 0.15 * np.sign(there[on]), atol=1e-6)
            assert np.all(np.abs(z) <= 0.15 + 1e-6)


@pytest.mark.statistical(3)
def test_the_stationary_law_stays(rng, seed):
    """Mean and covariance of k = 10 at n = 100, where what V adds is below the sampling error."""
    X, y = scenarios.regression(rng, "bernoulli")
    model, data, n, K = mg.Logistic(), (X, y), 100, 1000
    optimum = minimise(model, data)
    kernel = mg.masgrad(0.4, "running", root_every=10)
    law = mg.stationary_law(model, data, optimum, kernel, n)
    assert "every 10 steps" in law.note
    end = mg.run(kernel, model, data, optimum, 60, n, K, seed, thin=60).final
    whitened = np.linalg.solve(np.linalg.cholesky(law.cov), (end - optimum).T)
    assert K * (whitened.mean(1) ** 2).sum() < chi2.isf(alpha(), 4) * 1.1
    total = (whitened**2).sum()
    assert chi2.ppf(alpha() / 2, 4 * K) / 1.02 < total < chi2.isf(alpha() / 2, 4 * K) * 1.02


@pytest.mark.long
def test_what_a_lag_changes_is_as_small_as_stated(problem, seed):
    """On the same draws at n = 25: a mean by hundredths of a standard deviation, a variance by 2 %.

    The differences of paired chains have standard errors of 0.002 and 0.002.
    """
    model, data, _ = problem
    optimum = minimise(model, data)
    ends = [
        mg.run(mg.masgrad(0.2, "running", root_every=k), model, data, optimum, 300, 25, 400, seed,
               thin=20).theta[:, 5:] - optimum
        for k in (1, 10)
    ]  # fmt: skip
    sd = ends[0].std((0, 1))
    assert np.abs((ends[1] - ends[0]).mean((0, 1)) / sd).max() < 0.06
    assert np.abs((ends[1] ** 2).mean((0, 1)) / sd**2 - 1).max() < 0.02


def lagged_diffusion(model, data, theta, noise, k, eta):
    """theta after len(noise) steps with gradients b + V z: plain NumPy."""
    covs = []
    for z in noise:
        m = mg.moments(model, theta, data)
        covs.append(m.cov)
        V = lagged_roots(covs, k)[-1]
        theta = theta - eta * np.linalg.solve(V, m.mean + root(m.cov) @ z)
    return theta


@pytest.mark.long
def test_the_law_on_the_way_is_that_of_the_lagged_process(rng):
    """iterate_law against the derivative of the whole path by its noise, J J' / n."""
    X = rng.normal(size=(60, 2)) @ np.array([[1.0, 0.3], [0.0, 0.8]])
    model, data, start = mg.Linear(), (X, X[:, 0] + rng.normal(size=60)), np.array([2.5, -2.0])
    k, eta, n, T = 3, 0.5, 2000, 5
    kernel = mg.masgrad(eta, "running", root_every=k)
    law = mg.iterate_law(model, data, start, kernel, T, n)
    end = lambda z: lagged_diffusion(model, data, start, z.reshape(T, 2), k, eta)  # noqa: E731
    J = np.column_stack([(end(1e-5 * e) - end(-1e-5 * e)) / 2e-5 for e in np.eye(2 * T)])
    np.testing.assert_allclose(law.mean, end(np.zeros(2 * T)), rtol=1e-9)
    np.testing.assert_allclose(law.cov, J @ J.T / n, rtol=1e-5, atol=1e-9)
    at_once = mg.iterate_law(model, data, start, mg.masgrad(eta, "running"), T, n)
    assert not np.allclose(law.cov, at_once.cov, rtol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda k: mg.masgrad(0.1, "running", root_every=k),
        lambda k: mg.madprox(0.1, mg.L1(0.1), "running", root_every=k),
        lambda k: mg.subgradient(0.1, mg.L1(0.1), "running", root_every=k),
    ],
)
def test_bad_values_are_refused(make):
    for bad in (0, -1):
        with pytest.raises(InputError, match=f"root_every={bad}; at least 1 is needed"):
            make(bad)
    for bad in (2.5, "x", None, True):
        with pytest.raises(InputTypeError, match=f"root_every={bad!r}; a whole number is needed"):
            make(bad)
    assert make(np.int64(3)).adjustment.root_every == 3


@pytest.mark.parametrize("covariance", ["population", "batch", "fixed", "identity", np.eye(2)])
def test_only_a_running_covariance_has_a_lag(covariance):
    with pytest.raises(InputError, match="root_every=5 is for covariance='running'"):
        mg.madprox(0.1, mg.L1(0.1), covariance, root_every=5)


def test_the_matrices_between_steps_are_counted():
    """The average alone is 3 GiB here; V and its inverse are as large each."""
    check_footprint(mg.masgrad(0.1, "running"), 1000, 630, 1000)
    with pytest.raises(InputError, match="GiB"):
        check_footprint(mg.masgrad(0.1, "running", root_every=10), 1000, 630, 1000)

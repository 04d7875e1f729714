"""One step of each process by hand, and the identities between processes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm

import masgrad as mg
import scenarios
from masgrad.data.table import Table

ETA, SEED, N_BATCH, CHAINS = 0.1, 3, 12, 3


@pytest.fixture
def problem(rng):
    X, y = scenarios.regression(rng, "bernoulli", misspecified=True)
    return mg.Logistic(), (X, y), 0.3 * rng.normal(size=4)


def inverse_root(S):
    return np.linalg.inv(sqrtm(S).real)


ADDED = {"sgld": np.sqrt(2 * ETA / 50.0)}
"""The level of the noise that a kernel adds to its step."""


def added(name):
    """The noise of step 0 of every chain, (p, CHAINS): its own key, folded from the step's."""
    with jax.enable_x64(True):
        key = jax.random.fold_in(step_key(0), 2**32 - 1)
        return ADDED.get(name, 0.0) * np.asarray(jax.random.normal(key, (4, CHAINS)))


def by_hand(name, G, g):
    """The adjusted gradient from population gradients G (N, p) and a drawn gradient g."""
    S, fisher = np.cov(G.T), G.T @ G / len(G)
    return {
        "sgd": lambda: g,
        "sgld": lambda: g,
        "masgrad": lambda: inverse_root(S) @ g,
        "diagonal": lambda: g / np.sqrt(np.diag(S)),
        "ridge": lambda: inverse_root(S + 0.3 * np.eye(4)) @ g,
        "low_rank": lambda: inverse_root(S + 0.3 * np.eye(4)) @ g,
        "natural": lambda: np.linalg.solve(fisher, g),
        "adagrad": lambda: np.sign(g),
        "adagrad_full": lambda: g / np.linalg.norm(g),
        "schedule": lambda: inverse_root(S) @ g,
        "products": lambda: inverse_root(S) @ g,
        "auto": lambda: inverse_root(S) @ g,
    }[name]()


def step_key(t):
    """The key of step t of the first (here the only) group of chains."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), 0), t)


def drawn_rows(data, t):
    """The rows that step t draws, (n, K, ...): the run's own keys, without its kernels."""
    with jax.enable_x64(True):
        table = jax.tree.map(jnp.asarray, Table.pack(data))
        return jax.tree.map(np.asarray, table.draw(step_key(t), N_BATCH, CHAINS))


POPULATION = [n for n in scenarios.KERNELS if not n.startswith(("batch", "running"))]
OTHER_ROOTS = ["products", "auto", "low_rank"]  # whose deterministic step is by hand in any case
SHORT = scenarios.short_of([n for n in POPULATION if n not in OTHER_ROOTS], OTHER_ROOTS)


@pytest.mark.parametrize("name", POPULATION)
def test_the_deterministic_step_by_hand(problem, name):
    model, data, theta = problem
    G = model.gradients(theta, data)
    kernel = scenarios.KERNELS[name]
    tr = mg.run(kernel, model, data, theta, 1, None, CHAINS, SEED)
    expected = theta - ETA * by_hand(name, G, G.mean(0)) + added(name).T
    np.testing.assert_allclose(tr.theta[:, 1], np.broadcast_to(expected, (CHAINS, 4)), rtol=1e-9)


@pytest.mark.parametrize("name", SHORT)
def test_the_sampled_step_by_hand(problem, name):
    model, data, theta = problem
    G = model.gradients(theta, data)
    kernel = scenarios.KERNELS[name]
    tr = mg.run(kernel, model, data, theta, 1, N_BATCH, CHAINS, SEED)
    X, y = drawn_rows(data, 0)
    for k in range(CHAINS):
        g = model.gradients(theta, (X[:, k], y[:, k])).mean(0)
        expected = theta - ETA * by_hand(name, G, g) + added(name)[:, k]
        np.testing.assert_allclose(tr.theta[k, 1], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SHORT)
def test_the_diffusion_step_by_hand(problem, name):
    """b + V z / sqrt(n) in place of the sampled gradient, with the symmetric V."""
    model, data, theta = problem
    G = model.gradients(theta, data)
    kernel = mg.diffusion(scenarios.KERNELS[name])
    tr = mg.run(kernel, model, data, theta, 1, N_BATCH, CHAINS, SEED)
    with jax.enable_x64(True):
        z = jax.random.normal(step_key(0), (4, CHAINS))
    noise = sqrtm(np.cov(G.T)).real @ np.asarray(z) / np.sqrt(N_BATCH)
    for k in range(CHAINS):
        expected = theta - ETA * by_hand(name, G, G.mean(0) + noise[:, k]) + added(name)[:, k]
        np.testing.assert_allclose(tr.theta[k, 1], expected, rtol=1e-8, atol=1e-12)


def test_masgrads_diffusion_has_isotropic_noise_at_temperature_beta(problem):
    """xi' = xi - eta V^-1 b - sqrt(2 eta / beta) z with beta = 2n / eta, to rounding.

    The Gaussian gradient b + V z / sqrt(n) is subtracted, so z enters with a minus: the same law.
    """
    model, data, theta = problem
    tr = mg.run(mg.diffusion(mg.masgrad(ETA)), model, data, theta, 1, N_BATCH, CHAINS, SEED)
    m = mg.moments(model, theta, data)
    with jax.enable_x64(True):
        z = np.asarray(jax.random.normal(step_key(0), (4, CHAINS)))
    beta = 2 * N_BATCH / ETA
    drift = theta - ETA * m.root().solve(m.mean)
    expected = drift[:, None] - np.sqrt(2 * ETA / beta) * z
    np.testing.assert_allclose(tr.theta[:, 1].T, expected, rtol=1e-9)


def recursion(G, ridge):
    """The paper's rank-one recursion on one batch, as it is written there."""
    H = np.eye(G.shape[1]) / np.sqrt(ridge)
    for v in (G - G.mean(0)) / np.sqrt(len(G) - 1):
        s = np.sqrt(1 + v @ H.T @ H @ v)
        H = H - H @ np.outer(v, v) @ H.T @ H / ((1 + s) * s)
    return H


def inverse_by_hand(kind, cov, ridge):
    if kind == "diagonal":
        return np.diag((np.diag(cov) + ridge) ** -0.5)
    return inverse_root(cov + ridge * np.eye(len(cov)))


@pytest.mark.parametrize(
    "covariance, kind, ridge",
    [
        ("batch", "symmetric", 0.0),
        ("running", "symmetric", 0.0),
        ("batch", "low_rank", 0.05),
        ("running", "low_rank", 0.05),
        ("batch", "diagonal", 0.0),
        ("running", "diagonal", 0.0),
        ("batch", "auto", 0.0),
        ("running", "products", 0.0),
        ("batch", "rank_one", 0.05),
    ],
)
def test_batch_and_running_covariance_by_hand(problem, covariance, kind, ridge):
    """Two steps: the plug-in uses each batch's own V, the running one that of the batch before."""
    model, data, theta0 = problem
    kernel = mg.masgrad(ETA, covariance, kind, ridge)
    tr = mg.run(kernel, model, data, theta0, 2, N_BATCH, CHAINS, SEED)
    for k in range(CHAINS):
        theta, past = theta0, None
        for t in range(2):
            X, y = drawn_rows(data, t)
            G = model.gradients(theta, (X[:, k], y[:, k]))
            own = np.cov(G.T)
            used = own if covariance == "batch" or past is None else past
            A = recursion(G, ridge) if kind == "rank_one" else inverse_by_hand(kind, used, ridge)
            theta = theta - ETA * A @ G.mean(0)
            past = own
            np.testing.assert_allclose(tr.theta[k, t + 1], theta, rtol=1e-8)


@pytest.mark.parametrize("kind", ["low_rank", "auto"])
def test_fewer_rows_than_parameters_by_hand(rng, kind):
    """n = 5 < p = 30: the Gram matrix's root is the symmetric one of the 30 x 30 covariance."""
    data, theta = scenarios.regression(rng, "bernoulli", p=30), 0.1 * rng.normal(size=30)
    kernel = mg.masgrad(ETA, "batch", kind, 0.01)
    tr = mg.run(kernel, mg.Logistic(), data, theta, 1, 5, 1, SEED)
    with jax.enable_x64(True):
        table = jax.tree.map(jnp.asarray, Table.pack(data))
        X, y = jax.tree.map(np.asarray, table.draw(step_key(0), 5, 1))
    G = mg.Logistic().gradients(theta, (X[:, 0], y[:, 0]))
    expected = theta - ETA * inverse_root(np.cov(G.T) + 0.01 * np.eye(30)) @ G.mean(0)
    np.testing.assert_allclose(tr.final[0], expected, rtol=1e-8)


def test_running_covariance_forgets_at_its_rate(problem):
    """With all rows the running covariance is the average that its docstring states."""
    model, data, theta0 = problem
    tr = mg.run(
        mg.masgrad(ETA, "running"), model, data, theta0, steps=40, batch_size=None, chains=1
    )
    theta, average = theta0, None
    for t in range(40):
        m = mg.moments(model, theta, data)
        average = m.cov if average is None else average
        theta = theta - ETA * inverse_root(average) @ m.mean
        average = average + max(1 / (t + 1), 0.05) * (m.cov - average)
    np.testing.assert_allclose(tr.theta[0, -1], theta, rtol=1e-8)


def test_adagrad_sums_its_history_with_the_current_gradient(problem):
    model, data, theta0 = problem
    for diagonal in (True, False):
        tr = mg.run(mg.adagrad(ETA, diagonal), model, data, theta0, 6, None, 1)
        theta, history = theta0, np.zeros((4, 4))
        for _ in range(6):
            b = mg.moments(model, theta, data).mean
            history = history + np.outer(b, b)
            used = np.diag(np.diag(history)) if diagonal else history
            values, Q = np.linalg.eigh(used)
            keep = values > 1e-12 * values.max()
            theta = theta - ETA * (Q[:, keep] / np.sqrt(values[keep])) @ (Q[:, keep].T @ b)
        np.testing.assert_allclose(tr.theta[0, -1], theta, rtol=1e-6)


def test_schedules_see_the_step_number_from_zero(problem):
    model, data, theta = problem
    tr = mg.run(mg.sgd(lambda t: 0.5 / (1.0 + t)), model, data, theta, 3, None, 1)
    for t in range(3):
        b = mg.moments(model, tr.theta[0, t], data).mean
        np.testing.assert_allclose(
            tr.theta[0, t + 1], tr.theta[0, t] - 0.5 / (1 + t) * b, rtol=1e-10
        )


@pytest.mark.parametrize(
    "name", scenarios.short_of(["masgrad", "madprox"], ["sgd", "adagrad", "ista", "diff_masgrad"])
)
def test_a_schedule_may_begin_and_end_at_zero(problem, name):
    """A step of size 0 leaves every process where it is, and the steps between are as ever."""
    model, data, theta = problem

    def wave(t):
        return 0.1 * jnp.sin(jnp.pi * jnp.clip(t, 0, 4) / 4) * (t < 4)

    kernel = {
        "sgd": mg.sgd(wave),
        "masgrad": mg.masgrad(wave),
        "adagrad": mg.adagrad(wave),
        "madprox": mg.madprox(wave, mg.L1(0.05)),
        "ista": mg.madprox(wave, mg.L1(0.05), "identity"),
        "diff_masgrad": mg.diffusion(mg.masgrad(wave)),
    }[name]
    tr = mg.run(kernel, model, data, theta, 6, N_BATCH, CHAINS, SEED)
    moved = np.abs(np.diff(tr.theta, axis=1)).max((0, 2))
    np.testing.assert_array_equal(moved > 0, [False, True, True, True, False, False])


@pytest.mark.parametrize("T", [5, 10, 200])
def test_a_linear_decay_ends_at_the_rounding_error_of_zero(T):
    z = np.random.default_rng(0).normal(size=(50, 1))
    tr = mg.run(mg.sgd(lambda t: 0.1 * (1 - t / T)), scenarios.mean_model(1), z, [3.0], T + 1, 5, 4)
    np.testing.assert_allclose(tr.theta[:, -1], tr.theta[:, -2], atol=1e-12)


def test_identity_covariance_makes_masgrad_sgd(rng):
    """V = I: the two chains are the same path, and the diffusion has beta = 2n / eta."""
    Z, model = scenarios.standardised(rng, 64, 3), scenarios.mean_model(3)
    theta0 = np.array([1.0, -2.0, 0.5])
    paths = [
        mg.run(k, model, Z, theta0, 30, 10, 4, SEED).theta for k in (mg.masgrad(ETA), mg.sgd(ETA))
    ]
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-10, atol=1e-12)
    limit = mg.run(mg.diffusion(mg.sgd(ETA)), model, Z, theta0, 5, 10, 4, SEED).theta
    theta, beta = np.repeat(theta0[:, None], 4, 1), 2 * 10 / ETA
    for t in range(5):
        with jax.enable_x64(True):
            z = np.asarray(jax.random.normal(step_key(t), (3, 4)))
        theta = theta - ETA * (theta - Z.mean(0)[:, None]) - np.sqrt(2 * ETA / beta) * z
    np.testing.assert_allclose(limit[:, -1].T, theta, rtol=1e-9, atol=1e-12)


def test_sgld_is_sgd_with_noise_at_a_beta_of_its_own(problem):
    """The same batches as SGD's; a huge beta is SGD; a bad one is refused."""
    model, data, theta = problem
    plain, cold = (
        mg.run(k, model, data, theta, 20, N_BATCH, CHAINS, SEED).theta
        for k in (mg.sgd(ETA), mg.sgld(ETA, 1e30))
    )
    np.testing.assert_allclose(cold, plain, rtol=1e-12, atol=1e-13)
    trace = mg.run(mg.sgld(ETA, 50), model, data, theta, 2, N_BATCH, CHAINS, SEED)
    assert "beta = 50" in trace.note
    for beta in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="beta"):
            mg.sgld(ETA, beta)
    with pytest.raises(TypeError, match="beta"):
        mg.sgld(ETA, "cold")
    with pytest.raises(ValueError, match="beta is not 2n / eta"):
        mg.theory.coupled(mg.sgld(ETA, 50), model, data, theta, 5, N_BATCH)


def test_constant_v_is_preconditioning_by_a_squared(rng):
    """V constant: MasGrad on theta is gradient descent on xi = A^-1 theta with A^2 = V^-1."""
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    Z = rng.normal(size=(80, 3)) @ np.diag([3.0, 1.0, 0.2]) @ Q
    A = sqrtm(inverse_root(np.cov(Z.T))).real
    assert np.allclose(A @ A, inverse_root(np.cov(Z.T)))
    theta0 = np.array([1.0, 2.0, -1.0])
    adjusted = mg.run(mg.masgrad(ETA), scenarios.mean_model(3), Z, theta0, 40, None, 1)
    pulled = mg.CustomLoss(lambda xi, z: scenarios.square(jnp.asarray(A) @ xi, z), 3)
    plain = mg.run(mg.sgd(ETA), pulled, Z, np.linalg.solve(A, theta0), 40, None, 1)
    np.testing.assert_allclose(adjusted.theta[0], plain.theta[0] @ A.T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["sgd", "masgrad", "diagonal", "batch", "natural", "adagrad"])
def test_relabelling_coordinates_commutes_with_the_update(problem, name):
    model, (X, y), theta = problem
    order, kernel = np.array([2, 0, 3, 1]), scenarios.KERNELS[name]
    straight = mg.run(kernel, model, (X, y), theta, 20, N_BATCH, CHAINS, SEED).theta
    relabelled = mg.run(kernel, model, (X[:, order], y), theta[order], 20, N_BATCH, CHAINS, SEED)
    np.testing.assert_allclose(relabelled.theta, straight[..., order], rtol=1e-7)


@pytest.mark.long
@pytest.mark.statistical(1)
def test_large_batches_approach_the_deterministic_update(problem):
    """n -> infinity is the deterministic update: the gap falls like n^-1/2."""
    model, data, theta = problem
    limit = mg.run(mg.masgrad(ETA), model, data, theta, 5, None, 1).theta[0, -1]
    gaps = []
    for n in (100, 6400):
        tr = mg.run(mg.masgrad(ETA), model, data, theta, 5, n, 60, SEED)
        gaps.append(np.sqrt(((tr.final - limit) ** 2).mean()))
    assert 5 < gaps[0] / gaps[1] < 13  # sqrt(64) = 8; the ratio's own error is about 10 %


def contraction_constants(model, data, points):
    """alpha and gamma over all pairs (v, w) of points, by dense eigenvalues."""
    moments = [mg.moments(model, w, data) for w in points]
    low, high = np.inf, 0.0
    for at in moments:
        R = inverse_root(sqrtm(at.cov).real)  # V^-1/2
        for other in moments:
            values = np.linalg.eigvalsh(R @ other.hessian @ R)
            low, high = min(low, values[0]), max(high, values[-1])
    return low, high


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_noiseless_masgrad_contracts_the_gap(rng, family):
    """Lemma "Convergence: noiseless" with eta = 1/gamma over the points the proof visits."""
    X, y = scenarios.regression(rng, family, p=3)
    X = X @ np.diag([3.0, 1.0, 0.3])
    model, data = mg.GLM(family), (X, y)
    optimum = mg.run(mg.natural_gradient(0.5), model, data, np.zeros(3), 400, None, 1).final[0]
    assert np.linalg.norm(mg.moments(model, optimum, data).mean) < 1e-9
    theta0 = optimum + 0.3 * rng.normal(size=3)
    ball = optimum + 0.6 * rng.uniform(-1, 1, size=(25, 3))
    _, gamma = contraction_constants(model, data, [theta0, optimum, *ball])
    gamma = 1.1 * gamma  # any upper bound serves the proof; the ball is only sampled
    path = mg.run(mg.masgrad(1 / gamma), model, data, theta0, 25, None, 1).theta[0]
    visited = [*path[:12], *(optimum + (path[:4] - optimum) * 0.5), optimum]
    alpha, seen = contraction_constants(model, data, visited)
    assert seen <= gamma  # the assumption of the lemma
    gap = np.array([model.risk(w, data) for w in path]) - model.risk(optimum, data)
    above = gap[1:] > 1e-13
    assert above.sum() >= 10
    assert np.all(gap[1:][above] <= (1 - alpha / gamma) * gap[:-1][above] + 1e-15)


def test_batch_covariance_has_no_diffusion():
    with pytest.raises(ValueError, match="self-normalised"):
        mg.diffusion(mg.masgrad(0.1, covariance="batch"))
    with pytest.raises(TypeError, match="kernel"):
        mg.diffusion(0.1)

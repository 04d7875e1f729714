"""Every model against autodiff, NumPy against JAX, and GLMs against statsmodels."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import masgrad as mg
import scenarios
from masgrad.data.regression import Regression
from masgrad.models.glm import as_family

CASES = [c[0] for c in scenarios.all_models(np.random.default_rng(0))]
SLOW = ["gaussian", "mixture", "weighted mixture", "network", "plain network"]
"""Models whose gradients for rows that differ by chain take long to compile."""


@pytest.fixture(params=CASES)
def case(request, rng):
    return next(c[1:] for c in scenarios.all_models(rng) if c[0] == request.param)


def autodiff(model, theta, rows):
    """Per-row losses, gradients and Hessians of `model.loss` by JAX alone."""
    with jax.enable_x64(True):
        maps = (model.loss, jax.grad(model.loss), jax.hessian(model.loss))
        return [np.asarray(jax.vmap(f, (None, 0))(jnp.asarray(theta), rows)) for f in maps]


def test_whole_data_methods_are_those_of_the_loss(case):
    model, data, theta = case
    losses, gradients, hessians = autodiff(model, theta, data)
    np.testing.assert_allclose(model.risk(theta, data), losses.mean(), rtol=1e-12)
    np.testing.assert_allclose(model.gradients(theta, data), gradients, rtol=1e-10, atol=1e-12)
    H = mg.moments(model, theta, data).hessian
    np.testing.assert_allclose(H, hessians.mean(0), rtol=1e-10, atol=1e-12)


OFFSETS = {
    "linear": (mg.Linear, (5,)),
    "logistic": (mg.Logistic, (5,)),
    "gamma, log": (lambda: mg.Gamma("log"), (5,)),
    "trace": (lambda: mg.TraceRegression(2, 3), (2, 3)),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_methods_agree_about_offsets_and_weights(rng, name):
    """An offset is a covariate whose coefficient is 1; a weight of 2 is a row twice, in sums."""
    make, shape = OFFSETS[name]
    model, N = make(), 40
    X, offset = rng.normal(size=(N, *shape)), rng.normal(size=N)
    y, a = rng.uniform(0.1, 0.9, N), rng.integers(1, 4, N)
    rows, p = Regression(X, y, a.astype(float), offset), int(np.prod(shape))
    theta, step = 0.3 * rng.normal(size=(2, p))
    flat = mg.GLM(model.family)
    wide = np.column_stack([X.reshape(N, p), offset])
    with_one, constant = np.append(theta, 1.0), 0.5 * y * y * (name == "trace")
    losses, G, H = autodiff(flat, with_one, (wide, y))
    close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-10)
    close(model.row_losses(theta, rows), losses + constant)
    close(model.row_gradients(theta, rows), G[:, :p])
    hessian = np.einsum("i,ijk->jk", a, H)[:p, :p]
    close(model.hessian_sum(theta, rows), hessian)
    there = autodiff(flat, np.append(theta + step, 1.0), (wide, y))[1]
    close(model.missed_gradient(theta, step, rows), a @ (there - G)[:, :p] - hessian @ step)
    if name != "trace":  # `row_sums` takes rows of vectors
        sums = model.row_sums(theta, rows)
        close(sums.gradient, a @ G[:, :p])
        close(sums.hessian, hessian)
        close(sums.meat, (G.T @ (a[:, None] * G))[:p, :p])


def test_engine_sums_are_sums_of_gradients(case):
    model, data, _ = case
    rows = model.rows(data)
    p, K, N = model.dim(rows), 3, len(jax.tree.leaves(rows)[0])
    thetas = np.random.default_rng(1).normal(size=(p, K))
    weight = (np.arange(N) % 3 > 0).astype(float)
    with jax.enable_x64(True):
        sums = model.shared_sums(jnp.asarray(thetas), model.prepare(rows), weight, True)
    for k in range(K):
        G = autodiff(model, thetas[:, k], rows)[1]
        np.testing.assert_allclose(sums.gradient[:, k], weight @ G, rtol=1e-9, atol=1e-9)
        second = (weight[:, None] * G).T @ G
        np.testing.assert_allclose(sums.outer[..., k], second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "case",
    scenarios.short_of([c for c in CASES if c not in SLOW], SLOW),
    indirect=True,
)
def test_engine_gradients_of_rows_that_differ_by_chain(case):
    model, data, _ = case
    rows = model.rows(data)
    p, K, n = model.dim(rows), 3, 5
    thetas = np.random.default_rng(1).normal(size=(p, K))
    index = np.random.default_rng(2).integers(0, len(jax.tree.leaves(rows)[0]), (n, K))
    with jax.enable_x64(True):
        drawn = jax.tree.map(lambda a: jnp.asarray(a)[index], rows)
        G = np.asarray(model.paired_gradients(jnp.asarray(thetas), drawn))
    for k in range(K):
        own = jax.tree.map(lambda a, k=k: a[index[:, k]], rows)
        np.testing.assert_allclose(
            G[:, :, k], autodiff(model, thetas[:, k], own)[1], rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("p", [3, 12])
def test_covariances_without_outer_products_are_the_same(rng, monkeypatch, p):
    """Past the memory limit blocks of weighted rows give what the outer products gave."""
    data, theta0 = scenarios.regression(rng, p=p), np.zeros(p)
    a = mg.run(mg.masgrad(0.1), mg.Linear(), data, theta0, steps=5, chains=3)
    monkeypatch.setattr("masgrad.models.glm.OUTER_BYTES", 0)
    b = mg.run(mg.masgrad(0.1), LinearAgain("gaussian"), data, theta0, steps=5, chains=3)
    np.testing.assert_allclose(a.theta, b.theta, rtol=1e-9)


class LinearAgain(mg.GLM):
    """The same model under another type, so that jit does not serve the cached program."""


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson"])
def test_family_derivatives_over_the_whole_range(name):
    family = as_family(name)
    t = np.concatenate([np.linspace(-30, 30, 241), [-700.0, -1e-9, 0.0, 1e-9]])
    if name != "poisson":
        t = np.append(t, 700.0)
    y = 1.0
    with jax.enable_x64(True):
        tj = jnp.asarray(t)
        slope = jax.vmap(jax.grad(lambda s: family.loss(s, y)))(tj)
        curve = jax.vmap(jax.grad(lambda s: family.slope(s, y)))(tj)
        for of in (family.loss, family.slope, family.curvature):
            np.testing.assert_allclose(of(t, y), np.asarray(of(tj, y)), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(family.slope(t, y), slope, rtol=1e-10, atol=1e-14)
    # |t| has no second derivative at 0 for autodiff: step aside
    away = t != 0
    np.testing.assert_allclose(family.curvature(t, y)[away], curve[away], rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson"])
def test_score_and_information_are_those_of_statsmodels(name, rng):
    X, y = scenarios.regression(rng, name)
    theta = 0.2 * rng.normal(size=4)
    families = {
        "gaussian": sm.families.Gaussian(),
        "bernoulli": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
    }
    glm = sm.GLM(y, X, family=families[name])
    m = mg.moments(mg.GLM(name), theta, (X, y))
    np.testing.assert_allclose(m.mean, -glm.score(theta, scale=1.0) / len(y), rtol=1e-9)
    np.testing.assert_allclose(m.hessian, -glm.hessian(theta, scale=1.0) / len(y), rtol=1e-9)


def test_pandas_columns_are_arrays(rng):
    X, y = scenarios.regression(rng)
    table = pd.DataFrame(X).assign(y=y)
    ours = mg.moments(mg.Linear(), np.zeros(4), (table[[0, 1, 2, 3]], table["y"]))
    rows = mg.moments(mg.Linear(), np.zeros(4), (X, y))
    np.testing.assert_allclose(ours.cov, rows.cov, rtol=1e-12)
    with pytest.raises(TypeError, match="dictionaries"):
        mg.moments(mg.Linear(), np.zeros(4), ({"a": X}, y))


def test_glm_accepts_names_and_says_which_it_knows():
    assert mg.GLM("binomial").family == mg.Logistic().family
    with pytest.raises(mg.errors.InputError, match="poisson"):
        mg.GLM("gamma-ray")


def test_network_is_the_papers():
    """f = relu(1 + W2 relu(1 + W1 x)) by hand, theta = [W1.ravel(), W2.ravel()]."""
    W1, W2 = np.array([[1.0, -2.0], [0.5, 0.25]]), np.array([0.5, -1.0])
    x, y = np.array([0.3, 0.2]), 0.4
    f = max(1 + W2 @ np.maximum(1 + W1 @ x, 0), 0)
    theta = np.concatenate([W1.ravel(), W2])
    risk = mg.ReluNetwork(2, 2).risk(theta, (x[None], np.array([y])))
    assert risk == pytest.approx(0.5 * (y - f) ** 2, rel=1e-14)


def test_the_network_of_the_main_text_does_not_know_its_scales(rng):
    """f = relu(W2 relu(W1 x)) by hand; a unit's W1 times s and W2 over s change nothing.

    So the gradient is orthogonal to (W1, -W2) of each unit, in every row.
    """
    W1, W2, s = rng.normal(size=(3, 2)), rng.normal(size=3), np.array([0.2, 1.0, 7.0])
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    f = np.maximum(np.maximum(X @ W1.T, 0) @ W2, 0)
    model, theta = mg.ReluNetwork(2, 3, constant=0.0), np.concatenate([W1.ravel(), W2])
    assert model.risk(theta, (X, y)) == pytest.approx(0.5 * np.mean((y - f) ** 2), rel=1e-13)
    scaled = np.concatenate([(W1 * s[:, None]).ravel(), W2 / s])
    assert model.risk(scaled, (X, y)) == pytest.approx(model.risk(theta, (X, y)), rel=1e-13)
    G = model.gradients(theta, (X, y))
    along = np.einsum("nhi,hi->nh", G[:, :6].reshape(50, 3, 2), W1) - G[:, 6:] * W2
    np.testing.assert_allclose(along, 0.0, atol=1e-13)
    assert (
        np.linalg.matrix_rank(np.cov(G.T))
        <= 6
        < np.linalg.matrix_rank(np.cov(mg.ReluNetwork(2, 3).gradients(theta, (X, y)).T))
    )


def test_mixture_weights_are_the_papers_q(rng):
    """-log sum q_i phi by hand; equal weights change nothing, and means move with their q."""
    z, theta, sigma = rng.normal(size=50), np.array([1.0, 2.0, 3.0]), 0.6
    q = np.array([0.2, 0.5, 0.3])
    density = np.exp(-0.5 * ((z[:, None] - theta) / sigma) ** 2) / np.sqrt(2 * np.pi) / sigma
    model = mg.GaussianMixture(3, sigma, q)
    assert model.risk(theta, z) == pytest.approx(-np.log(density @ q).mean(), rel=1e-13)
    other = mg.GaussianMixture(3, sigma, q[::-1])
    assert other.risk(theta[::-1], z) == pytest.approx(model.risk(theta, z), rel=1e-14)
    assert abs(model.risk(theta[::-1], z) - model.risk(theta, z)) > 1e-3
    plain, even = mg.GaussianMixture(3, sigma), mg.GaussianMixture(3, sigma, [1 / 3] * 3)
    assert even.risk(theta, z) == plain.risk(theta, z)


def test_mixture_is_the_papers(rng):
    """-log of the mean density, with its constant, by hand; all permutations are equal."""
    z, theta, sigma = rng.normal(size=50), np.array([1.0, 2.0, 3.0]), 0.6
    density = np.exp(-0.5 * ((z[:, None] - theta) / sigma) ** 2) / np.sqrt(2 * np.pi) / sigma
    model = mg.GaussianMixture(3, sigma)
    assert model.risk(theta, z) == pytest.approx(-np.log(density.mean(1)).mean(), rel=1e-13)
    assert model.risk(theta[::-1], z) == pytest.approx(model.risk(theta, z), rel=1e-14)

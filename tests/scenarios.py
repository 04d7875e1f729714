"""Small problems with known answers, one function a problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.paper.studies.fields import gaussian_design as gaussian_design


def short_of(short, others):
    """Cases of which the first run in `make test`, and all behind `make test-all`."""
    return [*short, *(pytest.param(name, marks=pytest.mark.long) for name in others)]


def sigmoid(t):
    return 1 / (1 + np.exp(-t))


def root(S):
    """The symmetric root of a covariance."""
    values, vectors = np.linalg.eigh(np.asarray(S))
    return (vectors * np.sqrt(values)) @ vectors.T


def regression(rng, family="gaussian", N=300, p=4, misspecified=False):
    """Rows of a GLM; with `misspecified` the response has another mean and heavier noise."""
    X = rng.normal(size=(N, p)) @ (np.eye(p) + 0.4 * rng.normal(size=(p, p)))
    t = 0.5 * X @ np.linspace(0.5, 1.0, p) / np.sqrt(p)
    t = t + 0.5 * np.sin(2 * X[:, 0]) if misspecified else t
    if family == "gaussian":
        return X, t + rng.normal(size=N)
    if family == "bernoulli":
        return X, (rng.random(N) < sigmoid(t)).astype(float)
    return X, rng.poisson(np.exp(t)).astype(float)


def sparse(rng, N=400, p=12, family="gaussian"):
    """A few coefficients that are not 0, columns of different sizes, and a constant one."""
    X = rng.normal(size=(N, p)) * np.geomspace(0.5, 2, p)
    X[:, 0] = 1.0
    theta = np.zeros(p)
    theta[[0, 2, 5]] = 0.3, 0.8, -0.6
    t = X @ theta
    if family == "gaussian":
        return X, t + rng.normal(size=N)
    if family == "bernoulli":
        return X, (rng.random(N) < sigmoid(t)).astype(float)
    return X, rng.poisson(np.exp(0.5 * t)).astype(float)


def all_models(rng):
    """(name, model, data, theta) for every model of the library."""
    for name in ("gaussian", "bernoulli", "poisson"):
        data = regression(rng, name, misspecified=True)
        yield name, mg.GLM(name), data, 0.3 * rng.normal(size=4)
    yield "mixture", mg.GaussianMixture(3, 0.7), rng.normal(size=200), rng.normal(size=3)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    yield "network", mg.ReluNetwork(2, 3), (X, y), rng.normal(size=9)
    weighted = mg.GaussianMixture(3, 0.7, [0.2, 0.5, 0.3])
    yield "weighted mixture", weighted, rng.normal(size=200), rng.normal(size=3)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    yield "plain network", mg.ReluNetwork(2, 3, constant=0.0), (X, y), rng.normal(size=9)
    X, y = rng.normal(size=(200, 2, 3)), rng.normal(size=200)
    yield "trace", mg.TraceRegression(2, 3), (X, y), rng.normal(size=6)
    rows = {"x": rng.normal(size=(200, 2)), "k": rng.integers(0, 2, 200)}
    yield "custom", mg.CustomLoss(indexed_loss, 2), rows, rng.normal(size=2)


def indexed_loss(theta, z):
    """A loss on a row that is a dictionary with an integer in it."""
    return jnp.logaddexp(0.0, (theta @ z["x"]) * (2 * z["k"] - 1)) + 0.1 * theta[z["k"]] ** 2


def square(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


def mean_model(p):
    """Loss 1/2 |theta - z|^2: b = theta - mean(z), V constant, the chain is an AR(1)."""
    return mg.CustomLoss(square, p)


def standardised(rng, N, p):
    """Rows with sample mean 0 and sample covariance exactly I (divisor N - 1)."""
    Z = rng.normal(size=(N, p))
    Z = Z - Z.mean(0)
    return Z @ np.linalg.inv(np.linalg.cholesky(np.cov(Z.T)).T)


def skewed(key, n):
    """Mean 0, variance 1, third cumulant 2."""
    return jax.random.exponential(key, (n, 1)) - 1.0


def symmetric(key, n):
    """Mean 0, variance 1, third cumulant 0, fourth 3 (Laplace)."""
    return jax.random.laplace(key, (n, 1)) / jnp.sqrt(2.0)


def coin(key, n):
    """Mean 0, variance 1, on two points only."""
    return 2.0 * jax.random.bernoulli(key, 0.5, (n, 1)) - 1.0


def unit_moments(theta):
    """b and Sigma of `mean_model(1)` under any law with mean 0 and variance 1."""
    return theta, jnp.eye(1)


KERNELS = {
    "sgd": mg.sgd(0.1),
    "sgld": mg.sgld(0.1, 50.0),
    "masgrad": mg.masgrad(0.1),
    "diagonal": mg.masgrad(0.1, root="diagonal"),
    "ridge": mg.masgrad(0.1, ridge=0.3),
    "low_rank": mg.masgrad(0.1, root="low_rank", ridge=0.3),
    "batch": mg.masgrad(0.1, covariance="batch"),
    "batch_low_rank": mg.masgrad(0.1, covariance="batch", root="low_rank", ridge=0.3),
    "batch_rank_one": mg.masgrad(0.1, covariance="batch", root="rank_one", ridge=0.3),
    "batch_diagonal": mg.masgrad(0.1, covariance="batch", root="diagonal"),
    "products": mg.masgrad(0.1, root="products"),
    "auto": mg.masgrad(0.1, root="auto"),
    "running_diagonal": mg.masgrad(0.1, covariance="running", root="diagonal"),
    "running": mg.masgrad(0.1, covariance="running"),
    "natural": mg.natural_gradient(0.1),
    "adagrad": mg.adagrad(0.1),
    "adagrad_full": mg.adagrad(0.1, diagonal=False),
    "schedule": mg.masgrad(lambda t: 0.1 / (1.0 + t)),
}
DIFFUSIONS = {
    f"diff_{name}": mg.diffusion(k) for name, k in KERNELS.items() if not name.startswith("batch")
}


def two_columns(rows, seed=0):
    """A data frame of a and b, uniform, and the generator that drew them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.uniform(0, 1, rows), "b": rng.uniform(0, 1, rows)}), rng


WEIGHTS = np.array([1.0, 0.0, 2.0, 0.5, 1.0, 3.0])
BOUNDS = np.array([[-1, -np.inf, 0, 0.2, -2, 0.5], [1, 0.3, 0, 2, np.inf, 1]])
GROUPS = np.array([4, 1, 4, 2, -1, 1])
SHAPE = (2, 3)
PENALTIES = {  # of six numbers
    "l1": mg.L1(0.7),
    "weighted": mg.L1(0.7, WEIGHTS),
    "elastic": mg.ElasticNet(0.7, 0.3, WEIGHTS),
    "l2": mg.L2(0.7),
    "box": mg.Box(*BOUNDS),
    "positive": mg.NonNegative(),
    "group": mg.GroupLasso(0.5, GROUPS),
    "nuclear": mg.Nuclear(0.5, SHAPE),
}
SEPARABLE = [name for name in PENALTIES if name not in ("group", "nuclear")]


def finite_points(rng, name, count=40):
    """Points where a penalty is finite, near 0 and far, some with exact zeros."""
    drawn = rng.normal(size=(count, 6)) * 10.0 ** rng.uniform(-2, 1, size=(count, 1))
    drawn[::3] *= rng.random((len(drawn[::3]), 6)) < 0.5
    return PENALTIES[name].prox(drawn.T, 0.0).T

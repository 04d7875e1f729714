"""Moments: against NumPy, under any partition, and at the Fisher information."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import masgrad as mg
import scenarios
from conftest import alpha


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson"])
def test_moments_are_numpys(name, rng):
    data = scenarios.regression(rng, name, N=9000)  # three host blocks
    model, theta = mg.GLM(name), 0.1 * rng.normal(size=4)
    G = model.gradients(theta, data)
    m = mg.moments(model, theta, data)
    assert m.count == 9000
    np.testing.assert_allclose(m.mean, G.mean(0), rtol=1e-11)
    np.testing.assert_allclose(m.cov, np.cov(G.T), rtol=1e-11)
    np.testing.assert_allclose(m.fisher, G.T @ G / 9000, rtol=1e-11)


def relative_gap(a, b):
    """Largest difference in units of the coordinates' own scales."""
    scale = np.sqrt(np.outer(np.diag(a), np.diag(a))) if a.ndim == 2 else np.abs(a)
    return np.max(np.abs(a - b) / scale)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    cuts=st.lists(st.integers(1, 999), min_size=1, max_size=8, unique=True),
    shift=st.sampled_from([0.0, 1e6]),
    order=st.randoms(use_true_random=False),
    name=st.sampled_from(["gaussian", "bernoulli"]),
)
def test_any_partition_in_any_grouping_gives_the_same_moments(cuts, shift, order, name):
    X, y = scenarios.regression(np.random.default_rng(5), name, N=1000)
    X = X + np.array([0.0, shift, 0.0, 0.0])
    theta = np.array([0.3, 0.2 / max(shift, 1.0), -0.1, 0.4])
    model = mg.GLM(name)
    whole = mg.moments(model, theta, (X, y))
    edges = [0, *sorted(cuts), 1000]
    parts = [mg.moments(model, theta, (X[a:b], y[a:b])) for a, b in itertools.pairwise(edges)]
    while len(parts) > 1:  # merge random pairs: any grouping, any order
        a = parts.pop(order.randrange(len(parts)))
        b = parts.pop(order.randrange(len(parts)))
        parts.append(a.merge(b))
    merged = parts[0]
    assert merged.count == 1000
    assert relative_gap(whole.mean, merged.mean) < 1e-12
    assert relative_gap(whole.cov, merged.cov) < 1e-12
    assert relative_gap(whole.hessian, merged.hessian) < 1e-12


def test_a_shift_does_not_spoil_the_covariance(rng):
    """cov(g + c) = cov(g): a naive sum of squares would lose all digits at c = 1e9."""
    Z = rng.normal(size=(5000, 3))
    model = scenarios.mean_model(3)
    near = mg.moments(model, np.zeros(3), Z)
    far = mg.moments(model, np.full(3, 1e9), Z)
    np.testing.assert_allclose(far.cov, near.cov, atol=1e-6)


def test_parts_are_computed_only_when_asked_for(rng):
    data = scenarios.regression(rng)
    m = mg.moments(mg.Linear(), np.zeros(4), data, parts=("mean",))
    assert m.hessian is None
    with pytest.raises(ValueError, match="'cov'"):
        _ = m.cov
    whole = mg.moments(mg.Linear(), np.zeros(4), data)
    assert m.merge(whole).count == 600
    assert m.merge(whole).hessian is None
    with pytest.raises(ValueError, match="median"):
        mg.moments(mg.Linear(), np.zeros(4), data, parts=("median",))


@pytest.mark.statistical(10)
def test_v_squared_is_the_fisher_information_when_well_specified(rng):
    """At theta* of a logistic model Sigma = H: each entry within its Monte-Carlo error."""
    N, w = 200_000, np.array([0.8, -0.5, 0.3, 0.1])
    X = rng.normal(size=(N, 4))
    y = (rng.random(N) < scenarios.sigmoid(X @ w)).astype(float)
    m = mg.moments(mg.Logistic(), w, (X, y))
    mu = scenarios.sigmoid(X @ w)
    excess = (y - mu) ** 2 - mu * (1 - mu)  # mean 0 given x
    for i in range(4):
        for j in range(i, 4):
            error = (excess * X[:, i] * X[:, j]).std() / np.sqrt(N)
            bias = abs(m.mean[i] * m.mean[j]) + abs(m.cov[i, j]) / N
            gap = abs(m.cov[i, j] - m.hessian[i, j])
            assert gap < norm.isf(alpha() / 2) * error + 2 * bias


def test_moments_that_overflow_are_an_error_not_a_nan():
    X, y = np.full((3, 1), 1e200), np.zeros(3)
    with pytest.raises(ValueError, match="not finite"):
        mg.moments(mg.Linear(), [1.0], (X, y))
    with pytest.raises(ValueError, match="at least 2 rows"):
        _ = mg.moments(mg.Linear(), [1.0], (X[:1] * 0, y[:1])).cov


def test_merging_other_models_is_refused(rng):
    a = mg.moments(mg.Linear(), np.zeros(4), scenarios.regression(rng))
    b = mg.moments(mg.Linear(), np.zeros(2), scenarios.regression(rng, p=2))
    with pytest.raises(ValueError, match="4 and 2"):
        functools.reduce(mg.Moments.merge, [a, b])

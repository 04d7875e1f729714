"""Penalties: their values, proximal maps and subgradients, against formulas written out here."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

import masgrad as mg
from scenarios import BOUNDS, GROUPS, PENALTIES, SEPARABLE, SHAPE, WEIGHTS, finite_points

P, T = 6, 0.8
LOW, HIGH = BOUNDS
TERMS = {  # of coordinate j
    "l1": lambda j, x: 0.7 * abs(x),
    "weighted": lambda j, x: 0.7 * WEIGHTS[j] * abs(x),
    "elastic": lambda j, x: 0.7 * WEIGHTS[j] * (0.3 * abs(x) + 0.35 * x**2),
    "l2": lambda j, x: 0.35 * x**2,
    "box": lambda j, x: 0.0 if LOW[j] <= x <= HIGH[j] else np.inf,
    "positive": lambda j, x: 0.0 if x >= 0 else np.inf,
}


def by_hand(name, theta):
    if name == "group":
        pairs = theta[[0, 2]], theta[[1, 5]]
        return 0.5 * (abs(theta[3]) + sum(np.sqrt(2) * np.linalg.norm(g) for g in pairs))
    if name == "nuclear":
        W = theta.reshape(SHAPE)
        area = np.linalg.norm(np.cross(*W))  # the product of the two singular values
        return 0.5 * np.sqrt((W**2).sum() + 2 * area)
    return sum(TERMS[name](j, x) for j, x in enumerate(theta))


def prox_by_hand(name, theta):
    """argmin_u |u - theta|^2 / 2 + T h(u): by search, or theta less its projection (Moreau)."""
    if name == "group":
        out = theta.copy()
        for index, size in (([0, 2], np.sqrt(2)), ([1, 5], np.sqrt(2)), ([3], 1.0)):
            g = theta[index]
            out[index] -= g * min(1.0, T * 0.5 * size / np.linalg.norm(g))
        return out
    if name == "nuclear":
        W = theta.reshape(SHAPE)
        values, U = np.linalg.eigh(W @ W.T)  # W's left singular vectors
        shrunk = np.maximum(1 - T * 0.5 / np.sqrt(values), 0.0)
        return ((U * shrunk) @ U.T @ W).ravel()
    return np.array([_search(name, j, x) for j, x in enumerate(theta)])


def _search(name, j, x):
    low, high = (LOW[j], HIGH[j]) if name == "box" else (0.0 if name == "positive" else -9.0, 9.0)
    low, high = max(low, -9.0), min(high, 9.0)
    ends = [low, high, np.clip(0.0, low, high)]
    cost = lambda u: (u - x) ** 2 / 2 + T * TERMS[name](j, u)  # noqa: E731
    if high > low:
        ends.append(minimize_scalar(cost, bounds=(low, high), options={"xatol": 1e-10}).x)
    return min(ends, key=cost)


# Value, proximal map, subgradient.


@pytest.mark.parametrize("name", PENALTIES)
def test_the_value_by_hand(rng, name):
    drawn = np.vstack([finite_points(rng, name), 2 * rng.normal(size=(10, P))])
    expected = [by_hand(name, theta) for theta in drawn]
    np.testing.assert_allclose(PENALTIES[name].value(drawn.T), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PENALTIES)
def test_the_proximal_map_is_the_minimiser(rng, name):
    """Against a search, and nothing nearby has a lower objective."""
    for theta in 1.5 * rng.normal(size=(8, P)):
        u = PENALTIES[name].prox(theta, T)
        np.testing.assert_allclose(u, prox_by_hand(name, theta), atol=3e-7)
        cost = lambda v: ((v - theta) ** 2).sum() / 2 + T * by_hand(name, v)  # noqa: E731,B023
        for size in 10.0 ** -np.arange(0, 6):
            assert all(cost(u + size * d) >= cost(u) - 1e-14 for d in rng.normal(size=(20, P)))


@pytest.mark.parametrize("name", PENALTIES)
def test_subgradients_support_the_penalty_from_below(rng, name):
    """h(v) >= h(u) + z'(v - u): of `subgradient` at u, and of (theta - u) / t at u = prox."""
    h, others = PENALTIES[name], finite_points(rng, name, 200)
    value = h.value(others.T)
    for theta in finite_points(rng, name):
        u = h.prox(3 * theta, T)
        for at, z in ((theta, h.subgradient(theta)), (u, (3 * theta - u) / T)):
            below = h.value(at) + (others - at) @ z
            assert np.all(value >= below - 1e-11 * (1 + np.abs(below)))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(PENALTIES)),
    arrays(float, (2, P), elements=st.floats(-50, 50)),
    st.floats(1e-3, 1e3),
)
def test_proximal_maps_are_firmly_nonexpansive(name, pair, t):
    """|prox a - prox b|^2 <= (prox a - prox b)'(a - b): what makes it the map of a convex h."""
    a, b = pair
    moved = PENALTIES[name].prox(a, t) - PENALTIES[name].prox(b, t)
    assert moved @ moved <= moved @ (a - b) + 1e-9


@pytest.mark.parametrize("name", PENALTIES)
def test_numpy_jax_one_vector_and_several_agree(rng, name):
    h, thetas = PENALTIES[name], 1.5 * rng.normal(size=(3, P)) * [[1.0], [3.0], [0.1]]
    all_three = lambda theta: (h.value(theta), h.prox(theta, T), h.subgradient(theta))  # noqa: E731
    several = all_three(thetas.T)
    with jax.enable_x64(True):
        traced = jax.tree.map(np.asarray, jax.jit(all_three)(thetas.T))
    for host, device, *alone in zip(several, traced, *map(all_three, thetas), strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(np.stack(alone, -1), host, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", SEPARABLE)
def test_separable_penalties_take_one_t_for_each_coordinate(rng, name):
    h, theta, t = PENALTIES[name], rng.normal(size=(P, 2)), rng.uniform(0.1, 2, P)
    u = h.prox(theta, t)
    for j in range(P):
        np.testing.assert_allclose(u[j], h.prox(theta, t[j])[j], rtol=1e-14)
    np.testing.assert_array_equal(h.prox(theta, np.stack([t, t], 1)), u)
    np.testing.assert_array_equal(h.prox(theta[:, 0], t), u[:, 0])


def test_a_coefficient_left_free_and_the_largest_lam(rng):
    """`without` an intercept; from `largest` on 0 is optimal: |gradient|'s dual norm."""
    theta, g = rng.normal(size=P), rng.normal(size=P)
    for name, h in PENALTIES.items():
        if name in ("box", "positive", "l1", "elastic", "group"):
            free = h.without(3, P)
            assert free.prox(theta, T)[3] == theta[3] and free.subgradient(theta)[3] == 0.0
            kept = np.arange(P) != 3
            np.testing.assert_allclose(free.prox(theta, T)[kept], h.prox(theta, T)[kept])
        if name in ("l1", "group", "nuclear"):
            free = np.flatnonzero(GROUPS < 0) if name == "group" else []
            slope = g.copy()
            slope[free] = 0.0
            lam = h.largest(slope)
            assert not h.with_lam(lam * (1 + 1e-12)).prox(-slope, 1.0).any()
            assert h.with_lam(lam * 0.999).prox(-slope, 1.0).any()


# Bad input.


@pytest.mark.parametrize(
    "make, error, needed",
    [
        (lambda: mg.L1(-1.0), ValueError, "lam"),
        (lambda: mg.L1(np.nan), ValueError, "lam"),
        (lambda: mg.L1(np.inf), ValueError, "lam"),
        (lambda: mg.L1("loo"), ValueError, "number >= 0 is needed, or one of 'cv'"),
        (lambda: mg.L1(None), TypeError, "lam"),
        (lambda: mg.L1([0.1, 0.2]), (TypeError, ValueError), "lam"),
        (lambda: mg.L2("cv"), (TypeError, ValueError), "lam"),
        (lambda: mg.ElasticNet(0.1, 1.5), ValueError, "from 0 .squares. to 1"),
        (lambda: mg.ElasticNet(0.1, "half"), TypeError, "l1_ratio"),
        (lambda: mg.L1(0.1, [1.0, -1.0]), ValueError, "numbers >= 0"),
        (lambda: mg.L1(0.1, [1.0, np.nan]), ValueError, "finite"),
        (lambda: mg.L1(0.1, ["a", "b"]), TypeError, "numbers >= 0 are needed"),
        (lambda: mg.L1(0.1, [1.0, 1.0]).check(3), ValueError, "length 2, and theta 3"),
        (lambda: mg.GroupLasso(0.1, [0.0, 1.0]), TypeError, "whole number for each"),
        (lambda: mg.GroupLasso(0.1, [[0, 1]]), TypeError, "whole number for each"),
        (lambda: mg.GroupLasso(0.1, [[0], [1, 2]]), TypeError, "whole number for each"),
        (lambda: mg.GroupLasso(0.1, [0, 0, 1], [1.0]), ValueError, "length 1, and 2 groups"),
        (lambda: mg.GroupLasso(0.1, [0, 0]).check(3), ValueError, "length 2, and theta 3"),
        (lambda: mg.Nuclear(0.1, 4), TypeError, "rows, cols"),
        (lambda: mg.Nuclear(0.1, (2, 0)), TypeError, "rows, cols"),
        (lambda: mg.Nuclear(0.1, (2, 3)).check(5), ValueError, "2 x 3 must be 5"),
        (lambda: mg.Nuclear(0.1, (2, 3)).check(6, (3, 2)), ValueError, "the same shape"),
        (lambda: mg.Box(1.0, 0.0), ValueError, "above its upper"),
        (lambda: mg.Box(np.inf), ValueError, "leaves no theta"),
        (lambda: mg.Box(np.nan), ValueError, "not NaN"),
        (lambda: mg.Box("a", 1.0), TypeError, "bounds"),
        (lambda: mg.Box([0.0, 0.0], [1.0, 1.0, 1.0]), ValueError, "as many of each"),
        (lambda: mg.Box([0.0, 0.0]).check(3), ValueError, "length 2, and theta 3"),
    ],
)
def test_bad_penalties_are_refused_with_what_is_needed(make, error, needed):
    with pytest.raises(error, match=needed) as caught:
        make()
    assert isinstance(caught.value, mg.errors.MasgradError)

"""Theorem 1 where it can be computed: total variation of whole paths, and its leading constant.

On exponential rows with gradient theta - x the increments of a chain are independent, Gamma(n)
standardised, and those of its diffusion N(0, 1): the likelihood ratio of a path is a product.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import gamma, norm

import masgrad as mg
import scenarios
from masgrad.errors import InputError, InputTypeError
from masgrad.theory import tv_constant
from masgrad.theory.processes.third_cumulants import by_pairs, by_tensor, squared_cumulant

EXPONENTIAL = mg.Simulator(scenarios.skewed, scenarios.unit_moments)


def log_ratio(s, n):
    """log of the density of a standardised Gamma(n) over that of N(0, 1)."""
    return gamma(n).logpdf(n + np.sqrt(n) * s) + np.log(n) / 2 - norm.logpdf(s)


def entropy_of_a_step(n):
    """KL of a standardised Gamma(n) to N(0, 1), in closed form: the gap of their entropies."""
    return np.log(2 * np.pi * np.e * n) / 2 - n - gammaln(n) - (1 - n) * digamma(n)


@functools.cache
def path_distance(n, T):
    """Total variation of T independent steps: P(ratio > 1) - Q(ratio > 1), by Gil-Pelaez.

    Characteristic functions of the log ratio are sums over a grid, raised to the power T; for
    T = 1, where they decay slowly, the integral of |p - q| / 2 itself.
    """
    s, h = np.linspace(-min(0.999 * np.sqrt(n), 8.0), 11.0, 2401, retstep=True)
    ratio, q = log_ratio(s, n), norm.pdf(s)
    p = q * np.exp(ratio)
    if T == 1:
        return 0.5 * h * np.abs(p - q).sum()
    u, du = np.linspace(0.0, 160.0 * np.sqrt(n / T), 1001, retstep=True)
    u = u[:-1] + du / 2
    waves = np.exp(1j * np.outer(u, ratio))
    return du / np.pi * (((waves @ p * h) ** T - (waves @ q * h) ** T).imag / u).sum()


def test_the_entropy_of_a_step_is_a_third_over_n():
    """n KL -> |kappa_3|^2 / 12 = 1/3, the error of order 1/n."""
    sizes = 4.0 ** np.arange(1, 7)
    away = sizes * entropy_of_a_step(sizes) - 1 / 3
    assert np.all(away > 0) and np.all(np.diff(away) < 0)
    np.testing.assert_allclose(away[:4] + 1 / 3, [0.355, 0.339, 0.335, 0.334], atol=0.0005)
    np.testing.assert_allclose((away * sizes)[2:], 1 / 12, rtol=0.02)


@pytest.mark.parametrize(
    "n, ratios", [(64, [0.253, 0.262, 0.291, 0.307]), (256, [0.252, 0.261, 0.290, 0.310])]
)
def test_the_distance_of_paths_grows_like_the_root_of_t_over_n(n, ratios):
    """TV / sqrt(T/n) at T = 1, 4, 16, 64, as in docs/theory.md; Pinsker has sqrt(1/6) = 0.41."""
    steps = np.array([1, 4, 16, 64])
    found = np.array([path_distance(n, T) for T in steps]) / np.sqrt(steps / n)
    np.testing.assert_allclose(found, ratios, atol=0.0005)
    assert np.all(found < np.sqrt(1 / 6))


def test_the_distance_of_paths_falls_like_the_root_of_n():
    """Slopes in log n of -1/2 at fixed T, and one curve in T/n where T is large.

    With many steps the log ratio is Gaussian, -+ KL with variance 2 KL: TV = 2 Phi(sqrt(KL/2)) - 1.
    """
    for T in (1, 4, 16):
        slope = math.log(path_distance(256, T) / path_distance(64, T)) / math.log(4)
        assert abs(slope + 0.5) < 0.005
    away = []
    for n in (64, 256):  # T = n: KL is about 1/3
        away.append(
            1 - path_distance(n, n) / (2 * norm.cdf(np.sqrt(n * entropy_of_a_step(n) / 2)) - 1)
        )
    assert 0 < away[1] < 0.4 * away[0] < 0.015


@pytest.fixture(scope="module")
def exponential_constant():
    return tv_constant(scenarios.mean_model(1), EXPONENTIAL, [[0.0], [3.0]], rows=200_000)


def test_the_constant_of_exponential_rows(exponential_constant):
    """|kappa_3|^2 = 4 at every theta: KL is T / 3n, TV at most sqrt(T / 6n)."""
    tv = exponential_constant
    assert abs(tv.squared_cumulant - 4) < 6 * tv.error < 1.2
    np.testing.assert_allclose(tv.per_point, tv.squared_cumulant, rtol=1e-8)
    assert tv.constant == pytest.approx(math.sqrt(tv.squared_cumulant / 24))
    assert tv.entropy(5, 64) == pytest.approx(5 * tv.squared_cumulant / (12 * 64))
    assert tv.distance(16, 256) == pytest.approx(tv.constant / 4)
    assert tv.distance(10**6, 2) == 1.0
    n = tv.batch_size(0.1, 16)
    assert tv.distance(16, n) <= 0.1 < tv.distance(16, n - 1)
    assert tv.label == "leading order, for a population with a density; for the table itself TV = 1"
    assert "TV <= 0.4" in repr(tv) and tv.label in repr(tv)
    for T in (1, 4, 16, 64):
        assert path_distance(64, T) < math.sqrt(T / (6 * 64))


@pytest.mark.parametrize("eta", [0.1, 1.5])
def test_paths_of_chains_have_that_distance_whatever_the_step_size(seed, eta):
    """The mean of (1 - 1 / likelihood ratio)_+ over paths of `run`: 6 errors around the integral,
    for a short step, and for one that overshoots.
    """
    n, T, K = 64, 16, 20_000
    theta = mg.run(
        mg.masgrad(eta), scenarios.mean_model(1), EXPONENTIAL, [2.0], T, n, K, seed
    ).theta[:, :, 0]
    steps = np.sqrt(n) / eta * (np.diff(theta) + eta * theta[:, :-1])  # b = theta and V = 1
    lost = np.maximum(1 - np.exp(-log_ratio(steps, n).sum(1)), 0.0)
    assert abs(lost.mean() - path_distance(n, T)) < 6 * lost.std() / np.sqrt(K)


def test_independent_coordinates_add_and_units_do_not_matter():
    """Three exponentials, mixed by a matrix: |kappa_3|^2 = 12; known moments or the rows' own."""
    A = np.array([[2.0, 0.0, 0.0], [1.0, 0.3, 0.0], [-1.0, 5.0, 40.0]])

    def sample(key, n):
        return (jax.random.exponential(key, (n, 3)) - 1.0) @ A.T

    known = mg.Simulator(sample, lambda theta: (theta, jnp.asarray(A @ A.T)))
    for data in (known, mg.Simulator(sample)):
        tv = tv_constant(scenarios.mean_model(3), data, [np.zeros(3)], rows=100_000)
        assert abs(tv.squared_cumulant - 12) < 6 * tv.error < 4.0


def test_linear_regression_by_hand():
    """x, e ~ N(0, 1): g = d x^2 - x e has central moments 2 d^2 + 1 and 8 d^3 + 6 d; 0 at d = 0."""
    problem = scenarios.gaussian_design([1.0])
    d = np.array([0.0, 0.5, 2.0])
    tv = tv_constant(*problem, 1.0 + d[:, None], rows=50_000)
    exact = (8 * d**3 + 6 * d) ** 2 / (2 * d**2 + 1) ** 3
    for value, right, point in zip(tv.per_point, exact, d, strict=True):
        alone = tv_constant(*problem, [[1.0 + point]], rows=50_000)
        assert alone.per_point[0] == value
        assert abs(value - right) < 6 * alone.error + 1e-4
    assert abs(tv.squared_cumulant - exact.mean()) < 6 * tv.error


def test_the_estimate_is_the_mean_over_pairs_and_both_ways_agree(rng):
    """Against the double loop, and the tensor against all pairs of rows."""
    U = rng.exponential(size=(600, 5)) - 1.0
    cubes = (U @ U.T) ** 3
    pairs = (cubes.sum() - np.trace(cubes)) / (600 * 599)
    assert squared_cumulant(U, own_moments=False).value == pytest.approx(pairs, rel=1e-12)
    tensor, gram = by_tensor(U), by_pairs(U)
    np.testing.assert_allclose(tensor.cubes, cubes.mean(1), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gram.cubes, cubes.mean(1), rtol=1e-10, atol=1e-12)
    kappa = np.einsum("ia,ib,ic->abc", U, U, U) / 600
    for found in (tensor, gram):
        np.testing.assert_allclose(found.square, np.einsum("acd,bcd->ab", kappa, kappa), rtol=1e-9)
    wide = rng.normal(size=(300, 20))  # p^2 > m: by pairs
    cubes = (wide @ wide.T) ** 3
    pairs = (cubes.sum() - np.trace(cubes)) / (300 * 299)
    assert squared_cumulant(wide, own_moments=False).value == pytest.approx(pairs, rel=1e-10)


@pytest.mark.parametrize("law, right", [("normal", 0.0), ("exponential", 12.0)])
def test_the_estimate_has_no_bias_and_its_error_is_the_spread(rng, law, right):
    """400 tables of 500 rows in 3 dimensions; standardised by themselves, a bias of kappa^2 / m."""
    known, own, errors = [], [], []
    for _ in range(400):
        Z = rng.normal(size=(500, 3)) if law == "normal" else rng.exponential(size=(500, 3)) - 1.0
        known.append(squared_cumulant(Z, own_moments=False).value)
        L = np.linalg.cholesky(np.cov(Z.T))
        found = squared_cumulant(np.linalg.solve(L, (Z - Z.mean(0)).T).T, own_moments=True)
        own.append(found.value)
        errors.append(found.influence.std() / np.sqrt(500))
    assert abs(np.mean(known) - right) < 6 * np.std(known) / 20
    left = 0.15 * right  # -12 % at 500 rows, of order 1/m
    assert abs(np.mean(own) - right) < 6 * np.std(own) / 20 + left
    assert 0.9 * np.std(own) < np.mean(errors) < 1.7 * np.std(own)  # too large where kappa_3 = 0


def test_a_table_is_sampled_and_a_path_averaged(rng):
    X, y = scenarios.regression(rng, "bernoulli", N=3000)
    trace = mg.run(mg.masgrad(0.3), mg.Logistic(), (X, y), np.full(4, 0.1), 10, 50, 20)
    path = mg.theory.path(trace, 12)
    whole = tv_constant(mg.Logistic(), (X, y), path)
    assert whole.rows == 3000 and whole.per_point.shape == (12,)
    assert whole.squared_cumulant == pytest.approx(whole.per_point.mean())
    some = tv_constant(mg.Logistic(), (X, y), path, rows=1500, seed=1)
    assert some.rows == 1500
    assert abs(some.squared_cumulant - whole.squared_cumulant) < 6 * some.error
    swapped = X[:, ::-1] * [1.0, -3.0, 0.01, 100.0]
    other = tv_constant(mg.Logistic(), (swapped, y), path[:, ::-1] / [1.0, -3.0, 0.01, 100.0])
    np.testing.assert_allclose(other.per_point, whole.per_point, rtol=1e-7)


FLIPS = np.tile([0.0, 1.0], 100)


@pytest.mark.parametrize(
    "model, data, theta, words",
    [
        (scenarios.mean_model(1), mg.Simulator(scenarios.coin), [0.0], "takes 2 values"),
        (mg.Logistic(), (np.ones((200, 1)), FLIPS), [0.3], "takes 2 values"),
        (mg.Poisson(), (np.ones((200, 1)), 3 * FLIPS), [0.3], "no density"),
        (scenarios.mean_model(2), np.ones((50, 2)), [0.0, 0.0], "singular at point 0"),
        (scenarios.mean_model(1), EXPONENTIAL, [0.0, 1.0], "2 parameters"),
        (scenarios.mean_model(1), np.linspace(0, 1, 9), [np.nan], "not finite"),
    ],
)
def test_what_has_no_constant_is_refused(model, data, theta, words):
    with pytest.raises(InputError, match=words):
        tv_constant(model, data, [theta])


def test_one_coordinate_with_few_values_is_enough_to_refuse(rng):
    """An intercept at theta = 0 has two values of the gradient, away from 0 it has many."""
    X = np.column_stack([np.ones(500), rng.normal(size=500)])
    data = X, (rng.random(500) < 0.5).astype(float)
    with pytest.raises(InputError, match="coordinate 0 of the gradient takes 2 values at point 1"):
        tv_constant(mg.Logistic(), data, [[0.1, 0.1], [0.0, 0.0]])
    assert tv_constant(mg.Logistic(), data, [[0.1, 0.1]]).rows == 500
    groups = np.eye(3)[rng.integers(0, 3, 500)]  # zeros of rows outside a category are no values
    assert tv_constant(mg.Linear(), (groups, rng.normal(size=500)), [np.zeros(3)]).error > 0


def test_other_bad_input(rng):
    normal = tv_constant(scenarios.mean_model(2), rng.normal(size=(2000, 2)), [[0.0, 0.0]])
    with pytest.raises(InputError, match="within two standard errors"):
        normal.batch_size(0.1, 10)
    for bad in (0.0, 1.0, -0.2):
        with pytest.raises(InputError, match="between 0 and 1"):
            normal.batch_size(bad, 10)
    with pytest.raises(InputError, match="steps"):
        normal.distance(0, 10)
    with pytest.raises(InputError, match="rows"):
        tv_constant(scenarios.mean_model(1), EXPONENTIAL, [[0.0]], rows=1)
    kept = mg.LeastSquaresMoments(1).update(np.ones((3, 1)), np.arange(3.0))
    with pytest.raises(InputTypeError, match="keep none"):
        tv_constant(mg.Linear(), kept, [[0.0]])

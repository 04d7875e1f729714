"""Measurements behind PAPER.md's errata that no other test makes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, norm, t

import masgrad as mg
from conftest import alpha
from masgrad.data.simulate import Simulator
from masgrad.paper.studies.fields import gaussian_design
from masgrad.theory import acceleration, ball, conditioning, smoothness, well_specified

CENTRE = np.array([1.0, 1.0])
REGION = CENTRE + np.array([[1.0, 0.5], [1.0, 2.0], [0.3, -0.8]])


def linear_rows(fourth, excess):
    """E[(x'd)^2 x x'] = fourth (|d|^2 I + 2 d d') + excess diag(d^2) in linear regression.

    Spherical rows have excess 0 and fourth = E|x|^4 / (p (p + 2)); independent coordinates have
    fourth = 1 and excess = E x_i^4 - 3.
    """

    def moments(theta):
        d = theta - CENTRE
        spread = fourth * (d @ d * jnp.eye(2) + 2 * jnp.outer(d, d)) + excess * jnp.diag(d**2)
        return d, jnp.eye(2) + spread - jnp.outer(d, d)

    return mg.Linear(), Simulator(gaussian_design(CENTRE).data.sample, moments)


def logistic_rows():
    """Logistic regression on N(0, I): moments by Gauss and Hermite's quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    X = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel() / (2 * np.pi)

    def sample(key, n):
        kx, ky = jax.random.split(key)
        x = jax.random.normal(kx, (n, 2))
        return x, 1.0 * jax.random.bernoulli(ky, jax.nn.sigmoid(x @ CENTRE))

    def moments(theta):
        mean, truth = jax.nn.sigmoid(X @ theta), jax.nn.sigmoid(X @ CENTRE)
        b = (w * (mean - truth)) @ X
        squares = w * ((mean - truth) ** 2 + truth * (1 - truth))
        return b, (X.T * squares) @ X - jnp.outer(b, b)

    return mg.Logistic(), Simulator(sample, moments)


@pytest.mark.long
def test_the_direction_is_a_gradient_for_linear_regression_on_spherical_rows():
    """|J - J'| / |J|, largest over three points: 0 for any radius; not for other isotropic rows,
    and not for another family."""

    def curl(problem):
        return smoothness(mg.masgrad(0.1), *problem, REGION).curl

    for fourth in (1.0, 0.5, 3.0):  # Gaussian rows; on a circle; with heavy tails
        assert curl(linear_rows(fourth, 0.0)) < 1e-7
    assert curl(linear_rows(1.0, 9 / 5 - 3)) > 0.05  # uniform coordinates
    assert curl(logistic_rows()) > 0.03
    each = [smoothness(mg.masgrad(0.1), *linear_rows(1.0, -1.2), [w]).curl for w in REGION]
    assert min(each) > 0.04 and max(each) < 0.2
    each = [smoothness(mg.masgrad(0.1), *logistic_rows(), [w]).curl for w in REGION]
    assert min(each) > 0.01 and max(each) < 0.07


def test_alpha_vanishes_far_away_by_v_or_by_h(rng):
    """Linear: ||V|| grows and H is constant. Logistic: ||V|| is bounded and H vanishes."""
    X = rng.normal(size=(2000, 2))
    y = X @ CENTRE + rng.normal(size=2000)
    far = [conditioning(mg.Linear(), (X, y), [r * CENTRE]) for r in (1.0, 10.0, 100.0)]
    assert far[0].v_max < far[1].v_max / 5 < far[2].v_max / 50
    assert far[0].flattest.value == pytest.approx(far[2].flattest.value)
    y = 1.0 * (rng.uniform(size=2000) < 1 / (1 + np.exp(-X @ CENTRE)))
    largest = np.sqrt(np.linalg.eigvalsh(X.T @ X / 1999)[-1])  # |g| <= |x|
    far = [conditioning(mg.Logistic(), (X, y), [r * CENTRE]) for r in (1.0, 10.0, 100.0)]
    assert all(c.v_max < largest for c in far)
    assert 0.4 < far[0].v_max < far[2].v_max < 0.56
    least = np.array([c.flattest.value for c in far]) / [0.10, 5e-4, 4e-7]
    assert (least > 0.5).all() and (least < 2).all()
    assert far[0].alpha > 10 * far[1].alpha > 100 * far[2].alpha > 0


@pytest.mark.long
@pytest.mark.parametrize("draw", [0, 1, 2])
def test_the_acceleration_theorems_constant_grows_with_the_rows_and_kappa_does_not(draw):
    """Gaussian rows: C is a supremum over x, which is infinite in the population."""
    region, model = ball(CENTRE, 0.5), mg.Logistic()
    constants, kappas = [], []
    for N in (100, 1_000, 10_000, 100_000):
        X = np.random.default_rng(draw).normal(size=(N, 2))
        found = acceleration(model, X, region, *well_specified(model, X, CENTRE))
        assert found.holds
        constants.append(found.constant)
        kappas.append(found.conditioning.kappa_masgrad)
    low, high = np.array([[79, 359, 2872, 7390], [227, 1697, 5223, 14721]])
    assert (low < constants).all() and (constants < high).all()
    assert 2.53 < kappas[-1] < 2.57


def test_the_batch_size_enters_the_diffusions_law():
    """nu depends on n too: four times the batch, a quarter of the covariance."""
    model, data = gaussian_design(CENTRE)
    laws = [mg.stationary_law(model, data, CENTRE, mg.masgrad(0.2), n) for n in (25, 100)]
    np.testing.assert_allclose(laws[0].cov, 4 * laws[1].cov, rtol=1e-9)


def test_no_exponential_tail_follows_from_moments():
    """The proof of Lemma consistency needs P(|Lambda^1/2 - 1| > t sqrt(p/n)) <= 2p exp(-c t^2).

    With p = 1, rows of Student's t with 4.5 degrees of freedom have moments of order above 4; at
    t = sqrt(n) one row beyond 2 sqrt(n) is enough, and the c that would allow it falls to 0.
    """
    largest_c = []
    for n in (100, 1_000, 10_000):
        size = np.sqrt(4.5 / 2.5)  # the standard deviation of t
        one = -np.expm1(n * np.log1p(-2 * t.sf(2 * np.sqrt(n) * size, 4.5)))
        largest_c.append(-np.log(one / 2) / n)
    assert largest_c[0] < 0.12 and largest_c[1] < 0.02 and largest_c[2] < 0.002


def test_gaussian_noise_leaves_every_bounded_region():
    """One step from the optimum is N(0, (eta^2/n) I), beyond any radius with positive probability;
    58 % of 1000 paths of 300 steps leave a ball of four steps' size."""
    (model, data), eta, n = gaussian_design(CENTRE), 0.5, 25
    law = mg.iterate_law(model, data, CENTRE, mg.masgrad(eta), 1, n)
    np.testing.assert_allclose(law.cov, eta**2 / n * np.eye(2), atol=1e-12)
    radius = 4 * eta / np.sqrt(n)
    leaves = chi2.sf(radius**2 * n / eta**2, 2)
    chain = mg.run(mg.diffusion(mg.masgrad(eta)), model, data, CENTRE, 300, n, 1000)
    away = np.linalg.norm(chain.theta - CENTRE, axis=-1) > radius
    assert leaves > 3e-4
    assert abs(away.any(1).mean() - 0.58) < norm.isf(alpha() / 2) * np.sqrt(0.58 * 0.42 / 1000)

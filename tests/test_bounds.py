"""Discretised against continuous diffusions: bounds, the coupling, fields and their derivatives."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.paper.studies.fields import bowl, gaussian_design, waves
from masgrad.paper.studies.rates import REGIMES, discretisation_error, growth_in_time
from masgrad.theory import (
    ball,
    convex_expansion,
    coupled,
    energy,
    entropy_bound,
    exact_wasserstein2,
    field_and_jacobian,
    sliced_wasserstein2,
    smooth_expansion,
    smoothness,
    strongly_convex_expansion,
    tv_rate,
    wasserstein_bound,
)


def test_bounds_by_hand():
    """l = 2, M = 3, beta = 8, eta = 1/2, p = 2, k = 3, delta = 2: sums written out."""
    local = 2 * 4 * 9 / 3 / 16 + 2 * 4 * 2 / 8 / 8  # 1.5 + 0.25
    assert wasserstein_bound(2.0, 3.0, 8.0, 0.5, 2, 3, 2.0) == pytest.approx(np.sqrt(local) * 7)
    assert wasserstein_bound(2.0, 3.0, 8.0, 0.5, 2, 3, 1.0) == pytest.approx(np.sqrt(local) * 3)
    entropy = (4 * 9 / 6 * 8 / 8 + 4 * 2 / 2 / 4) * 3  # (6 + 1) * 3
    assert entropy_bound(2.0, 3.0, 8.0, 0.5, 2, 3) == pytest.approx(entropy)
    assert smooth_expansion(2.0, 0.5) == 2.0 and convex_expansion(2.0, 0.5) == 1.0
    assert strongly_convex_expansion(1.0, 3.0, 0.5) == pytest.approx(1 - 0.5 * 3 / 4)
    near_one = [wasserstein_bound(2.0, 3.0, 8.0, 0.5, 2, 50, d) for d in (1 - 1e-9, 1.0, 1 + 1e-7)]
    np.testing.assert_allclose(near_one, near_one[1], rtol=1e-5)
    assert wasserstein_bound(1.0, 1.0, 1.0, 1.0, 1, 10_000, 2.0) == np.inf
    one_step = wasserstein_bound(1.0, 1.0, 1.0, 1.0, 1, 1, 1.0)
    assert wasserstein_bound(1.0, 1.0, 1.0, 1.0, 1, 10**9, 1 - 9e-9) == pytest.approx(
        one_step / 9e-9, rel=1e-3
    )
    assert wasserstein_bound(1.0, 1.0, 1.0, 1.0, 1, 7, 0.0) == pytest.approx(one_step)
    rate = tv_rate(100, 2500)
    assert rate.value == 0.2 and len(rate.assumptions) == 3 and "(A.1)" in rate.assumptions[0]


class OrnsteinUhlenbeck:
    """h = a x from x0 in one dimension: both processes are Gaussian."""

    def __init__(self, a, beta, eta, x0):
        self.a, self.beta, self.eta, self.x0 = a, beta, eta, x0

    def continuous(self, t):
        decay = np.exp(-self.a * t)
        return decay * self.x0, (1 - decay**2) / (self.beta * self.a)

    def discrete(self, k):
        keep = 1 - self.eta * self.a
        return keep**k * self.x0, 2 * self.eta / self.beta * sum(keep ** (2 * i) for i in range(k))

    def wasserstein(self, k):
        (m, v), (n, u) = self.continuous(k * self.eta), self.discrete(k)
        return np.hypot(m - n, np.sqrt(v) - np.sqrt(u))

    def rms_field(self, k):
        """Largest root mean square of h up to time k eta; the mean falls, the variance rises."""
        times = np.linspace(0, k * self.eta, 400)
        means, variances = np.transpose([self.continuous(t) for t in times])
        return self.a * np.sqrt((means**2 + variances).max())

    def path_entropy(self, k):
        """Girsanov: beta / 4 times the integral of E |h(theta_s) - h(theta_start of step)|^2."""

        def moved(s, i):
            m, v = self.continuous(i * self.eta)
            decay = np.exp(-self.a * s)
            return (1 - decay) ** 2 * (m**2 + v) + (1 - decay**2) / (self.beta * self.a)

        steps = (quad(moved, 0, self.eta, args=(i,))[0] for i in range(k))
        return self.beta / 4 * self.a**2 * sum(steps)


@pytest.mark.parametrize("a", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("eta", [0.02, 0.2])
@pytest.mark.parametrize("beta", [0.5, 50.0])
@pytest.mark.parametrize("x0", [0.0, 3.0])
def test_the_bounds_lie_above_the_exact_distances(a, eta, beta, x0):
    """Ornstein-Uhlenbeck, with M the largest root mean square of h: all three cases."""
    process = OrnsteinUhlenbeck(a, beta, eta, x0)
    for k in (1, 5, 60):
        M, exact = process.rms_field(k), process.wasserstein(k)
        cases = (
            smooth_expansion(a, eta),
            convex_expansion(a, eta),
            strongly_convex_expansion(a, a, eta),
        )
        bounds = [wasserstein_bound(a, M, beta, eta, 1, k, delta) for delta in cases]
        assert bounds[0] >= bounds[1] >= bounds[2] >= exact
        entropy, above = process.path_entropy(k), entropy_bound(a, M, beta, eta, 1, k)
        assert entropy <= above
        assert k > 1 or above < 5 * entropy  # and it is no empty promise


@pytest.mark.statistical(3)
def test_the_coupling_lies_between_the_exact_distance_and_the_bound():
    """Ornstein-Uhlenbeck again: coupled end points of SGD's diffusion on a bowl."""
    a, eta, n, k, x0 = 1.0, 0.2, 5, 10, 2.0
    process = OrnsteinUhlenbeck(a, 2 * n / eta, eta, x0)
    pair = coupled(mg.sgd(eta), *bowl([[a]]), [x0], k, n, substeps=64, chains=2000)
    bound = wasserstein_bound(
        a, process.rms_field(k), process.beta, eta, 1, k, strongly_convex_expansion(a, a, eta)
    )
    # substeps leave 1/64 of the error, and the mean alone is off by less than the distance
    assert 0.98 * process.wasserstein(k) < pair.distance < bound
    mean, variance = process.discrete(k)
    quantile = norm.isf(alpha() / 2)
    assert abs(pair.coarse.mean() - mean) < quantile * np.sqrt(variance / 2000)
    mean, variance = process.continuous(k * eta)
    assert abs(pair.fine.mean() - mean) < quantile * np.sqrt(variance / 2000) + 0.005
    # 0.01: the fine process is discretised as well
    assert abs(pair.fine.var() / variance - 1) < quantile * np.sqrt(2 / 2000) + 0.01


def test_the_distance_grows_in_time_as_the_lemmas_regimes_say():
    """Exact distances of linear fields at a fixed step: bounded, linear and exponential in time.

    On a slope with a t << 1 the distance is a^2 x0 eta t / 2, 0.61 of the convex bound at every k;
    on a hill the mean's part is eta t e^t / 2; in a bowl the noise's part is what stays.
    """
    eta, k = 0.05, np.array([20, 40, 80, 160])
    bowl_, slope, hill = (
        OrnsteinUhlenbeck(a, beta, eta, x0)
        for a, beta, x0 in ((1.0, 50.0, 1.0), (1e-3, 1e12, 100.0), (-1.0, 1e12, 1e-3))
    )
    gentle = np.array([slope.wasserstein(i) for i in k])
    np.testing.assert_allclose(gentle, slope.a**2 * slope.x0 * eta * k * eta / 2, rtol=0.01)
    bounds = [wasserstein_bound(1e-3, 0.1, 1e12, eta, 1, i, 1.0) for i in k]
    np.testing.assert_allclose(gentle / bounds, 0.5 / np.sqrt(2 / 3), rtol=0.01)
    steep, t = np.array([hill.wasserstein(i) for i in k]), k * eta
    np.testing.assert_allclose(np.log(steep / t), np.log(hill.x0 * eta / 2) + t, atol=0.15)
    bounded = [bowl_.wasserstein(i) for i in k]
    assert bounded[-1] < bounded[0]
    assert bowl_.wasserstein(400) == pytest.approx(bowl_.wasserstein(800), rel=1e-6)
    limit = wasserstein_bound(1.0, 1.0, 50.0, eta, 1, 10**6, strongly_convex_expansion(1, 1, eta))
    assert limit == pytest.approx(2 * np.sqrt(2 / 3 * eta**2 + 2 * eta / 50), rel=1e-9)


@pytest.mark.long
def test_coupled_processes_stay_below_the_bounds_of_their_regimes(seed):
    """The fields of `masgrad paper rates`, at all its times."""
    found = {name: growth_in_time(name, seed, chains=50) for name in REGIMES}
    for growth in found.values():
        assert np.all(growth.distances < growth.bounds)
    hill, slope, bowl_ = (found[name] for name in ("hilltop", "gentle slope", "bowl"))
    early = hill.times <= 6.0
    rate = np.polyfit(hill.times[early], np.log(hill.distances / hill.times)[early], 1)[0]
    assert rate == pytest.approx(1.0, abs=0.03)
    linear = np.polyfit(np.log(slope.times), np.log(slope.distances), 1)[0]
    assert linear == pytest.approx(1.0, abs=0.06)  # 0.01 t is 0.12 at the end
    assert bowl_.distances[-1] < bowl_.distances[0]


@pytest.mark.parametrize("wavy", [False, True])
def test_the_discrepancy_is_of_order_eta_and_below_the_bound(seed, wavy):
    """At a fixed time; the noise adds a part of order eta^3/2, so the slope is a little above 1."""
    if wavy:
        case = waves(2), np.sqrt(2), smooth_expansion
    else:
        case = gaussian_design([0.0, 0.0]), np.sqrt(0.5), convex_expansion
    found = discretisation_error(*case, np.array([0.2, 0.1]), seed, chains=500)
    assert np.all(found.distances < found.bounds)
    assert 0.97 < found.slope < 1.15


def closed_form(d, sigma=1.0):
    """h = d / s with s^2 = 2 |d|^2 + sigma^2, and its Jacobian."""
    s = np.sqrt(2 * d @ d + sigma**2)
    return d / s, np.eye(len(d)) / s - 2 * np.outer(d, d) / s**3


def test_the_jacobian_has_dv_also_where_eigenvalues_coincide(rng):
    """Gaussian design: two of Sigma's three eigenvalues are equal, at d = 0 all of them."""
    model, data = gaussian_design([0.0, 0.0, 0.0])
    points = np.vstack([np.zeros(3), rng.normal(size=(5, 3))])
    h, J = field_and_jacobian(mg.masgrad(0.3), model, data, points)
    for point, ours, jacobian in zip(points, h, J, strict=True):
        exact, slope = closed_form(point)
        np.testing.assert_allclose(ours, exact, atol=1e-12)
        np.testing.assert_allclose(jacobian, slope, atol=1e-8)
    # without dV the Jacobian would be V^-1 H = V^-1: larger along d
    d = points[1]
    without = np.linalg.inv(scenarios.root(data.moments(d)[1]))
    assert np.abs(J[1] - without).max() > 0.05


@pytest.mark.long
def test_jacobians_of_other_adjustments(rng):
    """Rows, against differences of the field itself along a random direction."""
    X, y = scenarios.regression(rng, "bernoulli", misspecified=True)
    model, theta, e = mg.Logistic(), np.array([0.3, -0.2, 0.1, 0.4]), rng.normal(size=4)

    def field(kernel, at):
        m = mg.moments(model, at, (X, y))
        return kernel.adjustment.matrix(m) @ m.mean

    for name in ("ridge", "diagonal", "natural"):
        kernel = scenarios.KERNELS[name]
        h, J = field_and_jacobian(kernel, model, (X, y), [theta])
        np.testing.assert_allclose(h[0], field(kernel, theta), rtol=1e-7)
        change = (field(kernel, theta + 1e-5 * e) - field(kernel, theta - 1e-5 * e)) / 2e-5
        np.testing.assert_allclose(J[0] @ e, change, rtol=1e-5, atol=1e-8)


def test_smoothness_and_curl(rng):
    centre, kernel = [0.5, 0.5], mg.masgrad(0.1)
    field = gaussian_design(centre)
    s = smoothness(kernel, *field, ball(centre, 2.0, 60))
    assert s.lipschitz == pytest.approx(1.0, rel=1e-6)  # at the optimum
    assert s.bound == pytest.approx(2 / 3, rel=1e-9)  # 2 / sqrt(2 * 4 + 1)
    assert s.convexity == pytest.approx(1 / 27, rel=1e-5)  # sigma^2 / s^3 along d
    assert s.curl < 1e-7
    low = s.convexity
    assert s.expansion(0.5) == pytest.approx(1 - 0.5 * low / (1 + low), rel=1e-4)
    X, y = scenarios.regression(rng, misspecified=True)
    turned = smoothness(kernel, mg.Linear(), (X, y), ball(np.zeros(4), 2.0, 20))
    assert turned.curl > 0.01  # V^-1 b is no gradient
    assert turned.expansion(0.1) == smooth_expansion(turned.lipschitz, 0.1)
    flat = smoothness(kernel, *waves(2), ball([0.0, 0.0], 3.0, 60))
    assert flat.convexity < 0 and flat.expansion(0.1) == smooth_expansion(flat.lipschitz, 0.1)
    convex = type(s)(1.0, 1.0, 0.0, 0.0, 1)
    assert convex.expansion(0.5) == 1.0 and convex.expansion(3.0) == 4.0


def test_distances_in_several_dimensions(rng):
    a = rng.normal(size=(400, 3))
    shift = np.array([1.0, -2.0, 0.5])
    assert exact_wasserstein2(a, a + shift) == pytest.approx(np.linalg.norm(shift))
    sliced = sliced_wasserstein2(a, a + shift, directions=20_000)
    assert np.sqrt(3) * sliced == pytest.approx(np.linalg.norm(shift), rel=0.03)
    np.testing.assert_allclose(energy(a, a), 0.0, atol=1e-7)
    assert energy(a, a + shift)[1] == energy(a, a + shift).max() > 1
    one = rng.normal(size=(50, 1)), rng.normal(size=(50, 1)) + 1
    assert exact_wasserstein2(*one) == pytest.approx(mg.theory.wasserstein2(*one)[0])
    with pytest.raises(ValueError, match="equal"):
        exact_wasserstein2(a, a[:10])
    with pytest.raises(ValueError, match="sliced"):
        exact_wasserstein2(np.zeros((6000, 1)), np.zeros((6000, 1)))
    with pytest.raises(ValueError, match="shape"):
        energy(a, a[:, :2])


def test_bad_input_names_what_is_assumed(rng):
    with pytest.raises(ValueError, match="eta <= 2 / l"):
        convex_expansion(1.0, 3.0)
    with pytest.raises(ValueError, match="alpha"):
        strongly_convex_expansion(0.5, 1.0, 1.9)
    with pytest.raises(ValueError, match="exceeds lipschitz"):
        strongly_convex_expansion(2.0, 1.0, 0.1)
    with pytest.raises(ValueError, match="beta"):
        wasserstein_bound(1.0, 1.0, 0.0, 0.1, 1, 1, 1.0)
    with pytest.raises(ValueError, match="expansion"):
        wasserstein_bound(1.0, 1.0, 1.0, 0.1, 1, 1, -1.0)
    with pytest.raises(ValueError, match="lipschitz"):
        entropy_bound(-1.0, 1.0, 1.0, 0.1, 1, 1)
    with pytest.raises(ValueError, match="between"):
        wasserstein_bound(1e200, 1.0, 1.0, 0.1, 1, 1, 1.0)
    with pytest.raises(ValueError, match="not finite"):
        energy(np.full((3, 1), np.nan), np.zeros((3, 1)))
    X, y = scenarios.regression(rng)
    twice = np.column_stack([X, X[:, 0]])
    with pytest.raises(ValueError, match="singular at point 0"):
        smoothness(mg.masgrad(0.1), mg.Linear(), (twice, y), [np.zeros(5)])
    z, model = rng.normal(size=(50, 2)), scenarios.mean_model(2)
    for kernel in (mg.adagrad(0.1), mg.masgrad(0.1, "running"), mg.masgrad(0.1, "batch")):
        with pytest.raises(ValueError, match=r"memory|function of theta"):
            smoothness(kernel, model, z, [[0.0, 0.0]])
        with pytest.raises(ValueError, match=r"memory|function of theta"):
            coupled(kernel, model, z, [0.0, 0.0], 5, 10)
    with pytest.raises(ValueError, match="schedule"):
        coupled(mg.sgd(lambda t: 0.1), model, z, [0.0, 0.0], 5, 10)
    with pytest.raises(ValueError, match="smaller step_size"):
        coupled(mg.sgd(1e9), model, z, [1.0, 1.0], 60, 10, substeps=2, chains=3)
    with pytest.raises(ValueError, match="substeps"):
        coupled(mg.sgd(0.1), model, z, [0.0, 0.0], 5, 10, substeps=1)

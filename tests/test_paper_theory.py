"""The theory's rates, stationary laws and exit times, measured as `masgrad paper` does."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, kstwo, norm

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.paper.studies import laws
from masgrad.paper.studies.fields import bowl
from masgrad.paper.studies.rates import iterations_against_kappa
from masgrad.theory import closeness_rate

KAPPAS = 10.0 ** np.arange(1, 6)


@pytest.mark.parametrize(
    "model, method, slope",
    [
        (mg.Linear(), "gd", 1.0),
        (mg.Linear(), "nesterov", 0.5),
        (mg.Linear(), "masgrad", 0.5),
        (mg.Logistic(), "masgrad", 0.5),
    ],
)
def test_iterations_grow_with_the_condition_number(seed, model, method, slope):
    """Condition numbers 10 to 1e5, relative error 1e-4, from one standard deviation away."""
    found = iterations_against_kappa(model, method, KAPPAS, seed)
    np.testing.assert_allclose(found.kappa, KAPPAS, rtol=0.1)
    assert abs(found.slope - slope) < 0.03


def test_masgrad_is_about_as_fast_as_nesterov(seed):
    """The headline, "a similar effect as acceleration": 0.77 to 0.83 of its steps, and as steep.

    Both contract by 1 - 1 / sqrt(kappa) a step; Nesterov's double root adds a factor of t.
    """
    found = {
        method: iterations_against_kappa(mg.Linear(), method, KAPPAS, seed)
        for method in ("masgrad", "nesterov")
    }
    ratio = found["masgrad"].steps / found["nesterov"].steps
    assert np.all((ratio > 0.7) & (ratio < 0.9))
    assert abs(found["masgrad"].slope - found["nesterov"].slope) < 0.01


def test_nesterovs_step_by_hand():
    """Two steps on a quadratic whose H is diag(2, 0.02); kappa = 1 is gradient descent."""
    X, optimum, eta = np.diag([2.0, 0.2]), np.array([1.0, 3.0]), 0.5
    H, data, m = np.diag([2.0, 0.02]), (X, X @ optimum), (10 - 1) / (10 + 1)
    trace = mg.run(mg.nesterov(eta, 100.0), mg.Linear(), data, np.zeros(2), 2, None, 1)
    first = -eta * H @ (0 - optimum)
    y = first + m * first
    np.testing.assert_allclose(trace.theta[0, 1], first, rtol=1e-14)
    np.testing.assert_allclose(trace.theta[0, 2], y - eta * H @ (y - optimum), rtol=1e-14)
    plain = mg.run(mg.nesterov(eta, 1.0), mg.Linear(), data, np.zeros(2), 5, None, 1)
    descent = mg.run(mg.sgd(eta), mg.Linear(), data, np.zeros(2), 5, None, 1)
    np.testing.assert_allclose(plain.theta, descent.theta, rtol=1e-14)
    with pytest.raises(ValueError, match=r"condition_number=0\.5; a number >= 1"):
        mg.nesterov(eta, 0.5)
    with pytest.raises(ValueError, match="batch_size=None"):
        mg.run(mg.nesterov(eta, 100.0), mg.Linear(), data, np.zeros(2), 2, 1, 1)


def test_a_far_start_flattens_the_slope(seed):
    """The walking phase: a number of steps that does not depend on the condition number."""
    near = iterations_against_kappa(mg.Linear(), "masgrad", KAPPAS[:3], seed)
    far = iterations_against_kappa(mg.Linear(), "masgrad", KAPPAS[:3], seed, far=True)
    assert far.steps[0] > 3 * near.steps[0] and far.slope < 0.35 < near.slope


@pytest.mark.long
@pytest.mark.statistical(1)
def test_closeness_falls_like_the_root_of_n(seed):
    """Skewed data after one step, through the public door, with its constant."""
    data, K = mg.Simulator(scenarios.skewed, scenarios.unit_moments), 50_000
    model = scenarios.mean_model(1)
    rate = closeness_rate(mg.masgrad(0.5), model, data, [1.0], 1, [2, 8, 32], chains=K, seed=seed)
    x = np.log(rate.batch_sizes) - np.log(rate.batch_sizes).mean()
    error = np.sqrt((x**2 * (0.5 / K) / rate.ks**2).sum()) / (x**2).sum()
    assert abs(rate.ks_power.slope - 0.5) < norm.isf(alpha() / 2) * error + 0.02
    assert rate.w2_power.slope == pytest.approx(0.5, abs=0.1)
    assert np.all(rate.ks_baseline < rate.ks) and np.all(rate.w2_baseline < rate.w2)
    # Edgeworth: skewness / (6 sqrt(2 pi n)) = 0.133 / sqrt(n)
    assert rate.ks_constant == pytest.approx(2 / (6 * np.sqrt(2 * np.pi)), abs=0.04)
    np.testing.assert_array_less(rate.w2, rate.w2_constant / np.sqrt(rate.batch_sizes) * 1.0001)
    with pytest.raises(ValueError, match="two"):
        closeness_rate(mg.sgd(0.5), model, data, [1.0], 1, [4], chains=100)


@pytest.mark.statistical(1)
def test_with_v_the_identity_the_law_is_gibbs(seed):
    """Double well; 0.005 allows for the step, and beta off by a quarter would be seen."""
    K = 20_000
    sample = laws.gibbs_sample(K, seed)[:, 0]
    beta = laws.gibbs_beta()

    def distance(b):
        cdf = laws.gibbs_cdf(laws.GIBBS_DEPTH, b)
        return kstest(sample, lambda x: np.interp(x, laws.GRID, cdf)).statistic

    allowed = kstwo.isf(alpha(), K) + 0.005
    assert distance(beta) < allowed
    assert distance(beta / 2) > allowed


@pytest.mark.statistical(2)
def test_linear_drift_and_constant_v_give_ornstein_uhlenbeck(seed):
    """The discretised process has the stationary law exactly; as eta falls, that is Lyapunov's."""
    K = 20_000
    model, data = bowl(laws.CURVATURE, laws.ROOT)
    exact = laws.ornstein_uhlenbeck_cov()
    coarse, fine = _discrete_cov(0.05), _discrete_cov(0.0005)
    assert 0.01 < np.abs(coarse / exact - 1).max() < 0.1
    assert np.abs(100 * fine / exact - 1).max() < 1e-3  # beta is 100 times as large there
    sample = laws.ornstein_uhlenbeck_sample(K, seed)
    total = (np.linalg.solve(np.linalg.cholesky(coarse), sample.T) ** 2).sum()
    assert chi2.ppf(alpha() / 2, 2 * K) < total < chi2.isf(alpha() / 2, 2 * K)
    law = mg.iterate_law(model, data, np.zeros(2), mg.sgd(0.05), 1000, laws.OU_BATCH)
    np.testing.assert_allclose(law.cov, coarse, rtol=1e-6)


def _discrete_cov(eta):
    """S = (I - eta C) S (I - eta C)' + eta^2 / n V V', summed until nothing is added."""
    keep = np.eye(2) - eta * laws.CURVATURE
    S = eta**2 / laws.OU_BATCH * laws.ROOT @ laws.ROOT.T
    for _ in range(60):  # doubling
        S = S + keep @ S @ keep.T
        keep = keep @ keep
    return S


@pytest.mark.statistical(4)
def test_exit_times_grow_exponentially_with_the_right_slope(seed):
    """Eyring and Kramers: against the first-passage integral, and log-linear with slope h."""
    found = laws.exit_times(np.array([5, 8, 11]), 400, seed)
    allowed = norm.isf(alpha() / 2) * found.standard_error / found.exact
    assert np.all(np.abs(found.simulated / found.exact - 1) < allowed + 0.05)  # 0.05: the step's
    assert found.exact_slope == pytest.approx(laws.DEPTH, rel=0.05)
    errors = found.standard_error / found.simulated
    x = found.beta - found.beta.mean()
    slope_error = np.sqrt((x**2 * errors**2).sum()) / (x**2).sum()
    assert abs(found.slope - found.exact_slope) < norm.isf(alpha() / 2) * slope_error
    assert slope_error < 0.05 * laws.DEPTH


def test_the_first_passage_integral_is_kramers_in_the_limit():
    """2 pi e^(beta h) / sqrt(U''(-1) |U''(0)|) with U'' = 8 h and -4 h."""
    beta = 500.0
    kramers = 2 * np.pi * np.exp(beta * laws.DEPTH) / (np.sqrt(32) * laws.DEPTH)
    assert laws.first_passage(beta) == pytest.approx(kramers, rel=0.04)

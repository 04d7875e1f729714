"""Plans: the theorems' numbers, their inverses, and simulations that stay below the bounds."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import chi, norm

import masgrad as mg
import scenarios
from conftest import alpha as level
from masgrad.errors import InputError, InputTypeError
from masgrad.paper.studies.fields import bowl, waves
from masgrad.planner import Design, read_design
from masgrad.theory import (
    conditioning,
    convex_within,
    nonconvex_within,
    plan_convex,
    plan_nonconvex,
    prox_steps,
    rows_for_width,
    survey,
)
from masgrad.theory.plans.optimum import local_minimum

CONVEX = {"alpha": 0.5, "gamma": 2.0, "gap": 1.0, "epsilon": 0.1, "dim": 4, "v_max": 1.5}
NONCONVEX = {"gamma": 2.0, "gap": 1.0, "epsilon": 0.5, "delta": 0.5, "dim": 4, "v_max": 2.0}


def test_the_convex_plan_by_hand():
    """T = 4 log 20 = 11.98, n = 4 * 4 * 1.5 / 0.05 = 480."""
    plan = plan_convex(**CONVEX)
    assert (plan.steps, plan.batch_size, plan.step_size) == (12, 480, 0.5)
    assert (plan.beta, plan.samples, plan.batch_size_proved) == (1920.0, 5760, 120)
    assert plan.tv_rate == pytest.approx(math.sqrt(12 / 480))
    assert plan.erm_samples == pytest.approx(40) and plan.order == pytest.approx(40 * math.log(10))
    # (1 - 1/4)^t + 1.5 * 4 * 4 / 1920
    np.testing.assert_allclose(plan.risk([0, 2]), [1 + 0.0125, 0.5625 + 0.0125])
    assert plan.risk(plan.steps) <= plan.epsilon
    assert any("any step size" in note for note in plan.notes)
    assert any("last iterate" in note for note in plan.notes)


@pytest.mark.parametrize("epsilon", [0.3, 0.01, 1e-4])
def test_a_quarter_of_the_batch_suffices(epsilon):
    """The proof's noise term is p C / (2 n alpha): Erratum 6."""
    plan = plan_convex(**CONVEX | {"epsilon": epsilon})
    noise = noise_floor(plan)
    assert 0.9 * epsilon / 2 < noise <= epsilon / 2 * (1 + 1e-9)
    kept = (1 - plan.alpha / plan.gamma) ** plan.steps
    assert kept * plan.gap <= epsilon / 2


def test_the_nonconvex_plan_by_hand():
    """The corrected proof: T = 2 (4 + 2) / 0.25 = 48, n = 192; stated (4 + 1) * 2 / 0.25 = 40."""
    plan = plan_nonconvex(**NONCONVEX)
    assert (plan.steps, plan.batch_size, plan.steps_stated, plan.batch_size_stated) == (
        48, 192, 40, 160,
    )  # fmt: skip
    assert plan.samples == 9216 and plan.beta == 768.0 and plan.tv_rate == pytest.approx(0.5)
    assert plan.order == pytest.approx(64.0)
    small = plan_nonconvex(**NONCONVEX | {"v_max": 0.5})
    assert (small.steps, small.steps_stated) == (9, 20)  # C < 1 counts as 1 in the statement
    # C (2 gamma gap / t + C p / n) at t = 40 and n = 192
    assert plan.gradient(40) == pytest.approx(math.sqrt(2 * (4 / 40 + 8 / 192)))
    for epsilon in (0.5, 0.1, 1e-3):
        other = plan_nonconvex(**NONCONVEX | {"epsilon": epsilon})
        assert 0.9 * epsilon < other.gradient(other.steps) <= epsilon * (1 + 1e-9)


def smallest_gradient(start, v, p, steps, n):
    """E min_{t <= T} |grad L| on L = v |theta|^2 / 2 with V = v I and eta = 1, by quadrature.

    V^-1 b = theta, so that every step forgets the last one: theta_t = g_t / sqrt(n), and the norms
    after the start's are independent, v chi_p / sqrt(n).
    """
    beyond = lambda x: chi(p).sf(x * np.sqrt(n) / v) ** steps  # noqa: E731
    return quad(beyond, 0.0, start, epsabs=1e-10, limit=500)[0]


def test_the_theorems_own_steps_can_be_too_few():
    """Erratum 5: V = 4 I, p = 400, gamma = delta = 1, |b| = 30 at the start, epsilon = 20."""
    v, p, start, epsilon = 4.0, 400, 30.0, 20.0
    gap = start**2 / (2 * v)
    plan = plan_nonconvex(1.0, gap, epsilon, 1.0, p, v)
    printed = math.ceil(math.sqrt(v) * (2 * gap + math.sqrt(v) * p) / epsilon**2)
    assert (plan.steps, plan.steps_stated, printed) == (19, 7, 6)
    left = [smallest_gradient(start, v, p, t, t) for t in (plan.steps, plan.steps_stated, printed)]
    np.testing.assert_allclose(left, [17.2, 28.8, 30.0], atol=0.05)
    assert left[0] < epsilon < min(left[1:])
    assert plan.gradient(plan.steps) <= epsilon


@pytest.mark.parametrize(
    "law, n", [("chain", 19), pytest.param("chain", 7, marks=pytest.mark.long), ("diffusion", 7)]
)
def test_chains_meet_the_gradients_of_that_example(seed, law, n):
    """Mini-batches of rows, and their diffusion, against the quadrature: within 7 errors."""
    v, p, K = 4.0, 400, 30
    model, data = bowl(v * np.eye(p), v * np.eye(p))
    kernel = mg.masgrad(1.0, root="diagonal")  # V = 4 I is diagonal, and 400 x 400 roots are slow
    start = np.zeros(p)
    start[0] = 30.0 / v
    chosen = mg.diffusion(kernel) if law == "diffusion" else kernel
    theta = mg.run(chosen, model, data, start, n, n, K, seed).theta
    least = v * np.linalg.norm(theta, axis=2).min(1)
    expected = smallest_gradient(30.0, v, p, n, n)
    assert abs(least.mean() - expected) < 7 * least.std() / np.sqrt(K)


def test_prox_steps_by_hand_and_on_a_lasso():
    """10 log 21 = 30.4; and the proposition's steps suffice with a diagonal V."""
    assert prox_steps(0.1, 1.0, 0.01, 2.0) == 31
    H, V = np.diag([1.0, 0.04]), np.array([1.0, 0.2])
    optimum = np.array([2.0, -3.0])
    alpha, gamma = 0.2, 1.0

    def loss(w):
        return (w - optimum) @ H @ (w - optimum) / 2 + 0.05 * np.abs(w).sum()

    best = optimum - np.sign(optimum) * 0.05 / np.diag(H)
    start, epsilon = np.array([-4.0, 9.0]), 1e-3
    distance = np.sqrt(V @ (start - best) ** 2)
    w = start
    for _ in range(prox_steps(alpha, gamma, epsilon, distance)):
        w = w - H @ (w - optimum) / (gamma * V)
        w = np.sign(w) * np.maximum(np.abs(w) - 0.05 / (gamma * V), 0)
    assert loss(w) - loss(best) <= epsilon


def test_whole_numbers_are_not_lost_to_rounding():
    plan = plan_nonconvex(1.0, 0.5, 0.1, 0.1, 1, 1.0)  # T = 101, n = T / 0.01
    assert (plan.steps, plan.batch_size) == (101, 10_100)
    assert plan_convex(**CONVEX | {"gap": 0.0}).steps == 0


@pytest.mark.parametrize("rows", [2_000, 10**5, 10**9])
def test_what_rows_allow(rows):
    fixed = {k: v for k, v in CONVEX.items() if k != "epsilon"}
    plan = convex_within(rows, **fixed)
    assert plan.samples <= rows and plan == plan_convex(**fixed, epsilon=plan.epsilon)
    assert plan_convex(**fixed, epsilon=plan.epsilon * (1 - 1e-6)).samples > rows
    fixed = {k: v for k, v in NONCONVEX.items() if k != "epsilon"}
    other = nonconvex_within(rows, **fixed)
    assert other.samples <= rows
    assert plan_nonconvex(**fixed, epsilon=other.epsilon * (1 - 1e-6)).samples > rows


def test_the_bootstrap_regime_is_where_the_iterate_is_nearer_than_noise(rng):
    """Whitened linear regression: the iterate's variance against sandwich / N."""
    X = scenarios.standardised(rng, 400, 3)
    y = X.sum(1) + rng.normal(size=400)
    theta = np.linalg.lstsq(X, y)[0]
    m = mg.moments(mg.Linear(), theta, (X, y))
    for n, eta, near in ((40, 0.05, True), (40, 0.5, False)):
        plan = plan_convex(0.5, 1 / eta, 1.0, 0.1, 3, 1.0)
        regime = mg.theory.Bootstrap(400, n, eta)
        assert regime.holds is near and (2 * n / eta > 400 or not near)
        law = mg.stationary_law(mg.Linear(), (X, y), theta, mg.masgrad(eta), n)
        assert (np.trace(law.cov) < np.trace(m.sandwich) / 400) == near
    # in other units the condition says nothing of the kind: Erratum 19
    data = 100 * X, y
    m = mg.moments(mg.Linear(), theta / 100, data)
    eta = 0.9 / conditioning(mg.Linear(), data, [theta / 100]).gamma
    law = mg.stationary_law(mg.Linear(), data, theta / 100, mg.masgrad(eta), 20)
    assert mg.theory.Bootstrap(400, 20, eta).holds
    assert np.trace(law.cov) > 4 * np.trace(m.sandwich) / 400
    assert regime.longest_step == 0.1 and regime.smallest_batch == 201
    assert plan.bootstrap(10).holds == (plan.step_size < plan.batch_size / 10)


@pytest.mark.statistical(2)
def test_the_plan_reaches_its_accuracy_and_the_risk_stays_below_its_bound(seed):
    """MasGrad's diffusion on a quadratic with V = I, where alpha, gamma and ||V|| are exact."""
    C = np.diag([2.0, 0.5])
    model, data = bowl(C)
    start = np.array([1.0, 1.0])
    c = conditioning(model, data, [start])
    plan = plan_convex(c.alpha, c.gamma, 1.25, 0.05, 2, c.v_max)
    assert (plan.steps, plan.batch_size) == (16, 320)
    for n in (plan.batch_size, plan.batch_size_proved):
        tr = mg.run(
            mg.diffusion(mg.masgrad(plan.step_size)), model, data, start, plan.steps, n, 4000, seed
        )
        risks = (tr.theta**2 @ np.diag(C)) / 2
        kept = (1 - plan.alpha / plan.gamma) ** np.arange(plan.steps + 1)
        bound = kept * plan.gap + plan.v_max * plan.dim / (2 * n * plan.alpha)
        error = risks.std(0) / np.sqrt(4000)
        assert np.all(risks.mean(0) <= bound + norm.isf(level()) * error)
        assert risks.mean(0)[-1] + norm.isf(level()) * error[-1] <= plan.epsilon


def skewed_rows(key, n):
    """Two coordinates with mean 0, variance 1 and third cumulant 2."""
    return jax.random.exponential(key, (n, 2)) - 1.0


def wavy(C):
    """L = theta' C theta / 2 with V = diag(2 + sin theta), between 1 and 3."""

    def loss(theta, z):
        return theta @ C @ theta / 2 + z @ (2 * theta - jnp.cos(theta))

    def moments(theta):
        return C @ theta, jnp.diag((2 + jnp.sin(theta)) ** 2)

    return mg.CustomLoss(loss, 2), mg.Simulator(skewed_rows, moments)


def bowl_of_rows(C, V):
    """L = theta' C theta / 2 with a constant V, and rows that are skewed."""
    model, data = bowl(C, V)
    return model, mg.Simulator(skewed_rows, data.moments)


def noise_floor(plan):
    """The proof's p max ||V|| / (2 n alpha) at the batch size that it needs: Erratum 6."""
    return plan.dim * plan.v_max / (2 * plan.batch_size_proved * plan.alpha)


ROUND = np.array([[2.0, 0.5], [0.5, 1.0]])
ROOT = np.array([[4.0, 1.5], [1.5, 1.0]])


@pytest.mark.parametrize("landscape", ["constant V", "V of theta"])
def test_mini_batches_keep_below_the_risk_bound(seed, landscape):
    """E L(theta_t) of the data chain, V not the identity: 6 errors below the bound at every t."""
    model, data = wavy(ROUND) if landscape == "V of theta" else bowl_of_rows(ROUND, ROOT)
    start, at = np.array([2.0, -1.5]), np.array([-np.pi / 2, np.pi / 2])
    region = np.vstack([start, np.stack(np.meshgrid(at, at), -1).reshape(-1, 2)])
    c = conditioning(model, data, region)  # with the extremes of V: alpha and gamma of all of R^2
    gap = start @ ROUND @ start / 2
    plan = plan_convex(c.alpha, c.gamma, gap, 0.2, 2, c.v_max)
    assert plan.v_max == pytest.approx(3.0 if landscape == "V of theta" else 4.6213, abs=1e-4)
    n, K = plan.batch_size_proved, 2000
    theta = mg.run(mg.masgrad(plan.step_size), model, data, start, plan.steps, n, K, seed).theta
    risks = np.einsum("kti,ij,ktj->kt", theta, ROUND, theta) / 2
    bound = (1 - plan.alpha / plan.gamma) ** np.arange(plan.steps + 1) * gap + noise_floor(plan)
    highest = risks.mean(0) + 6 * risks.std(0) / np.sqrt(K)
    assert np.all(highest <= bound) and highest[-1] <= plan.epsilon


def test_the_risk_bound_is_attained_and_max_v_is_needed_in_it(seed):
    """V = 4 I and H = 8 I: E L(theta_t) = p max ||V|| / (2 n alpha) from the first step on.

    eta V^-1 H = I, so that a step forgets the last one and E L = tr(H) eta^2 / 2n; with 1 in place
    of max ||V|| the bound would be a quarter of what the chain of mini-batches has.
    """
    model, data = bowl_of_rows(8 * np.eye(2), 4 * np.eye(2))
    start, K = np.array([2.0, -1.5]), 20_000
    c = conditioning(model, data, [start])
    plan = plan_convex(c.alpha, c.gamma, 25.0, 0.2, 2, c.v_max)
    assert (plan.alpha, plan.gamma, plan.v_max) == pytest.approx((2.0, 2.0, 4.0))
    n = plan.batch_size_proved
    theta = mg.run(mg.masgrad(plan.step_size), model, data, start, 3, n, K, seed).theta
    risks = 4 * (theta[:, 1:] ** 2).sum(2)
    away = np.abs(risks.mean(0) - noise_floor(plan))
    assert np.all(away < 6 * risks.std(0) / np.sqrt(K)) and np.all(away < 0.1 * noise_floor(plan))


@pytest.mark.statistical(1)
def test_the_nonconvex_plan_meets_a_small_gradient(seed):
    """On the waves, whose gamma, gap and ||V|| are exact; the bound holds at every t."""
    model, data = waves(2)
    start = np.array([2.5, -2.0])
    gap = float(2 - np.cos(start).sum())
    plan = plan_nonconvex(1.0, gap, 0.4, 0.5, 2, 1.0)
    kernel = mg.diffusion(mg.masgrad(plan.step_size))
    steps, n, K = plan.steps, plan.batch_size, 2000
    tr = mg.run(kernel, model, data, start, steps, n, K, seed)
    least = np.minimum.accumulate(np.linalg.norm(np.sin(tr.theta), axis=2), axis=1)
    error = least.std(0) / np.sqrt(K)
    assert least.mean(0)[-1] + norm.isf(level()) * error[-1] <= plan.epsilon
    bound = np.sqrt(2 * gap / np.arange(1, steps + 1) + 2 / n)
    assert np.all(least.mean(0)[1:] <= bound + norm.isf(level()) * error[1:])


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_rows_for_a_width_are_statsmodels_hc0(rng, family):
    X, y = scenarios.regression(rng, family, misspecified=True)
    families = {"gaussian": sm.families.Gaussian(), "bernoulli": sm.families.Binomial()}
    fit = sm.GLM(y, X, families[family]).fit(cov_type="HC0", tol=1e-12)
    needed = rows_for_width(mg.GLM(family), (X, y), fit.params, 0.02, level=0.9)
    exact = (norm.ppf(0.95) * fit.bse / 0.02) ** 2 * len(y)
    np.testing.assert_allclose(needed.per_coordinate, np.ceil(exact), rtol=1e-4)
    assert needed.rows == needed.per_coordinate.max()


@pytest.mark.parametrize("size, noise", [(1.0, 1.0), (1.0, 1e-3), (1000.0, 1.0)])
def test_a_survey_has_the_optimum_in_its_region(rng, size, noise):
    """gamma sits at the optimum; with its step the lemma contracts the gap all the way."""
    X = rng.normal(size=(500, 3)) * [1.0, 0.5, 2.0]
    y = X @ np.full(3, size) + noise * rng.normal(size=500)
    model, data = mg.Linear(), (X, y)
    s = survey(model, data)
    assert s.conditioning.gamma >= conditioning(model, data, [s.optimum]).gamma * (1 - 1e-9)
    kernel = mg.masgrad(s.plan_convex(0.01 * s.gap).step_size)
    way = mg.run(kernel, model, data, np.zeros(3), 2000, None, 1).theta[0] - s.optimum
    gaps = np.einsum("ti,ij,tj->t", way, X.T @ X / 1000, way)
    c = s.conditioning
    # the region's points are a sample: 1.5 for what lies between them
    assert np.all(gaps[1:] <= (1 - c.alpha / c.gamma / 1.5) * gaps[:-1] + 1e-20 * size**2)


def test_a_survey_of_poisson_rows_keeps_to_its_sublevel_set(rng):
    X, y = scenarios.regression(rng, "poisson")
    model, start = mg.Poisson(), np.full(4, 1.0)
    s = survey(model, (X, y), start)
    kernel = mg.masgrad(s.conditioning.step_masgrad)
    way = mg.run(kernel, model, (X, y), start, 50, None, 1).theta[0]
    gaps = np.array([model.risk(t, (X, y)) for t in way]) - model.risk(s.optimum, (X, y))
    kept = 1 - 1 / s.conditioning.kappa_masgrad / 1.5
    assert np.all(gaps[1:] <= kept * gaps[:-1] + 1e-12)
    with pytest.raises(ValueError, match="higher mean loss"):
        survey(model, (X, y), s.optimum, optimum=start)


def test_a_survey_finds_the_optimum_of_any_model(rng):
    """A mixture's means are those of the EM algorithm; a custom loss has its GLM's survey."""
    z = rng.choice([0.0, 3.0], 2000) + rng.normal(size=2000)
    s = survey(mg.GaussianMixture(2, 1.0), z)
    means = np.array([-1.0, 4.0])
    for _ in range(500):
        share = 1 / (1 + np.exp(((z - means[1]) ** 2 - (z - means[0]) ** 2) / 2))
        means = np.array([z @ (1 - share) / (1 - share).sum(), z @ share / share.sum()])
    np.testing.assert_allclose(np.sort(s.optimum), np.sort(means), atol=1e-9)
    assert s.gap > 0 and s.plan_nonconvex(0.1, 0.2).gamma == s.conditioning.gamma
    X, y = scenarios.regression(rng, "bernoulli")
    own = mg.CustomLoss(lambda t, r: jnp.logaddexp(0, r[0] @ t) - r[1] * (r[0] @ t), dim=4)
    a, b = survey(own, (X, y)), survey(mg.Logistic(), (X, y))
    np.testing.assert_allclose(a.optimum, b.optimum, atol=1e-10)
    assert a.conditioning.alpha == pytest.approx(b.conditioning.alpha, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_a_survey_of_a_network_has_as_low_an_optimum_as_bfgs(seed):
    """ReLU networks have dead units and kinks; the optimum is the lowest of several starts."""
    rng, model = np.random.default_rng(seed), mg.ReluNetwork(2, 3)
    X, truth = rng.normal(size=(2000, 2)), rng.normal(size=9)
    y = np.maximum(1 + np.maximum(1 + X @ truth[:6].reshape(3, 2).T, 0) @ truth[6:], 0)
    rows = X, y + 0.3 * rng.normal(size=2000)
    s = survey(model, rows, ridge=1e-3)
    ends = [
        minimize(
            lambda t: model.risk(t, rows),
            start,
            jac=lambda t: model.gradients(t, rows).mean(0),
            method="BFGS",
        ).fun
        for start in rng.normal(size=(4, 9))
    ]
    assert model.risk(s.optimum, rows) <= min(ends) + 1e-4
    assert s.conditioning.alpha < 0 < s.plan_nonconvex(0.1, 0.2).steps


def test_a_survey_begins_where_the_gradient_has_noise():
    """At 0 the slopes of a product of coefficients have none, and V is singular."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    y = np.square(x @ [1.0, -0.5, 2.0]) + 0.5 * rng.normal(size=500)
    model = mg.CustomLoss(lambda t, z: 0.25 * (z["y"] - (z["x"] @ t) ** 2) ** 2, 3)
    s = survey(model, {"x": x, "y": y})
    np.testing.assert_allclose(np.abs(s.optimum), [1.0, 0.5, 2.0], atol=0.1)
    assert s.plan_nonconvex(0.5, 0.2).steps > 0


def test_a_saddle_is_no_optimum_of_a_survey(rng):
    """At equal means of a mixture, and where a product of parameters is 0, H is indefinite."""
    z = rng.choice([0.0, 3.0], 2000) + rng.normal(size=2000)
    found = local_minimum(mg.GaussianMixture(2, 1.0), z, np.zeros(2))
    np.testing.assert_allclose(np.sort(found), [0.0, 3.0], atol=0.2)
    x = rng.normal(size=500)
    rows = {"x": x, "y": 2 * x + rng.normal(size=500)}
    product = mg.CustomLoss(
        lambda t, r: (r["y"] - r["x"] * t[0] * t[1]) ** 2 / 2 + (t[0] - t[1]) ** 2, dim=2
    )
    found = local_minimum(product, rows, np.zeros(2))
    assert found.prod() == pytest.approx(x @ rows["y"] / (x @ x), rel=1e-9)
    endless = mg.CustomLoss(lambda t, r: jnp.logaddexp(0, -r * t[0]), dim=1)
    with pytest.raises(ValueError, match=r"keeps falling|falls without end"):
        local_minimum(endless, np.array([1.0, 2.0, 3.0]), np.zeros(1))


def test_a_survey_finds_what_its_plans_need(rng):
    X, y = scenarios.regression(rng, "bernoulli")
    s = survey(mg.Logistic(), (X, y))
    fit = sm.Logit(y, X).fit(disp=False, tol=1e-12)
    np.testing.assert_allclose(s.optimum, fit.params, atol=1e-8)
    assert s.gap == pytest.approx(np.log(2) + fit.llf / len(y), rel=1e-5)
    c = s.conditioning
    plan = s.plan_convex(0.01)
    assert plan == plan_convex(c.alpha, c.gamma, s.gap, 0.01, 4, c.v_max)
    assert s.convex_within(10**6).samples <= 10**6
    assert s.plan_nonconvex(0.1, 0.2).gamma == c.gamma
    at_optimum = conditioning(mg.Logistic(), (X, y), [s.optimum])
    assert c.alpha <= at_optimum.alpha * (1 + 1e-6) and c.gamma >= at_optimum.gamma * (1 - 1e-6)
    kept = mg.LeastSquaresMoments(4).update(X, y)
    linear, alone = survey(mg.Linear(), (X, y)), survey(mg.Linear(), kept)
    assert alone.gap == pytest.approx(linear.gap, rel=1e-6)
    assert alone.conditioning.alpha == pytest.approx(linear.conditioning.alpha, rel=1e-6)
    with pytest.raises(ValueError, match="separable"):
        survey(mg.Logistic(), (np.array([[1.0], [-1.0]]), np.array([1.0, 0.0])))
    with pytest.raises(TypeError, match="rows"):
        survey(mg.Linear(), scenarios.gaussian_design([0.0]).data)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"alpha": 0.0}, "strongly convex"),
        ({"alpha": -1.0}, "alpha > 0"),
        ({"alpha": 3.0}, "exceeds gamma"),
        ({"gamma": 0.0}, "gamma > 0"),
        ({"gamma": float("nan")}, "finite"),
        ({"gap": -1.0}, "gap"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": "small"}, "number"),
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "whole"),
        ({"v_max": 0.0}, "positive definite"),
    ],
)
def test_a_convex_plan_names_the_assumption_that_fails(change, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        plan_convex(**CONVEX | change)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"delta": 0.0}, "total variation"),
        ({"delta": 1.5}, "total variation"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"gamma": -2.0}, "gamma > 0"),
    ],
)
def test_a_nonconvex_plan_names_the_assumption_that_fails(change, words):
    with pytest.raises(ValueError, match=words):
        plan_nonconvex(**NONCONVEX | change)


def test_other_bad_input():
    with pytest.raises(ValueError, match="alpha"):
        prox_steps(0.0, 1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match="distance"):
        prox_steps(0.5, 1.0, 0.1, -1.0)
    with pytest.raises(ValueError, match="too few for one step"):
        convex_within(10, 0.5, 2.0, 1.0, 4, 1.5)
    with pytest.raises(ValueError, match="one step takes 10000"):
        nonconvex_within(100, 2.0, 1.0, 0.01, 4, 2.0)
    for change in ({"epsilon": 1e-320}, {"gamma": 1e300}, {"v_max": 1e-200}):
        with pytest.raises(ValueError, match="between 1e-70 and 1e70"):
            plan_convex(**CONVEX | change)
    with pytest.raises(ValueError, match="between"):
        plan_nonconvex(**NONCONVEX | {"delta": 1e-170})
    assert plan_convex(**CONVEX | {"epsilon": 2.0}).order > 0
    with pytest.raises(ValueError, match="nothing to gain"):
        convex_within(100, 0.5, 2.0, 0.0, 4, 1.5)
    z, model = np.array([[-1.0], [1.0]]), scenarios.mean_model(1)
    with pytest.warns(mg.errors.StationarityWarning, match="estimate"):
        rows_for_width(model, z, [0.7], 0.1)
    with pytest.raises(ValueError, match="half_width"):
        rows_for_width(model, z, [0.0], 0.0)
    with pytest.raises(ValueError, match="level"):
        rows_for_width(model, z, [0.0], 0.1, level=1.0)
    with pytest.raises(ValueError, match="a number, or 1"):
        rows_for_width(model, z, [0.0], [0.1, 0.2])
    with pytest.raises(ValueError, match="wider"):
        rows_for_width(model, z, [0.0], 1e-12)
    x = np.arange(20.0)
    for twin in (x, 3 * x, -x):
        columns = np.column_stack([x, twin])
        with pytest.raises(InputError, match="singular"):
            survey(mg.Linear(), (columns, x**2), optimum=[0.0, 0.0], region=[[0.0, 0.0]])
        ridged = survey(mg.Linear(), (columns, x**2), None, [0.0, 0.0], [[0.0, 0.0]], ridge=1.0)
        assert ridged.conditioning.gamma > 0
        with pytest.raises(InputError, match="positive definite"):
            rows_for_width(mg.Linear(), (columns, x**2), [0.0, 0.0], 0.1)
    with pytest.raises(InputError, match="positive definite"):
        rows_for_width(mg.GaussianMixture(2, 1.0), np.array([-5.0, 5.0]), [0.0, 0.0], 0.1)


ODD = ["body mass", "x`1", "1", "C(a)"]


def test_a_plan_reads_files_as_the_library_does(rng, tmp_path):
    """CSV, Parquet, a pattern and a directory; names that no formula could hold unquoted."""
    table = pd.DataFrame(rng.normal(size=(9000, 5)), columns=["y", *ODD])
    (tmp_path / "csv").mkdir()
    table[:5000].to_csv(tmp_path / "csv" / "part-1.csv", index=False)
    table[5000:].to_csv(tmp_path / "csv" / "part-2.csv", index=False)
    table[table["y"] < 9].to_parquet(tmp_path / "rows.parquet")  # its index is no column
    for files in ("csv/part-*.csv", "csv", "rows.parquet"):
        X, y, names = read_design(Design([str(tmp_path / files)], "y"))
        assert names == ("Intercept", *ODD)
        np.testing.assert_array_equal(X, np.column_stack([np.ones(9000), table[ODD]]))
        np.testing.assert_array_equal(y, table["y"])
    some = Design([str(tmp_path / "rows.parquet")], "y", ["1", "x`1"], intercept=False)
    X, _, names = read_design(some)
    assert names == ("1", "x`1")
    np.testing.assert_array_equal(X, table[["1", "x`1"]])


@pytest.mark.parametrize(
    "columns, error, words",
    [
        (["g"], InputTypeError, "column 'g' is not numeric .*; leave it out .* --columns"),
        (["a", "z"], InputError, "has no column 'z'; it has y, a, g, n, i, c, t"),
        (["a", "a"], InputError, "a column twice"),
        (["y"], InputError, "name the response"),
        (["a", "n"], InputError, "'n' has no value at row 2 of .*rows.* \\(2 such rows in all"),
        (["i"], InputError, "'i' holds inf at row 1 of .*rows.* \\(1 such row in all"),
        (["a", "c"], InputError, "'c' is constant, as the intercept .*--no-intercept"),
        ([], InputError, "no column besides the response"),
        (["t"], InputTypeError, "column 't' is not numeric"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_that_a_plan_refuses(tmp_path, suffix, columns, error, words):
    nan = float("nan")
    table = pd.DataFrame(
        {"y": [1.0, 0, 3, 4], "a": [1.0, 2, 4, 3], "g": list("uvuv"), "n": [1, 2, nan, nan]}
        | {"i": [1, math.inf, 2, 3], "c": [2, 2, 2, 2], "t": pd.to_datetime(["2020-01-01"] * 4)}
    )
    path = tmp_path / f"rows.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    with pytest.raises(error, match=words):
        read_design(Design([str(path)], "y", columns, intercept=bool(columns)))


def test_a_response_that_is_text_and_a_header_with_a_name_twice(tmp_path):
    (tmp_path / "text.csv").write_text("a,y\n1,no\n2,yes\n")
    with pytest.raises(InputTypeError, match="response 'y' is not numeric"):
        read_design(Design([str(tmp_path / "text.csv")], "y"))
    (tmp_path / "twice.csv").write_text("a,a,y\n1,2,3\n2,3,4\n")
    with pytest.raises(InputError, match="two columns 'a'"):
        read_design(Design([str(tmp_path / "twice.csv")], "y"))
    with pytest.raises(FileNotFoundError, match="none"):
        read_design(Design([str(tmp_path / "none.csv")], "y"))

"""Condition numbers over regions, and the acceleration theorem."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import eigh

import masgrad as mg
import scenarios
from masgrad.errors import InputError
from masgrad.kernels.stability import minimise
from masgrad.theory import acceleration, ball, conditioning, path, segments, well_specified
from masgrad.theory.curvature.conditioning import from_matrices

FAMILIES = ("gaussian", "bernoulli", "poisson")


def quadratic(H, z):
    """Loss theta'H theta / 2 - theta'z: Hessian H and gradient covariance Cov(z) at every theta."""
    H = np.asarray(H)
    return mg.CustomLoss(lambda theta, row: theta @ (H @ theta) / 2 - theta @ row, len(H)), z


def brute_force(covs, hessians):
    """All pairs by generalised eigenvalues of (H, V)."""
    low, high = np.inf, -np.inf
    for S in covs:
        values, vectors = np.linalg.eigh(S)
        V = (vectors * np.sqrt(values)) @ vectors.T
        for H in hessians:
            ends = eigh(H, V, eigvals_only=True)
            low, high = min(low, ends[0]), max(high, ends[-1])
    return low, high


def test_two_by_two_by_hand():
    """V = diag(4, 1) and H = [[2, 1], [1, 2]]: V^-1/2 H V^-1/2 = [[1/2, 1/2], [1/2, 2]]."""
    z = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) * np.sqrt([24.0, 1.5])
    c = conditioning(*quadratic([[2.0, 1.0], [1.0, 2.0]], z), [[0.0, 0.0], [3.0, -1.0]])
    assert c.alpha == pytest.approx(1.25 - np.sqrt(0.8125), rel=1e-12)
    assert c.gamma == pytest.approx(1.25 + np.sqrt(0.8125), rel=1e-12)
    assert c.kappa_masgrad == pytest.approx(c.gamma / c.alpha)
    assert c.kappa_gd == pytest.approx(3.0)
    assert c.step_masgrad == pytest.approx(1 / c.gamma) and c.step_gd == pytest.approx(1 / 3)
    assert c.v_max == pytest.approx(4.0) and c.pairs == 4
    # with the ridge 9, V = diag(5, sqrt(10)) and the trace of V^-1 H is 2/5 + 2/sqrt(10)
    r = conditioning(*quadratic([[2.0, 1.0], [1.0, 2.0]], z), [[0.0, 0.0]], ridge=9.0)
    assert r.alpha + r.gamma == pytest.approx(2 / 5 + 2 / np.sqrt(10))


@pytest.mark.parametrize("p", [1, 2, 7])
def test_the_toy_fixed_design_has_the_root_of_the_condition_number(rng, p):
    """Rows x twice with y = x'theta* +- sigma."""
    x = rng.normal(size=(50, p)) * np.logspace(0, -2, p)
    theta = rng.normal(size=p)
    X, noise = np.repeat(x, 2, axis=0), 0.7 * np.tile([1.0, -1.0], 50)
    c = conditioning(mg.Linear(), (X, X @ theta + noise), [theta])
    assert c.kappa_masgrad == pytest.approx(np.sqrt(c.kappa_gd), rel=1e-10)
    truth = well_specified(mg.Linear(), X, theta, dispersion=0.49)
    a = acceleration(mg.Linear(), X, [theta], *truth)
    assert a.conditioning.kappa_masgrad == pytest.approx(np.sqrt(c.kappa_gd), rel=1e-10)


@pytest.mark.parametrize("shift", [0.0, 0.6, 100.0, -100.0])
@pytest.mark.parametrize("p", [1, 3, 8])
def test_the_search_over_pairs_is_exact(rng, p, shift):
    """Against all pairs, with H positive, in between and negative; the points attain the values."""

    def matrices(m):
        A = rng.normal(size=(m, p, p)) * np.exp(rng.normal(size=(m, 1, 1)))
        return A @ A.swapaxes(1, 2) / p + 0.05 * np.eye(p)

    covs, hessians = matrices(30), matrices(40) - shift * np.eye(p)
    hessians = -hessians if shift > 1 else hessians
    at, along = np.arange(30.0)[:, None], np.arange(40.0)[:, None]
    c = from_matrices(covs, hessians, at, along)
    low, high = brute_force(covs, hessians)
    assert c.alpha == pytest.approx(low, rel=1e-9) and c.gamma == pytest.approx(high, rel=1e-9)
    assert (c.kappa_masgrad == np.inf) == (low <= 0)
    for found, expected in ((c.lowest, low), (c.highest, high)):
        one = brute_force(covs[[int(found.w[0])]], hessians[[int(found.v[0])]])
        assert expected == pytest.approx(one[0 if found is c.lowest else 1], rel=1e-9)
    assert c.flattest.value == pytest.approx(np.linalg.eigvalsh(hessians)[:, 0].min())
    assert c.steepest.value == pytest.approx(np.linalg.eigvalsh(hessians)[:, -1].max())


def test_random_design_loses_alpha_with_the_radius_and_gamma_sits_at_the_optimum():
    """Gaussian design: V has eigenvalues sqrt(r^2 + 1) and sqrt(2 r^2 + 1) at distance r."""
    model, data = scenarios.gaussian_design([1.0, -1.0, 0.5])
    alphas = []
    for r in (0.5, 5.0, 50.0):
        c = conditioning(model, data, ball([1.0, -1.0, 0.5], r, 30))
        assert c.alpha == pytest.approx(1 / np.sqrt(2 * r**2 + 1), rel=1e-9)
        assert c.gamma == pytest.approx(1.0, rel=1e-9)
        np.testing.assert_allclose(c.highest.w, [1.0, -1.0, 0.5])
        alphas.append(c.alpha)
    assert alphas[-1] < 0.02


def test_moments_alone_and_rows_agree(rng):
    X, y = scenarios.regression(rng)
    region = ball(np.zeros(4), 1.0, 12)
    rows = conditioning(mg.Linear(), (X, y), region)
    kept = conditioning(mg.Linear(), mg.LeastSquaresMoments(4).update(X, y), region)
    for name in ("alpha", "gamma", "kappa_gd", "v_max"):
        assert getattr(kept, name) == pytest.approx(getattr(rows, name), rel=1e-8)


def test_poisson_needs_segments(rng):
    """All pairs of a ball explode; along the way the lemma contracts the gap as it says."""
    X = rng.normal(size=(500, 3))
    y = rng.poisson(np.exp(X @ [0.8, -0.5, 0.3])).astype(float)
    model, data = mg.Poisson(), (X, y)
    optimum = minimise(model, data)
    start = np.zeros(3)
    everywhere = conditioning(model, data, ball(optimum, 2.0, 60))
    line = optimum + np.linspace(1, 0, 21)[:, None] * (start - optimum)
    rough = conditioning(model, data, segments(line, optimum))
    way = mg.run(mg.masgrad(rough.step_masgrad), model, data, start, 30, None, 1).theta[0]
    c = conditioning(model, data, segments(way, optimum))
    assert everywhere.kappa_masgrad > 20 * c.kappa_masgrad
    # the lemma, with the path's own gamma as the step
    way = mg.run(mg.masgrad(c.step_masgrad), model, data, start, 30, None, 1).theta[0]
    c = conditioning(model, data, segments(way, optimum))
    gaps = np.array([model.risk(t, data) for t in way]) - model.risk(optimum, data)
    assert np.all(gaps[1:] <= (1 - c.alpha / c.gamma) * gaps[:-1] + 1e-12)


def test_far_points_of_a_poisson_segment_are_regular(rng):
    """V at the two ends differs by a factor of 1e5 and more, and is definite at both."""
    X = np.column_stack([np.ones(300), rng.normal(size=300)])
    y = rng.poisson(np.exp(0.5 + 0.3 * X[:, 1])).astype(float)
    optimum = minimise(mg.Poisson(), (X, y))
    line = optimum + np.linspace(1, 0, 9)[:, None] * [25.0, 0.0]
    c = conditioning(mg.Poisson(), (X, y), segments(line, optimum))
    assert c.v_max > 1e5 and c.alpha > 0


def test_regions(rng):
    points = ball([1.0, 2.0], 0.5, 50)
    radii = np.linalg.norm(points - [1.0, 2.0], axis=1)
    assert radii[0] == 0 and radii.max() == pytest.approx(0.5) and (radii < 0.49).sum() > 15
    M = np.array([[4.0, 1.0], [1.0, 2.0]])
    d = ball([0.0, 0.0], 2.0, 50, metric=M)
    assert np.einsum("ij,jk,ik->i", d, M, d).max() == pytest.approx(4.0)
    z = rng.normal(size=(100, 2))
    tr = mg.run(mg.masgrad(0.2), scenarios.mean_model(2), z, [3.0, 0.0], 20, 10, 5)
    visited = path(tr, 40)
    assert visited.shape == (40, 2)
    flat = {t.tobytes() for t in tr.theta.reshape(-1, 2)}
    assert all(t.tobytes() in flat for t in visited)
    s = segments([[0.0, 0.0], [1.0, 0.0]], [2.0, 2.0], 3)
    np.testing.assert_allclose(s.along[0], [[0, 0], [0.5, 0], [1, 0], [0, 0], [1, 1], [2, 2]])
    np.testing.assert_allclose(s.along[1], [[1, 0], [1.5, 1], [2, 2]] * 2)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("misspecified", [False, True])
def test_the_acceleration_theorem_holds(rng, family, misspecified):
    """kappa_masgrad <= C sqrt(kappa_gd), and C is the largest ratio over all x, v, w."""
    X, _ = scenarios.regression(rng, N=60, p=3)
    X = X * [1.0, 0.2, 3.0]
    model, theta = mg.GLM(family), np.array([0.3, -0.5, 0.2])
    mean, variance = well_specified(model, X, theta)
    if misspecified:
        mean = mean * (1 + 0.3 * np.sin(X[:, 0]) * (1 - np.minimum(mean, 1)))  # in the range of y
        variance = variance * (1 + X[:, 1] ** 2)
    region = ball(theta, 0.3, 12)
    a = acceleration(model, X, region, mean, variance)
    assert a.holds and a.constant >= 1
    assert a.conditioning.kappa_masgrad <= a.bound
    c, dc = model.family.mean, model.family.variance
    ratios = [
        max((s + (c(x @ w) - m) ** 2) / dc(x @ v), dc(x @ v) / s)
        for x, m, s in zip(X, mean, variance, strict=True)
        for v in region
        for w in region
    ]
    assert a.constant == pytest.approx(max(ratios) ** 3, rel=1e-10)
    assert a.row == int(np.argmax(ratios)) // 144
    wider = acceleration(model, X, ball(theta, 0.6, 12), mean, variance)
    assert wider.constant > a.constant


@pytest.mark.statistical(2)
def test_the_truths_covariance_is_that_of_drawn_rows(rng):
    """V from xi^2 and beta against many y for the same rows x: an error of 2 % is 7 sd or more."""
    X = np.tile(rng.normal(size=(20, 2)), (20_000, 1))
    mean, variance = well_specified(mg.Logistic(), X, [1.0, -1.0])
    y = (rng.random(len(X)) < mean).astype(float)
    a = acceleration(mg.Logistic(), X[:20], [[0.5, 0.5]], mean[:20], variance[:20])
    c = conditioning(mg.Logistic(), (X, y), [[0.5, 0.5]])
    assert a.conditioning.kappa_masgrad == pytest.approx(c.kappa_masgrad, rel=0.02)
    assert a.conditioning.gamma == pytest.approx(c.gamma, rel=0.02)


def test_bad_regions_name_the_assumption(rng):
    X, y = scenarios.regression(rng)
    model, data = mg.Linear(), (X, y)
    with pytest.raises(ValueError, match=r"V\(w\) is singular at point 1.*positive definite"):
        conditioning(model, (X, X @ np.ones(4)), [np.zeros(4), np.ones(4)])
    twice = np.column_stack([X, X[:, 0]])
    with pytest.raises(InputError, match="singular"):
        conditioning(model, (twice, y), [np.zeros(5)])
    ridged = conditioning(model, (twice, y), [np.zeros(5)], ridge=0.1)
    assert ridged.alpha == 0 and ridged.kappa_masgrad == np.inf
    scales = np.array([1e-4, 1.0, 1.0, 1e4])
    with pytest.raises(ValueError, match="comparable units"):
        conditioning(model, (X * scales, y), [np.zeros(4)])
    milder = conditioning(model, (X * scales**0.5, y), [np.zeros(4)])
    assert milder.kappa_masgrad > 100  # regular, and said to be so
    broken = mg.Simulator(scenarios.skewed, lambda theta: (theta, jnp.log(theta)[:, None]))
    with pytest.raises(ValueError, match="not finite at theta"):
        conditioning(scenarios.mean_model(1), broken, [[2.0], [-1.0]])
    with pytest.raises(ValueError, match="3 parameters"):
        conditioning(model, data, [np.zeros(3)])
    with pytest.raises(ValueError, match="point 1 is not finite"):
        conditioning(model, data, [np.zeros(4), [0, 0, np.nan, 0]])
    with pytest.raises(ValueError, match="radius"):
        ball(np.zeros(2), -1.0)
    for metric in (-np.eye(2), np.eye(3), np.array([[1.0, 0.5], [0.0, 1.0]])):
        with pytest.raises(ValueError, match="metric"):
            ball(np.zeros(2), 1.0, metric=metric)
    with pytest.raises(ValueError, match="one point"):
        ball(np.zeros((2, 2)), 1.0)
    with pytest.raises(TypeError, match="keep"):
        path(np.zeros((3, 2)))
    flat = conditioning(*quadratic(-np.eye(2), rng.normal(size=(10, 2))), [[0.0, 0.0]])
    with pytest.raises(ValueError, match="gamma > 0"):
        _ = flat.step_masgrad
    with pytest.raises(ValueError, match=r"Var\(y \| x\) > 0"):
        acceleration(model, X, [np.zeros(4)], y, np.zeros(len(y)))
    with pytest.raises(TypeError, match="GLM"):
        acceleration(mg.GaussianMixture(2, 1.0), X, [np.zeros(4)], y, 1.0)
    with pytest.raises(ValueError, match="mean has shape"):
        acceleration(model, X, [np.zeros(4)], y[:5], 1.0)
    with pytest.raises(ValueError, match="needs y in"):
        acceleration(mg.Logistic(), X, [np.zeros(4)], 5.5, 0.25)
    with pytest.raises(ValueError, match="dispersion"):
        well_specified(model, X, np.zeros(4), dispersion=-4)
    with pytest.raises(ValueError, match="overflows"):
        well_specified(mg.Poisson(), X, np.full(4, 1e4))
    with pytest.raises(ValueError, match="overflows or vanishes"):
        acceleration(mg.Logistic(), X, [np.full(4, 1e4)], 0.5, 0.25)

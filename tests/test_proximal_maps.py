"""The proximal map in the V metric, with its certificate, and the host's solver of a quadratic.

Each is held against scikit-learn or SciPy, a closed form, or the equation that defines it.
"""

import jax
import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls
from sklearn import linear_model

import masgrad as mg
from masgrad.covariance.root import DiagonalRoot, MatrixRoot, SymmetricRoot
from masgrad.penalties import metric
from masgrad.penalties.metric import prox_in_metric
from masgrad.penalties.minimise import Quadratic, minimise, violation
from scenarios import PENALTIES, SEPARABLE, SHAPE, finite_points, root

# The proximal map in the V metric.

P, ETA = 6, 1.3


def drawn_metric(rng):
    """V, dense and with a condition number of 10 or so, w, and the point before."""
    A = rng.normal(size=(P, P))
    cov = A @ A.T + 0.05 * np.eye(P)
    return SymmetricRoot.of(cov), rng.normal(size=P), 1.5 * rng.normal(size=P)


def cost(h, V, w, u):
    return (u - w) @ V @ (u - w) / 2 + ETA * h.value(u)


@pytest.mark.parametrize("name", SEPARABLE)
def test_a_diagonal_metric_has_the_closed_form_that_the_inner_solver_finds(rng, name):
    w, before, variances = *rng.normal(size=(2, P)), rng.uniform(0.01, 3, P)
    closed = prox_in_metric(PENALTIES[name], DiagonalRoot.of_variances(variances), ETA, w, before)
    dense = SymmetricRoot.of(np.diag(variances))
    solved = prox_in_metric(PENALTIES[name], dense, ETA, w, before, 1e-11)
    assert closed.ok and solved.ok and closed.steps == 0
    np.testing.assert_allclose(solved.u, closed.u, atol=1e-10)
    np.testing.assert_allclose(closed.z, np.sqrt(variances) * (w - closed.u) / ETA)
    np.testing.assert_allclose(solved.z, closed.z, atol=1e-9)


def test_dense_metrics_against_scikit_learn_and_nnls(rng):
    """|u - w|_V^2 is |R u - R w|^2 with R = V^1/2: a regression of p rows."""
    zeros, tight = [], {"fit_intercept": False, "tol": 1e-14, "max_iter": 10**6}
    for V, w, before in (drawn_metric(rng) for _ in range(4)):
        R = root(V.matrix())
        X, y = np.sqrt(P) * R, np.sqrt(P) * R @ w
        lasso = linear_model.Lasso(ETA * 0.7, **tight).fit(X, y).coef_
        net = linear_model.ElasticNet(ETA * 0.7, l1_ratio=0.3, **tight).fit(X, y).coef_
        for h, expected in (
            (mg.L1(0.7), lasso),
            (mg.ElasticNet(0.7, 0.3), net),
            (mg.NonNegative(), nnls(R, R @ w)[0]),
        ):
            solved = prox_in_metric(h, V, ETA, w, before, 1e-10)
            assert solved.ok
            np.testing.assert_allclose(solved.u, expected, atol=1e-8)
            np.testing.assert_array_equal(solved.u == 0, expected == 0)
            zeros.extend(expected == 0)
    assert 0.05 < np.mean(zeros) < 0.95


@pytest.mark.parametrize("name", PENALTIES)
def test_the_certificate_is_the_defect_and_bounds_the_suboptimality(rng, name):
    """defect = |e|_V, e = u - (w - eta V^-1 z), and F(u) - min F <= |e|_V^2 / 2."""
    V, w, before = drawn_metric(rng)
    h, M = PENALTIES[name], V.matrix()
    best = prox_in_metric(h, V, ETA, w, before, 1e-12)
    for accuracy in (0.3, 1e-2, 1e-5):
        s = prox_in_metric(h, V, ETA, w, before, accuracy)
        e = s.u - w + ETA * np.linalg.solve(M, s.z)
        assert s.ok and s.defect <= accuracy * np.sqrt((s.u - before) @ M @ (s.u - before))
        np.testing.assert_allclose(s.defect, np.sqrt(e @ M @ e), rtol=1e-6, atol=1e-13)
        assert cost(h, M, w, s.u) - cost(h, M, w, best.u) <= s.defect**2 / 2 + 1e-13
        v = finite_points(rng, name, 200)
        assert np.all(h.value(v.T) >= h.value(s.u) + (v - s.u) @ s.z - 1e-9)


def test_the_identity_metric_is_the_plain_proximal_map(rng):
    w, before = rng.normal(size=(2, P))
    for h in PENALTIES.values():
        plain = prox_in_metric(h, None, ETA, w, before)
        np.testing.assert_array_equal(plain.u, h.prox(w, ETA))
        solved = prox_in_metric(h, SymmetricRoot.of(np.eye(P)), ETA, w, before, 1e-12)
        np.testing.assert_allclose(solved.u, plain.u, atol=1e-11)


def test_group_and_nuclear_norms_solve_the_implicit_equation(rng):
    """u = w - eta V^-1 z with z of dual norm lam at most, and z'u = h(u)."""
    V, w, before = drawn_metric(rng)
    for name in ("group", "nuclear"):
        h = PENALTIES[name]
        u = prox_in_metric(h, V, ETA, w, before, 1e-11).u
        z = V.mv(w - u) / ETA
        np.testing.assert_allclose(z @ u, h.value(u), rtol=1e-8)
        if name == "nuclear":
            assert np.linalg.norm(z.reshape(SHAPE), 2) <= 0.5 * (1 + 1e-8)
        else:
            assert abs(z[4]) < 1e-8 and abs(z[3]) <= 0.5 * (1 + 1e-8)
            for g in (z[[0, 2]], z[[1, 5]]):
                assert np.linalg.norm(g) <= 0.5 * np.sqrt(2) * (1 + 1e-8)


@pytest.mark.parametrize("name", ["group", "nuclear"])
def test_chains_together_give_what_each_alone_gives(rng, name):
    """A V for each chain (traced), and one V for all: none feels how long its neighbours take."""
    h, K = PENALTIES[name], 3
    drawn = [drawn_metric(rng) for _ in range(K)]
    w, before = (np.stack([d[i] for d in drawn], 1) for i in (1, 2))
    before[:, 0] = w[:, 0]  # one is nearly there at the start
    V = np.stack([d[0].matrix() for d in drawn], -1)
    inverse = np.stack([d[0].inverse() for d in drawn], -1)
    with jax.enable_x64(True):
        many = MatrixRoot(V, inverse, np.zeros(K, int))
        own = jax.jit(lambda *at: prox_in_metric(h, many, ETA, *at, 1e-9))(w, before)
        own = jax.tree.map(np.asarray, own)
    shared = prox_in_metric(h, drawn[1][0], ETA, w, before, 1e-9)
    for k in range(K):
        alone = prox_in_metric(h, drawn[k][0], ETA, w[:, k], before[:, k], 1e-9)
        np.testing.assert_allclose(own.u[:, k], alone.u, atol=1e-12)
        assert own.ok[k] and own.steps[k] == alone.steps
        same = prox_in_metric(h, drawn[1][0], ETA, w[:, k], before[:, k], 1e-9)
        np.testing.assert_allclose(shared.u[:, k], same.u, atol=1e-12)
    assert len(set(own.steps)) > 1


def test_a_map_that_is_not_solved_says_so(rng, monkeypatch):
    V, w, before = drawn_metric(rng)
    monkeypatch.setattr(metric, "MOST_ROUNDS", 1)
    solved = prox_in_metric(mg.L1(0.7), V, ETA, w, before, 1e-12)
    assert not solved.ok and solved.steps == metric.STEPS_PER_ROUND and solved.defect > 0
    assert prox_in_metric(mg.L1(0.7), V, ETA, w, before, 10.0).ok


# The host's solver: a quadratic and a penalty.


def regression(rng, N, p, k):
    """A quadratic |X u - y|^2 / 2N with k true coefficients, and its rows."""
    X = rng.normal(size=(N, p)) + 0.5 * rng.normal(size=(N, 1))
    y = X[:, :k] @ np.linspace(2, 1, k) + rng.normal(size=N)
    return Quadratic(X.T @ X / N, X.T @ y / N), X, y


@pytest.mark.parametrize("ratio", [1.0, 0.4])
@pytest.mark.parametrize("p", [20, 400])
def test_the_solver_against_scikit_learn(rng, p, ratio):
    """With p > N the working sets find the support; from a start that is wrong everywhere too."""
    q, X, y = regression(rng, 80, p, 5)
    h = mg.ElasticNet(0.2, ratio)
    options = {"l1_ratio": ratio, "fit_intercept": False, "tol": 1e-14, "max_iter": 10**6}
    expected = linear_model.ElasticNet(0.2, **options).fit(X, y).coef_
    objective = lambda u: q.value(u) + h.value(u)  # noqa: E731
    for start in (np.zeros(p), 3 * rng.normal(size=p)):
        u = minimise(h, q, start)
        np.testing.assert_array_equal(u != 0, expected != 0)
        assert objective(u) <= objective(expected) + 1e-12
        np.testing.assert_allclose(u, expected, atol=1e-6)
        assert violation(h, q, u).max() <= 1e-10
    assert 5 <= np.count_nonzero(expected) < p


def test_bounds_against_scipy(rng):
    q, X, y = regression(rng, 80, 20, 5)
    low, high = np.where(np.arange(20) % 2, 0.0, -0.1), np.where(np.arange(20) < 3, 0.8, np.inf)
    for h, expected in (
        (mg.NonNegative(), nnls(X, y)[0]),
        (mg.Box(low, high), lsq_linear(X, y, (low, high), tol=1e-15).x),
    ):
        u = minimise(h, q, rng.normal(size=20))
        assert h.value(u) == 0.0 and q.value(u) <= q.value(expected) + 1e-12
        np.testing.assert_allclose(u, expected, atol=1e-6)


def test_whole_groups_satisfy_the_conditions_of_optimality(rng):
    """-slope is lam w u_g / |u_g| in a group that is there, and not longer in one that is not."""
    q, _, _ = regression(rng, 80, 20, 4)
    labels = np.arange(20) // 4
    u = minimise(mg.GroupLasso(0.5, labels), q, np.zeros(20))
    kept = 0
    for g in (labels == k for k in range(5)):
        slope, size = q.slope(u)[g], np.linalg.norm(u[g])
        if size:
            np.testing.assert_allclose(-slope, 0.5 * 2 * u[g] / size, atol=1e-7)
        assert np.linalg.norm(slope) <= 0.5 * 2 * (1 + 1e-7)
        kept += size > 0
    assert 1 <= kept < 5


def test_a_column_of_zeros_is_where_the_penalty_wants_it(rng):
    _, X, y = regression(rng, 80, 6, 5)
    X[:, 2] = 0.0
    q = Quadratic(X.T @ X / 80, X.T @ y / 80)
    for h, there in (
        (mg.L1(0.1), 0.0),
        (mg.Box(-1.0, 1.0), 0.5),  # where it began: nothing pulls
        (mg.GroupLasso(0.1, [0, 0, 1, 2, 2, 2]), 0.0),
    ):
        u = minimise(h, q, np.full(6, 0.5))
        assert u[2] == there and violation(h, q, u).max() < 1e-8

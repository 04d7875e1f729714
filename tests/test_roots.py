"""Roots: V V' = Sigma + ridge I, their inverses, their floors, one matrix and one a chain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

import masgrad as mg
import scenarios
from masgrad.covariance.choose import make_root
from masgrad.covariance.eigen import JACOBI_DIM, spectrum
from masgrad.covariance.products import ProductRoot
from masgrad.covariance.root import EIGENVALUE_FLOOR, LowRankRoot
from masgrad.errors import InputError


def covariances(rng, p, K, decades=2.0):
    """K covariances (p, p, K) with eigenvalues over some decades."""
    Q = np.linalg.qr(rng.normal(size=(K, p, p)))[0]
    values = 10.0 ** rng.uniform(-decades, 0, size=(K, p))
    return np.einsum("kij,kj,klj->ilk", Q, values, Q)


def test_symmetric_root_is_scipys(rng):
    m = mg.moments(mg.Linear(), np.ones(4), scenarios.regression(rng))
    V = m.root()
    np.testing.assert_allclose(V.matrix(), sqrtm(m.cov).real, rtol=1e-10, atol=1e-12)
    x = rng.normal(size=(4, 3))
    np.testing.assert_allclose(V.mv(x), V.matrix() @ x, rtol=1e-12)
    np.testing.assert_allclose(V.solve(V.mv(x)), x, rtol=1e-10)
    np.testing.assert_allclose(V.solve(x[:, 0]), np.linalg.solve(V.matrix(), x[:, 0]), rtol=1e-9)
    assert V.floored == 0


def test_diagonal_and_ridge(rng):
    m = mg.moments(mg.Linear(), np.ones(4), scenarios.regression(rng))
    V = m.root("diagonal", ridge=0.5)
    np.testing.assert_allclose(V.matrix(), np.diag(np.sqrt(np.diag(m.cov) + 0.5)), rtol=1e-12)
    S = m.root("symmetric", ridge=0.5).matrix()
    np.testing.assert_allclose(S @ S, m.cov + 0.5 * np.eye(4), rtol=1e-10)


def test_low_rank_keeps_the_leading_directions(rng):
    m = mg.moments(mg.Linear(), np.ones(6), scenarios.regression(rng, p=6))
    V = m.root("low_rank", ridge=0.1, rank=2)
    values, Q = np.linalg.eigh(m.cov)
    lead = Q[:, -2:] * values[-2:] @ Q[:, -2:].T
    np.testing.assert_allclose(V.matrix() @ V.matrix(), lead + 0.1 * np.eye(6), rtol=1e-9)
    x = rng.normal(size=6)
    np.testing.assert_allclose(V.mv(V.solve(x)), x, rtol=1e-10)
    full = m.root("low_rank", ridge=0.1).matrix()
    np.testing.assert_allclose(full, m.root("symmetric", ridge=0.1).matrix(), rtol=1e-9)


@pytest.mark.parametrize("shape", [(3, 8, 5), (8, 3, 5)])
def test_low_rank_from_a_factor(rng, shape):
    F = rng.normal(size=shape)
    V = LowRankRoot.of_factor(F, 0.2)
    M = V.matrix()
    for k in range(shape[2]):
        expected = F[..., k].T @ F[..., k] + 0.2 * np.eye(shape[1])
        np.testing.assert_allclose(M[..., k] @ M[..., k], expected, rtol=1e-8, atol=1e-10)
    x = rng.normal(size=shape[1:])
    np.testing.assert_allclose(V.solve(V.mv(x)), x, rtol=1e-8)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("kind", ["symmetric", "diagonal", "low_rank", "products", "auto"])
def test_chains_get_the_root_of_one_matrix(rng, p, kind):
    """Jacobi rotations (p <= 5), products and LAPACK agree with NumPy for every chain."""
    S, x = covariances(rng, p, 7), rng.normal(size=(p, 7))
    with jax.enable_x64(True):
        V = make_root(kind, jnp.asarray(S), 0.1)
        mv, solve, M = V.mv(jnp.asarray(x)), V.solve(jnp.asarray(x)), V.matrix()
    for k in range(7):
        one = make_root("diagonal" if kind == "diagonal" else "symmetric", S[..., k], 0.1)
        np.testing.assert_allclose(mv[:, k], one.mv(x[:, k]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(solve[:, k], one.solve(x[:, k]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(M[..., k], one.matrix(), rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    p=st.integers(1, JACOBI_DIM),
    decades=st.floats(0, 10),
    rank=st.integers(0, JACOBI_DIM),
    seed=st.integers(0, 1000),
)
def test_jacobi_diagonalises_anything_symmetric(p, decades, rank, seed):
    """Graded, degenerate and rank-deficient matrices, in one batch with an easy one."""
    rng = np.random.default_rng(seed)
    S = covariances(rng, p, 4, decades)
    F = rng.normal(size=(p, min(rank, p)))
    S[..., 1] = F @ F.T
    S[..., 2] = np.eye(p)
    S[..., 3] = 0.0
    with jax.enable_x64(True):
        values, Q = map(np.asarray, jax.jit(spectrum)(jnp.asarray(S)))
    scale = np.abs(S).max((0, 1)) + 1e-300
    rebuilt = np.einsum("ijk,jk,ljk->ilk", Q, values, Q)
    assert np.all(np.abs(rebuilt - S).max((0, 1)) <= 1e-13 * scale)
    gram = np.einsum("ijk,ilk->jlk", Q, Q)
    assert np.abs(gram - np.eye(p)[..., None]).max() < 1e-13
    expected = np.linalg.eigvalsh(np.moveaxis(S, -1, 0)).T
    assert np.all(np.abs(np.sort(values, 0) - expected).max(0) <= 1e-13 * scale)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_jacobi_takes_any_scale(rng, size):
    """Entries whose squares leave the range of floats, beside a matrix of ordinary size."""
    S = covariances(rng, 4, 2, 3)
    with jax.enable_x64(True):
        values, _ = map(np.asarray, spectrum(jnp.asarray(S * [1.0, size])))
    expected = np.linalg.eigvalsh(np.moveaxis(S, -1, 0)).T
    np.testing.assert_allclose(np.sort(values / [1.0, size], 0), expected, rtol=1e-9)


def test_a_singular_covariance_meets_a_reported_floor(rng):
    X = rng.normal(size=(100, 3))
    X[:, 2] = X[:, 0] + X[:, 1]
    m = mg.moments(mg.Linear(), np.zeros(3), (X, rng.normal(size=100)))
    V = m.root()
    assert V.floored == 1
    np.testing.assert_allclose(np.min(V.values) / np.max(V.values), EIGENVALUE_FLOOR, rtol=1e-6)
    assert np.isfinite(V.solve(np.ones(3))).all()
    assert m.root(ridge=0.1).floored == 0


def test_bad_roots_are_refused(rng):
    m = mg.moments(mg.Linear(), np.zeros(4), scenarios.regression(rng))
    for words, bad in (
        ("root 'cholesky' is not known", {"kind": "cholesky"}),
        ("ridge=-1.0; .* >= 0", {"ridge": -1.0}),
        ("low-rank root needs ridge > 0, got 0", {"kind": "low_rank", "rank": 2}),
        ("rank=9; .* rank 1 to 4", {"kind": "low_rank", "ridge": 0.1, "rank": 9}),
    ):
        with pytest.raises(InputError, match=words):
            m.root(**bad)


@settings(deadline=None, max_examples=12, derandomize=True)
@given(p=st.integers(1, 8), decades=st.floats(0, 8), seed=st.integers(0, 1000))
def test_products_give_the_symmetric_inverse_root(p, decades, seed):
    """Z Sigma Z = I and Z = Z', for one matrix and for many chains, to rounding times condition."""
    S = covariances(np.random.default_rng(seed), p, 5, decades)
    with jax.enable_x64(True):
        Z = np.asarray(jax.jit(ProductRoot.of)(jnp.asarray(S)).inverse)
    tolerance = 1e-14 * 10.0**decades + 1e-13
    for k in range(5):
        one = ProductRoot.of(S[..., k]).inverse
        for inverse in (Z[..., k], one):
            np.testing.assert_allclose(inverse @ S[..., k] @ inverse, np.eye(p), atol=tolerance)
            np.testing.assert_allclose(inverse, inverse.T, atol=tolerance * np.abs(inverse).max())


@pytest.mark.parametrize("p", [2, 4, 7])
def test_a_singular_or_lost_chain_does_not_spoil_products(rng, p):
    """One chain singular, one zero, one NaN: the floor is reported, the others are right."""
    S = covariances(rng, p, 4)
    F = rng.normal(size=(p, p - 1))
    S[..., 1], S[..., 2], S[..., 3] = F @ F.T, 0.0, np.nan
    x = rng.normal(size=(p, 4))
    with jax.enable_x64(True):
        V = jax.jit(ProductRoot.of)(jnp.asarray(S))
        solved = np.asarray(V.solve(jnp.asarray(x)))
    good = make_root("symmetric", S[..., 0])
    np.testing.assert_allclose(solved[:, 0], good.solve(x[:, 0]), rtol=1e-9)
    assert np.asarray(V.floored)[:3].tolist() == [0, 1, p]
    assert np.isfinite(solved[:, :3]).all()
    assert ProductRoot.of(S[..., 1]).floored == 1


@pytest.mark.parametrize("n, p", [(40, 6), (6, 40), (7, 7)])
def test_the_root_of_a_batch_by_every_algorithm(rng, n, p):
    """V V' = sample covariance + ridge I; all but the recursion and the diagonal are one V."""
    G, ridge, x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + 1.0, 0.3, rng.normal(size=p)
    expected = np.cov(G.T) + ridge * np.eye(p)
    symmetric = sqrtm(expected).real
    for kind in ("symmetric", "products", "low_rank", "auto", "rank_one"):
        V = mg.sample_root(G, kind, ridge)
        M = V.matrix()
        np.testing.assert_allclose(M @ M.T, expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(V.mv(V.solve(x)), x, rtol=1e-8, atol=1e-10)
        if kind != "rank_one":
            np.testing.assert_allclose(M, symmetric, rtol=1e-7, atol=1e-9)
    V = mg.sample_root(G, "diagonal", ridge).matrix()
    np.testing.assert_allclose(V, np.diag(np.sqrt(np.diag(expected))), rtol=1e-10, atol=1e-12)


def test_one_floor_for_every_algorithm(rng):
    """A ridge below 1e-12 of the largest eigenvalue is lifted to it, and that is reported."""
    G = np.array([1e3, 1.0, 1.0, 1.0, 1.0, 1.0]) * rng.normal(size=(4, 6))
    x = rng.normal(size=6)
    roots = {k: mg.sample_root(G, k, 1e-9) for k in ("symmetric", "products", "low_rank", "auto")}
    for V in roots.values():
        assert V.floored == 3
        np.testing.assert_allclose(V.solve(x), roots["symmetric"].solve(x), rtol=1e-3)
        np.testing.assert_allclose(V.mv(V.solve(x)), x, rtol=1e-4, atol=1e-6)
    wide = rng.normal(size=(200, 3)) * np.array([1.0, 1.0, 10.0**-6.5])
    for kind in ("symmetric", "products"):
        assert mg.sample_root(wide, kind).floored == 1
    assert "floored=3" in repr(roots["low_rank"]) and len(repr(roots["low_rank"])) < 200


def test_a_batch_of_many_parameters_needs_no_square_matrix(rng):
    """p = 200,000: a p x p matrix would take 320 GB."""
    G = rng.normal(size=(10, 200_000)) + 0.5
    V = mg.sample_root(G, ridge=0.1)
    b = G.mean(0)
    np.testing.assert_allclose(V.mv(V.solve(b)), b, rtol=1e-8)
    F = (G - b) / 3.0
    twice = V.mv(V.mv(b))
    np.testing.assert_allclose(twice, F.T @ (F @ b) + 0.1 * b, rtol=1e-8)


def test_below_n_equals_p_the_ridge_sets_the_length_of_the_step(rng):
    """The batch mean leaves the span of the centred gradients: |V^-1 b| grows like ridge^-1/2."""
    G = rng.normal(size=(20, 200)) + 0.2
    length = [np.linalg.norm(mg.sample_root(G, ridge=r).solve(G.mean(0))) for r in (1e-2, 1e-8)]
    assert 900 < length[1] / length[0] < 1010


def test_bad_batches_are_refused(rng):
    G = rng.normal(size=(20, 4))
    for words, bad in (
        ("at least 2", lambda: mg.sample_root(G[:1], ridge=1.0)),
        ("shape", lambda: mg.sample_root(G[0])),
        ("nan", lambda: mg.sample_root(G * np.nan)),
        ("ridge > 0", lambda: mg.sample_root(G[:4])),
        ("ridge > 0", lambda: mg.sample_root(G, "low_rank")),
        ("ridge > 0", lambda: mg.sample_root(G, "rank_one")),
        ("ridge=-1", lambda: mg.sample_root(G, ridge=-1)),
        ("overflow", lambda: mg.sample_root(G * 1e200, ridge=0.1)),
        ("ridge=nan", lambda: mg.sample_root(G, ridge=np.nan)),
        ("not known", lambda: mg.sample_root(G, "cholesky")),
    ):
        with pytest.raises(ValueError, match=words):
            bad()


def test_what_is_no_covariance_is_refused():
    for words, scatter in (
        ("semidefinite", np.diag([1.0, -0.5])),
        ("symmetric", np.array([[1.0, 0.5], [0.0, 1.0]])),
        ("finite", np.diag([1.0, np.nan])),
        ("shape", np.ones((2, 3))),
    ):
        for kind in ("symmetric", "products", "auto"):
            with pytest.raises(ValueError, match=words):
                mg.Moments(2, np.zeros(2), scatter).root(kind)
    with pytest.raises(ValueError, match="semidefinite"):
        mg.Moments(2, np.zeros(2), np.diag([1.0, -0.1])).root("products", ridge=0.2)
    for ridge in ("a", None, [1.0]):
        with pytest.raises(TypeError, match="ridge"):
            mg.sample_root(np.eye(3), ridge=ridge)
    with pytest.raises(ValueError, match="rank"):
        mg.Moments(2, np.zeros(2), np.eye(2)).root("rank_one")

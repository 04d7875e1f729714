"""The rank-one recursion: its proposition, its drift, its blocks, and the rotation of its root."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import norm

import masgrad as mg
from conftest import alpha
from masgrad.covariance import rank_one
from masgrad.covariance.rank_one import RankOneRoot
from masgrad.errors import InputError, InputTypeError
from masgrad.paper.studies.rotation import SMALL_RIDGE, rotation_experiment


def by_the_proposition(vectors, initial=1.0, dtype=float):
    """The recursion with the letters of the paper."""
    H = np.eye(vectors.shape[1], dtype=dtype) / np.sqrt(dtype(initial))
    for v in vectors.astype(dtype):
        u = H @ v
        alpha = (1 + np.sqrt(1 + u @ u)) * np.sqrt(1 + u @ u)
        H = H - np.outer(u, u @ H) / alpha
    return H


def gap(H, vectors, initial=1.0):
    """|H'H - S^-1| / |S^-1|, with S^-1 from the recursion in extended precision."""
    exact = by_the_proposition(vectors, initial, np.longdouble)
    P = exact.T @ exact
    return float(np.linalg.norm((H.T @ H - P).astype(float)) / np.linalg.norm(P.astype(float)))


@pytest.mark.parametrize("n, p", [(1, 3), (2, 5), (40, 1), (60, 7), (5000, 4)])
def test_the_recursion_is_the_propositions(rng, n, p):
    vectors = rng.normal(size=(n, p))
    H = mg.rank_one_inverse_root(vectors)
    np.testing.assert_allclose(H, by_the_proposition(vectors), rtol=1e-9, atol=1e-13)
    assert gap(H, vectors) < 1e-12


@pytest.mark.parametrize("n", [3, 30])
def test_without_its_rotation_it_is_scipys_root(rng, n):
    vectors = rng.normal(size=(n, 6))
    S = np.eye(6) + vectors.T @ vectors
    H = mg.rank_one_inverse_root(vectors, symmetric=True)
    np.testing.assert_allclose(H, np.linalg.inv(sqrtm(S).real), rtol=1e-9, atol=1e-12)
    again = mg.rank_one_inverse_root(vectors[::-1], symmetric=True, block=4)
    np.testing.assert_allclose(again, H, rtol=1e-9, atol=1e-12)


def test_the_initial_scale_is_the_ridge(rng):
    """sqrt(n-1) H_n of centred gradients is an inverse root of Sigma + ridge I, ridge by choice."""
    G, ridge = rng.normal(size=(50, 4)) @ np.diag([2.0, 1.0, 0.1, 0.01]) + 1.0, 1e-3
    H = np.sqrt(49) * mg.rank_one_inverse_root(G - G.mean(0), initial=49 * ridge)
    np.testing.assert_allclose(
        np.linalg.inv(H.T @ H), np.cov(G.T) + ridge * np.eye(4), rtol=1e-9, atol=1e-12
    )
    hidden = np.sqrt(49) * mg.rank_one_inverse_root(G - G.mean(0))
    np.testing.assert_allclose(
        np.linalg.inv(hidden.T @ hidden), np.cov(G.T) + np.eye(4) / 49, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("p", [4, 20])
def test_a_hundred_thousand_updates_do_not_drift(rng, p):
    vectors = rng.normal(size=(100_000, p)) * np.logspace(-1, 1, p)
    H, P = mg.rank_one_inverse_root(vectors), np.linalg.inv(np.eye(p) + vectors.T @ vectors)
    assert np.linalg.norm(H.T @ H - P) < 1e-10 * np.linalg.norm(P)


@pytest.mark.parametrize("block", [1, 3, 50])
@pytest.mark.parametrize("case", ["large_first", "small_start"])
def test_drift_is_seen_and_repaired(rng, monkeypatch, case, block):
    """Entries of H that fall by eight digits keep rounding of the old size: watch, and refresh.

    A start of 1e-16, or a first batch 1e8 times as large as the rest, loses more than 1e-10 one at
    a time and in small blocks; the refreshed H has the rotation it had before.
    """
    vectors, initial = rng.normal(size=(500, 20)), 1.0
    if case == "large_first":
        vectors[:20] *= 1e8
    else:
        vectors, initial = vectors[:200], 1e-16
    H = mg.rank_one_inverse_root(vectors, initial=initial, block=block)
    assert gap(H, vectors, initial) < 1e-10
    monkeypatch.setattr(rank_one, "LARGEST_DRIFT", np.inf)
    raw = mg.rank_one_inverse_root(vectors, initial=initial, block=block)
    if block < 20:  # blocks of p and more form S itself, and lose nothing here
        assert not gap(raw, vectors, initial) < 1e-10
    if block == 1:
        np.testing.assert_allclose(H, raw, atol=1e-6 * np.abs(raw).max())


def test_every_chain_has_the_recursion_of_its_batch(rng):
    F, x = rng.normal(size=(9, 4, 3)), rng.normal(size=(4, 3))
    with jax.enable_x64(True):
        V = RankOneRoot.of_factor(jnp.asarray(F), 0.2)
        solved, back = V.solve(jnp.asarray(x)), V.mv(V.solve(jnp.asarray(x)))
    for k in range(3):
        expected = by_the_proposition(F[..., k], 0.2) @ x[:, k]
        np.testing.assert_allclose(solved[:, k], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(back, x, rtol=1e-9)


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("n, p, size, initial", [(10, 20, 1e8, 1.0), (2, 4, 1e3, 1e-12)])
def test_what_has_not_drifted_is_left_alone(rng, n, p, size, initial, block):
    """n < p: S^-1 has large and small eigenvalues, and a QR factor would lose what H holds."""
    vectors = size * rng.normal(size=(n, p))
    assert (
        gap(mg.rank_one_inverse_root(vectors, initial=initial, block=block), vectors, initial)
        < 1e-10
    )


@pytest.mark.parametrize("block", [2, 7, 8, 30, 1000])
def test_blocks_give_the_same_inverse(rng, block):
    vectors = rng.normal(size=(301, 8)) * np.logspace(-2, 2, 8)
    one, many = (mg.rank_one_inverse_root(vectors, block=b) for b in (1, block))
    P = one.T @ one
    assert np.linalg.norm(many.T @ many - P) < 1e-10 * np.linalg.norm(P)
    assert gap(many, vectors) < 1e-10


def test_the_rotation_depends_on_the_order_and_can_lose_descent(rng):
    """Another order, another root; some H has a direction in which H b climbs."""
    descents = []
    for _ in range(30):
        vectors = rng.normal(size=(60, 20)) * np.logspace(-1, 1, 20)
        H = mg.rank_one_inverse_root(vectors, initial=0.01)
        r = mg.rotation(H)
        other = mg.rank_one_inverse_root(vectors[::-1], initial=0.01)
        assert np.abs(other - H).max() > 1e-3 * np.abs(H).max()
        np.testing.assert_allclose(r.matrix @ r.symmetric, H, atol=1e-10 * np.abs(H).max())
        np.testing.assert_allclose(r.matrix @ r.matrix.T, np.eye(20), atol=1e-12)
        descents.append(r.descent)
    assert min(descents) < 0
    r = mg.rotation(mg.rank_one_inverse_root(vectors, symmetric=True))
    assert abs(r.angle) < 1e-4 and abs(r.descent - 1) < 1e-9


def test_the_angle_of_a_known_rotation():
    turn = np.radians(30.0)
    Q = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    r = mg.rotation(Q @ np.diag([2.0, 2.0]))
    np.testing.assert_allclose(r.angle, 30.0, rtol=1e-9)
    np.testing.assert_allclose(r.descent, np.cos(turn), rtol=1e-9)


@pytest.mark.statistical(1)
def test_the_rotation_experiment_shows_what_it_claims(seed):
    """Angles grow as the ridge shrinks; a negligible ridge loses descent and slows the chains."""
    result = rotation_experiment(seed, batches=10, steps=100)
    angle = np.median(result.angle, -1)
    assert np.all(angle[:, 0] > 2 * angle[:, -2])  # the last but one ridge is 1e-2
    assert np.all(np.median(result.descent, -1)[1:, 0] < 0)
    errors = {k: t.distance(result.optimum)[:, -1] for k, t in result.chains.items()}
    symmetric, turned = errors["symmetric", SMALL_RIDGE], errors["rank_one", SMALL_RIDGE]
    noise = np.sqrt((symmetric.var() + turned.var()) / len(turned))
    assert turned.mean() - symmetric.mean() > norm.isf(alpha()) * noise


@pytest.mark.parametrize(
    "bad, words",
    [
        ({"vectors": np.ones(3)}, r"\(n, p\)"),
        ({"vectors": np.ones((2, 2, 2))}, r"\(n, p\)"),
        ({"vectors": np.ones((3, 0))}, r"\(n, p\)"),
        ({"vectors": np.array([[1.0, np.nan]])}, "nan"),
        ({"vectors": np.array([["a", "b"]])}, "vectors"),
        ({"vectors": np.full((3, 2), 1.5e308)}, "overflow"),
        ({"vectors": np.full((3, 2), 1.5e308), "block": 2}, "overflow"),
        ({"vectors": np.ones((3, 2)), "initial": 0.0}, "initial"),
        ({"vectors": np.ones((3, 2)), "initial": "a"}, "initial"),
        ({"vectors": np.ones((3, 2)), "initial": [1.0, 2.0]}, "initial"),
        ({"vectors": (np.ones((3, 2)), np.ones(3))}, "rectangular"),
        ({"vectors": np.ones((3, 2)), "block": 0}, "block"),
        ({"vectors": np.ones((3, 2)), "block": 1.5}, "block"),
    ],
)
def test_bad_vectors_are_refused(bad, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        mg.rank_one_inverse_root(**bad)


def test_bad_rotations_are_refused():
    for words, bad in (
        (r"H has shape \(2, 3\)", np.ones((2, 3))),
        ("H holds nan", np.full((2, 2), np.nan)),
        ("H is singular", np.zeros((2, 2))),
        ("H holds no rows", np.ones((0, 0))),
        ("H is a scalar", "ab"),
    ):
        with pytest.raises(InputError, match=words):
            mg.rotation(bad)

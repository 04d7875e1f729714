"""Packed symmetric tensors, against dense ones."""

import itertools

import numpy as np
import pytest

from masgrad.covariance import symmetric_tensor as st

LETTERS = "abcd"


def dense(A, order):
    """Sum over rows a of the outer power of a."""
    terms = ",".join(f"n{i}" for i in LETTERS[:order])
    return np.einsum(f"{terms}->{LETTERS[:order]}", *[A] * order)


def packed(T):
    """Entries with sorted indices, ordered by the last index, then the one before it, ..."""
    indices = itertools.combinations_with_replacement(range(len(T)), T.ndim)
    return np.array([T[i] for i in sorted(indices, key=lambda i: i[::-1])])


@pytest.fixture(params=[2, 3, 4])
def order(request):
    return request.param


@pytest.fixture(params=[2, 3, 7])
def A(request, rng):
    return np.column_stack([np.ones(9), rng.normal(size=(9, request.param - 1))])


def test_positions_are_those_of_the_packed_order(A, order):
    T = dense(A, order)
    M = packed(T)
    assert len(M) == st.size(len(T), order)
    np.testing.assert_allclose(M[st.position(*np.indices(T.shape))], T, rtol=1e-12, atol=1e-12)


def test_fourth_power_sum_is_einsums(A):
    np.testing.assert_allclose(st.fourth_power_sum(A), packed(dense(A, 4)), rtol=1e-12, atol=1e-12)


def test_contraction_is_a_product_with_a_vector(A, order, rng):
    d, T = A.shape[1], dense(A, order)
    for q in (rng.normal(size=d), np.ones(1)):
        full = np.append(q, np.zeros(d - len(q)))
        np.testing.assert_allclose(
            st.contract(packed(T), d, order, q), packed(T @ full), rtol=1e-12, atol=1e-12
        )


def test_shear_replaces_the_last_coordinate(A, order, rng):
    d = A.shape[1]
    q = rng.normal(size=d)
    new = np.column_stack([A[:, :-1], A @ q])
    np.testing.assert_allclose(
        st.shear(packed(dense(A, order)), d, order, q),
        packed(dense(new, order)),
        rtol=1e-11,
        atol=1e-11,
    )


def test_translation_adds_multiples_of_the_first_coordinate(A, order, rng):
    d = A.shape[1]
    tau = np.append(0.0, rng.normal(size=d - 1))
    np.testing.assert_allclose(
        st.translate(packed(dense(A, order)), d, order, tau),
        packed(dense(A + tau, order)),
        rtol=1e-11,
        atol=1e-11,
    )


def test_the_pair_matrix_unfolds_the_tensor(A):
    d, T = A.shape[1], dense(A, 4)
    i, j = st.pairs(d)
    matrix = st.pair_matrix(packed(T), (i, j), (i, j))
    np.testing.assert_allclose(matrix, T[i, j][:, i, j], rtol=1e-12, atol=1e-12)

"""X' diag(w) X over a block, whatever its layout."""

import numpy as np
import pytest

from masgrad.data.arrays import empty_columns
from masgrad.models.gram import PIECEWISE_COLUMNS, gram, gram_and_peak


def block(rng, n, p, layout):
    X = rng.normal(size=(n, p))
    if layout == "columns":
        out = empty_columns(n, p)
        out[:] = X
        return out
    wide = rng.normal(size=(n, 2 * p))
    return {"rows": X, "fortran": np.asfortranarray(X), "strided": wide[:, ::2]}[layout]


@pytest.mark.parametrize("layout", ["rows", "columns", "fortran", "strided"])
@pytest.mark.parametrize("p", [1, 5, PIECEWISE_COLUMNS, PIECEWISE_COLUMNS + 1])
@pytest.mark.parametrize("n", [1, 700, 4096])
def test_it_is_the_sum_over_rows(rng, n, p, layout):
    X, w = block(rng, n, p, layout), rng.uniform(0, 2, n)
    wanted = np.einsum("i,ij,ik->jk", w, X, X)
    np.testing.assert_allclose(gram(X, w), wanted, rtol=1e-11, atol=1e-11 * n)
    G, largest = gram_and_peak(X, w, convex=True)
    np.testing.assert_allclose(G, wanted, rtol=1e-11, atol=1e-11 * n)
    np.testing.assert_allclose(largest, np.abs(X * np.sqrt(w)[:, None]).max(0), rtol=1e-12)


@pytest.mark.parametrize("layout", ["rows", "fortran", "strided"])
def test_weights_of_one_leave_the_rows_as_they_are(rng, layout):
    X = block(rng, 700, PIECEWISE_COLUMNS + 1, layout)
    before, wanted = X.copy(), np.einsum("ij,ik->jk", X, X)
    G, largest = gram_and_peak(X, np.ones(700), convex=True)
    np.testing.assert_allclose(G, wanted, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(gram(X, np.ones(700)), wanted, rtol=1e-11, atol=1e-9)
    np.testing.assert_array_equal(largest, np.abs(X).max(0))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("p", [3, PIECEWISE_COLUMNS + 1])
def test_weights_may_be_negative_where_the_loss_is_not_convex(rng, p):
    X, w = rng.normal(size=(500, p)), rng.normal(size=500)
    G, largest = gram_and_peak(X, w, convex=False)
    np.testing.assert_allclose(G, np.einsum("i,ij,ik->jk", w, X, X), atol=1e-9)
    np.testing.assert_allclose(largest, np.abs(X * np.sqrt(np.abs(w))[:, None]).max(0), rtol=1e-12)


def test_a_result_is_not_overwritten_by_the_next_block(rng):
    X, Y = rng.normal(size=(2, 300, 4))
    first = gram(X, np.ones(300))
    copy = first.copy()
    gram(Y, np.ones(300))
    np.testing.assert_array_equal(first, copy)

"""M of least squares in single precision after a penalty: only where errors do not notice."""

import numpy as np
import pytest

import masgrad as mg
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.penalised import debias
from masgrad.fitting.uncertainty.narrow_meat import (
    MeatAlone,
    amplification,
    narrow_meat_serves,
)
from scenarios import sparse

NARROW = MeatAlone(np.zeros(5, np.float32), None)


@pytest.fixture
def narrow_reads(monkeypatch):
    """Blocks that were summed in single precision."""
    seen, grams = [], MeatAlone.grams

    def counted(self, X, w, v):
        seen.append(len(X))
        return grams(self, X, w, v)

    monkeypatch.setattr(MeatAlone, "grams", counted)
    return seen


def both(data, **options):
    """The fit, and the one in double precision."""
    one = {"penalty": mg.L1(0.05), **options}
    return mg.fit(mg.Linear(), data, **one), mg.fit(mg.Linear(), data, precision="double", **one)


@pytest.mark.parametrize(("df", "largest"), [(1.5, 4e-6), (100, 1e-6)])
@pytest.mark.filterwarnings("ignore:.*encountered in matmul")
def test_its_entries_have_six_digits(rng, df, largest):
    X = rng.standard_t(df, size=(20_000, 5))
    v = rng.exponential(size=20_000)
    H, M, _ = NARROW.grams(X, v, v)
    exact = X.T @ (v[:, None] * X)
    size = np.sqrt(np.diag(exact))
    assert H is None and np.abs((M - exact) / np.outer(size, size)).max() < largest
    assert NARROW.grams(1e20 * X, v, v) is None  # its squares overflow


@pytest.mark.parametrize("weights", [None, 3])
def test_standard_errors_are_those_of_double_precision(rng, narrow_reads, weights):
    X, y = sparse(rng, N=40_000)
    weights = None if weights is None else rng.integers(1, weights, len(y))
    r, double = both((X, y * (1 + X[:, 2] ** 2)), weights=weights)
    assert sum(narrow_reads) == len(y)
    np.testing.assert_array_equal(r.params, double.params)
    np.testing.assert_array_equal(r.penalized_params, double.penalized_params)
    np.testing.assert_allclose(r.bse, double.bse, rtol=1e-6)
    assert (r.bse != double.bse).any()
    assert r.fit_info.reads == double.fit_info.reads == 2


@pytest.mark.parametrize("case", ["far from 0", "collinear", "tiny", "few rows", "converge"])
def test_double_precision_where_float32_might_be_seen(rng, narrow_reads, case):
    X, y = sparse(rng, N=2000 if case == "few rows" else 40_000)
    if case == "far from 0":
        X[:, 3] += 10.0
    if case == "collinear":
        X[:, 3] = X[:, 4] + 0.1 * X[:, 3]
    if case == "tiny":
        y = y * 1e-14
    passes = "converge" if case == "converge" else "auto"
    r, double = both((X, y), penalty=mg.L1(0.05 * y.std()), passes=passes)
    assert not narrow_reads
    np.testing.assert_array_equal(r.bse, double.bse)


def test_rows_unlike_what_h_predicts_are_read_again_in_double_precision(rng, monkeypatch):
    monkeypatch.setattr(debias, "narrow_meat_serves", lambda *_: False)
    r, double = both(sparse(rng, N=40_000))
    np.testing.assert_array_equal(r.bse, double.bse)
    assert (r.fit_info.reads, double.fit_info.reads) == (3, 2)


@pytest.mark.parametrize(("share", "serves"), [(0.5, True), (0.9, True), (0.91, False)])
def test_errors_grow_with_the_correlation_of_two_columns(share, serves):
    M = np.array([[1.0, share], [share, 1.0]])
    V = np.linalg.inv(M)
    grown = amplification(V, np.diag(M), np.diag(V))
    np.testing.assert_allclose(grown, (1 + share**2) / (1 - share**2))
    objective = Objective(mg.Linear(), identity(2))
    local = LocalModel(100.0, np.zeros(2), np.zeros(2), 100 * M, 100 * M)
    assert narrow_meat_serves(objective, local) is serves


def test_a_meat_that_is_nearly_singular_does_not_serve():
    M = np.array([[1.0, 0.999], [0.999, 1.0]])  # standard errors are those of single gradients
    local = LocalModel(100.0, np.zeros(2), np.zeros(2), 100 * np.eye(2), 100 * M)
    assert not narrow_meat_serves(Objective(mg.Linear(), identity(2)), local)

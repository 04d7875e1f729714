"""Coded designs: the same numbers as dense ones, whatever is asked of them."""

import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import masgrad as mg
from masgrad.data.arrays import block_of, blocks, joined, powers
from masgrad.data.designs.coded import CodedDesign, Group
from masgrad.data.designs.group_sums import sums, sums_of_rows, table
from masgrad.data.designs.sparse import SparseDesign
from masgrad.data.designs.sparse_rows import SparseRows
from masgrad.data.formula import terms as formula_terms
from masgrad.data.formula.cells import cells_of_rows
from masgrad.data.tables.levels import MISSING
from masgrad.errors import IdentificationError, InputError, MissingWarning, SeparationWarning
from masgrad.models.gram import gram, gram_and_peak


def design(rng, n=500, columns=3):
    """Numbers, a category without a base level, and one times a number."""
    numbers = rng.normal(size=(n, columns))
    one = Group(2, 7, rng.integers(0, 8, n))
    other = Group(columns + 7, 5, rng.integers(0, 6, n), rng.normal(size=n))
    at = [0, 1, *range(9, columns + 7)]
    return CodedDesign(numbers, at, [one, other])


@pytest.mark.parametrize("columns", [3, 12])
def test_products_are_those_of_the_dense_matrix(rng, columns):
    X = design(rng, columns=columns)
    D, (n, p) = X.dense(), X.shape
    assert D.shape == (n, p) == (500, columns + 12)
    v, B, A = rng.normal(size=p), rng.normal(size=(p, 4)), rng.normal(size=(3, n))
    w = rng.normal(size=n)  # of either sign
    for ours, theirs in (
        (X @ v, D @ v),
        (X @ B, D @ B),
        (A[0] @ X, A[0] @ D),
        (A @ X, A @ D),
        (gram(X, w), D.T @ (w[:, None] * D)),
        (X.mean(0), D.mean(0)),
        (powers(X, 4).sum(0), (D**4).sum(0)),
        (np.abs(X), np.abs(D)),
        (X - 1.5, D - 1.5),
        (w[:, None] * X, w[:, None] * D),
        (X[:, 4], D[:, 4]),
        (X[:, 0], D[:, 0]),
        (np.asarray(X[3:40]), D[3:40]),
        (np.asarray(np.take(X, [5, 1, 1], axis=0)), D[[5, 1, 1]]),
        (np.asarray(joined([X[:100], X[100:]])), D),
        (X.standardised(np.zeros(p), np.full(p, 2.0)).dense(), D / 2),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    G, largest = gram_and_peak(X, np.abs(w), True)
    np.testing.assert_allclose(G, D.T @ (np.abs(w)[:, None] * D), rtol=1e-12, atol=1e-12)
    assert (largest >= np.abs(D * np.sqrt(np.abs(w))[:, None]).max(0) - 1e-12).all()


def several(rng, n=3_000, columns=3):
    """An intercept, numbers, four categories and one times a number; two have a small table."""
    numbers = np.c_[np.ones(n), rng.normal(size=(n, columns - 1))]
    sizes, start, groups = (7, 40, 30, 99, 5), columns, []
    for size in sizes:
        groups.append(Group(start, size, rng.integers(0, size + 1, n)))
        start += size
    groups[-1] = groups[-1]._replace(value=rng.normal(size=n))
    return CodedDesign(numbers, range(columns), groups)


@pytest.mark.parametrize("columns", [1, 3, 9])
def test_categories_summed_in_pairs_have_the_same_sums(rng, columns):
    X = several(rng, columns=columns)
    assert len(X._pairs) == 1 and len(X._alone) == 3  # of 30 and 99 levels there are too many cells
    D, (n, p) = X.dense(), X.shape
    v, w = rng.normal(size=p), rng.normal(size=n)
    for ours, theirs in (
        (X @ v, D @ v),
        (w @ X, w @ D),
        (X.gram(w), D.T @ (w[:, None] * D)),
        (X[:2_500].gram(w[:2_500]), D[:2_500].T @ (w[:2_500, None] * D[:2_500])),
        (X.take(np.arange(9))[:, 0], D[:9, 0]),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", ["coded", "sparse", "empty rows"])
def test_largest_entries_of_rows_are_those_of_standardised_columns(rng, kind):
    """Rows count as if they had a 0 in every column that is not written out."""
    X = several(rng) if kind == "coded" else SparseDesign(sparse_rows(rng, 200)[0][:, 1:])
    if kind == "empty rows":
        X = SparseDesign(sparse.csr_array(X.dense() * (np.arange(200) % 3 == 0)[:, None]))
    p = X.shape[1]
    c, s, u = rng.normal(size=p), rng.uniform(0.5, 2, p), rng.uniform(0.1, 3, p)
    zero = np.square(c / s) * u
    zero[X.written[0]] = 0.0
    wanted = np.maximum((np.square((X.dense() - c) / s) * u).max(1), zero.max())
    np.testing.assert_allclose(X.row_peaks(c, s, u), wanted, rtol=1e-12)


def test_gram_matrices_about_a_centre_are_those_of_dense_columns(rng):
    X = several(rng)
    c, s = rng.normal(size=X.shape[1]), rng.uniform(0.5, 2, X.shape[1])
    U = (X.dense() - c) / s
    np.testing.assert_allclose(X.gram_about(c, s), U.T @ U, rtol=1e-10, atol=1e-9)


def test_codes_of_products_are_where_dense_columns_are_not_0(rng):
    """Categories of 2 to 5 levels, with and without their bases; a base level has no column."""
    n, levels = 400, {"a": 2, "b": 5, "c": 3}
    columns = {name: rng.integers(0, size, n) for name, size in levels.items()}
    for full in ((), ("a",), ("b",), ("a", "c")):
        places = [(name, np.arange(k + 1) - (name not in full)) for name, k in levels.items()]
        places = [(name, np.where(np.arange(len(at)) < len(at) - 1, at, -2)) for name, at in places]
        width = np.prod([at.max() + 1 for _, at in places])
        dense = np.ones((n, 1))
        for name, at in places:
            own = np.eye(at.max() + 1)[at[columns[name]]] * (at[columns[name]] >= 0)[:, None]
            dense = (own[:, :, None] * dense[:, None]).reshape(n, -1)  # the first varies fastest
        wanted = np.where(dense.any(1), dense.argmax(1), width)
        np.testing.assert_array_equal(cells_of_rows(places, columns, int(width)), wanted)
    assert cells_of_rows(places, {**columns, "b": np.full(n, MISSING)}, int(width)) is None


def test_sums_by_group(rng):
    codes, other, w = rng.integers(0, 5, 300), rng.integers(0, 4, 300), rng.normal(size=300)
    X = rng.normal(size=(300, 9))
    D, E = np.eye(5)[:, :4][codes], np.eye(4)[:, :3][other]  # the last code is no group
    np.testing.assert_allclose(sums(codes, 4, w), D.T @ w, atol=1e-12)
    np.testing.assert_allclose(sums_of_rows(codes, 4, w, X), D.T @ (w[:, None] * X), atol=1e-12)
    few = sums_of_rows(codes, 4, w, X[:, :2])
    np.testing.assert_allclose(few, D.T @ (w[:, None] * X[:, :2]), atol=1e-12)
    np.testing.assert_allclose(table(codes, 4, other, 3, w), D.T @ (w[:, None] * E), atol=1e-12)


def frame(rng, n, levels=40):
    """Two categories, of which one has many levels, and two numbers."""
    g, h = rng.integers(0, levels, n), rng.integers(0, 4, n)
    x, z = rng.normal(size=(2, n))
    t = 0.3 * x - 0.2 * z + rng.normal(0, 0.4, levels)[g] + 0.1 * h * x
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": [f"level {k}" for k in g],
            "h": h,
            "n": rng.poisson(np.exp(t)) * 1.0,
            "b": (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0,
            "w": rng.integers(1, 4, n),
        }
    )


def dense(monkeypatch):
    monkeypatch.setattr(formula_terms, "CODED_COLUMNS", 10**6)


FITS = {
    "poisson": ("n ~ x + z + C(g) + C(h)", {"family": "poisson"}),
    "interactions": ("b ~ x * C(h) + C(g):x + C(g)", {"family": "binomial"}),
    "without intercept": ("b ~ 0 + z + C(g)", {"family": "binomial", "link": "cloglog"}),
    "categories alone": ("n ~ 0 + C(g) + C(h)", {"family": "poisson"}),
    "slopes alone": ("n ~ 0 + C(g):x", {"family": "gaussian"}),
    "weights": ("n ~ z + C(g)", {"family": "poisson", "weights": "w", "cov_type": "HC1"}),
    "leverages": ("n ~ z + C(g)", {"family": "gaussian", "cov_type": "HC3"}),
    "model errors": ("n ~ z + C(g)", {"family": "negative_binomial", "cov_type": "nonrobust"}),
    "ridge": ("n ~ z + C(g)", {"family": "poisson", "penalty": mg.L2(0.01)}),
    "lasso": ("n ~ z + C(g)", {"family": "gaussian", "penalty": mg.L1(0.01)}),
}


@pytest.mark.parametrize("rows", [3_000, 60_000])
@pytest.mark.parametrize("name", FITS)
def test_coded_fits_are_those_of_dense_columns(name, rows, rng, monkeypatch):
    data, (formula, options) = frame(rng, rows), FITS[name]
    coded = mg.glm(formula, data, **options)
    dense(monkeypatch)
    wanted = mg.glm(formula, data, **options)
    assert coded.names == wanted.names
    if rows == 3_000:  # to rounding; many rows are fitted to the tolerance, in other steps
        np.testing.assert_allclose(coded.params, wanted.params, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(coded.bse, wanted.bse, rtol=1e-6)
    away = np.abs((coded.params - wanted.params) / wanted.bse).max()
    assert away < 2 * (coded.fit_info.remainder + wanted.fit_info.remainder) + 1e-6
    np.testing.assert_allclose(coded.bse, wanted.bse, rtol=3e-3)
    np.testing.assert_allclose(coded.predict(data[:50]), wanted.predict(data[:50]), rtol=1e-3)


def test_coded_rows_from_files_single_reads_and_updates(rng, tmp_path, monkeypatch):
    data, formula = frame(rng, 80_000), "n ~ x + z + C(g)"
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=20_000)
    exact = mg.glm(formula, data, family="poisson", passes="newton")
    some = {
        "file": mg.glm(formula, tmp_path / "rows.parquet", family="poisson"),
        "single": mg.glm(formula, data, family="poisson", passes=1),
        "update": mg.glm(formula, data[:50_000], family="poisson").update(data[50_000:]),
        "saved": exact,
    }
    exact.save(tmp_path / "r.json")
    some["saved"] = mg.load(tmp_path / "r.json")
    dense(monkeypatch)
    best = mg.glm(formula, data, family="poisson", passes="newton")
    for name, r in some.items():
        away = np.abs((r.params - best.params) / best.bse).max()
        assert away < max(2e-3, 1.5 * r.fit_info.remainder), name
        np.testing.assert_allclose(r.bse, best.bse, rtol=5e-3)


def test_a_missing_category_has_no_prediction_and_a_new_one_is_refused(rng):
    data = frame(rng, 2_000)
    r = mg.glm("n ~ x + C(g)", data, family="poisson")
    few = data[:5].copy()
    few.loc[2, "g"] = None
    with pytest.warns(MissingWarning):
        assert np.isnan(r.predict(few)).tolist() == [False, False, True, False, False]
    few.loc[2, "g"] = "another"
    with pytest.raises(InputError, match="another"):
        r.predict(few)


def test_a_separated_level_among_many_is_found(rng):
    data = frame(rng, 60_000)
    data.loc[data.g == "level 7", "b"] = 0.0
    with pytest.warns(SeparationWarning):
        r = mg.glm("b ~ x + C(g)", data, family="binomial")
    assert r.params["C(g)[T.level 7]"] == -np.inf
    assert np.isfinite(r.params.drop("C(g)[T.level 7]")).all()


def test_many_levels_cost_no_dense_products(rng):
    """200 levels beside 4: the time of a read grows with the rows, not with the squared levels."""
    data = frame(rng, 200_000, levels=200)
    began = time.process_time()
    r = mg.glm("b ~ x + z + C(g) + C(h)", data, family="binomial")
    coded = time.process_time() - began
    X, began = rng.random((4096, 206)), time.process_time()
    for _ in range(200_000 // 4096):
        X.T @ X
    once = time.process_time() - began
    assert r.status is mg.Status.CONVERGED
    assert r.fit_info.gradient_reads == 0  # H by level costs little more, and saves a read
    assert coded < 8 * once  # dense columns take 20 times as long, and more


def test_blocks_are_long_only_where_there_are_many():
    assert block_of(None, 5) == block_of(10**8, 5) > block_of(10**6, 5) > block_of(10**5, 5) == 4096
    assert block_of(10**8, 5000) == 4096 and block_of(10**6, 100, coded=True) == 2**16
    X = CodedDesign(np.ones((40_000, 1)), [0], [Group(1, 2, np.zeros(40_000, int))])
    assert [len(y) for _, y in blocks((X, np.ones(40_000)))] == [32768, 7232]


def sparse_rows(rng, n, p=80, density=0.03):
    X = sparse.random_array((n, p), density=density, rng=rng, format="csr")
    X = sparse.csr_array(sparse.hstack([np.ones((n, 1)), X]))
    t = X @ rng.uniform(-1, 1, p + 1)
    return X, (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0


def test_sparse_products_are_those_of_the_dense_matrix(rng):
    X = SparseDesign(sparse_rows(rng, 300)[0])
    D, w = X.dense(), rng.normal(size=300)
    v, A = rng.normal(size=81), rng.normal(size=(2, 300))
    for ours, theirs in (
        (X @ v, D @ v),
        (A @ X, A @ D),
        (gram(X, w), D.T @ (w[:, None] * D)),
        (gram_and_peak(X, w, False)[1], np.abs(D * np.sqrt(np.abs(w))[:, None]).max(0)),
        (X.grams(w, A[0])[0], D.T @ (w[:, None] * D)),
        (X.grams(w, A[0])[1], D.T @ (A[0][:, None] * D)),
        (X.grams(w, A[0])[2], np.abs(D * np.sqrt(np.abs(w))[:, None]).max(0)),
        (powers(X, 2).mean(0), (D**2).mean(0)),
        (X.standardised(v, np.abs(v)).dense(), D / np.abs(v)),
        (np.asarray(joined([X[:7], X[7:]])), D),
        (X[:, 3], D[:, 3]),
        (np.abs(X), np.abs(D)),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"passes": 1}, {"cov_type": "HC3"}, {"passes": "newton"}])
@pytest.mark.parametrize("rows", [3_000, 60_000])
def test_sparse_fits_are_those_of_dense_columns(rows, options, rng):
    X, y = sparse_rows(rng, rows)
    assert SparseRows(X).thin
    r = mg.fit(mg.Logistic(), (X, y), **options)
    wanted = mg.fit(mg.Logistic(), (X.toarray(), y), **{**options, "passes": "newton"})
    away = np.abs((r.params - wanted.params) / wanted.bse).max()
    assert away < max(1e-6, 1.5 * r.fit_info.remainder)
    np.testing.assert_allclose(r.bse, wanted.bse, rtol=5e-3)
    np.testing.assert_allclose(r.predict(X[:9]), wanted.predict(X[:9].toarray()), rtol=1e-2)


def test_sparse_rows_are_read_once_for_their_hessian(rng):
    """Gradients of all rows lead near the optimum, and H and M are summed there."""
    X, y = sparse_rows(rng, 60_000, p=400, density=0.02)
    r = mg.fit(mg.Logistic(), (X, y))
    assert r.fit_info.gradient_reads >= 2
    assert r.fit_info.reads == r.fit_info.gradient_reads + 1
    exact = mg.fit(mg.Logistic(), (X, y), passes="newton")
    assert np.abs((r.params - exact.params) / exact.bse).max() < 1e-3
    np.testing.assert_allclose(r.bse, exact.bse, rtol=1e-3)


def test_full_rows_of_a_sparse_matrix_are_written_out(rng):
    X = sparse.csr_array(rng.normal(size=(50, 80)))
    assert not SparseRows(X).thin and isinstance(SparseRows(X)[:3], np.ndarray)


def test_sums_by_level_and_some_of_the_columns_are_those_of_the_dense_matrix(rng):
    X, codes, w = design(rng, columns=5), rng.integers(0, 30, 500), rng.normal(size=500)
    D, levels = X.dense(), np.eye(30)[codes]
    expected = levels.T @ (w[:, None] * D)
    np.testing.assert_allclose(X.sums_by(codes, 30, w), expected, rtol=1e-12, atol=1e-12)
    for columns in (np.arange(17), np.array([0, 3, 4, 9, 13]), np.array([1, 10]), np.arange(2, 9)):
        np.testing.assert_array_equal(X.only(columns).dense(), D[:, columns])


def test_collinear_columns_beside_a_coded_category_are_named(rng):
    g = rng.integers(0, 50, 3000)
    table = pd.DataFrame({"a": rng.normal(size=3000), "g": g, "k": np.sin(g)})
    with pytest.raises(IdentificationError, match=r"'k'.*determine one another"):
        mg.glm("y ~ a + k + C(g)", table.assign(y=table.a + rng.normal(size=3000)))

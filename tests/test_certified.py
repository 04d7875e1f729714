"""Correct digits of least squares: NIST's certified values, and rational arithmetic as the oracle.

Two questions are told apart. NIST certifies the fit to powers of x without rounding; columns of
doubles are those powers rounded, which alone costs Filip's coefficients all but 7.6 digits. `exact`
answers for the columns as they are given.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.polynomial.chebyshev import chebvander

import masgrad as mg
import strd
from masgrad.errors import IdentificationError, IdentificationWarning, InputError
from masgrad.fitting.objective.accurate import accurate_product, exact_difference
from masgrad.fitting.objective.factor import in_coordinates
from scenarios import sigmoid
from strd import digits

CERTIFIED = {"norris": 9, "pontius": 9, "longley": 7, **dict.fromkeys(strd.WAMPLER, 7), "filip": 6}
"""Digits that are asked for against NIST's values."""

GIVEN = {"norris": 12, "pontius": 11, "longley": 11, "wampler3": 9, "wampler5": 8, "filip": 11}
"""Digits against the exact fit to the columns as given."""


@lru_cache
def solution(name):
    return strd.exact(*strd.data(name))


def formula(degree):
    return "y ~ x" + "".join(f" + I(x**{k})" for k in range(2, degree + 1))


def table(name):
    X, y = strd.data(name)
    return pd.DataFrame({"y": y, "x": X[:, 1]})


def basis(x, degree=10):
    """Chebyshev polynomials on the range of Filip's x: the same fits, well conditioned."""
    return chebvander((np.asarray(x) + 6) / 3, degree)


# Digits.


@pytest.mark.filterwarnings("ignore::masgrad.errors.PerfectFitWarning")
@pytest.mark.parametrize("name", CERTIFIED)
def test_certified_values_of_nist(name):
    right = strd.certified(name)
    r = mg.fit(mg.Linear(), strd.data(name), cov_type="nonrobust")
    assert digits(r.params, right.params) >= CERTIFIED[name]
    assert digits(r.bse, right.bse["nonrobust"]) >= CERTIFIED[name]
    if not right.bse["nonrobust"].any():
        assert r.status is mg.Status.PERFECT_FIT


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
def test_exact_values_of_the_columns_as_given(name, cov_type):
    r = mg.fit(mg.Linear(), strd.data(name), cov_type=cov_type)
    assert digits(r.params, solution(name).params) >= GIVEN[name]
    assert digits(r.bse, solution(name).bse[cov_type]) >= GIVEN[name]


@pytest.mark.parametrize("name, degree", [("wampler5", 5), ("filip", 10)])
@pytest.mark.parametrize("kind", ["table", "parquet", "csv", "stream", "iterator", "blocks"])
def test_digits_from_every_container(name, degree, kind, tmp_path):
    (X, y), rows, options = strd.data(name), table(name), {"cov_type": "nonrobust"}
    parts = [(X[s : s + 7], y[s : s + 7]) for s in range(0, len(y), 7)]
    path = tmp_path / "rows"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pandas(rows), path.with_suffix(".parquet"), row_group_size=8)
    if kind == "csv":
        rows.to_csv(path.with_suffix(".csv"), index=False, float_format="%.17g")
    r = {
        "table": lambda: mg.glm(formula(degree), rows, **options),
        "parquet": lambda: mg.glm(formula(degree), path.with_suffix(".parquet"), **options),
        "csv": lambda: mg.glm(formula(degree), path.with_suffix(".csv"), **options),
        "stream": lambda: mg.fit(mg.Linear(), mg.Stream(lambda: iter(parts)), **options),
        "iterator": lambda: mg.fit(mg.Linear(), iter(parts), **options),
        "blocks": lambda: mg.fit(mg.Linear(), (X, y), block_size=16, **options),
    }[kind]()
    assert digits(r.params, solution(name).params) >= GIVEN[name]
    assert digits(r.bse, solution(name).bse["nonrobust"]) >= GIVEN[name]


def test_digits_without_a_constant_column():
    X, y = strd.data("filip")
    r = mg.fit(mg.Linear(), (X[:, 1:], y), cov_type="nonrobust")
    assert digits(r.params, strd.exact(X[:, 1:], y).params) >= 6


@pytest.mark.filterwarnings("ignore:some row's residual moved:masgrad.errors.AccuracyWarning")
@pytest.mark.parametrize("order", ["as it is", "falling"])
def test_digits_after_updates(order):
    """New rows may lie where the powers of the old ones have never been: the factor is merged."""
    X, y = strd.data("filip")
    rows = np.arange(82) if order == "as it is" else np.argsort(-X[:, 1])
    cuts = np.split(rows, [32, 60])
    r = mg.fit(mg.Linear(), (X[cuts[0]], y[cuts[0]]), cov_type="nonrobust")
    for cut in cuts[1:]:
        r = r.update((X[cut], y[cut]))
    assert digits(r.params, solution("filip").params) >= 7
    assert digits(r.bse, solution("filip").bse["nonrobust"]) >= 6


@pytest.mark.parametrize("passes", [1, 2, "converge"])
def test_digits_beyond_the_pilot_rows(passes):
    """The rows a thousand times: the same coefficients, and errors that shrink."""
    X, y = (np.tile(a, (1000, 1)[: a.ndim]) for a in strd.data("filip"))
    r = mg.fit(mg.Linear(), (X, y), cov_type="nonrobust", passes=passes)
    shrunk = np.sqrt((82 - 11) / (82_000 - 11))
    assert digits(r.params, solution("filip").params) >= 11
    assert digits(r.bse, shrunk * solution("filip").bse["nonrobust"]) >= 11
    plain = mg.fit(mg.Linear(), (basis(X[:, 1]), y), cov_type="nonrobust", passes=passes)
    assert r.fit_info.reads - plain.fit_info.reads == (passes != 1)  # a read for the factor


@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
def test_digits_of_sorted_rows(tmp_path):
    """The first rows, of which coordinates are made, have a part of the range of x."""
    rows = pd.concat([table("filip")] * 500).sort_values("x")
    pq.write_table(pa.Table.from_pandas(rows), tmp_path / "rows.parquet", row_group_size=1000)
    r = mg.glm(formula(10), tmp_path / "rows.parquet", cov_type="nonrobust")
    assert digits(r.params, solution("filip").params) >= 10


def test_weights_are_repeated_rows():
    X, y = strd.data("filip")
    often = 1 + np.arange(82) % 3
    right = strd.exact(np.repeat(X, often, axis=0), np.repeat(y, often))
    r = mg.fit(mg.Linear(), (X, y), weights=often, cov_type="nonrobust")
    assert digits(r.params, right.params) >= 11
    assert digits(r.bse, right.bse["nonrobust"]) >= 11


# What follows from the coefficients.


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
def test_predictions_and_joint_tests_are_those_of_an_orthogonal_basis(cov_type):
    """x'C x with C as it stands is off by a factor of five."""
    X, y = strd.data("filip")
    Z = basis(X[:, 1])
    raw, plain = (mg.fit(mg.Linear(), (A, y), cov_type=cov_type) for A in (X, Z))
    at, there = raw.predict(X, interval=0.9), plain.predict(Z, interval=0.9)
    np.testing.assert_allclose(at, there, rtol=1e-6)
    np.testing.assert_allclose(raw.contrast(X[:4]).se, there["se"][:4], rtol=1e-6)
    slopes = np.eye(11)[1:]
    assert raw.wald_test(slopes).statistic == pytest.approx(plain.wald_test(slopes).statistic, 1e-5)
    assert raw.region().contains(raw.params) and not raw.region().contains(1.1 * raw.params)
    with pytest.raises(InputError, match="linearly dependent"):
        raw.wald_test([slopes[0], 2 * slopes[0]])


@pytest.mark.filterwarnings("ignore:some row's residual moved:masgrad.errors.AccuracyWarning")
def test_a_saved_result_predicts_and_is_updated(tmp_path):
    X, y = strd.data("filip")
    r = mg.fit(mg.Linear(), (X[:60], y[:60]), cov_type="nonrobust")
    r.save(tmp_path / "r.json")
    again = mg.load(tmp_path / "r.json")
    pd.testing.assert_frame_equal(again.predict(X, interval=0.9), r.predict(X, interval=0.9))
    both = again.update((X[60:], y[60:]))
    assert digits(both.params, solution("filip").params) >= 9


@pytest.mark.parametrize("rows", [2000, 60_000])
def test_a_logistic_fit_to_raw_powers(rows):
    rng = np.random.default_rng(5)
    x = rng.uniform(-9, -3, rows)
    y = (rng.random(rows) < sigmoid(np.sin(2 * x))).astype(float)
    X, Z = strd.powers(x, 8), basis(x, 8)
    raw, plain = (mg.fit(mg.Logistic(), (A, y), passes="converge") for A in (X, Z))
    few = slice(None, 500)
    at, there = raw.predict(X[few], interval=0.9), plain.predict(Z[few], interval=0.9)
    np.testing.assert_allclose(at["mean"], there["mean"], atol=1e-5)
    np.testing.assert_allclose(at["se"], there["se"], rtol=2e-3)


# What is reported, and what is refused.


def test_the_factor_is_reported_and_only_used_where_it_is_needed():
    r = mg.fit(mg.Linear(), strd.data("filip"))
    assert r.fit_info.condition == pytest.approx(1.5e19, rel=0.1)
    assert any("triangular factor" in note for note in r.notes)
    assert [d.name for d in r.diagnostics.troubles] == ["condition"]
    easy = mg.fit(mg.Linear(), strd.data("longley"))
    assert easy.coordinates.preconditioner is None and easy.fit_info.condition < 1e5
    assert not any("triangular factor" in note for note in easy.notes)


COLLINEAR = {
    "a sum": lambda X: X[:, 1] + X[:, 2],
    "several operations": lambda X: (1.1 * X[:, 1] + X[:, 2] / 3) * 0.7 - X[:, 3] / 1000,
    "another unit": lambda X: 1.8 * X[:, 3] + 32,
}


@pytest.mark.parametrize("kind", COLLINEAR)
@pytest.mark.parametrize(
    "shift, precision", [(0.0, np.float64), (1e3, np.float64), (1e9, np.float64), (0.0, np.float32)]
)
def test_columns_that_are_collinear_up_to_rounding_are_refused(kind, shift, precision):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(400), shift + rng.normal(size=(400, 3))]).astype(precision)
    X = np.column_stack([X, COLLINEAR[kind](X)])
    with pytest.raises(IdentificationError, match="collinear"):
        mg.fit(mg.Linear(), (X, rng.normal(size=400)))


def test_a_multiple_of_a_power_is_refused_and_an_empty_column_is_not():
    X, y = strd.data("filip")
    with pytest.raises(IdentificationError, match="collinear"):
        mg.fit(mg.Linear(), (np.column_stack([X, 3 * X[:, 4]]), y))
    with pytest.raises(IdentificationError, match="column 11 is constant"):
        mg.fit(mg.Linear(), (np.column_stack([X, np.full(82, 7.0)]), y))
    with pytest.warns(IdentificationWarning, match="column 11 is 0"):
        r = mg.fit(mg.Linear(), (np.column_stack([X, np.zeros(82)]), y))
    assert np.isnan(r.params[11]) and digits(r.params[:11], solution("filip").params) >= 11


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_value_among_ill_conditioned_rows_is_named(bad):
    X, y = (np.tile(a, (500, 1)[: a.ndim]) for a in strd.data("filip"))
    X[40_000, 3] = bad
    with pytest.raises(InputError, match=rf"column 3 of X holds {bad} at row 40000"):
        mg.fit(mg.Linear(), (X, y))


# The arithmetic.


def test_an_accurate_product_of_terms_that_cancel():

    def exact(rows):
        return [[Fraction(v) for v in row] for row in rows.tolist()]

    rng = np.random.default_rng(2)
    A = rng.normal(size=(5, 7)) * 10.0 ** rng.integers(-8, 8, (5, 1))
    B = rng.normal(size=(7, 3)) * 1e9
    A[:, -1] = -(A[:, :-1] @ B[:-1, 0]) / B[-1, 0]  # the first column of A B is rounding
    right = [[float(sum(map(Fraction.__mul__, a, b))) for b in exact(B.T)] for a in exact(A)]
    terms = np.abs(A) @ np.abs(B)
    assert (np.abs(accurate_product(A, B) - right) <= 1e-21 * terms + 2e-16 * np.abs(right)).all()
    assert np.abs(A @ B - right).max() > 1e-18 * terms.max()


def test_an_exact_difference():
    a, b = np.array([1.0, 1e9, -3.5]), np.array([1e-20, 0.1, 1e17])
    high, low = exact_difference(a, b)
    for i in range(3):
        assert Fraction(high[i]) + Fraction(low[i]) == Fraction(a[i]) - Fraction(b[i])


def test_a_local_model_in_other_coordinates():
    """A step and a change of coordinates may be taken in either order."""
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(1000), rng.normal(size=(1000, 2))])
    local = mg.fit(mg.Poisson(), (X, rng.poisson(np.exp(X @ [0.1, 0.3, -0.2])))).local_model
    A, step = rng.normal(size=(3, 3)), 0.02 * rng.normal(size=3)
    one = in_coordinates(local.at(local.point + A @ step), A)
    other = in_coordinates(local, A)
    other = other.at(other.point + step)
    for name in ("point", "gradient", "hessian", "meat", "squares", "loss"):
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())

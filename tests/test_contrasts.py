"""Linear combinations of parameters: words, tests, joint regions, intervals that hold together."""

import doctest
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import masgrad as mg
from conftest import alpha
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.results import constraints, result
from masgrad.fitting.results.constraints import read_equations
from masgrad.fitting.results.estimates import INTERVAL_METHODS, max_quantile
from results import made, spread

NAMES = ("Intercept", "a", "b", "ab", "a:b", "C(g)[T.b]", "C(g)[T.c]", "my col", "x-y", "2")


@pytest.fixture
def some(rng):
    return made(rng.normal(size=10), spread(rng, 10), NAMES)


# Words.


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a - b", [({"a": 1, "b": -1}, 0)]),
        ("2*a + b = 1", [({"a": 2, "b": 1}, 1)]),
        ("a = b = ab", [({"a": 1, "b": -1}, 0), ({"b": 1, "ab": -1}, 0)]),
        ("a:b - C(g)[T.b]", [({"a:b": 1, "C(g)[T.b]": -1}, 0)]),
        ("`my col` - 'x-y', my col = x-y - a", [
            ({"my col": 1, "x-y": -1}, 0), ({"my col": 1, "x-y": -1, "a": 1}, 0),
        ]),
        ("-(a + b)/2 + 3*(a - 1) = 2*b", [({"a": 2.5, "b": -2.5}, 3)]),
        ('"2" - 2*a = 3', [({"2": 1, "a": -2}, 3)]),
        ("1e-3*a + .5*b--ab", [({"a": 1e-3, "b": 0.5, "ab": 1}, 0)]),
        ("a + 1 = b + 2", [({"a": 1, "b": -1}, 1)]),
    ],
)  # fmt: skip
def test_words_are_combinations(text, expected):
    found = read_equations(text, NAMES)
    for equation, (coefficients, value) in zip(found, expected, strict=True):
        wanted = [coefficients.get(name, 0) for name in NAMES]
        np.testing.assert_allclose(equation.coefficients, wanted)
        assert equation.value == value


@pytest.mark.parametrize(
    "text, words",
    [
        ("aa = 0", "no parameter 'aa'.*did you mean 'a'"),
        ("C(g)[T.x]", r"no parameter 'C\(g\)\[T.x\]'.*did you mean 'C\(g\)\[T"),
        ("a:c", "no parameter 'a:c'.*'a:b'"),
        ("'a:c'", "no parameter 'a:c'"),
        ("zzz", "there are 'Intercept', 'a'"),
        ("a^2", "no parameter"),
        ("2a", "no parameter '2a'"),
        ("a*b", "not linear"),
        ("a/0", "divide"),
        ("1/a", "divide"),
        ("a - 1", "compared with by '='"),
        ("a - a", "no parameter is left"),
        ("1 = 1", "no parameter is left"),
        ("(a", r"'\)' is missing"),
        ("a b", "'b' is not expected"),
        ("a, * b", r"'\*' is not expected"),
        ("a =", "ends too soon"),
        ("", "ends too soon"),
        ("(" * 60 + "a" + ")" * 60, "not expected"),
    ],
)
def test_words_that_mean_nothing_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        read_equations(text, NAMES)


def test_the_nearest_name_is_of_the_same_column():
    names = ["Intercept", "g[T.north]", "g[T.west]", "flag", "a:g[T.west]"]
    for text, near in (
        ("flag[T.True]", "flag"), ("g[T.wset]", "g[T.west]"), ("g", "g["), ("flga", "flag"),
        ("a:g[T.east]", "a:g[T.west]"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=rf"did you mean '{re.escape(near)}"):
            read_equations(text, names)


def test_nothing_is_evaluated():
    with pytest.raises(InputError, match="__import__"):
        read_equations("__import__('os').getcwd()", NAMES)


# Contrasts and tests.


def test_chains_are_blamed_only_where_they_are_too_few():
    for df in (None, 4):
        with pytest.raises(InputError, match="linearly dependent; leave some"):
            made([1.0, 2.0], np.eye(2), df=df).wald_test("theta[0] = 0, theta[0] = 1")
    with pytest.raises(InputError, match="fewer chains than that takes; test at most 1"):
        made([1.0, 2.0], np.ones((2, 2)), df=1).wald_test("theta[0] = 0, theta[1] = 1")


def test_contrasts_are_those_of_statsmodels(rng):
    table = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    table["y"] = table.a + 0.5 * table.b + rng.normal(size=300)
    r, theirs = mg.glm("y ~ a*b", table), smf.ols("y ~ a*b", table).fit(cov_type="HC0")
    text = "a - 2*b, a:b + Intercept = 1"
    t = theirs.t_test(text)
    ours = r.contrast(text)
    frame = ours.to_frame(0.1)
    np.testing.assert_allclose(frame["estimate"], t.effect, rtol=1e-7)
    np.testing.assert_allclose(frame["std err"], t.sd, rtol=1e-7)
    np.testing.assert_allclose(frame["P>|z|"], t.pvalue, rtol=1e-6)
    np.testing.assert_allclose(frame[["lower", "upper"]], t.conf_int(0.1), rtol=1e-7)
    assert list(frame.index) == ["a - 2*b", "a:b + Intercept = 1"]
    assert "a - 2*b" in repr(ours)
    joint, wald = r.wald_test(text), theirs.wald_test(text, use_f=False, scalar=True)
    assert joint.statistic == pytest.approx(wald.statistic, rel=1e-6)
    assert joint.pvalue == pytest.approx(wald.pvalue, rel=1e-6)


def test_a_matrix_a_vector_and_words_say_the_same(some):
    R, q = np.zeros((2, 10)), [0.0, 1.0]
    R[0, [1, 2]], R[1, [2, 5]] = (1, -1), (0.5, -1)
    words = ["a - b", "0.5*b - C(g)[T.b] = 1"]
    by_matrix, by_words = some.contrast(R, q), some.contrast(words)
    np.testing.assert_allclose(by_matrix.to_frame(), by_words.to_frame())
    assert by_matrix.labels == ("a - b", "0.5*b - C(g)[T.b]")
    assert some.contrast(-np.ones(10)).labels[0].startswith("-Intercept - a")
    assert some.wald_test(R, q) == pytest.approx(some.wald_test(", ".join(words)))
    np.testing.assert_allclose(some.contrast(R[0]).estimate, some.theta[1] - some.theta[2])


def test_arrays_have_parameters_too(rng):
    r = made([1.0, 3.0], np.eye(2))
    assert r.contrast("theta[1] - theta[0]").estimate == 2.0


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda r: r.contrast(np.eye(3)), r"shape \(3, 3\)"),
        (lambda r: r.contrast({"a": 1}), "R={'a': 1}; a matrix is needed, or a text"),
        (lambda r: r.contrast("a", "b"), "q='b'; numbers are needed"),
        (lambda r: r.contrast([]), "shape"),
        (lambda r: r.contrast(np.full(10, np.nan)), "not finite"),
        (lambda r: r.contrast("a = 1", [1.0]), "leave q out"),
        (lambda r: r.contrast("a", [np.inf]), "finite numbers"),
        (lambda r: r.contrast("a", [1.0, 2.0]), "one value a row"),
        (lambda r: r.wald_test("a, b, a + b"), "dependent"),
        (lambda r: r.wald_test(np.zeros(10)), "dependent"),
        (lambda r: r.wald_test("nonsense"), "nonsense"),
        (lambda r: r.region("a = 1"), "without '= 1'"),
        (lambda r: r.region("a", level=1.0), "level=1.0; a probability"),
        (lambda r: r.region("a", level="x"), "level='x'; a number"),
        (lambda r: r.region("a, b").contains([1.0]), "2 numbers are needed: a, b"),
        (lambda r: r.region("a, b, ab").ellipse(), "an ellipse needs 2"),
        (lambda r: r.conf_int(0.05, "sidak"), "method='sidak' is not known; use one of pointwise"),
        (lambda r: r.conf_int(1.0, "simultaneous"), "alpha=1.0; a probability"),
    ],
)  # fmt: skip
def test_what_cannot_be_combined_is_refused(some, ask, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        ask(some)


def test_units_do_not_make_combinations_dependent():
    r = made([1.0, 2.0], np.diag([1e-20, 1e6]))
    assert r.wald_test(np.eye(2)).df == 2


def test_what_is_not_identified_has_no_interval():
    """Only the sum of the first two is known."""
    free = np.array([[1.0], [-1.0], [0.0]]) / np.sqrt(2)
    r = made([1.0, 2.0, 3.0], np.diag([0.5, 0.5, 1.0]), "abc", free=free)
    c = r.contrast("a - b, a + b, c")
    assert c.not_identified.tolist() == [True, False, False]
    assert np.isinf(c.se[0]) and np.isfinite(c.se[1:]).all() and np.isnan(c.pvalues[0])
    for method in INTERVAL_METHODS:
        assert np.isfinite(c.conf_int(0.05, method)).all(1).tolist() == [False, True, True]
    with pytest.raises(InputError, match="'a': R depends on a direction"):
        r.wald_test("a, c")
    assert r.wald_test("a + b = 3, c = 3").statistic == pytest.approx(0.0)


# Regions.


@pytest.mark.parametrize("df", [None, 12])
def test_a_region_holds_what_its_test_does_not_reject(rng, df):
    r = made(rng.normal(size=4), spread(rng, 4), "abcd", df)
    region = r.region("a - b, c", 0.9)
    values = region.centre + 2.5 * rng.normal(size=(200, 2)) @ np.linalg.cholesky(region.matrix).T
    p = np.array([r.wald_test("a - b, c", v).pvalue for v in values])
    inside = region.contains(values)
    np.testing.assert_array_equal(inside, p >= 0.1)
    assert 20 < inside.sum() < 180 and region.contains(region.centre)
    np.testing.assert_allclose(region.distance(region.ellipse(30)), region.quantile)
    assert region.labels == ("a - b", "c") and "a - b" in repr(region)


def test_the_region_of_everything_and_of_one(rng):
    r = made(rng.normal(size=3), spread(rng, 3), "abc")
    whole = r.region()
    np.testing.assert_array_equal(whole.centre, r.theta)
    assert whole.labels == ("a", "b", "c")
    assert whole.quantile == pytest.approx(stats.chi2(3).ppf(0.95))
    low, high = r.conf_int().loc["a"]
    one = r.region("a")
    assert one.contains([low + 1e-9]) and one.contains([high - 1e-9])
    assert not one.contains([low - 1e-9]) and not one.contains([high + 1e-9])


def test_too_few_chains_have_no_region(rng):
    r = made(np.zeros(4), spread(rng, 4), df=3)
    with pytest.raises(InputError, match="from 4 chains; take more"):
        r.region()
    with pytest.raises(InputError, match="from 4 chains; take more"):
        r.conf_int(method="scheffe")


# Intervals that hold together.


def width(r, method, level=0.95):
    return np.diff(np.asarray(r.conf_int(1 - level, method)))[:, 0] / np.asarray(r.bse) / 2


@pytest.mark.parametrize("df", [None, 6])
def test_one_parameter_needs_no_correction(df):
    r = made([1.0], [[4.0]], df=df)
    for method in INTERVAL_METHODS:
        np.testing.assert_allclose(width(r, method), width(r, "pointwise"), rtol=1e-12)


@pytest.mark.parametrize("df", [None, 19])
def test_simultaneous_lies_between_pointwise_and_bonferroni(rng, df):
    r = made(rng.normal(size=5), spread(rng, 5), df=df)
    c = {method: width(r, method) for method in INTERVAL_METHODS}
    for a, b in pairwise(INTERVAL_METHODS):
        assert (c[a] < c[b]).all()
    assert np.ptp(c["simultaneous"]) < 1e-12


def test_all_of_one_mind_need_no_correction(rng):
    x = rng.normal(size=4)
    r = made(np.zeros(4), np.outer(x, x))
    np.testing.assert_allclose(width(r, "simultaneous"), stats.norm.ppf(0.975), rtol=1e-6)
    np.testing.assert_allclose(width(r, "scheffe"), stats.norm.ppf(0.975), rtol=1e-6)


@pytest.mark.parametrize("df", [None, 4, 19])
@pytest.mark.parametrize("k", [2, 12])
def test_independent_ones_have_a_closed_form(k, df):
    """P(max <= c) = P(|Z| <= c)^k, also where each has an error of its own."""
    law = stats.norm if df is None else stats.t(df)
    c = max_quantile(np.eye(k), df, 0.95)
    level = (1 - 2 * law.sf(c)) ** k
    draws = 1 << (16 if df is None else 14)
    assert abs(level - 0.95) < 4 * np.sqrt(0.95 * 0.05 / draws)


@pytest.mark.statistical(1)
def test_simultaneous_intervals_hold_together(rng):
    """Over draws of the estimate: the level, up to the error of these draws and of the quantile."""
    C, n = spread(rng, 6) + 0.2, 40_000
    r = made(np.zeros(6), C)
    half = width(r, "simultaneous", 0.9) * np.asarray(r.bse)
    hit = (np.abs(rng.multivariate_normal(np.zeros(6), C, size=n)) <= half).all(1).mean()
    error = np.sqrt(0.1 * 0.9 * (1 / n + 1 / (1 << 16)))
    assert abs(hit - 0.9) / error < stats.norm.isf(alpha() / 2)


def test_many_parameters_are_quick(rng):
    c = width(made(np.zeros(200), spread(rng, 200)), "simultaneous")
    assert 3.0 < c[0] < stats.norm.isf(0.025 / 200)


def test_the_examples_of_methods_run():
    for module in (constraints, result):
        assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
    assert doctest.testmod(result).attempted > 5


def test_two_signs_of_equality_are_one():
    r = made([1.0, 2.0], np.eye(2), ("a", "b"))
    assert r.wald_test("a == 0, 2*b==1") == r.wald_test("a = 0, 2*b = 1")
    with pytest.raises(InputError, match="cannot be read"):
        r.wald_test("a === 0")

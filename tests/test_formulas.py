"""Formulas become columns of X: the grammar, the numbers, and what is refused."""

import json

import numpy as np
import pytest

from masgrad.data.formulas import Terms, parse
from masgrad.errors import InputError, InputTypeError

READ = {
    "y ~ a + b": [(), ("a",), ("b",)],
    "y ~ 1 + a": [(), ("a",)],
    "y ~ 0 + a": [("a",)],
    "y ~ a - 1": [("a",)],
    "y ~ 1": [()],
    "y~a:b": [(), ("a", "b")],
    "y ~ a*b - 1": [("a",), ("b",), ("a", "b")],
    "y ~ (a + b):c": [(), ("a", "c"), ("b", "c")],
    "y ~ a*b*c - a:b:c - 1": [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")],
    "y ~ `my column`:a": [(), ("my column", "a")],
    "y ~ `log(a)` + a.b": [(), ("log(a)",), ("a.b",)],
    "y ~ a + b - b": [(), ("a",)],
}


@pytest.mark.parametrize("formula", list(READ))
def test_terms_of_a_formula(formula):
    assert parse(formula) == Terms("y", tuple(READ[formula]))


REFUSED = {
    "y ~ log(a)": r"term 'log\(a\)'; only numeric columns.*add the column",
    "y ~ a + C(b)": r"term 'C\(b\)'",
    "y ~ I(a**2)": r"I\(a \*\* 2\)",
    "y ~ a:log(b)": r"'a:log\(b\)'",
    "y ~ a[0]": r"'a\[0\]'",
    "y ~ {a + 1}": r"'a \+ 1'",
    "y ~ 2:a": "'2:a'",
    "y ~ a**2": r"'y ~ a\*\*2' uses '\*\*'; only numeric columns",
    "y ~ a^2": r"uses '\^'",
    "y ~ a/b": "uses '/'",
    "y ~ a | b": r"uses '\|'",
    "y ~ 2": r"'y ~ 2' cannot be read",
    "y ~ (": r"'y ~ \(' cannot be read",
    "y ~ a b": "cannot be read: Missing operator",
    "y ~ f(a b)": "cannot be read",
    "y ~ 'a'": "cannot be read",
    "y ~ a ~ b": "cannot be read",
    "y ~ .": r"uses '\.'; name the columns",
    "~ a": "response none; one column",
    "a + b": "response none",
    "y + z ~ a": r"response y \+ z; one column",
    "y:z ~ a": "response y:z",
    "1 ~ a": "response 1",
    "log(y) ~ a": r"term 'log\(y\)'",
    "y ~ 0": "no right-hand side",
    "y ~": "no right-hand side",
    "": "no right-hand side",
    "y ~ a + y": "'y' on both sides",
    "y ~ a:y": "'y' on both sides",
    "y ~ `1`": "column '1'",
    "y ~ Intercept": "two columns 'Intercept'",
    "y ~ `a:b` + a:b": "two columns 'a:b'",
}


@pytest.mark.parametrize("formula", list(REFUSED))
def test_refused_formula(formula):
    with pytest.raises(InputError, match=REFUSED[formula]) as caught:
        parse(formula)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_a_formula_is_text():
    with pytest.raises(InputTypeError, match="got 5"):
        parse(5)  # type: ignore[arg-type]


def test_nothing_is_evaluated(tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(InputError):
        parse(f"y ~ a + open({str(mark)!r}, 'w')")
    assert not mark.exists()


def test_dot_is_every_other_column():
    assert parse("y ~ . - b", ["a", "y", "b", "c d"]).names == ("Intercept", "a", "c d")
    with pytest.raises(InputError, match="column '1'"):
        parse("y ~ .", ["1", "y"])


def test_names_and_columns():
    terms = parse("y ~ b:a + a + c")
    assert terms.names == ("Intercept", "a", "c", "b:a")
    assert terms.columns == ("y", "a", "c", "b")
    assert Terms(None, terms.terms).columns == ("a", "c", "b")


def test_matrix_against_numpy(rng):
    a, b, c = rng.normal(size=50), rng.integers(-9, 9, 50), rng.random(50) < 0.5
    X = parse("y ~ a*b + a:b:c").matrix({"a": a, "b": b, "c": c, "y": a})
    np.testing.assert_array_equal(X, np.column_stack([np.ones(50), a, b, a * b, a * b * c]))
    assert X.dtype == np.float64 and X.T.flags.c_contiguous


def test_matrix_is_a_copy(rng):
    a = rng.normal(size=5)
    assert not np.shares_memory(parse("y ~ 0 + a").matrix({"a": a}), a)
    np.testing.assert_array_equal(parse("y ~ 1").matrix({"y": a}), np.ones((5, 1)))


def test_json_round_trip():
    terms = parse("y ~ a*b + `c d`")
    assert Terms.from_json(json.loads(json.dumps(terms.to_json()))) == terms
    assert Terms.from_json(Terms(None, ((),)).to_json()) == Terms(None, ((),))


@pytest.mark.parametrize(
    "saved", [{}, {"response": 1, "terms": []}, {"terms": "ab"}, {"terms": ["ab"]}]
)
def test_damaged_json(saved):
    with pytest.raises(InputError, match="damaged"):
        Terms.from_json(saved)

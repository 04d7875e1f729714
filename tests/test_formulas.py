"""Formulas become columns of X: the grammar, the numbers, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from masgrad.data.formula.expressions import FUNCTIONS, LEARNED
from masgrad.data.formula.formulas import parse
from masgrad.data.formula.learning import learn
from masgrad.data.formula.terms import Terms
from masgrad.data.opening import open_table
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
    parsed = parse(formula)
    assert [tuple(factor.name for factor in term) for term in parsed.terms] == READ[formula]
    assert parsed.response == "y"


REFUSED = {
    "y ~ bs(a)": r"term 'bs\(a\)'; columns, C\(column\).*add anything else to the data",
    "y ~ a + poly(b, 2)": r"term 'poly\(b, 2\)'",
    "y ~ a:lag(b)": r"'a:lag\(b\)'",
    "y ~ scale(a, center=False)": "center=False",
    "y ~ log(a, 2)": r"'log\(a, 2\)'",
    "y ~ C(a > 0)": r"'C\(a > 0\)'",
    "y ~ C(g, Sum)": r"'C\(g, Sum\)'",
    "y ~ C(g, contr.poly)": "contr.poly",
    "y ~ C(g, Treatment(a))": "Treatment",
    "y ~ C(g, levels=['a'])": "levels",
    "y ~ I(a if a else b)": "if",
    "y ~ I(a.b.c)": "a.b.c",
    "y ~ I(1)": r"'I\(1\)'",
    "y ~ np.linalg.inv(a)": "inv",
    "y ~ a[0]": r"'a\[0\]'",
    "y ~ {a > 1}": r"'a > 1'",
    "y ~ 2:a": "'2:a'",
    "y ~ a**2": r"has a\*\*, which in a formula crosses terms.*I\(a\*\*2\)",
    "y ~ a^2": r"I\(a\*\*2\)",
    "y ~ a %in% b": "uses 'in'",
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
    "log(y) ~ a": r"response log\(y\); a column",
    "C(y) ~ a": r"response C\(y\); a column",
    "f(y) ~ a": r"term 'f\(y\)'",
    "y ~ 0": "no right-hand side",
    "y ~": "no right-hand side",
    "": "no right-hand side",
    "y ~ a + y": "'y' on both sides",
    "y ~ a:y": "'y' on both sides",
    "y ~ log(a + y)": "'y' on both sides",
    "y ~ `1`": "column '1'",
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
    with pytest.raises(InputError, match=r"has the term \"open\(.*are known"):
        parse(f"y ~ a + open({str(mark)!r}, 'w')")
    assert not mark.exists()


def learned(formula, **columns):
    parsed = parse(formula)
    return learn(parsed, open_table(columns, parsed.columns))


Y = np.array([0.0, 1.0, 0.0, 1.0])


def test_the_page_names_every_function():
    page = (Path(__file__).parents[1] / "docs" / "glm.md").read_text()
    for name in (*FUNCTIONS, *LEARNED):
        assert f"`{name}`" in page
    _, *factors = parse("y ~ np.log2(a) + expm1(a)").terms
    assert [factor.expression[0] for (factor,) in factors] == ["log2", "expm1"]


def test_two_columns_of_one_name():
    with pytest.raises(InputError, match="two columns 'Intercept'"):
        learned("y ~ Intercept", y=Y, Intercept=Y)
    with pytest.raises(InputError, match="two columns 'a:b'"):
        learned("y ~ `a:b` + a:b", y=Y, a=Y, b=Y, **{"a:b": Y})


def test_dot_is_every_other_column():
    parsed = parse("y ~ . - b", ["a", "y", "b", "c d"])
    assert parsed.columns == ("y", "a", "c d")
    with pytest.raises(InputError, match="column '1'"):
        parse("y ~ .", ["1", "y"])


def test_names_and_columns():
    terms = learned("y ~ b:a + a + log(c)", y=Y, a=Y, b=Y, c=Y)
    assert terms.names == ("Intercept", "a", "log(c)", "b:a")
    assert terms.columns == ("y", "a", "c", "b")
    assert replace(terms, response=None).columns[0] != "y"


def test_matrix_against_numpy(rng):
    a, b, c = rng.normal(size=50), rng.integers(-9, 9, 50), rng.random(50) < 0.5
    columns = {"a": a, "b": b, "c": c, "y": a}
    X = learned("y ~ a*b + a:b:c", **columns).matrix(columns)
    np.testing.assert_array_equal(X, np.column_stack([np.ones(50), a, b, a * b, a * b * c]))
    assert X.dtype == np.float64 and X.strides[0] == X.itemsize


def test_matrix_is_a_copy(rng):
    a = rng.normal(size=5)
    terms = learned("y ~ 0 + a", y=a, a=a)
    assert not np.shares_memory(terms.matrix({"a": a}), a)
    np.testing.assert_array_equal(learned("y ~ 1", y=a).matrix({"y": a}), np.ones((5, 1)))


def test_what_has_no_logarithm_is_nan(rng):
    X = learned("y ~ 0 + log(a) + I(a**-1)", y=Y, a=Y).matrix({"a": Y})
    np.testing.assert_array_equal(X[:2], [[-np.inf, np.inf], [0, 1]])


def test_json_round_trip():
    g, h = list("abca"), [True, False, True, True]
    terms = learned(
        "y ~ a*C(h) + `c d`:C(g, Treatment('b')) + I(log(a + 1)**2)",
        **{"y": Y, "a": Y, "c d": Y, "g": g, "h": h},
    )
    terms = replace(terms, weight="w", offset="o", exposure="e")
    again = Terms.from_json(json.loads(json.dumps(terms.to_json())))
    assert again == terms and again.names == terms.names


DAMAGED = {
    "response": 1,
    "numbers": [["a", ["system", ["column", "a"]]]],
    "categories": [{"name": "g", "column": "g", "levels": [["x"]], "base": 0}],
    "products": [[["unknown", False]]],
    "weight": [],
}


@pytest.mark.parametrize("part", [*DAMAGED, "nothing", "log"])
def test_damaged_json(part):
    saved = learned("y ~ a + C(g)", y=Y, a=Y, g=list("abab")).to_json()
    if part == "log":
        saved["numbers"] = [["a", ["log", ["column", "a"], ["column", "a"]]]]
    saved = {} if part == "nothing" else saved | ({part: DAMAGED[part]} if part in DAMAGED else {})
    with pytest.raises(InputError, match="damaged"):
        Terms.from_json(json.loads(json.dumps(saved)))


@pytest.mark.parametrize(
    "formula",
    ["y ~ (a + b)**50", "y ~ (a + b)^50", "y ~ (a*b*c*d*e)**9", "y ~ (a + b)**999999999"],
)
def test_powers_without_an_end_are_refused(formula):
    with pytest.raises(InputError, match=r"more than 10,000 products"):
        parse(formula)


def test_products_of_many_and_long_sums_are_read():
    assert len(parse("y ~ (a + b + c + d + e)**5").terms) == 32
    assert len(parse("y ~ (.)**2", ["y", "a", "b", "c"]).terms) == 7
    assert len(parse("y ~ " + " + ".join(f"x{k}" for k in range(1500))).terms) == 1501


def test_sums_of_columns_are_read_as_formulaic_reads_them():
    """An explicit intercept takes the long way, by formulaic's grammar, to the same terms."""
    rng = np.random.default_rng(0)
    names = ("a", "b", "_c2", "log", "I", "T", "C(g)", "C(a)", "g")
    for _ in range(50):
        text = rng.choice(["+", " + "]).join(rng.choice(names, rng.integers(1, 6)))
        assert parse(f"y~{text}").terms == parse(f"y ~ 1 + {text}").terms

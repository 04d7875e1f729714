"""X against formulaic's own model matrix: names, columns and their order, to the last formula."""

import formulaic
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masgrad.data.formulas import parse
from masgrad.data.learning import learn
from masgrad.data.tables import TableSource, open_table

CONTEXT = {"sqrt": np.sqrt, "log1p": np.log1p, "abs": np.abs, "expm1": np.expm1}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 120
    levels = pd.CategoricalDtype(["low", "mid", "high"])
    return pd.DataFrame(
        {
            "y": rng.normal(size=n),
            "x": rng.random(n) + 0.5,
            "z": rng.normal(size=n),
            "my col": rng.random(n) + 1,
            "k": rng.integers(1, 5, n),
            "b": rng.random(n) < 0.5,
            "g": rng.choice(list("cab"), n),
            "h": pd.Series(rng.choice(["low", "mid", "high"], n)).astype(levels),
            "r": rng.choice(["u", "v"], n),
            "my group": rng.choice(["é", "b c"], n),
        }
    )


def made(formula, frame):
    parsed = parse(formula, list(frame.columns))
    medium = open_table(frame, parsed.columns)
    terms = learn(parsed, medium)
    return terms, np.concatenate([rows[0] for rows in TableSource(medium, terms).blocks()])


def agree(formula, frame):
    wanted = formulaic.model_matrix(formula, frame, context=CONTEXT).rhs  # type: ignore
    terms, X = made(formula, frame)
    assert terms.names == tuple(wanted.columns)
    np.testing.assert_allclose(X, wanted.to_numpy(float), rtol=1e-12, atol=1e-12)


FORMULAS = """
g | g - 1 | 0 + g | 1 | x + g | g + x - 1 | g:x | g:x - 1 | g + g:x | g*x | x + g:x | g + h | g*h
g:h | g:h - 1 | 0 + g + h | 0 + g*h | g + g:h | h + g:h | g/h | g/x | x/g | h/g/r | g*h*r | g:h:r
g:h + h:r | g*h - g | g*h - g - h | g:h:x + g | g:h:x | x:g:h + x - 1 | (g + h + r)**2
(x + z)**2 | (g + x + h)^2 | (x + z + g)**3 | g*h*x | g*(h + x) - 1 | r:g + r | C(g)
C(k) | C(k) - 1 | C(b) | b | b + g:b | C(k):g | C(k)*x | k + C(k) - 1
C(k, Treatment(2)) | C(g, Treatment('b')) | C(g, Treatment(reference="c")):x + x
C(g, contr.treatment(base="b"))*h | C(g, contr.treatment("a")) | C(g, contr.treatment)
C(`my group`) | `my group`:x | `my group` + `my col`
I(x**2) | I(x ** 2 + z) | log(x) | log(x):g | log10(x) + exp(z) | sqrt(x) + abs(z) | log1p(x):h
np.log(x) + np.exp(z) | log(`my col`) | {x + z} | {x / `my col`}:g | I(-x) | I(k**2) + k
I(2*x - 1) | exp(log(x) + 1) | I(x):g | x:z:g | expm1(x) | log2(x)
. | . - g | g + C(g, Treatment("b")):x
""".replace("\n", "|").split("|")


@pytest.mark.parametrize("right", [f.strip() for f in FORMULAS if f.strip()])
def test_against_formulaic(frame, right):
    agree(f"y ~ {right}", frame)


FACTORS = st.sampled_from(["x", "z", "g", "h", "r", "C(k)"])
PRODUCTS = st.lists(FACTORS, min_size=1, max_size=3, unique=True).map(":".join)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(PRODUCTS, min_size=1, max_size=4), st.sampled_from(["", " - 1"]))
def test_any_products_against_formulaic(products, intercept):
    agree(f"y ~ {' + '.join(products)}{intercept}", FRAME)


FRAME = pd.DataFrame(
    {
        "y": 0.0,
        "x": np.linspace(0, 1, 24),
        "z": np.sin(np.arange(24)),
        "g": list("abc") * 8,
        "h": list("uuuvvv") * 4,
        "r": ["p"] * 12 + ["q"] * 12,
        "k": [1, 2] * 12,
    }
)

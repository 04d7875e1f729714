"""X against formulaic's own model matrix: names, columns and their order, to the last formula."""

import json

import formulaic
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import masgrad as mg
from masgrad.data.formula.formulas import parse
from masgrad.data.formula.learning import learn
from masgrad.data.formula.terms import Terms
from masgrad.data.opening import open_table
from masgrad.data.table_rows import TableSource
from masgrad.data.table_source import predictors
from masgrad.errors import InputError
from masgrad.fitting.sources import as_source

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


def made(formula, frame, columns=None):
    parsed = parse(formula, columns or list(frame.columns))
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
center(x) + scale(z) | scale(log(x)):g | scale(x)*center(k) | I(scale(x)**2) | center(scale(z))
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


def test_scale_is_learned_once(tmp_path):
    """From all files, over rows of positive weight; new rows are scaled as the old ones were."""
    frame = FRAME.assign(y=0.0, w=np.arange(24) % 3)
    for k in range(2):
        frame[12 * k : 12 * k + 12].to_parquet(tmp_path / f"{k}.parquet", row_group_size=5)
    rows = frame.loc[frame.index.repeat(frame["w"])]
    mean, sd = rows["z"].mean(), rows["z"].std()
    for data in (frame, tmp_path):
        source, terms = as_source(mg.Linear(), data, "y ~ 0 + scale(z)", 2**29, weights="w")
        ((X, _),) = predictors(terms, frame[:3]).blocks()
        np.testing.assert_allclose(X[:, 0], (frame["z"][:3] - mean) / sd, rtol=1e-12)
        assert source.names == ("scale(z)",)
        assert Terms.from_json(json.loads(json.dumps(terms.to_json()))) == terms


def test_scale_refuses():
    wrong = FRAME.assign(z=FRAME["z"].where(FRAME.index != 7))
    with pytest.raises(InputError, match=r"scale\(\) of 'z' has no value at row 7;"):
        made("y ~ scale(z)", wrong)
    with pytest.raises(InputError, match=r"column 'z': it is constant"):
        made("y ~ scale(z)", FRAME.assign(z=2.0))
    with pytest.raises(InputError, match=r"need a read of their own"):
        made("y ~ scale(z)", iter([FRAME]), list(FRAME.columns))

"""Rows that are separated beside fixed effects: against pyfixest, a linear program, a limit."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import masgrad as mg
from test_effects import assert_close, pyfixest

FORMULA = "y ~ x + d | firm + year"


def table(seed: int, family: str = "poisson", n: int = 1500) -> pd.DataFrame:
    """A panel in which d is 1 in rows without an event alone, and varies within firms."""
    rng = np.random.default_rng(seed)
    t = pd.DataFrame({"firm": rng.integers(0, 60, n), "year": rng.integers(0, 8, n)})
    t["x"] = rng.normal(size=n)
    mean = 0.3 * t.x + 0.4 * rng.normal(size=60)[t.firm] - 0.3
    events = rng.poisson(np.exp(mean)) if family == "poisson" else rng.logistic(size=n) < mean
    t["y"] = 1.0 * events
    t["d"] = 1.0 * ((t.y == 0) & (rng.random(n) < 0.1))
    return t


def fitted(data, family: str, **keywords):
    with pytest.warns(mg.errors.SeparationWarning, match="rows are separated along"):
        return mg.glm(FORMULA, data, family=family, passes="converge", **keywords)


def test_separated_rows_are_those_that_pyfixest_leaves_out():
    t = table(0)
    r = fitted(t, "poisson", cov_type="HC1")
    exact = {"separation_check": ["fe", "ir"], "iwls_tol": 1e-12, "vcov": "hetero"}
    oracle = pyfixest("fepois", FORMULA.replace(" ", ""), t, **exact)
    assert r.nobs == oracle._N == len(t) - int(t.d.sum())
    assert_close(r.params["x"], oracle.coef()["x"])
    assert_close(r.bse["x"], oracle.se()["x"])
    assert (r.params["d"], r.bse["d"]) == (-np.inf, np.inf)
    assert r.status is mg.Status.SEPARATED
    assert f"{int(t.d.sum())} rows left out: they are separated" in " ".join(r.notes)


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_the_fit_is_that_without_the_separated_rows(family):
    t = table(1, family)
    r, rest = fitted(t, family), t[t.d == 0]
    alone = mg.glm("y ~ x | firm + year", rest, family=family, passes="converge")
    assert_close(r.params["x"], alone.params["x"])
    assert_close(r.bse["x"], alone.bse["x"])
    assert_close(r.predict(rest), alone.predict(rest))
    assert (r.predict(t[t.d == 1]) == 0).all()
    assert (r.predict(t[t.d == 1], which="linear") == -np.inf).all()


def test_clusters_and_files_leave_the_same_rows_out(tmp_path):
    t = table(2)
    t.to_parquet(tmp_path / "t.parquet", row_group_size=200)
    r = fitted(t, "poisson", clusters="firm")
    file = fitted(tmp_path / "t.parquet", "poisson", clusters="firm", block_size=300)
    rest = t[t.d == 0]
    asked = {"family": "poisson", "clusters": "firm", "passes": "converge"}
    alone = mg.glm("y ~ x | firm + year", rest, **asked)
    for found in (r, file):
        assert_close(found.bse["x"], alone.bse["x"])
        assert found.nobs == len(rest)


def separated_rows(t: pd.DataFrame, family: str) -> np.ndarray:
    """All rows that some direction d separates, by a linear program over dense dummies.

    u = s X d is at least 0 at the boundary, and 0 elsewhere; the sum of min(u, 1) is largest.
    """
    groups = [pd.get_dummies(t[g]).to_numpy(float) for g in ("firm", "year")]
    X = np.column_stack([t[["a", "b", "c"]].to_numpy(), *groups])
    s = -1.0 * (t.y == 0).to_numpy() + (family == "binomial") * (t.y == 1).to_numpy()
    ends, others = s[s != 0, None] * X[s != 0], X[s == 0]
    m, p = len(ends), X.shape[1]
    done = linprog(
        np.r_[np.zeros(p), -np.ones(m)],
        np.hstack([-ends, np.eye(m)]),
        np.zeros(m),
        np.hstack([others, np.zeros((len(others), m))]),
        np.zeros(len(others)),
        [(None, None)] * p + [(0, 1)] * m,
    )
    separated = np.zeros(len(t), bool)
    separated[s != 0] = done.x[p:] > 0.5
    return separated


def kept_rows(t: pd.DataFrame, family: str) -> int:
    """Rows that are neither separated nor, again and again, the only ones of a level."""
    rest = t[~separated_rows(t, family)]
    while True:
        sizes = [rest.groupby(g).y.transform("size") for g in ("firm", "year")]
        single = np.minimum(*sizes) == 1
        if not single.any():
            return len(rest)
        rest = rest[~single]


def with_direction(seed: int, family: str, n: int = 400) -> pd.DataFrame:
    """Rows that a combination of columns and levels separates: no events where it is positive."""
    rng = np.random.default_rng(seed)
    t = pd.DataFrame({"firm": rng.integers(0, 20, n), "year": rng.integers(0, 5, n)})
    for name in "abc":
        t[name] = rng.integers(-1, 2, n) * 1.0
    levels = rng.integers(0, 2, 20)[t.firm] - rng.integers(0, 2, 5)[t.year]
    along = t[["a", "b", "c"]].to_numpy() @ rng.integers(-1, 2, 3) + levels
    events = rng.poisson(0.8, n) if family == "poisson" else rng.random(n) < 0.5
    t["y"] = 1.0 * events * (along == 0)
    return t[along >= 0].reset_index(drop=True)


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_rows_separated_by_combinations_are_those_of_a_linear_program(family):
    separated = 0
    for seed in range(8):
        t = with_direction(seed, family)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = mg.glm("y ~ a + b + c | firm + year", t, family=family, passes="converge")
        assert r.nobs == kept_rows(t, family), seed
        separated += r.status is mg.Status.SEPARATED
    assert separated >= 6


def with_numbers(seed: int) -> pd.DataFrame:
    """A column of any size that hardly varies, or not, within firms but in a few rows."""
    rng = np.random.default_rng(seed)
    n, firms = int(rng.integers(80, 400)), int(rng.integers(5, 25))
    t = pd.DataFrame({"firm": rng.integers(0, firms, n), "year": rng.integers(0, 5, n)})
    t["a"], t["b"] = rng.normal(size=(2, n))
    t["y"] = 1.0 * rng.poisson(0.5 * np.exp(0.3 * t.a))
    own = rng.normal(size=firms) * 10 ** rng.uniform(-2, 2)
    t["c"] = own[t.firm]
    few = rng.choice(np.flatnonzero(t.y == 0), 4, replace=False)
    t.loc[few, "c"] += rng.uniform(0.5, 2, 4) * (1 if seed % 2 else rng.choice([-1, 1], 4))
    return t


def test_separation_along_numbers_of_any_size_is_that_of_a_linear_program():
    """Where c hardly varies in interior rows, beside its size, it separates some rows or none."""
    statuses = []
    for seed in range(12):
        t = with_numbers(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = mg.glm("y ~ a + b + c | firm + year", t, family="poisson")
        scaled = t.assign(c=(t.c - t.groupby("firm").c.transform("median")))
        assert r.nobs == kept_rows(scaled, "poisson"), seed
        statuses.append(r.status)
    assert statuses.count(mg.Status.SEPARATED) >= 4 <= statuses.count(mg.Status.CONVERGED)


@pytest.mark.parametrize("n", [20_000, 100_000])
def test_few_separated_rows_of_many_are_found(n):
    rng = np.random.default_rng(n)
    firm = rng.integers(0, 200, n)
    t = pd.DataFrame({"firm": firm, "z": rng.normal(size=n), "x": 3 * rng.normal(size=200)[firm]})
    t["y"] = rng.poisson(np.exp(0.3 * t.z + 0.2))
    few = t.index[t.y == 0][:5]
    t.loc[few, "x"] += 1.0
    with pytest.warns(mg.errors.SeparationWarning, match="5 rows are separated along x"):
        r = mg.glm("y ~ x + z | firm", t, family="poisson")
    alone = mg.glm("y ~ z | firm", t.drop(few), family="poisson")
    assert (r.params["x"], r.nobs) == (-np.inf, n - 5)
    np.testing.assert_allclose(r.params["z"], alone.params["z"], atol=1e-3 * alone.bse["z"])


def test_rows_of_levels_that_were_left_out_have_no_prediction():
    t = pd.concat([table(8), table(8).iloc[[0]].assign(firm=999, d=1.0)])
    r = fitted(t, "poisson")
    with pytest.warns(mg.errors.MissingWarning, match="was left out of the fit"):
        assert np.isnan(r.predict(t[t.firm == 999])).all()


def test_a_far_optimum_is_no_separation():
    """One event among the rows of d: its coefficient is finite, and far from 0."""
    t = table(6)
    t["d"] = 1.0 * ((t.d == 1) | (np.arange(len(t)) == t.y.to_numpy().argmax()))
    r = mg.glm(FORMULA, t, family="poisson", passes="converge")
    oracle = pyfixest("fepois", FORMULA.replace(" ", ""), t, iwls_tol=1e-13, vcov="hetero")
    assert_close(r.params, oracle.coef())
    assert r.status is mg.Status.CONVERGED

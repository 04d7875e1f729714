"""Every keyword of a fit with very many levels: it is honoured, or refused with a reason."""

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.data.formula import terms as formula_terms
from masgrad.errors import InputError
from masgrad.fitting.levels.result import LevelsResult
from masgrad.fitting.options import KEYWORDS

LEVELS = 40

HONOURED = {
    "passes": "converge",
    "weights": "w",
    "offset": "o",
    "exposure": "e",
    "formula": "y ~ a + C(g)",
    "cov_type": "HC1",
    "small_sample": "stata",
    "time_gaps": "rank",
    "missing": "drop",
    "on_bad_rows": "skip",
    "weights_type": "frequency",
    "method": "sandwich",
    "chains": 10,
    "step_size": 2.0,
    "memory": "64MB",
    "block_size": 100,
    "threads": 2,
    "precision": "double",
    "engine": "local",
    "seed": 1,
    "checkpoint": "levels",
    "every": 5.0,
    "progress": False,
}

REFUSED = {
    "penalty": (mg.L1(0.1), "a penalty"),
    "clusters": ("c", "clusters=; '| g' after the formula"),
    "time": ("c", "for cov_type='HAC' or 'DK'"),
    "unit": ("c", "for cov_type='HAC' or 'DK'"),
    "lags": (3, "for cov_type='HAC' or 'DK'"),
    "start": (np.zeros(41), "start="),
    "starts": (3, "need not be convex"),
    "client": (object(), "client= is for engine='dask'"),
    "scheduler": ("tcp://127.0.0.1:1", "scheduler= is for engine='dask'"),
    "storage_options": ({}, "storage_options are for files at stores"),
    "at": (np.zeros(41), "at="),
    "resume": (True, "give checkpoint=PATH"),
}

VALUES_REFUSED = [
    *(({"cov_type": kind}, "'| g' after") for kind in ("cluster", "CR2", "CR3", "HAC")),
    ({"cov_type": "DK", "time": "c"}, "cov_type='DK'; '| g' after"),
    ({"weights": "w", "weights_type": "analytic"}, "weights_type='analytic'; '| g' after"),
    ({"weights": "w", "weights_type": "probability"}, "'| g' after"),
    ({"cov_type": "HC3"}, "HC3"),
    ({"method": "chains"}, "chains"),
    ({"passes": 1}, "passes=1"),
]


@pytest.fixture
def table(rng, tmp_path, monkeypatch):
    """Rows with 40 levels, which are made very many."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formula_terms, "DENSE_LEVELS", LEVELS - 10)
    n = 1200
    rows = pd.DataFrame({"g": np.arange(n) % LEVELS, "a": rng.normal(size=n)})
    rows["w"], rows["o"] = rng.integers(1, 4, n) * 1.0, 0.2 * rng.normal(size=n)
    rows["e"], rows["c"] = rng.uniform(1.0, 2.0, n), rng.integers(0, 20, n)
    rows["y"] = rng.poisson(np.exp(0.3 * rows.a + rows.o + 0.3)).astype(float)
    return rows


def test_the_table_has_every_keyword():
    assert sorted([*HONOURED, *REFUSED]) == sorted(KEYWORDS)


@pytest.mark.parametrize("keyword", HONOURED)
def test_keywords_that_are_honoured(keyword, table, tmp_path, monkeypatch):
    data = table
    if keyword == "missing":
        data = table.assign(a=table.a.where(table.index % 50 != 7), o=1.0)
    if keyword == "on_bad_rows":
        data = tmp_path / "rows.csv"
        lines = table.to_csv(index=False).splitlines()
        data.write_text("\n".join([*lines[:9], "1,2,3", "1,x,1,0,1,3,2", *lines[9:]]) + "\n")
    given = {"formula": "y ~ a + C(g)", "passes": "converge", keyword: HONOURED[keyword]}
    ours = mg.fit(mg.Poisson(), data, **given)
    monkeypatch.setattr(formula_terms, "DENSE_LEVELS", 10**6)
    theirs = mg.fit(mg.Poisson(), data, **given)
    assert isinstance(ours, LevelsResult) and not isinstance(theirs, LevelsResult)
    assert (ours.nobs, ours.omitted) == (theirs.nobs, theirs.omitted)
    assert np.abs((ours.params - theirs.params) / theirs.bse).max() < 1e-5
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)


@pytest.mark.parametrize("keyword", REFUSED)
def test_keywords_that_are_refused(keyword, table):
    value, said = REFUSED[keyword]
    with pytest.raises(InputError) as error:
        mg.glm("y ~ a + C(g)", table, family="poisson", **{keyword: value})
    assert said in str(error.value)


@pytest.mark.parametrize("given, said", VALUES_REFUSED)
def test_values_that_are_refused(given, said, table):
    with pytest.raises(InputError) as error:
        mg.glm("y ~ a + C(g)", table, family="poisson", **given)
    assert "has 40 levels" in str(error.value) and said in str(error.value)
    if "'| g'" in said and given.get("cov_type") not in ("cluster", "CR2", "CR3"):
        mg.glm("y ~ a | g", table, family="poisson", **given)  # as it says

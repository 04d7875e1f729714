"""Ctrl-C while errors beside effects are summed: the estimate is kept, with other errors."""

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.fitting.effects.rows.projected import Projection


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    t = pd.DataFrame({"firm": rng.integers(0, 100, 40_000), "x": rng.normal(size=40_000)})
    t["y"] = t.x + rng.normal(size=len(t))
    t["c"], t["year"] = rng.poisson(np.exp(0.3 * t.x)), np.arange(len(t)) % 20
    t["z"] = np.exp(0.3 * t.x) * rng.gamma(2, size=len(t))
    return t


@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize(
    ("response", "family", "asked"),
    [
        ("y", "gaussian", {}),
        ("y", "gaussian", {"clusters": "firm"}),
        ("y", "gaussian", {"cov_type": "DK", "time": "year"}),
        ("c", "poisson", {}),
        ("z", "gamma", {"link": "log"}),
    ],
)
def test_a_stopped_read_of_errors_leaves_those_of_the_model(
    table, monkeypatch, block, response, family, asked
):
    formula, asked = f"{response} ~ x | firm", {"family": family, "threads": 1} | asked
    plain = {key: value for key, value in asked.items() if key not in ("clusters", "time")}
    whole = mg.glm(formula, table, **plain | {"cov_type": "nonrobust"})
    rows, calls = Projection.rows, iter(range(1000))

    def stopping(self, part):
        if next(calls) == block:
            raise KeyboardInterrupt
        return rows(self, part)

    monkeypatch.setattr(Projection, "rows", stopping)
    r = mg.glm(formula, table, block_size=4096, **asked)
    assert r.status is mg.Status.INTERRUPTED and r.nobs == len(table)
    assert r.cov_type == "nonrobust" and "was stopped" in " ".join(r.notes)
    np.testing.assert_allclose(r.params, whole.params, atol=1e-3 * whole.bse["x"])
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-2)

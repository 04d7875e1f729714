"""However rows are read: tables as arrays, weighted rows, real data in two reads or one."""

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from glm_oracle import reference
from masgrad.errors import InputError, OrderWarning
from masgrad.fitting.optimise.single.one_pass import OnePass
from masgrad.fitting.optimise.single.pools import FEWEST_KEPT
from masgrad.fitting.sources import size_in_bytes
from real_data import BY_NAME, options_of
from scenarios import two_columns
from test_real_data import errors_of, family_of


@pytest.mark.parametrize("most", [4, 51])
@pytest.mark.parametrize("how", ["stream", "iterator", "arrays"])
def test_weights_are_not_taken_for_an_order(most, how, recwarn):
    frame, rng = two_columns(120_000)
    X = np.column_stack([np.ones(120_000), frame.to_numpy()])
    y = rng.poisson(np.exp(X @ [0.1, 0.3, -0.2]))
    w = rng.integers(1, most, 120_000).astype(float)
    blocks = [(X[s : s + 4000], y[s : s + 4000], w[s : s + 4000]) for s in range(0, 120_000, 4000)]
    if how == "arrays":
        r = mg.fit(mg.Poisson(), (X, y), weights=w)
    else:
        data = mg.Stream(lambda: iter(blocks)) if how == "stream" else iter(blocks)
        r = mg.fit(mg.Poisson(), data)
    assert not [warning for warning in recwarn if issubclass(warning.category, OrderWarning)]
    assert not r.diagnostics.troubles


def test_large_tables_in_memory_are_arrays_to_rounding():
    frame, rng = two_columns(70_000)
    frame["y"] = rng.poisson(np.exp(frame["a"]))
    X = np.column_stack([np.ones(70_000), frame[["a", "b"]]])
    r, wanted = mg.glm("y ~ a + b", frame, "poisson"), mg.fit(mg.Poisson(), (X, frame["y"]))
    assert np.abs((r.params - wanted.params) / wanted.bse).max() < 1e-9
    np.testing.assert_allclose(r.bse, wanted.bse, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["randhie", "fair", "default", "doctor_visits", "medpar", "fair_tweedie", "nmes1988"]
)
@pytest.mark.parametrize("passes", ["auto", 1])
@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
def test_real_data_by_two_reads_and_by_one(name, passes, monkeypatch):
    """With 1,500 kept rows all of them are large. One read: 0.3 standard errors at worst.

    So few kept rows tell less of how errors change over the last step: 1 % is allowed.
    """
    monkeypatch.setattr("masgrad.fitting.sources.PILOT_ROWS", 1500)
    record, ref = BY_NAME[name], reference(name)
    options = options_of(record) | ({"link": record.link} if record.link else {})
    shuffled = record.table.sample(frac=1.0, random_state=0)
    r = mg.glm(record.formula, shuffled, family_of(record), passes=passes, **options)
    errors = errors_of(ref.parts.robust)
    away = np.abs((r.params.to_numpy() - ref.theta) / errors).max()
    assert away < (0.01 if passes == "auto" else 0.3)
    if passes == "auto":
        np.testing.assert_allclose(r.bse, errors, rtol=1e-2)


@pytest.mark.filterwarnings("ignore::masgrad.errors.AccuracyWarning")
@pytest.mark.parametrize("passes", [3, 4])
def test_a_rare_dummy_with_a_limit_on_reads(passes):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.ones(200_000), rng.random(200_000) < 5e-4]).astype(float)
        y = rng.poisson(0.3, 200_000).astype(float)
        best = mg.fit(mg.Poisson(), (X, y))
        r = mg.fit(mg.Poisson(), (X, y), passes=passes)
        assert np.abs((r.params - best.params) / best.bse).max() < 0.3


@pytest.mark.parametrize("passes", ["auto", 1])
@pytest.mark.parametrize("kind", ["csv", "parquet", "iterator"])
def test_a_late_missing_value_is_named_by_its_row(kind, passes, tmp_path):
    """Rows of which some are unlike the others, so that a single read sums them again."""
    rng, N, bad = np.random.default_rng(0), 120_000, 110_123
    later = np.arange(N) > 50_000
    frame = pd.DataFrame({"x": rng.normal(size=N) + 3 * later})
    frame["y"] = rng.poisson(np.exp(0.5 * frame.x + 2 * later - 1)).astype(float)
    frame.loc[bad, "x"] = np.nan
    if kind == "iterator":
        data = (frame[s : s + 5000] for s in range(0, N, 5000))
    else:
        data = tmp_path / f"rows.{kind}"
        (frame.to_csv if kind == "csv" else frame.to_parquet)(data, index=False)
    with pytest.raises(InputError, match=f"column 'x' holds nan at row {bad}"):
        mg.glm("y ~ x", data, family="poisson", passes=passes)


@pytest.mark.filterwarnings("ignore::masgrad.errors.AccuracyWarning")
@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
def test_rows_kept_from_a_long_single_read_stay_within_the_memory(rng, monkeypatch):
    held = []

    def see(self, segments):
        segments = within(self, segments)
        used = [stratum.rows for s in segments[2:] for stratum in s.strata]
        kept = [s.pool.rows.blocks for s in segments[2:]]
        held.append(sum(size_in_bytes(block) for blocks in used + kept for block in blocks))
        factors = [s.pool.factor for s in segments[2:] if s.pool.others > FEWEST_KEPT]
        assert min(factors) > 0.85 * max(factors)  # rows stand for about as many, in all segments
        return segments

    within = OnePass._within_memory
    monkeypatch.setattr(OnePass, "_within_memory", see)
    X = np.column_stack([np.ones(300_000), rng.normal(size=(300_000, 4))])
    y = np.sort(rng.poisson(1.0, 300_000)).astype(float)
    blocks = ((X[i : i + 2000], y[i : i + 2000]) for i in range(0, len(y), 2000))
    mg.fit(mg.Poisson(), blocks, memory="2MB")
    assert len(held) > 10 and max(held) < 2 * 2**20


def test_heavy_tails_in_a_single_read_are_no_order(rng):
    """Running estimates that are far away say nothing about the order of the rows."""
    n = 60_000
    X = np.column_stack([np.ones(n), rng.normal(size=n), rng.standard_t(3, n)])
    X = np.column_stack([X, rng.lognormal(0, 1.2, n)])
    mean = np.exp(X[:, :2] @ [-0.5, 0.3] - 0.1 * X[:, 2].clip(-8, 8) + 0.02 * X[:, 3].clip(0, 30))
    y = rng.wald(mean, 2.0)
    blocks = ((X[i : i + 5000], y[i : i + 5000]) for i in range(0, n, 5000))
    r = mg.fit(mg.GLM("inverse_gaussian", "log"), blocks)
    assert r.status.ok and r.fit_info.drift < 10

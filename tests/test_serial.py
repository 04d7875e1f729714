"""Rows that depend on their neighbours in time: Newey-West and Driscoll-Kraay."""

from datetime import date
from functools import reduce

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.data.groupings.keys import Keys
from masgrad.errors import InputError
from masgrad.fitting.uncertainty.serial.fixed_b import fixed_b_quantile
from masgrad.fitting.uncertainty.serial.lags import on_gaps
from masgrad.fitting.uncertainty.serial.record import Serial, TimeScores
from masgrad.fitting.uncertainty.serial.times import times_of
from masgrad.fitting.uncertainty.serial.windows import Windows, bartlett_with_gaps

EXACT = {"passes": "converge", "precision": "double"}


def by_double_loop(g, places, lags, units=None):
    """Bartlett's sum, pair by pair."""
    units = np.zeros(len(g)) if units is None else units
    apart = np.abs(np.subtract.outer(places, places))
    w = np.maximum(1 - apart / (lags + 1), 0) * np.equal.outer(units, units)
    return g.T @ w @ g


def series(T=300, seed=0):
    """X with a constant and y, with autocorrelated columns and errors."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(T, 2))
    for t in range(1, T):
        u[t] += 0.5 * u[t - 1]
    X = np.column_stack([np.ones(T), u[:, 0]])
    return X, 1 + u[:, 0] + u[:, 1]


def panel(units=30, times=20, seed=0, share=0.8):
    """An unbalanced panel whose times have effects of their own, sorted by unit and time."""
    rng = np.random.default_rng(seed)
    id, t = (a.ravel() for a in np.meshgrid(np.arange(units), np.arange(times), indexing="ij"))
    x = rng.normal(size=len(t)) + rng.normal(size=times)[t]
    y = x + rng.normal(size=times)[t] + rng.normal(size=units)[id] + rng.normal(size=len(t))
    table = pd.DataFrame({"id": id, "t": t, "x": x, "y": y})
    return table[rng.random(len(t)) < share].reset_index(drop=True)


# The sums.


@pytest.mark.parametrize("lags", [0, 1, 5, 39])
@pytest.mark.parametrize("cuts", [(), (20,), (1, 2, 3, 4, 30), tuple(range(1, 40))])
def test_windows_joined_in_order_are_the_sum_over_all_pairs(rng, lags, cuts):
    g = rng.normal(size=(40, 3))
    found = reduce(Windows.then, (Windows.of(part, lags) for part in np.split(g, cuts)))
    np.testing.assert_allclose(found.meat, by_double_loop(g, np.arange(40), lags), rtol=1e-12)
    assert found.rows == 40


@pytest.mark.parametrize("lags", [0, 2, 7])
def test_gaps_and_units_are_those_of_the_sum_over_all_pairs(rng, lags, monkeypatch):
    monkeypatch.setattr("masgrad.fitting.uncertainty.serial.windows.CHUNK", 16)
    g, units = rng.normal(size=(60, 3)), np.repeat([3, 0, 7], 20)
    places = np.concatenate([np.sort(rng.choice(50, 20, replace=False)) for _ in range(3)])
    found = bartlett_with_gaps(g, places, lags, units)
    np.testing.assert_allclose(found, by_double_loop(g, places, lags, units), rtol=1e-11)


def test_long_gaps_add_no_rounding(rng):
    g = rng.normal(size=(50, 2))
    far = np.arange(50) * 10**15
    np.testing.assert_allclose(bartlett_with_gaps(g, far, 3), g.T @ g, rtol=1e-12)


# One series.


@pytest.mark.parametrize("lags", [0, 4, None])
def test_newey_west_is_that_of_statsmodels(lags):
    import statsmodels.api as sm

    X, y = series()
    rule = int(4 * (len(y) / 100) ** (2 / 9))
    for corrected, word in ((False, "statsmodels"), (True, "fixest")):
        keywords = {"maxlags": rule if lags is None else lags, "use_correction": corrected}
        other = sm.OLS(y, X).fit(cov_type="HAC", cov_kwds=keywords)
        r = mg.fit(mg.Linear(), (X, y), cov_type="HAC", lags=lags, small_sample=word, **EXACT)
        np.testing.assert_allclose(r.cov, other.cov_params(), rtol=1e-8)
    assert r.df == len(y) - 1
    assert ("automatic: floor(4 (T/100)^(2/9))" in r.notes[0]) is (lags is None)


def test_glms_with_weights_and_offsets_have_their_scores():
    import statsmodels.api as sm

    X, z = series()
    rng = np.random.default_rng(1)
    offset = rng.normal(size=len(z)) / 4
    y = rng.poisson(np.exp(0.3 * z + offset)) * 1.0
    r = mg.fit(
        mg.Poisson(), (X, y), offset=offset, cov_type="HAC", lags=3, small_sample="none", **EXACT
    )
    other = sm.GLM(y, X, sm.families.Poisson(), offset=offset)
    other = other.fit(cov_type="HAC", cov_kwds={"maxlags": 3}, tol=1e-14, tol_criterion="params")
    np.testing.assert_allclose(r.bse, other.bse, rtol=1e-7)
    w = rng.integers(1, 4, len(y)) * 1.0
    r = mg.fit(
        mg.Logistic(), (X, z > 1), weights=w, cov_type="HAC", lags=3, small_sample="none", **EXACT
    )
    mean = 1 / (1 + np.exp(-X @ r.params))
    g, H = (w * (mean - (z > 1)))[:, None] * X, X.T @ (X * (w * mean * (1 - mean))[:, None])
    meat = by_double_loop(g, np.arange(len(y)), 3)
    np.testing.assert_allclose(r.cov, np.linalg.solve(H, np.linalg.solve(H, meat).T), rtol=1e-7)


def test_losses_of_ones_own_have_the_errors_of_the_same_model():
    import jax.numpy as jnp

    X, y = series()
    own = mg.CustomLoss(lambda theta, z: jnp.square(z[1] - z[0] @ theta) / 2, 2)
    fits = [mg.fit(m, (X, y), cov_type="HAC", lags=5, **EXACT) for m in (mg.Linear(), own)]
    np.testing.assert_allclose(fits[0].cov, fits[1].cov, rtol=1e-6)


@pytest.mark.parametrize("penalty", [mg.L1(0.05), mg.L2(0.5)])
def test_estimates_after_a_penalty_have_the_errors_of_those_without_one(penalty):
    common = {"cov_type": "HAC", "lags": 2, **EXACT}
    r, plain = (mg.fit(mg.Linear(), series(), penalty=p, **common) for p in (penalty, None))
    np.testing.assert_allclose(r.cov, plain.cov, rtol=1e-6)


def test_a_penalised_optimum_has_the_scores_of_penalised_rows():
    X, y = series()
    X, N = X[:, [0, 1, 1]], len(y)
    options = {"cov_type": "HAC", "lags": 2, "small_sample": "none", **EXACT}
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L2(0.5), **options)
    P = 0.5 * np.diag([0.0, 1.0, 1.0])
    g = (X @ r.params - y)[:, None] * X + P @ r.params
    B = np.linalg.inv(X.T @ X + N * P)
    np.testing.assert_allclose(r.cov, B @ by_double_loop(g, np.arange(N), 2) @ B, rtol=1e-6)


@pytest.mark.parametrize("passes", ["converge", pytest.param(1, marks=pytest.mark.long)])
def test_blocks_and_threads_change_nothing(passes):
    X, y = series(60_000)
    common = {"cov_type": "HAC", "lags": 6, "passes": passes, "precision": "double"}
    fits = [
        mg.fit(mg.Linear(), (X, y), block_size=size, threads=threads, **common)
        for size, threads in ((None, 1), (1000, 2), (64, 3))
    ]
    for r in fits[1:]:
        np.testing.assert_allclose(r.cov, fits[0].cov, rtol=1e-7 if passes == 1 else 1e-12)
    g = (X @ fits[0].params - y)[:, None] * X
    meat = sum(
        (1 - abs(k) / 7) * g[max(k, 0) : len(g) + min(k, 0)].T @ g[max(-k, 0) : len(g) - max(k, 0)]
        for k in range(-6, 7)
    )
    B = np.linalg.inv(X.T @ X)
    factor = len(y) / (len(y) - 2)
    np.testing.assert_allclose(fits[0].cov, factor * B @ meat @ B, rtol=1e-6)


def test_parts_of_a_dataset_are_read_in_order(tmp_path):
    X, y = series(5000)
    table = pd.DataFrame({"x": X[:, 1], "y": y})
    for k in range(5):
        part = table.iloc[1000 * k : 1000 * (k + 1)]
        part.to_parquet(tmp_path / f"{k}.parquet", row_group_size=300)
    paths = sorted(map(str, tmp_path.glob("*.parquet")))
    common = {"cov_type": "HAC", "lags": 50, **EXACT}
    stored, whole = mg.glm("y ~ x", paths, **common), mg.fit(mg.Linear(), (X, y), **common)
    np.testing.assert_allclose(stored.cov, whole.cov, rtol=1e-10)
    stream = mg.Stream(lambda: ((X[k : k + 7], y[k : k + 7]) for k in range(0, 5000, 7)))
    np.testing.assert_allclose(mg.fit(mg.Linear(), stream, **common).cov, whole.cov, rtol=1e-10)


def test_times_put_rows_in_order():
    X, y = series()
    shuffled = np.random.default_rng(0).permutation(len(y))
    days = np.arange("2024-01-01", "2024-10-27", dtype="M8[D]")
    assert len(days) == len(y)
    ordered = mg.fit(mg.Linear(), (X, y), cov_type="HAC", lags=4, **EXACT)
    for time in (np.arange(len(y)), days, days.astype("M8[ns]")):
        r = mg.fit(
            mg.Linear(), (X[shuffled], y[shuffled]), time=time[shuffled], cov_type="HAC", lags=4,
            **EXACT,
        )  # fmt: skip
        np.testing.assert_allclose(r.cov, ordered.cov, rtol=1e-9)


def test_gaps_count_by_value_or_by_rank():
    X, y = series()
    time = np.sort(np.random.default_rng(2).choice(500, len(y), replace=False))
    g = (X @ np.linalg.lstsq(X, y, rcond=None)[0] - y)[:, None] * X
    B, cov = np.linalg.inv(X.T @ X), {}
    for gaps, places in (("value", time), ("rank", np.arange(len(y)))):
        r = mg.fit(
            mg.Linear(), (X, y), time=time, cov_type="HAC", lags=4, time_gaps=gaps,
            small_sample="none", **EXACT,
        )  # fmt: skip
        cov[gaps] = r.cov
        np.testing.assert_allclose(r.cov, B @ by_double_loop(g, places, 4) @ B, rtol=1e-7)
        assert any("have no rows (time_gaps='value')" in note for note in r.notes) is (
            gaps == "value"
        )
    assert np.abs(cov["value"] / cov["rank"] - 1).max() > 0.01


# Panels.


@pytest.mark.parametrize("kind", ["NW", "DK"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_panels_have_the_errors_of_pyfixest(kind, family):
    import pyfixest as pf

    table = panel()
    if family == "poisson":
        table["y"] = np.random.default_rng(3).poisson(np.exp(table.y / 4)) * 1.0
    ids = {"time_id": "t", "panel_id": "id", "lag": 3}
    if family == "gaussian":
        other = pf.feols("y ~ x", table)
    else:
        other = pf.fepois("y ~ x", table, iwls_tol=1e-14)
    other = other.vcov(kind, vcov_kwargs=ids)
    named = {"cov_type": "HAC", "unit": "id"} if kind == "NW" else {"cov_type": "DK"}
    for rows in (table, table.sample(frac=1, random_state=0)):
        r = mg.glm(
            "y ~ x", rows, family=family, time="t", lags=3, time_gaps="rank", **named, **EXACT
        )
        np.testing.assert_allclose(r.bse, other.se(), rtol=1e-6)
        assert r.df == other._df_t == table.t.nunique() - 1


def test_panels_have_the_errors_of_statsmodels():
    import statsmodels.formula.api as smf

    table = panel(share=1.0)
    model = smf.ols("y ~ x", table)
    other = model.fit(cov_type="hac-panel", cov_kwds={"groups": table.id.to_numpy(), "maxlags": 3})
    common = {"lags": 3, "small_sample": "statsmodels", **EXACT}
    r = mg.glm("y ~ x", table, cov_type="HAC", unit="id", time="t", **common)
    np.testing.assert_allclose(r.bse, other.bse, rtol=1e-8)
    in_order = mg.glm("y ~ x", table, cov_type="HAC", unit="id", **common)
    np.testing.assert_allclose(in_order.bse, other.bse, rtol=1e-8)
    other = model.fit(cov_type="hac-groupsum", cov_kwds={"time": table.t.to_numpy(), "maxlags": 3})
    r = mg.glm("y ~ x", table, cov_type="DK", time="t", **common)
    np.testing.assert_allclose(r.bse, other.bse, rtol=1e-8)


@pytest.mark.parametrize("lags", [3, None])
def test_driscoll_kraay_is_that_of_linearmodels(lags):
    from linearmodels import PanelOLS

    table = panel(times=60).assign(one=1.0)
    indexed = table.set_index(["id", "t"])
    other = PanelOLS(indexed.y, indexed[["one", "x"]]).fit(
        cov_type="kernel", bandwidth=lags, debiased=False
    )
    r = mg.glm("y ~ x", table, cov_type="DK", time="t", lags=lags, small_sample="none", **EXACT)
    np.testing.assert_allclose(r.bse, other.std_errors, rtol=1e-8)


def test_units_that_stand_together_need_no_memory_for_all_rows():
    table = panel(units=3000, share=0.95)
    common = {"cov_type": "HAC", "unit": "id", "time": "t", "lags": 2, **EXACT}
    whole = mg.glm("y ~ x", table, **common)
    little = mg.glm("y ~ x", table, memory="1MB", **common)
    np.testing.assert_allclose(little.cov, whole.cov, rtol=1e-10)
    with pytest.raises(InputError, match=r"id .* comes back after rows of other units.*sort the"):
        mg.glm("y ~ x", table.sort_values("t"), memory="1MB", **common)


@pytest.mark.parametrize("stored", [False, True], ids=["table", "file"])
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x | f"])
def test_rows_that_are_not_in_the_fit_are_no_times(formula, stored, tmp_path):
    """Years of every second: a row of weight 0, or alone in its level, in one of the others."""
    table = panel(20, 15).assign(w=1.0, f=lambda t: t.id % 5)
    table["t"] = 2000 + 2 * table.t
    odd = pd.DataFrame({"id": [3], "t": [2001], "x": [0.0], "y": [0.0], "w": [0.0], "f": [99]})
    if "f" in formula:
        odd["w"] = 1.0
    both = pd.concat([odd, table], ignore_index=True)
    if stored:
        both.to_csv(tmp_path / "rows.csv", index=False)
        both = tmp_path / "rows.csv"
    for lags in (2, None):
        asked = {"cov_type": "HAC", "time": "t", "unit": "id", "lags": lags, **EXACT}
        alone, found = (mg.glm(formula, t, weights="w", **asked) for t in (table, both))
        np.testing.assert_allclose(found.cov, alone.cov, rtol=1e-8)
        assert "One lag is 2 of t" in " ".join(found.notes)
        assert (found.serial.times, found.df) == (15, alone.df)


def test_files_and_streams_carry_times_and_units(tmp_path):
    table = panel()
    table.sample(frac=1, random_state=1).to_csv(tmp_path / "rows.csv", index=False)
    common = {"cov_type": "DK", "lags": 2, **EXACT}
    whole = mg.glm("y ~ x", table, time="t", **common)
    stored = mg.glm("y ~ x", tmp_path / "rows.csv", time="t", **common)
    np.testing.assert_allclose(stored.cov, whole.cov, rtol=1e-10)
    X = np.column_stack([np.ones(len(table)), table.x])

    def blocks():
        for k in range(0, len(X), 50):
            part = slice(k, k + 50)
            yield mg.Block(X[part], table.y.to_numpy()[part], time=table.t.to_numpy()[part])

    streamed = mg.fit(mg.Linear(), mg.Stream(blocks), **common)
    np.testing.assert_allclose(streamed.cov, whole.cov, rtol=1e-10)


# Times.


@pytest.mark.parametrize(
    ("keys", "places", "unit"),
    [
        ([2000, 2010, 2005], [0, 2, 1], "5"),
        ([3, 1, 2.0], [2, 0, 1], "1"),
        (["2024-01-31", "2024-02-29", "2024-04-30"], [0, 1, 3], "1 month"),
        (["2024-01-01", "2025-01-01"], [0, 1], "12 months"),
        (["2024-01-03", "2024-01-10", "2024-01-24"], [0, 1, 3], "7 days"),
        (["2024-01-01", "2024-01-01 06:00:00"], [0, 1], "6:00:00 h:mm:ss"),
        (["2024Q1", "2024-Q2", "2025Q1"], [0, 1, 4], "3 months"),
        (["2023-12", "2024-01"], [0, 1], "1 month"),
        ([pd.Period("2024-02", "M"), pd.Period("2024-01", "M")], [1, 0], "1 month"),
        (["2001", "1999"], [1, 0], "2"),
    ],
)
def test_times_have_places_on_an_axis(keys, places, unit):
    found = times_of("t", keys, "value")
    assert (found.places.tolist(), found.unit) == (places, unit)
    assert times_of("t", keys, "rank").places.tolist() == np.argsort(np.argsort(places)).tolist()


@pytest.mark.parametrize("keys", [["Jan", "Feb"], [1, "2024-01-31"], [(2000, 1), (2000, 2)]])
def test_times_without_distances_are_refused_by_value(keys):
    with pytest.raises(InputError, match="time_gaps='rank'"):
        times_of("t", keys, "value")


def test_columns_that_are_combined_have_a_rank():
    assert times_of("t", [(2001, 1), (2000, 12), (2000, 2)], "rank").places.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("keys", "date"),
    [
        ([202411, 202412, 202501], "2024-01"),
        ([20240131, 20240201], "2024-01-31"),
        ([202401, 202412], ""),
        ([202412, 202413], ""),
        ([20240131, 20240132], ""),
        (["2024-12", "2025-01"], ""),
        (list(range(100)), ""),
    ],
)
def test_whole_numbers_that_look_like_dates_are_said(keys, date):
    found = times_of("t", keys, "value")
    assert found.date == date
    said = " ".join(on_gaps("t", found))
    assert ("t is read as whole numbers, which look like dates" in said) == bool(date)
    assert (f"give dates ({date!r})" in said) == bool(date)


def test_moments_in_nanoseconds_are_dates():
    keys = Keys("t")
    keys.codes(np.array(["2024-01-31", "2024-02-03"], "M8[ns]"))
    assert keys.values == ["2024-01-31", "2024-02-03"]
    assert date.fromisoformat(keys.values[0])


# Rows that follow.


def test_records_of_old_and_new_rows_are_that_of_all(rng):
    g = rng.normal(size=(100, 2))
    old, new = (Serial(4, len(part), 0.1, Windows.of(part, 4)) for part in (g[:70], g[70:]))
    both = old.then(new)
    np.testing.assert_allclose(both.kept.meat, by_double_loop(g, np.arange(100), 4), rtol=1e-12)
    assert (both.times, both.b) == (100, 0.05)
    times = [
        TimeScores(keys, scores, np.ones(len(keys), int))
        for keys, scores in (((1, 2, 3), g[:3]), ((5, 3), g[3:5]))
    ]
    kept = Serial(1, 3, 0.5, times[0]).then(Serial(1, 2, 0.5, times[1])).kept
    assert (kept.keys, kept.rows.tolist()) == ((1, 2, 3, 5), [1, 1, 2, 1])
    np.testing.assert_allclose(kept.scores, [g[0], g[1], g[2] + g[4], g[3]])
    with pytest.raises(InputError, match="lags=4"):
        old.then(Serial(3, 30, 0.1, Windows.of(g[70:], 3)))


# Critical values.


def test_fixed_b_values_are_the_exact_ones_of_the_full_bandwidth():
    """Abadir & Paruolo (2002) have the density for b = 1; these are its 95, 97.5 and 99 %."""
    found = [fixed_b_quantile(level, 1.0) for level in (0.90, 0.95, 0.98)]
    np.testing.assert_allclose(found, [3.764, 4.771, 6.090], atol=1.5e-3)


@pytest.mark.parametrize("b", [0.02, 0.1, 0.5, 0.9])
def test_fixed_b_values_are_near_the_published_polynomial(b):
    """Kiefer & Vogelsang (2005), 97.5 % of Bartlett's kernel, fitted to simulations."""
    published = np.polyval([-0.5324, 0.4160, 2.9694, 1.9600], b)
    assert abs(fixed_b_quantile(0.95, b) / published - 1) < 0.015


def test_fixed_b_values_are_those_of_simulated_series(rng):
    n, b = 200, 0.25
    u = rng.normal(size=(4000, n))
    bridges = np.cumsum(u - u.mean(1, keepdims=True), 1)
    m = int(b * n)
    Q = np.square(bridges).sum(1) - (bridges[:, :-m] * bridges[:, m:]).sum(1)
    t = np.abs(u.sum(1)) / np.sqrt(2 / b * Q / n)
    share = (t > fixed_b_quantile(0.95, b)).mean()
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 4000)


def test_intervals_by_fixed_b_values_are_wider():
    X, y = series(200)
    r = mg.fit(mg.Linear(), (X, y), cov_type="HAC", lags=19, small_sample="none")
    ends = r.conf_int(0.1, method="fixed-b")
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2 / r.bse, fixed_b_quantile(0.9, 0.1))
    assert (ends[:, 0] < r.conf_int(0.1)[:, 0]).all()
    with pytest.raises(InputError, match="for errors with lags"):
        mg.fit(mg.Linear(), (X, y)).conf_int(method="fixed-b")


def test_without_lags_the_fixed_b_value_is_normal():
    assert fixed_b_quantile(0.95, 0.0) == pytest.approx(1.959964, abs=1e-6)
    assert fixed_b_quantile(0.95, 0.049999) == pytest.approx(fixed_b_quantile(0.95, 0.05), rel=1e-4)


@pytest.mark.parametrize("by_time", [False, True], ids=["HAC", "DK"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_an_update_goes_on_with_the_old_scores(by_time, family, tmp_path):
    """Near the fit of all rows; at the old estimate itself the sums are exact (next test)."""
    X, y = series(4000)
    y = y if family == "gaussian" else np.floor(np.exp(0.3 * y).clip(0, 20))
    model = mg.GLM(family)
    half, time = 2000, np.arange(4000) // 4
    asked = {"cov_type": "DK" if by_time else "HAC", "lags": 6}

    def fit(rows):
        return mg.fit(model, (X[rows], y[rows]), **asked, **also(rows))

    def also(rows):
        return {"time": time[rows]} if by_time else {}

    old, later = fit(slice(0, half)), slice(half, None)
    old.save(tmp_path / "r.json", small_cells="allow")
    whole = fit(slice(None))
    for before in (old, mg.load(tmp_path / "r.json")):
        new = before.update((X[later], y[later]), lags=6, **also(later))
        assert (new.cov_type, new.df) == (whole.cov_type, whole.df)
        np.testing.assert_allclose(new.bse, whole.bse, rtol=0.02)
    apart = mg.fit(model, (X, y)).bse
    assert np.abs(new.bse / whole.bse - 1).max() < 0.2 * np.abs(apart / whole.bse - 1).max()


def timed_series(T=1200):
    """A table in time order, with a gap in the middle, whose rows depend on their neighbours."""
    X, y = series(T)
    t = 3 * np.arange(T) + 5 * (np.arange(T) > T // 2)
    return pd.DataFrame({"x": X[:, 1], "y": y, "t": t})


@pytest.mark.parametrize(
    "asked",
    [
        *({"cov_type": "HAC", "small_sample": kind} for kind in ("none", "stata", "statsmodels")),
        {"cov_type": "HAC", "time": "t", "lags": 12},
        {"cov_type": "DK", "time": "t", "lags": 12, "time_gaps": "rank", "small_sample": "stata"},
        {"cov_type": "DK", "time": "t"},
    ],
    ids=str,
)
def test_an_update_keeps_the_conventions_of_the_old_rows(asked, tmp_path):
    """Lags by the rule grow with the times, and stay in rows that are joined in order."""
    table = timed_series()
    old, whole = (mg.glm("y ~ x", part, **asked, **EXACT) for part in (table[:900], table))
    old.save(tmp_path / "r.json", small_cells="allow")
    for before in (old, mg.load(tmp_path / "r.json")):
        new = before.update(table[900:])
        assert new.serial.keywords == whole.serial.keywords
        lasting = old if "time" not in asked else whole
        assert (new.serial.lags, new.df) == (lasting.serial.lags, whole.df)
        tolerance = 0.02 if new.serial.lags == whole.serial.lags else 0.1
        np.testing.assert_allclose(new.bse, whole.bse, rtol=tolerance)


def test_an_update_takes_conventions_of_its_own():
    table = timed_series()
    asked = {"cov_type": "DK", "time": "t", "lags": 12, "time_gaps": "rank"}
    old = mg.glm("y ~ x", table[:900], **asked, **EXACT)
    own = {"lags": 3, "small_sample": "none", "time_gaps": "value"}
    new, whole = old.update(table[900:], **own), mg.glm("y ~ x", table, **asked | own, **EXACT)
    assert (new.serial.keywords, new.serial.lags) == (own, 3)
    np.testing.assert_allclose(new.bse, whole.bse, rtol=0.02)
    in_order = mg.glm("y ~ x", table[:900], cov_type="HAC", lags=4)
    with pytest.raises(InputError, match="joined with the same: lags=4"):
        in_order.update(table[900:], lags=5)
    assert old.update(table[900:], cov_type="HC1").cov_type == "HC1"


def test_rows_that_move_no_estimate_are_added_exactly(rng):
    """New rows whose scores vanish at the old estimate in sum: the estimate stays."""
    X, e = rng.normal(size=(300, 2)), rng.normal(size=300)
    e -= X @ np.linalg.lstsq(X, e, rcond=None)[0]
    Z, f = rng.normal(size=(200, 2)), rng.normal(size=200)
    f -= Z @ np.linalg.lstsq(Z, f, rcond=None)[0]
    y, z = X @ [1.0, 2.0] + e, Z @ [1.0, 2.0] + f
    asked = {"cov_type": "HAC", "lags": 5}
    new = mg.fit(mg.Linear(), (X, y), **asked).update((Z, z))
    whole = mg.fit(mg.Linear(), (np.r_[X, Z], np.r_[y, z]), **asked)
    np.testing.assert_allclose(new.bse, whole.bse, rtol=1e-8)
    assert "5 lags (those of the earlier rows)" in " ".join(new.notes)


# What is refused.


def test_what_has_no_serial_errors_is_refused():
    X, y = series(50)
    time = np.repeat(np.arange(25), 2)

    def fit(data=(X, y), **keywords):
        return mg.fit(mg.Linear(), data, **keywords)

    for keywords, message in (
        ({"cov_type": "DK"}, "give time="),
        ({"cov_type": "DK", "time": time, "unit": np.tile([0, 1], 25)}, "leave unit= out"),
        ({"cov_type": "DK", "time": np.ones(50, int)}, "at least 2 values of time, and there is 1"),
        ({"cov_type": "HAC", "time": time}, "2 rows at 0; HAC is for one row a time"),
        ({"cov_type": "HAC", "time": time, "unit": np.ones(50, int)}, "two rows of one time"),
        ({"cov_type": "HAC", "lags": 50}, "lags=50 of 50 rows"),
        ({"time": time}, "time= is for cov_type='HAC' or 'DK'"),
        ({"cov_type": "HAC", "data": iter([(X, y)])}, "reads the rows again.*mg.Stream"),
        ({"cov_type": "HAC", "time": [np.arange(50), time]}, "time has 2 columns"),
    ):
        with pytest.raises(InputError, match=message):
            fit(**keywords)
    for given, kind in (("time", "robust"), ("unit", "CR1"), ("unit", "DK")):
        groups = {"time": time} if kind == "DK" else {"clusters": time} if kind == "CR1" else {}
        block = mg.Block(X, y, **groups | {given: time})
        with pytest.raises(InputError, match=f"{given}= of a block .* cov_type is '{kind}'"):
            fit(mg.Stream(lambda block=block: iter([block])), cov_type=kind)
    with pytest.raises(InputError, match="with cov_type='robust' and kept none"):
        fit().update((X, y), cov_type="HAC")
    within = fit(cov_type="HAC", time=time, unit=np.tile([0, 1], 25))
    with pytest.raises(InputError, match="units cannot go on in an update"):
        within.update((X, y), cov_type="HAC", time=time, unit=np.tile([0, 1], 25))

"""Fixed effects after a formula's bar: against pyfixest, dense dummies, and everything refused."""

import warnings

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.data.formula.formulas import parse
from masgrad.data.groupings.combined import CombinedKeys
from masgrad.data.groupings.keys import Keys
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.effects.rows.kept import ABOVE, BELOW, RowFacts, kept_rows, look_at

FORMULA = "y ~ x1 + x2 | firm + year"


def panel(n=600, firms=60, years=8, seed=0) -> pd.DataFrame:
    """An unbalanced panel with levels of a few rows, and responses of several families."""
    rng = np.random.default_rng(seed)
    t = pd.DataFrame({"firm": rng.geometric(3 / firms, n) % firms + 7, "year": 2000})
    t["year"] += rng.integers(0, years, n)
    own = rng.normal(size=firms + 7)[t.firm]
    t["x1"], t["x2"] = rng.normal(size=n) + own, rng.normal(size=n)
    t["g"], t["w"] = np.array(list("abc"))[rng.integers(0, 3, n)], rng.integers(1, 4, n)
    t["o"] = 0.3 * rng.normal(size=n)
    t["y"] = 1 + t.x1 - 0.5 * t.x2 + own + rng.normal(size=n)
    mean = 0.3 * t.x1 - 0.2 * t.x2 + 0.5 * own - 0.2
    t["c"], t["d"] = rng.poisson(np.exp(mean)), 1.0 * (rng.logistic(size=n) < mean)
    t["z"] = np.exp(mean) * rng.gamma(2, size=n)
    return t


def several(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of firms that have several, and events."""
    by = table.groupby("firm")
    return table[(by.y.transform("size") > 1) & (by.c.transform("sum") > 0)]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return panel()


def assert_close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def pyfixest(function: str, *args, **keywords):
    import pyfixest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(pyfixest, function)(*args, **keywords)


# Formulas and keys.


def test_effects_stand_after_a_bar():
    parsed = parse("y ~ a + `b c` | firm + state^`my year` + firm")
    assert parsed.effects == (("firm",), ("state", "my year"))
    assert [":".join(f.name for f in term) for term in parsed.terms] == ["a", "b c"]
    assert parsed.columns == ("y", "a", "b c", "firm", "state", "my year")


def test_a_dot_is_none_of_the_effects():
    parsed = parse("y ~ . | firm", ["y", "a", "firm", "b"])
    assert [term[0].name for term in parsed.terms] == ["a", "b"]


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ a | b | c", "2 bars"),
        ("y ~ a |", "no name where an effect is needed"),
        ("y ~ a | firm + ", "no name where an effect is needed"),
        ("y ~ 1 | firm", "effects alone"),
        ("y ~ a | firm[a]", "slopes by level"),
        ("y ~ a | firm:year", "firm\\^year"),
        ("y ~ a | C(firm)", "names of columns"),
        ("y ~ a | 1", "names of columns"),
        ("y ~ a | y", "both sides"),
        ("y ~ a | b ~ c", "effects alone stand there"),
        ("y | firm", "has the response none"),
    ],
)
def test_formulas_that_are_refused(formula, message):
    with pytest.raises(InputError, match=message):
        parse(formula)


def test_categories_beside_effects_lose_their_base(table):
    assert mg.glm("y ~ 0 + g + x1 | firm", table).names == ("g[T.b]", "g[T.c]", "x1")


def test_closed_keys_learn_nothing():
    firm, year = Keys("firm"), Keys("year")
    keys = CombinedKeys("firm^year", [firm, year])
    keys.codes_of([firm.codes(np.array([7, 8])), year.codes(np.array([1, 2]))])
    closed = keys.closed()
    new = [k.codes(v) for k, v in zip(closed.columns, ([8, 9, 7], [2, 1, 2]), strict=True)]
    assert closed.codes_of(new).tolist() == [1, -1, -1]
    assert len(keys) == len(closed) == 2


# Against pyfixest and dense dummies.


@pytest.mark.parametrize(
    ("function", "response", "family"),
    [("feols", "y", "gaussian"), ("fepois", "c", "poisson")],
)
@pytest.mark.parametrize("effects", ["firm", "firm + year", "firm^year + g", "firm + year + g"])
def test_slopes_and_errors_are_those_of_pyfixest(table, function, response, family, effects):
    formula = f"{response} ~ x1 + x2 | {effects}"
    exact = {"iwls_tol": 1e-12} if function == "fepois" else {}
    oracle = pyfixest(function, formula.replace(" ", ""), table, vcov="hetero", **exact)
    r = mg.glm(formula, table, family=family, cov_type="HC1", passes="converge")
    assert r.nobs == oracle._N
    assert_close(r.params, oracle.coef())
    assert_close(r.bse, oracle.se())
    oracle.vcov({"CRV1": "firm"})
    clustered = mg.glm(formula, table, family=family, clusters="firm", passes="converge")
    levels = dict(zip(effects.split(" + "), clustered.effects.sizes, strict=True))
    outside = [size for name, size in levels.items() if not name.startswith("firm")]
    K = 2 + max(sum(outside) - max(len(outside) - 1, 0), 1)
    # pyfixest counts nested effects in parallel, and now and then one too many.
    counted = np.sqrt((oracle._N - oracle._df_k) / (oracle._N - K))
    assert_close(clustered.bse, oracle.se() * counted)
    assert clustered.df == oracle._df_t


def test_other_numbers_of_least_squares_are_those_of_pyfixest(table):
    oracle = pyfixest("feols", FORMULA.replace(" ", ""), table, vcov="iid")
    r = mg.glm(FORMULA, table, cov_type="nonrobust")
    assert_close(r.bse, oracle.se())
    assert r.r2_within == pytest.approx(oracle._r2_within, rel=1e-9)
    assert r.fit_info.reads == 1
    two = mg.glm(FORMULA, table, clusters=["firm", "year"])
    oracle.vcov({"CRV1": "firm+year"})
    assert_close(two.bse, oracle.se())
    fixed, ours = oracle.fixef(), mg.glm(FORMULA, table).fixed_effects()
    year = {int(float(k)): v for k, v in fixed["C(year)"].items()}
    np.testing.assert_allclose(
        ours["year"] - ours["year"].loc[2001],
        pd.Series(year).reindex(ours["year"].index).fillna(0) - year.get(2001, 0.0),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("response", "family", "link"),
    [
        ("y", "gaussian", None),
        ("c", "poisson", None),
        ("d", "binomial", None),
        ("d", "binomial", "probit"),
        ("z", "gamma", "log"),
        ("z", "inverse_gaussian", "log"),
        ("c", "negative_binomial(1.0)", None),
    ],
)
def test_a_fit_is_that_of_dense_dummies(response, family, link):
    table = panel(700, firms=12, seed=3)
    asked = {"family": family, "link": link, "weights": "w", "offset": "o", "passes": "converge"}
    for cov_type in ("HC0", "HC1", "nonrobust"):
        dense = mg.glm(
            f"{response} ~ x1 + x2 + C(firm) + C(year)", table, cov_type=cov_type, **asked
        )
        r = mg.glm(f"{response} ~ x1 + x2 | firm + year", table, cov_type=cov_type, **asked)
        assert_close(r.params, dense.params[["x1", "x2"]])
        assert_close(r.bse, dense.bse[["x1", "x2"]])
    assert r.nobs == dense.nobs
    for name in ("log_likelihood", "aic", "deviance", "dispersion"):
        assert getattr(r, name) == pytest.approx(getattr(dense, name), rel=1e-8)
    assert_close(r.predict(table), dense.predict(table))


def test_weights_that_are_no_frequencies_are_those_of_pyfixest(table):
    exact = {"weights": "w", "weights_type": "aweights"}
    oracle = pyfixest("feols", FORMULA.replace(" ", ""), table, vcov="iid", **exact)
    asked = {"weights": "w", "weights_type": "analytic"}
    assert_close(mg.glm(FORMULA, table, cov_type="nonrobust", **asked).bse, oracle.se())
    oracle.vcov("hetero")
    r = mg.glm(FORMULA, table, **asked)
    assert r.nobs == oracle._N
    assert_close(r.params, oracle.coef())
    assert_close(r.bse, oracle.se())


def test_frequencies_are_repeated_rows(table):
    again = table.loc[table.index.repeat(table.w)]
    for family, response in (("gaussian", "y"), ("poisson", "c")):
        asked = {"family": family, "passes": "converge"}
        r = mg.glm(f"{response} ~ x1 + x2 | firm + year", table, weights="w", **asked)
        plain = mg.glm(f"{response} ~ x1 + x2 | firm + year", again, **asked)
        assert_close(r.params, plain.params)
        assert_close(r.bse, plain.bse)


@pytest.mark.parametrize(
    ("kind", "effects", "more"), [("NW", "firm + year", {"unit": "firm"}), ("DK", "firm", {})]
)
def test_serial_errors_are_those_of_pyfixest(kind, effects, more):
    rng = np.random.default_rng(0)
    firm, year = np.divmod(np.arange(400), 20)
    table = pd.DataFrame({"firm": firm, "year": year, "x": rng.normal(size=400)})
    table["y"] = table.x + 0.1 * firm + rng.normal(size=400)
    places = {"lag": 3, "time_id": "year", "panel_id": "firm"}
    formula = f"y ~ x | {effects}"
    oracle = pyfixest("feols", formula.replace(" ", ""), table, vcov=kind, vcov_kwargs=places)
    cov_type = "DK" if kind == "DK" else "HAC"
    r = mg.glm(formula, table, cov_type=cov_type, time="year", lags=3, **more)
    assert_close(r.bse, oracle.se())
    assert r.df == oracle._df_t


def test_rows_that_are_left_out_do_not_say_what_is_nested(table):
    """A single row of a year of its own, of a firm with many rows, in another cluster."""
    table = several(table).assign(region=lambda t: t.firm % 5)
    odd = table.iloc[[0]].assign(year=1900, region=(table.region.iloc[0] + 1) % 5)
    asked = {"clusters": "region", "cov_type": "CR1"}
    alone = mg.glm("y ~ x1 | firm + year", table, **asked)
    r = mg.glm("y ~ x1 | firm + year", pd.concat([odd, table]), **asked)
    assert r.nobs == len(table)
    assert_close(r.bse, alone.bse)


def test_few_clusters_beside_effects_outside_of_them_have_other_advice(table):
    r = mg.glm(FORMULA, table, clusters="year")
    assert "need the levels of firm as columns, C(firm)" in " ".join(r.notes)


def test_leaving_clusters_out_needs_nested_effects(table):
    with pytest.raises(InputError, match="moves the effects of year"):
        mg.glm(FORMULA, table, clusters="firm", cov_type="CR3")


def test_least_squares_are_those_of_statsmodels(table):
    import statsmodels.formula.api as smf

    kept = several(table)
    oracle = smf.ols("y ~ x1 + x2 + C(firm) + C(year)", kept).fit()
    r = mg.glm(FORMULA, kept, cov_type="nonrobust")
    assert_close(r.params, oracle.params[["x1", "x2"]])
    assert_close(r.bse, oracle.bse[["x1", "x2"]])
    own = r.fixed_effects()
    assert own["year"].iloc[0] == 0 and list(own["year"].index) == sorted(kept.year.unique())
    assert_close(own["firm"].iloc[0], oracle.params["Intercept"])


# Rows that are left out.


def test_rows_are_left_out_until_none_is_single():
    """A chain: the only row of firm 3 leaves year 2 with one row, which leaves firm 2 with one."""
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1], [2, 2], [3, 2]], np.int32)
    parts = [RowFacts(codes[:4], None, None), RowFacts(codes[4:], None, None)]
    kept = kept_rows(look_at(parts), (4, 3), True)
    assert (kept.rows, kept.single, kept.sizes) == (4, 3, (2, 2))
    mask = kept.mask(codes)
    assert mask is not None and mask.tolist() == [True] * 4 + [False] * 3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [1, 2, 3])
def test_singles_in_memory_are_those_of_looks_at_all_rows(K, weighted, rng, monkeypatch):
    monkeypatch.setattr("masgrad.fitting.effects.rows.kept.FEW_LOOKS", 0)
    for n in (30, 60, 200):
        codes = rng.integers(0, 40, (n, K)).astype(np.int32)
        weight = rng.integers(1, 3, n) * 1.0 if weighted else None
        cut = (slice(0, n // 2), slice(n // 2, n))
        parts = [RowFacts(codes[c], None, None if weight is None else weight[c]) for c in cut]
        slow = kept_rows(look_at(parts), (40,) * K, True)
        quick = kept_rows(look_at(parts), (40,) * K, True, parts)
        assert (slow.rows, slow.single, slow.weight) == (quick.rows, quick.single, quick.weight)
        for a, b in zip(slow.live, quick.live, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_long_chain_of_singles_is_followed():
    links = np.arange(40_000, dtype=np.int32)
    codes = np.stack([links // 2, (links + 1) // 2], 1)
    part = RowFacts(codes, None, None)
    kept = kept_rows(look_at([part]), (20_000, 20_001), True, [part])
    assert (kept.rows, kept.single) == (0, 40_000)


def test_a_row_that_stands_for_two_is_not_single():
    codes, weight = np.array([[0], [1], [1]], np.int32), np.array([2.0, 1.0, 1.0])
    assert kept_rows(look_at([RowFacts(codes, None, weight)]), (2,), True).all
    assert kept_rows(look_at([RowFacts(codes, None, weight)]), (2,), False).single == 1


def test_levels_at_one_end_take_others_with_them():
    codes = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [1, 0]], np.int32)
    ends = np.array([BELOW, BELOW, ABOVE | BELOW, ABOVE, BELOW], np.uint8)
    kept = kept_rows(look_at([RowFacts(codes, ends, None)]), (2, 2), True)
    assert (kept.one_sided, kept.single, kept.rows) == (3, 0, 2) or kept.rows == 2


def test_what_was_left_out_is_counted_in_the_summary(table):
    single = panel(200, firms=100, seed=1)
    r = mg.glm("c ~ x1 | firm", single, family="poisson")
    by = single.groupby("firm")
    zero = by.c.transform("sum") == 0
    alone = (by.c.transform("size") == 1) & ~zero
    assert r.nobs == len(single) - zero.sum() - alone.sum()
    said = " ".join(r.notes)
    assert f"{alone.sum()} rows left out: each is the only one" in said
    assert f"{zero.sum()} rows left out: their level's responses" in said
    assert r.absorbed == f"{r.effects.parameters:,}" in r.summary()
    oracle = pyfixest("fepois", "c ~ x1 | firm", single)
    assert r.nobs == oracle._N


def test_a_fit_without_any_row_left_is_refused():
    table = pd.DataFrame({"y": [1.0, 2, 3], "x": [1.0, 3, 2], "firm": [1, 2, 3]})
    with pytest.raises(IdentificationError, match="no row is left"):
        mg.glm("y ~ x | firm", table)


def test_as_many_parameters_as_rows_are_refused():
    table = pd.DataFrame({"y": [1.0, 2, 3, 5], "x": [1.0, 3, 2, 4], "firm": [1, 1, 2, 2]})
    with pytest.raises(IdentificationError, match="4 rows cannot estimate 4 parameters"):
        mg.glm("y ~ x + z | firm", table.assign(z=[1.0, 5, 2, 7]))


# Columns without a slope.


def test_a_column_that_does_not_vary_within_levels_is_named(table):
    table = several(table)
    more = table.assign(size=table.firm * 2.0, both=table.firm + 0.1 * table.year)
    for response, family in (("y", "gaussian"), ("c", "poisson")):
        with pytest.warns(
            mg.errors.IdentificationWarning, match="'size' does not vary within firm"
        ):
            r = mg.glm(f"{response} ~ x1 + size | firm + year", more, family=family)
        alone = mg.glm(f"{response} ~ x1 | firm + year", more, family=family)
        assert np.isnan(r.params["size"]) and np.isnan(r.bse["size"])
        np.testing.assert_allclose(
            [r.params["x1"], r.bse["x1"]], [alone.params["x1"], alone.bse["x1"]]
        )
        assert r.status is mg.Status.NOT_IDENTIFIED
        np.testing.assert_allclose(r.predict(more), alone.predict(more), rtol=1e-8)
    with pytest.warns(
        mg.errors.IdentificationWarning, match="firm and year determine column 'both'"
    ):
        mg.glm("y ~ x1 + both | firm + year", more)
    with pytest.raises(IdentificationError, match="no column varies within firm"):
        mg.glm("y ~ size | firm", more)


def test_of_columns_that_are_collinear_within_levels_the_later_has_no_slope(table):
    more = table.assign(x3=table.x1 - 2 * table.x2 + table.firm)
    with pytest.warns(mg.errors.IdentificationWarning, match="column 'x3' within firm"):
        r = mg.glm("y ~ x1 + x2 + x3 | firm", more)
    alone = mg.glm("y ~ x1 + x2 | firm", more)
    assert np.isnan(r.params["x3"])
    np.testing.assert_allclose(r.params[:2], alone.params)
    np.testing.assert_allclose(r.bse[:2], alone.bse)


@pytest.mark.parametrize(("response", "family"), [("y", "gaussian"), ("c", "poisson")])
def test_a_column_that_hardly_varies_within_levels_keeps_its_digits(table, response, family):
    table = several(table)
    small = 1e-4 * np.random.default_rng(1).normal(size=len(table))
    more = table.assign(small=small, weak=table.firm + small)
    asked = {"family": family, "passes": "converge"}
    plain = mg.glm(f"{response} ~ x1 + small | firm + year", more, **asked)
    r = mg.glm(f"{response} ~ x1 + weak | firm + year", more, **asked)
    assert r.fit_info.reads == plain.fit_info.reads + 1
    np.testing.assert_allclose(r.params.values, plain.params.values, rtol=1e-6)
    np.testing.assert_allclose(r.bse.values, plain.bse.values, rtol=1e-6)
    np.testing.assert_allclose(r.predict(more), plain.predict(more), rtol=1e-6)


# Any source, any order.


def test_every_source_and_order_gives_the_same_fit(table, tmp_path):
    import polars as pl
    import pyarrow as pa

    table.to_parquet(tmp_path / "a.parquet", row_group_size=100)
    table.to_csv(tmp_path / "a.csv", index=False)
    sources = {
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table),
        "parquet": tmp_path / "a.parquet",
        "csv": tmp_path / "a.csv",
        "stream": mg.Stream(lambda: (table.iloc[s : s + 90] for s in range(0, len(table), 90))),
        "shuffled": table.sample(frac=1, random_state=1),
        "text": table.assign(firm=table.firm.astype(str), year=table.year.astype("category")),
    }
    asked = {"family": "poisson", "clusters": "firm", "passes": "converge", "block_size": 64}
    plain = mg.glm("c ~ x1 + x2 | firm + year^g", table, **asked)
    for name, source in sources.items():
        r = mg.glm("c ~ x1 + x2 | firm + year^g", source, **asked)
        assert np.abs((r.params - plain.params) / plain.bse).max() < 1e-8, name
        np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-8, err_msg=name)
        assert r.nobs == plain.nobs, name


def test_an_iterator_of_few_rows_is_kept(table):
    parts = (table.iloc[s : s + 90] for s in range(0, len(table), 90))
    r = mg.glm("c ~ x1 | firm", parts, family="poisson", clusters="firm")
    plain = mg.glm("c ~ x1 | firm", table, family="poisson", clusters="firm")
    np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-9)


def test_an_iterator_is_read_once_for_least_squares():
    table = pd.concat([panel(5000, seed=s) for s in range(8)], ignore_index=True)
    parts = [table.iloc[s : s + 6000] for s in range(0, len(table), 6000)]
    r = mg.glm(FORMULA, iter(parts), cov_type="nonrobust")
    plain = mg.glm(FORMULA, table, cov_type="nonrobust")
    np.testing.assert_allclose(r.params, plain.params, rtol=1e-9)
    np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-9)
    with pytest.raises(InputError, match=r"an iterator can be read once.*read the rows again"):
        mg.glm(FORMULA, iter(parts))
    with pytest.raises(InputError, match="passes=1 is one read"):
        mg.glm("c ~ x1 | firm", table, family="poisson", passes=1)
    once = mg.glm(FORMULA, table, cov_type="nonrobust", passes=1)
    np.testing.assert_allclose(once.params, plain.params, rtol=1e-9)


def test_facts_that_do_not_fit_are_read_again(table, monkeypatch):
    asked = {"family": "binomial", "passes": "converge"}
    plain = mg.glm("d ~ x1 | firm + year", table, **asked)
    monkeypatch.setattr("masgrad.fitting.effects.fits.first.FACTS_SHARE", 2**40)
    r = mg.glm("d ~ x1 | firm + year", table, **asked)
    assert plain.effects.sizes == r.effects.sizes
    np.testing.assert_array_equal(r.params, plain.params)


# The result.


def test_disconnected_parts_have_a_reference_level_each():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"firm": rng.integers(0, 10, 300), "x": rng.normal(size=300)})
    table["year"] = np.where(table.firm < 4, rng.integers(0, 3, 300), rng.integers(3, 6, 300))
    table["y"] = table.x + 0.1 * table.firm + table.year + rng.normal(size=300)
    r = mg.glm("y ~ x | firm + year", table, cov_type="nonrobust")
    assert (r.effects.parameters, r.effects.redundant) == (14, 2)
    found = r.fixed_effects()
    assert found["year"][0] == found["year"][3] == 0.0
    total = found["firm"][table.firm].to_numpy() + found["year"][table.year].to_numpy()
    np.testing.assert_allclose(r.predict(table), table.x * r.params["x"] + total)
    within = table.y - r.predict(table)
    dispersion = within @ within / (300 - 15)
    assert r.dispersion == pytest.approx(dispersion)
    with pytest.warns(mg.errors.MissingWarning, match="no rows connect its firm and year"):
        assert np.isnan(r.predict(pd.DataFrame({"firm": [0], "year": [4], "x": [0.0]})))[0]


def test_levels_that_were_not_seen_have_no_prediction(table):
    r = mg.glm("y ~ x1 | firm^g + year", table)
    new = table.iloc[:4].assign(firm=[table.firm[0], 999, table.firm[2], table.firm[3]])
    with pytest.warns(mg.errors.MissingWarning, match="1 of 4 rows.*its firm\\^g is not among"):
        found = r.predict(new)
    assert np.isnan(found).tolist() == [False, True, False, False]
    np.testing.assert_allclose(found[[0, 2, 3]], r.predict(table.iloc[[0, 2, 3]]))
    assert isinstance(r.fixed_effects()["firm^g"].index, pd.MultiIndex)


def test_what_a_result_with_effects_does_not_do(table, tmp_path):
    r = mg.glm(FORMULA, table)
    for refused, message in (
        (lambda: r.predict(table, interval=0.9), "no interval"),
        (lambda: r.update(table), "has no update"),
        (lambda: r.predict(table, penalized=True), "no penalty"),
    ):
        with pytest.raises(InputError, match=message):
            refused()
    assert "R-squared within" in r.summary() and "Fixed effects" in r.to_html()
    assert r.wald_test("x1 = 0, x2 = 0").pvalue < 1e-6


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"penalty": mg.L2(0.1)}, "have no penalty"),
        ({"cov_type": "HC3"}, "leverage on all effects"),
        ({"method": "chains"}, "chains"),
        ({"start": [0.0, 0.0]}, "start="),
        ({"clusters": "nothing"}, "no column 'nothing'"),
    ],
)
def test_options_that_are_refused(table, keywords, message):
    with pytest.raises(InputError, match=message):
        mg.glm(FORMULA, table, **keywords)


def test_columns_that_are_no_effects_are_refused(table):
    with pytest.raises(InputError, match="keys of groups are whole numbers, text or dates"):
        mg.glm("y ~ x1 | x2", table)
    missing = table.assign(firm=table.firm.where(table.index != 5))
    with pytest.raises(InputError, match="firm has no value at row 5"):
        mg.glm(FORMULA, missing)
    with pytest.raises(InputError, match="column 'x1' holds nan at row 3"):
        mg.glm(FORMULA, table.assign(x1=table.x1.where(table.index != 3)))
    with pytest.raises(InputError, match="y is -1 at row 2"):
        mg.glm(
            "c ~ x1 | firm", table.assign(c=table.c.where(table.index != 2, -1)), family="poisson"
        )
    with pytest.raises(InputError, match="need a regression"):
        mg.fit(mg.GaussianMixture(2, 1.0), table, formula=FORMULA)
    with pytest.raises(InputError, match="has no fixed effects"):
        mg.penalty_path(mg.Linear(), table, mg.L1(0.1), formula=FORMULA)
    with pytest.raises(InputError, match="fixed effects"):
        mg.landscape(mg.Linear(), table, formula=FORMULA, starts=2)


def test_effects_are_columns_of_tables(table, tmp_path):
    """Whoever calls: `fit` with a formula, streams and iterators of tables; arrays have none."""
    X, y = table[["x1"]].to_numpy(), table.y.to_numpy()
    plain = mg.glm("y ~ x1 | firm", table)
    again = mg.fit(mg.Linear(), table, formula="y ~ x1 | firm")
    np.testing.assert_array_equal(again.params, plain.params)
    for arrays in (mg.Stream(lambda: iter([(X, y)])), iter([(X, y)]), (X, y)):
        with pytest.raises(TypeError, match=r"a table .* is needed, got tuple"):
            mg.glm("y ~ x1 | firm", arrays)
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (tmp_path / "t.csv", mg.Stream(lambda: iter([table]))):
        with pytest.raises(TypeError, match=r"clusters of a file, .* is the name of a column"):
            mg.glm("y ~ x1 | firm", source, clusters=table.firm.to_numpy())
    with pytest.raises(InputError, match="no column 'shop'"):
        mg.glm("y ~ x1 | shop", table)
    with pytest.raises(InputError, match="same has one cluster, 1"):
        mg.glm("y ~ x1 | firm", table.assign(same=1), clusters="same")
    table.assign(firm=table.firm.where(table.index != 5)).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"firm has no value at row 5 of .*t.csv"):
        mg.glm("y ~ x1 | firm", tmp_path / "t.csv")


def test_incidental_parameters_are_noted_where_they_bias(table):
    noted = [
        any("incidental" in note for note in mg.glm(f, table, family=family).notes)
        for f, family in (("d ~ x1 | firm", "binomial"), ("c ~ x1 | firm", "poisson"))
    ]
    assert noted == [True, False]


def test_a_category_of_very_many_levels_names_the_bar():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"zip": np.arange(4000) % 1500, "x": rng.normal(size=4000)})
    table["y"] = table.x + rng.normal(size=4000)
    r = mg.glm("y ~ x + C(zip)", table)
    assert "'| zip'" in r.summary()
    beside = mg.glm("y ~ x | zip", table)
    assert beside.params["x"] == pytest.approx(r.params["x"], rel=1e-8)
    with pytest.raises(InputError, match=r"write\s+it as an effect: '\| zip'"):
        mg.glm("y ~ x + C(zip) | firm", table.assign(firm=table.zip % 7))


@pytest.mark.long
def test_a_million_levels_fit():
    rng = np.random.default_rng(0)
    n = 2_500_000
    t = pd.DataFrame({"worker": rng.integers(0, 1_000_000, n), "x": rng.normal(size=n)})
    t["firm"] = (t.worker // 50 + rng.integers(0, 2, n) * rng.integers(0, 20_000, n)) % 20_000
    t["y"] = 0.5 * t.x + rng.normal(size=1_000_000)[t.worker] + rng.normal(size=n)
    r = mg.glm("y ~ x | worker + firm", t, clusters="worker")
    assert abs(r.params["x"] - 0.5) < 5 * r.bse["x"] < 0.01


# Files of results.


@pytest.mark.parametrize("effects", ["firm", "firm + year", "firm^year^g + year"])
def test_a_saved_result_predicts(table, effects, tmp_path):
    named = table.assign(year=pd.to_datetime(table.year, format="%Y"))
    r = mg.glm(f"c ~ x1 + x2 | {effects}", named, family="poisson", clusters="firm")
    r.save(tmp_path / "r.json", small_cells="allow")
    back = mg.load(tmp_path / "r.json")
    assert type(back) is type(r) and back.summary() == r.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.errors.MissingWarning)
        np.testing.assert_array_equal(back.predict(named), r.predict(named))
        unseen = named.assign(firm=named.firm + 10_000)
        assert np.isnan(back.predict(unseen)).all()
    for name, values in r.fixed_effects().items():
        pd.testing.assert_series_equal(back.fixed_effects()[name], values)


def test_predictions_of_the_command_line_are_those_of_predict(table, tmp_path):
    from masgrad.fitting.commands import write_predictions

    r = mg.glm("y ~ x1 | firm + year", table)
    table.to_csv(tmp_path / "rows.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.errors.MissingWarning)
        write_predictions(r, str(tmp_path / "rows.csv"), tmp_path / "out.csv")
        found = pd.read_csv(tmp_path / "out.csv")["mean"]
        np.testing.assert_allclose(found, r.predict(table), rtol=1e-12)
    with pytest.raises(InputError, match="have no interval"):
        write_predictions(r, str(tmp_path / "rows.csv"), tmp_path / "out.csv", 0.95)


@pytest.mark.parametrize("unit", [1e-9, 1e7, 1e10])
@pytest.mark.parametrize(("response", "family"), [("y", "gaussian"), ("c", "poisson")])
def test_units_of_columns_do_not_matter(table, unit, response, family):
    asked = {"family": family, "passes": "converge"}
    plain = mg.glm(f"{response} ~ x1 + x2 | firm + year", table, **asked)
    other = table.assign(x1=unit * table.x1)
    r = mg.glm(f"{response} ~ x1 + x2 | firm + year", other, **asked)
    for found, expected in ((r.params, plain.params), (r.bse, plain.bse)):
        assert_close(found * [unit, 1.0], expected)


def test_a_saved_result_remembers_separated_rows(table, tmp_path):
    zero = table.assign(d=1.0 * ((table.c == 0) & (table.x2 > 1)))
    with pytest.warns(mg.errors.SeparationWarning):
        r = mg.glm("c ~ x1 + d | firm", zero, family="poisson")
    r.save(tmp_path / "r.json", small_cells="allow")
    back = mg.load(tmp_path / "r.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.errors.MissingWarning)
        np.testing.assert_array_equal(back.predict(zero), r.predict(zero))
    assert back.params["d"] == -np.inf


def test_a_file_whose_effects_do_not_fit_its_keys_is_refused(table, tmp_path, monkeypatch):
    from masgrad.fitting.effects.results import storage

    r = mg.glm("y ~ x1 | firm", table)
    body = storage.effects_to_json(r)
    body["groupings"][0]["keys"]["keys"] = [1, 2]
    monkeypatch.setattr("masgrad.fitting.effects.results.result.effects_to_json", lambda _: body)
    r.save(tmp_path / "r.json", small_cells="allow")
    with pytest.raises(InputError, match=r"effects of .* levels for .* keys"):
        mg.load(tmp_path / "r.json")

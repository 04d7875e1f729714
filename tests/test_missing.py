"""Rows with missing values are left out: a fit is that of the cleaned data, wherever rows are."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, feather
from scipy import sparse

import masgrad as mg
from masgrad.errors import InputError, MissingWarning

FORMULA = "y ~ a + log(b) + C(g)"
USED = ["y", "a", "b", "g"]
ROLES = {"weights": "w", "offset": "o", "clusters": "firm"}
HAVE_ROLES = [*USED, "w", "o", "firm"]


def whole(n: int, seed: int = 0) -> pd.DataFrame:
    """A table without gaps."""
    rng = np.random.default_rng(seed)
    t = pd.DataFrame({"a": rng.normal(size=n), "b": rng.gamma(2, size=n)})
    t["g"], t["firm"] = rng.choice(list("xyz"), n), rng.integers(0, 30, n)
    t["w"], t["o"], t["t"] = rng.integers(1, 4, n) * 1.0, 0.1 * rng.normal(size=n), np.arange(n)
    t["y"] = t.a - 0.5 * np.log(t.b) + t.o + rng.normal(size=n)
    return t.assign(c=rng.poisson(np.exp(0.3 * t.a)) * 1.0)


def with_gaps(table: pd.DataFrame, each: int = 6, seed: int = 1) -> pd.DataFrame:
    """The same with missing values in every column but t."""
    rng, table = np.random.default_rng(seed), table.copy()
    for name in ("a", "b", "g", "y", "w", "o", "c", "firm"):
        gaps = np.isin(table.index, rng.choice(table.index, each, replace=False))
        table[name] = table[name].where(~gaps, None if name == "g" else np.nan)
    return table


@pytest.fixture(scope="module")
def gaps() -> pd.DataFrame:
    return with_gaps(whole(400))


def cleaned(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    return table.dropna(subset=columns)


def assert_same(r, expected) -> None:
    """Exactly the same numbers."""
    assert r.nobs == expected.nobs
    np.testing.assert_array_equal(r.params, expected.params)
    np.testing.assert_array_equal(r.bse, expected.bse)


def assert_near(r, expected) -> None:
    """The same but for the order of sums."""
    assert r.nobs == expected.nobs
    off = np.asarray(r.params) - np.asarray(expected.params)
    assert np.abs(off / np.asarray(expected.bse)).max() < 1e-8
    np.testing.assert_allclose(r.bse, expected.bse, rtol=1e-8)


def counted(table: pd.DataFrame, columns: list[str]) -> dict[str, int]:
    return {name: int(table[name].isna().sum()) for name in columns}


# Tables in memory.

TABLES = {
    "pandas": lambda t: t,
    "nullable": lambda t: t.convert_dtypes(),
    "arrow types": lambda t: t.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda t: t.astype(object).where(t.notna(), None),
    "pd.NA": lambda t: t.astype(object).where(t.notna(), pd.NA),
    "category": lambda t: t.assign(g=t.g.astype("category")),
    "polars null": lambda t: pl.from_pandas(t),
    "polars NaN": lambda t: pl.from_pandas(t).with_columns(pl.col("a", "b", "y").fill_null(np.nan)),
    "arrow": lambda t: pa.Table.from_pandas(t),
    "arrow codes": lambda t: pa.table(
        {n: pa.array(t[n], from_pandas=True) for n in t}
        | {"g": pa.array(t.g.astype("category"), from_pandas=True)}
    ),
    "columns": lambda t: {n: t[n].to_numpy() for n in t},
    "lists": lambda t: {n: t[n].astype(object).where(t[n].notna(), None).tolist() for n in t},
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_without_its_gaps_is_the_cleaned_table(gaps, kind):
    for columns, asked in ((USED, {}), (HAVE_ROLES, ROLES)):
        expected = mg.glm(FORMULA, cleaned(gaps, columns), **asked)
        r = mg.glm(FORMULA, TABLES[kind](gaps), missing="drop", **asked)
        assert_same(r, expected)
        assert r.missing == counted(gaps, columns)
        lacking = int(gaps[columns].isna().any(axis=1).sum())
        assert f"{lacking} of 400 rows were left out for missing values" in r.notes[-1]
        assert f"{lacking} of 400 rows were left out" in " ".join(r.summary().split())


def test_a_complete_table_has_no_note():
    table = whole(400)
    r = mg.glm(FORMULA, table, missing="drop")
    assert_same(r, mg.glm(FORMULA, table))
    assert r.missing == {} and not any("left out" in note for note in r.notes)


@pytest.mark.parametrize(
    ("formula", "keywords", "columns"),
    [
        ("y ~ 1", {}, "y"),
        ("y ~ scale(a) + b", {}, "y a b"),
        ("y ~ a:b + I(a**2)", {}, "y a b"),
        ("c ~ a", {"family": "poisson", "exposure": "b"}, "c a b"),
        ("y ~ a + b", {"cov_type": "HC3"}, "y a b"),
        ("y ~ a", {"cov_type": "HAC", "time": "t", "lags": 2}, "y a t"),
        ("y ~ a", {"cov_type": "HAC", "time": "t", "unit": "firm", "lags": 2}, "y a t firm"),
        ("y ~ a", {"cov_type": "DK", "time": "firm"}, "y a firm"),
        ("y ~ a", {"clusters": ["firm", "g"]}, "y a firm g"),
        ("y ~ a", {"clusters": "firm^g"}, "y a firm g"),
        ("y ~ a + b | firm", {}, "y a b firm"),
        ("y ~ a | firm^g + t", {}, "y a firm g"),
        ("c ~ a | firm + g", {"family": "poisson", "clusters": "firm"}, "c a firm g"),
        ("y ~ a + b", {"penalty": mg.L1(0.05)}, "y a b"),
        ("y ~ a", {"passes": 1}, "y a"),
    ],
)
def test_whatever_a_fit_uses_must_be_there(gaps, formula, keywords, columns):
    table = gaps.assign(t=gaps.t // 4) if "| firm^g" in formula else gaps
    expected = mg.glm(formula, cleaned(table, columns.split()), **keywords)
    r = mg.glm(formula, table, missing="drop", **keywords)
    assert_same(r, expected)
    assert r.missing == {n: k for n, k in counted(table, columns.split()).items() if k}


def test_dates_that_are_not_there_are_missing(gaps):
    days = pd.Series(pd.date_range("2000-01-01", periods=400)).where(gaps.index % 50 != 3)
    table = gaps.assign(day=days)
    expected = mg.glm("y ~ a", cleaned(table, ["y", "a", "day"]), cov_type="HAC", time="day")
    for time in ("day", days, days.to_numpy()):
        r = mg.glm("y ~ a", table, missing="drop", cov_type="HAC", time=time)
        assert_same(r, expected)
    with pytest.raises(InputError, match=r"day has no value at row 3; drop .*missing='drop'"):
        mg.glm("y ~ a", whole(400).assign(day=days), cov_type="HAC", time="day")


def test_levels_of_rows_that_are_left_out_are_none():
    table = whole(400)
    table.loc[9, ["g", "a"]] = ["rare", np.nan]
    expected = ("Intercept", "a", "log(b)", "C(g)[T.y]", "C(g)[T.z]")
    assert mg.glm(FORMULA, table, missing="drop").names == expected
    categories = table.assign(g=pd.Categorical(table.g, ["rare", "x", "y", "z"]))
    assert mg.glm(FORMULA, categories, missing="drop").names == expected


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: s.to_numpy(),
        lambda s: s.convert_dtypes(),
        lambda s: s.astype(object).where(s.notna(), None).tolist(),
        lambda s: pa.array(s, from_pandas=True),
        lambda s: pl.from_pandas(s),
    ],
)
def test_arrays_beside_a_table_may_have_gaps(gaps, wrap):
    expected = mg.glm(FORMULA, cleaned(gaps, HAVE_ROLES), **ROLES)
    given = {role: wrap(gaps[name]) for role, name in ROLES.items()}
    assert_same(mg.glm(FORMULA, gaps, missing="drop", **given), expected)


# Weights of 0.


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_rows_of_weight_0_may_lack_anything(gaps, missing):
    columns = [*USED, "o", "firm"]
    there = 1.0 * gaps[columns].notna().all(axis=1)
    asked = {"offset": "o", "clusters": "firm", "missing": missing}
    r = mg.glm(FORMULA, gaps.assign(w=there), weights="w", **asked)
    assert_near(r, mg.glm(FORMULA, cleaned(gaps, columns).assign(w=1.0), weights="w", **asked))
    assert r.missing == {}
    with_effects = mg.glm("y ~ a | firm", gaps.assign(w=there), weights="w", missing=missing)
    assert with_effects.nobs <= there.sum()


# Files.


MORE_KINDS = ("Arrow", "parts", "dataset")


@pytest.fixture(scope="module")
def long_gaps() -> pd.DataFrame:
    return with_gaps(whole(40_000, 2), each=300).reset_index(drop=True)


def stored(table: pd.DataFrame, folder, kind: str):
    """A table in files of some kind."""
    if kind == "CSV":
        table.to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    if kind == "Arrow":
        feather.write_feather(table, folder / "t.arrow", chunksize=7000)
        return folder / "t.arrow"
    if kind == "parts":
        paths = [folder / f"{k}.csv" for k in range(3)]
        for path, part in zip(paths, np.array_split(np.arange(len(table)), 3), strict=True):
            table.iloc[part].to_csv(path, index=False)
        return paths
    table.to_parquet(folder / "t.parquet", row_group_size=7000)
    return dataset.dataset(folder / "t.parquet") if kind == "dataset" else folder / "t.parquet"


@pytest.mark.parametrize(
    "kind",
    ["Parquet", "CSV", *(pytest.param(k, marks=pytest.mark.long) for k in MORE_KINDS)],
)
@pytest.mark.parametrize(
    ("formula", "columns", "asked"),
    [
        (FORMULA, USED, {}),
        ("c ~ a + C(g)", ["c", "a", "g", "w", "o", "firm"], {"family": "poisson", **ROLES}),
        ("c ~ a | firm + g", ["c", "a", "g", "firm"], {"family": "poisson", "clusters": "firm"}),
    ],
)
def test_files_without_their_gaps_are_the_cleaned_table(
    long_gaps, tmp_path, kind, formula, columns, asked
):
    asked = {"passes": "converge", **asked}
    expected = mg.glm(formula, cleaned(long_gaps, columns), **asked)
    r = mg.glm(formula, stored(long_gaps, tmp_path, kind), missing="drop", **asked)
    assert_near(r, expected)
    assert r.missing == counted(long_gaps, columns)
    assert r.omitted.rows == 40_000 and r.omitted.missing == 40_000 - len(
        cleaned(long_gaps, columns)
    )


def test_a_long_table_without_its_gaps_is_exactly_the_cleaned_one(long_gaps, tmp_path):
    short = cleaned(long_gaps, USED)
    assert_same(mg.glm(FORMULA, long_gaps, missing="drop"), mg.glm(FORMULA, short))
    (tmp_path / "short").mkdir()
    files = stored(long_gaps, tmp_path, "CSV"), stored(short, tmp_path / "short", "CSV")
    assert_same(mg.glm(FORMULA, files[0], missing="drop"), mg.glm(FORMULA, files[1]))


@pytest.mark.parametrize("kind", ["memory", "Parquet", "CSV", "parts"])
def test_errors_name_rows_as_they_are_stored(long_gaps, tmp_path, kind):
    table = long_gaps.copy()
    for row, value in ((30_123, np.inf), (35_000, -1.0)):
        table.loc[row, ["a", "b", "c", "y"]], table.loc[row, "g"] = [0.0, 1.0, 0.0, 0.0], "x"
        table.loc[row, "a" if value > 0 else "c"] = value
    data = table if kind == "memory" else stored(table, tmp_path, kind)
    first, second = (3456, 8333) if kind == "parts" else (30_123, 35_000)
    with pytest.raises(InputError, match=f"'a' holds inf at row {first}"):
        mg.glm(FORMULA, data, missing="drop")
    with pytest.raises(InputError, match=f"y is -1 at row {second}"):
        mg.glm("c ~ C(g)", data, family="poisson", missing="drop")


# Arrays, streams and other losses.


@pytest.fixture(scope="module")
def arrays(gaps):
    X = np.column_stack([np.ones(400), gaps.a, gaps.b])
    columns = (gaps[n].to_numpy() for n in ("y", "w", "o", "firm"))
    return X, *columns


def complete(*parts: np.ndarray) -> np.ndarray:
    return ~np.column_stack([np.isnan(part).reshape(400, -1) for part in parts]).any(1)


def test_arrays_may_have_gaps_anywhere(arrays):
    X, y, w, o, firm = arrays
    kept = complete(X, y)
    r = mg.fit(mg.Linear(), (X, y), missing="drop")
    assert_same(r, mg.fit(mg.Linear(), (X[kept], y[kept])))
    assert r.missing == {"X[:, 1]": 6, "X[:, 2]": 6, "y": 6}
    given = {"weights": w, "offset": o, "clusters": [firm, firm % 3]}
    kept = complete(X, y, w, o, firm)
    some = {"weights": w[kept], "offset": o[kept], "clusters": [firm[kept], firm[kept] % 3]}
    r = mg.fit(mg.Linear(), (X, y), missing="drop", **given)
    assert_same(r, mg.fit(mg.Linear(), (X[kept], y[kept]), **some))
    assert r.missing["clusters[1]"] == 6 and r.missing["weights"] == 6


@pytest.mark.parametrize(
    "wrap",
    [
        lambda X, y: (pd.DataFrame(X), pd.Series(y)),
        lambda X, y: (pd.DataFrame(X).convert_dtypes(), pd.Series(y).convert_dtypes()),
        lambda X, y: (pl.DataFrame(X).fill_nan(None), pl.Series(y).fill_nan(None)),
        lambda X, y: (X, [None if v != v else v for v in y]),
        lambda X, y: (np.ma.masked_invalid(X), np.ma.masked_invalid(y)),
        lambda X, y: (X, pa.array(y, from_pandas=True)),
        lambda X, y: (sparse.csr_array(X), y),
    ],
)
def test_arrays_of_any_kind_may_have_gaps(arrays, wrap):
    X, y, *_ = arrays
    kept = complete(X, y)
    r = mg.fit(mg.Linear(), wrap(X, y), missing="drop")
    assert_near(r, mg.fit(mg.Linear(), (X[kept], y[kept])))
    assert sum(r.missing.values()) == 18


def test_streams_may_have_gaps(arrays):
    X, y, w, o, firm = arrays
    starts, at = range(0, 400, 70), lambda s: slice(s, s + 70)

    def blocks():
        for s in starts:
            roles = {"weights": w[at(s)], "offset": o[at(s)], "clusters": firm[at(s)]}
            yield mg.Block(X[at(s)], y[at(s)], **roles)

    kept = complete(X, y, w, o, firm)
    some = {"weights": w[kept], "offset": o[kept], "clusters": firm[kept]}
    expected = mg.fit(mg.Linear(), (X[kept], y[kept]), **some)
    for data in (mg.Stream(blocks), blocks()):
        assert_near(mg.fit(mg.Linear(), data, missing="drop"), expected)


def test_blocks_may_have_no_complete_row(arrays):
    X, y, *_ = arrays
    X = np.where(np.arange(400)[:, None] < 140, np.nan, X)
    kept = complete(X, y)
    stream = mg.Stream(lambda: ((X[s : s + 70], y[s : s + 70]) for s in range(0, 400, 70)))
    assert_near(
        mg.fit(mg.Linear(), stream, missing="drop"), mg.fit(mg.Linear(), (X[kept], y[kept]))
    )


@pytest.mark.parametrize("start", [lambda make: mg.Stream(make), lambda make: make()])
def test_streams_of_tables_may_have_gaps(gaps, start):
    def frames():
        table = gaps.assign(g=gaps.g.astype(pd.CategoricalDtype(list("xyz"))))
        return (table.iloc[s : s + 70] for s in range(0, 400, 70))

    r = mg.glm(FORMULA, start(frames), missing="drop", **ROLES)
    assert_near(r, mg.glm(FORMULA, cleaned(gaps, HAVE_ROLES), **ROLES))
    assert r.missing == counted(gaps, HAVE_ROLES)


def square(theta, z):
    return 0.5 * (z["y"] - z["a"] * theta[1] - theta[0]) ** 2


def test_losses_of_ones_own_may_have_gaps(gaps, tmp_path):
    loss, table = mg.CustomLoss(square, dim=2), gaps[["a", "y", "firm", "w"]]
    kept, asked = table.dropna(), {"weights": "w", "clusters": "firm"}
    expected = mg.fit(loss, kept, **asked)
    for data in (table, pl.from_pandas(table), pa.Table.from_pandas(table)):
        assert_near(mg.fit(loss, data, missing="drop", **asked), expected)
    columns = {"a": table.a.to_numpy(), "y": table.y.to_numpy()}
    keys = {"weights": table.w.to_numpy(), "clusters": table.firm.to_numpy()}
    assert_near(mg.fit(loss, columns, missing="drop", **keys), expected)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_csv(tmp_path / "t.csv", index=False)
    for path in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        r = mg.fit(loss, path, missing="drop", **asked)
        assert_near(r, expected)
        assert r.missing == counted(table, list(table))


def test_rows_that_are_pytrees_may_have_gaps(arrays):
    X, y, *_ = arrays
    loss = mg.CustomLoss(lambda theta, z: 0.5 * (z[1]["y"] - z[0] @ theta) ** 2, dim=3)
    kept, number = complete(X, y), np.arange(400)
    r = mg.fit(loss, (X, {"y": y, "n": number}), missing="drop")
    assert_near(r, mg.fit(loss, (X[kept], {"y": y[kept], "n": number[kept]})))
    assert sum(r.missing.values()) == 18
    infinite = X.copy()
    infinite[np.flatnonzero(kept)[300], 2] = np.inf
    with pytest.raises(InputError, match=rf"inf at row {np.flatnonzero(kept)[300]}, column 2"):
        mg.fit(loss, (infinite, {"y": y, "n": number}), missing="drop")


@pytest.mark.long
def test_other_models_may_have_gaps(arrays):
    X, y, *_ = arrays
    trace = mg.fit(mg.TraceRegression(1, 3), (X.reshape(400, 1, 3), y), missing="drop")
    assert trace.nobs == complete(X, y).sum()
    mixture = mg.fit(mg.GaussianMixture(2, 1.0), y, missing="drop", starts=2)
    assert mixture.nobs == 394 and sum(mixture.missing.values()) == 6


# Errors.


@pytest.mark.parametrize(
    ("formula", "keywords", "message"),
    [
        ("c ~ a + b", {}, "column 'a' holds nan at row 5"),
        ("y ~ t", {}, "response holds nan at row 6"),
        ("c ~ C(g)", {}, "column 'g' has no value at row 7"),
        ("c ~ t", {"weights": "w"}, "'w' holds nan at row 8"),
        ("c ~ t", {"offset": "o"}, "'o' holds nan at row 9"),
        ("c ~ t", {"clusters": "firm"}, "firm has no value at row 10"),
        ("c ~ t | firm", {}, "firm has no value at row 10"),
    ],
)
@pytest.mark.parametrize("kind", ["memory", "Parquet", "CSV"])
def test_without_drop_errors_name_column_and_row(tmp_path, formula, keywords, message, kind):
    table = whole(400)
    table["firm"] = table.firm.astype(float)
    for row, name in enumerate(("a", "y", "g", "w", "o", "firm"), 5):
        table.loc[row, name] = None if name == "g" else np.nan
    data = table if kind == "memory" else stored(table, tmp_path, kind)
    with pytest.raises(InputError, match=rf"{message}\b.*missing='drop'"):
        mg.glm(formula, data, **keywords)


@pytest.mark.parametrize("name", ["a", "y", "w", "o", "firm"])
def test_infinite_values_are_not_missing(name):
    table = whole(400)
    table["firm"] = table.firm.astype(float)
    table.loc[100, name] = np.inf
    with pytest.raises(InputError, match=r"inf(?!.*missing='drop')"):
        mg.glm(FORMULA, table, missing="drop", **ROLES)


def test_what_a_transform_makes_is_not_missing():
    table = whole(400)
    for value, made in ((-1.0, "nan"), (0.0, "-inf")):
        with pytest.raises(InputError, match=rf"'log\(b\)' holds {made} at row 5"):
            mg.glm(FORMULA, table.assign(b=table.b.where(table.index != 5, value)), missing="drop")


@pytest.mark.parametrize("kind", ["memory", "Parquet", "CSV", "stream"])
def test_a_column_that_is_missing_in_all_rows_is_named(gaps, tmp_path, kind):
    table = gaps.assign(a=np.nan)
    data = table if kind == "memory" else mg.Stream(lambda: iter([table]))
    data = stored(table, tmp_path, kind) if kind in ("Parquet", "CSV") else data
    with pytest.raises(InputError, match=r"each of the 400 rows lacks .*'a' has no value in any"):
        mg.glm("y ~ a + b", data, missing="drop")


def test_rows_that_lack_one_thing_or_another_leave_none(gaps):
    table = whole(400)
    table["a"], table["b"] = table.a.where(table.t % 2 == 0), table.b.where(table.t % 2 == 1)
    with pytest.raises(InputError, match=r"lacks a value \(a 200, b 200\)"):
        mg.glm("y ~ a + b", table, missing="drop")
    X, y = table[["a", "b"]].to_numpy() * np.nan, table.y.to_numpy()
    with pytest.raises(InputError, match=r"'X\[:, 0\]', 'X\[:, 1\]' have no value in any row"):
        mg.fit(mg.Linear(), (X, y), missing="drop")
    with pytest.raises(InputError, match="h has one cluster, 1"):
        of = np.where(table.index < 3, 1.0, np.nan)
        mg.glm("y ~ o", table.assign(h=of), clusters="h", missing="drop")


# Afterwards.


def test_rows_with_gaps_have_no_prediction_and_are_counted(gaps, tmp_path):
    for formula, columns in ((FORMULA, ["a", "b", "g"]), ("y ~ a | firm + g", ["a", "firm", "g"])):
        r = mg.glm(formula, gaps, missing="drop", offset="o")
        lacking = gaps[[*columns, "o"]].isna().any(axis=1).to_numpy()
        for data in (gaps, stored(gaps, tmp_path, "Parquet"), stored(gaps, tmp_path, "CSV")):
            with pytest.warns(MissingWarning, match=f"{lacking.sum()} of 400 rows have no pred"):
                found = r.predict(data)
            np.testing.assert_array_equal(np.isnan(found), lacking)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_allclose(r.predict(gaps[~lacking]), found[~lacking], rtol=1e-12)


def test_updates_add_what_they_leave_out(gaps, tmp_path):
    old, new = gaps.iloc[:200], gaps.iloc[200:]
    first = mg.glm("y ~ a", old, missing="drop", clusters="firm")
    both = first.update(new, missing="drop", clusters="firm")
    expected = mg.glm("y ~ a", cleaned(gaps, ["y", "a", "firm"]), clusters="firm")
    np.testing.assert_allclose(both.params, expected.params, rtol=1e-9)
    np.testing.assert_allclose(both.bse, expected.bse, rtol=1e-9)
    assert both.nobs == expected.nobs and both.missing == counted(gaps, ["y", "a", "firm"])
    assert sum("left out" in note for note in both.notes) == 1
    with pytest.raises(InputError, match=r"firm has no value at row .*missing='drop'"):
        first.update(new, clusters="firm")
    both.save(tmp_path / "r.json", small_cells="allow")
    again = mg.load(tmp_path / "r.json")
    assert again.notes == both.notes and again.missing == both.missing
    assert both.notes[-1] in " ".join(again.summary().split())

"""Means at new rows and their intervals: any link, any direction, in blocks, to files."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import statsmodels.api as sm
from pyarrow import dataset
from scipy import stats

import masgrad as mg
from masgrad.errors import InputError, InputTypeError, MissingWarning
from masgrad.fitting.commands import write_predictions
from masgrad.models.families.choices import Gaussian, Poisson
from results import made, spread
from scenarios import regression, two_columns

THEIRS = {
    "gaussian": sm.families.Gaussian(),
    "bernoulli": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
}


@pytest.mark.parametrize("family", THEIRS)
def test_intervals_of_means_are_those_of_statsmodels(rng, family):
    X, y = regression(rng, family, N=400)
    r = mg.fit(mg.GLM(family), (X, y))
    theirs = sm.GLM(y, X, family=THEIRS[family]).fit(tol=1e-14, cov_type="HC0")
    new = np.vstack([3 * rng.normal(size=(20, 4)), np.zeros((1, 4))])
    ours = r.predict(new, interval=0.9)
    expected = theirs.get_prediction(new).summary_frame(alpha=0.1)
    assert list(ours.columns) == ["mean", "se", "lower", "upper"]
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours["mean"], r.predict(new), rtol=1e-14)
    linear = r.predict(new, interval=0.9, which="linear")
    assert list(linear.columns) == ["linear", "se", "lower", "upper"]
    np.testing.assert_allclose(linear["linear"], new @ r.theta)
    half = stats.norm.ppf(0.95) * np.sqrt(np.einsum("ij,jk,ik->i", new, r.cov, new))
    np.testing.assert_allclose(linear["upper"] - linear["linear"], half)
    np.testing.assert_allclose(r.predict(new, which="linear"), new @ r.theta)


@dataclass(frozen=True)
class Power(Poisson):
    """A positive mean t^power."""

    power: float = -1.0

    def mean(self, t):
        return t**self.power


@pytest.mark.parametrize("power", [-1.0, -0.5, 1.0, 2.0])
def test_limits_stay_in_the_range_whichever_way_the_link_runs(power):
    """One predictor well inside the domain t > 0, one whose interval leaves it, one unknown."""
    r = made([1.0], [[0.01]])
    object.__setattr__(r, "model", mg.GLM(Power(power=power)))
    X = np.array([[2.0], [0.2]])
    got = r.predict(X, interval=0.95)
    half = stats.norm.ppf(0.975) * 0.1
    ends = np.sort([(2 - 2 * half) ** power, (2 + 2 * half) ** power])
    np.testing.assert_allclose(got.loc[0, ["lower", "upper"]].astype(float), ends)
    assert got.loc[0, "se"] == pytest.approx(abs(power) * 2 ** (power - 1) * 0.2)

    wide = made([1.0], [[2.0]])
    object.__setattr__(wide, "model", mg.GLM(Power(power=power)))
    out = wide.predict(X, interval=0.95)
    edge = (2 + 2 * stats.norm.ppf(0.975) * np.sqrt(2)) ** power
    assert (out.loc[0, "lower"], out.loc[0, "upper"]) == pytest.approx(
        (0.0, edge) if power > 0 else (edge, np.inf)
    )


@pytest.mark.parametrize("family, whole", [("bernoulli", (0, 1)), ("poisson", (0, np.inf))])
def test_what_is_not_identified_has_the_whole_range(family, whole):
    free = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    r = made([0.3, 0.4], 0.01 * np.ones((2, 2)), free=free)
    object.__setattr__(r, "model", mg.GLM(family))
    got = r.predict(np.array([[1.0, 1.0], [1.0, 0.5]]), interval=0.95)
    assert np.isfinite(got.loc[0]).all()
    assert tuple(got.loc[1, ["lower", "upper"]]) == whole and got.loc[1, "se"] == np.inf
    linear = r.predict(np.array([[1.0, 0.5]]), interval=0.95, which="linear")
    assert tuple(linear.loc[0, ["lower", "upper"]]) == (-np.inf, np.inf)


def test_extreme_predictors_have_finite_answers():
    r = made([1.0], [[1e-4]])
    object.__setattr__(r, "model", mg.Logistic())
    got = r.predict(np.array([[-900.0], [-30.0], [0.0], [30.0], [900.0]]), interval=0.95)
    assert np.isfinite(got).all().all()
    assert (got["lower"] <= got["mean"]).all() and (got["mean"] <= got["upper"]).all()
    e = np.exp(-30.0)
    assert got.loc[1, "se"] == pytest.approx(e / (1 + e) ** 2 * 0.3)


def test_chains_take_students_quantile():
    r = made([1.0, 2.0], np.eye(2), df=4)
    got = r.predict(np.array([[1.0, 0.0]]), interval=0.95)
    assert got.loc[0, "upper"] == pytest.approx(1 + stats.t(4).ppf(0.975))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", ["mean", "linear"])
def test_missing_values_are_missing_predictions(value, which):
    r = made([0.5, 1.0], np.eye(2))
    object.__setattr__(r, "model", mg.Logistic())
    X = np.ones((5000, 2))
    X[[4500, 4600], 1] = value
    words = rf"2 of 5,000 rows have no prediction.*row 4500: its column 1 of X is {value:g}"
    with pytest.warns(MissingWarning, match=words) as caught:
        got = r.predict(X, interval=0.5, which=which)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert got.notna().all(axis=1).sum() == 4998 and got.loc[[4500, 4600]].isna().all().all()
    with pytest.warns(MissingWarning, match="2 of 5,000"):
        np.testing.assert_array_equal(r.predict(X, which=which), got[which])


def test_missing_predictions_name_file_and_column(tmp_path):
    frame, rng = two_columns(60)
    frame["y"] = rng.normal(size=60)
    frame["b"] = np.exp(frame["b"])
    r = mg.glm("y ~ a + log(b)", frame)
    frame.loc[50, "b"] = -1.0
    for suffix in ("csv", "parquet"):
        parts = [tmp_path / f"{k}.{suffix}" for k in (0, 1)]
        for part, rows in zip(parts, (frame[:40], frame[40:]), strict=True):
            rows.to_csv(part) if suffix == "csv" else rows.to_parquet(part)
        with pytest.warns(MissingWarning, match=rf"1 of 60.*row 10 of .*1\.{suffix}.*'log\(b\)'"):
            got = r.predict(parts, interval=0.9)
        assert got.isna().all(axis=1).to_numpy().nonzero()[0].tolist() == [50]


def test_a_predictor_without_a_mean_is_a_missing_prediction():
    r = made([1.0], [[1e-4]])
    object.__setattr__(r, "model", mg.GLM("binomial", "identity"))
    with pytest.warns(MissingWarning, match=r"row 1: its linear predictor 1\.5 has no mean"):
        got = r.predict(np.array([[0.5], [1.5]]), interval=0.9)
    assert got.isna().all(axis=1).tolist() == [False, True]


def test_a_network_does_not_take_infinity_for_a_number():
    r = made([0.5, -0.3, 0.2, 0.6, 0.7, 0.4], np.eye(6))
    object.__setattr__(r, "model", mg.ReluNetwork(2, 2))
    with pytest.warns(MissingWarning, match="2 of 3 rows"):
        got = r.predict(np.array([[-np.inf, 0.0], [1.0, 1.0], [np.nan, 0.0]]))
    assert np.isnan(got).tolist() == [True, False, True]


def test_networks_have_intervals(rng):
    model, X = mg.ReluNetwork(2, 2), rng.normal(size=(3, 2))
    r = made([0.5, -0.3, 0.2, 0.6, 0.7, 0.4], 0.01 * spread(rng, 6))
    object.__setattr__(r, "model", model)
    got = r.predict(X, interval=0.95)
    for j, x in enumerate(X):
        law = r.law.push(lambda t, x=x: model.predict(t, x))
        np.testing.assert_allclose(got.loc[j, ["mean", "se"]], [law.mean[0], law.sd[0]], rtol=1e-6)


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda r, X: r.predict(X, interval=95), "interval=95; a level between 0 and 1"),
        (lambda r, X: r.predict(X, interval=0.0), "interval=0.0"),
        (lambda r, X: r.predict(X, interval="x"), "interval='x'; a number"),
        (lambda r, X: r.predict(X, which="median"), "which='median' is not known; use one of mean"),
        (lambda r, X: r.predict((X, X)), "X alone"),
        (lambda r, X: r.predict(X[0]), r"\(N, 2\) is needed"),
        (lambda r, X: r.predict("rows.csv"), "rows.csv.*without a formula"),
        (lambda r, X: r.predict(["a.csv", "b.csv"]), "a.csv.*without a formula"),
    ],
)
def test_what_cannot_be_predicted_is_refused(ask, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        ask(made([1.0, 2.0], np.eye(2)), np.ones((3, 2)))


def test_a_loss_without_a_mean_has_no_prediction(tmp_path):
    r = made([1.0], [[1.0]])
    object.__setattr__(r, "model", mg.CustomLoss(lambda t, z: (t[0] - z) ** 2, 1))
    with pytest.raises(InputTypeError, match=r"CustomLoss has no mean response.*law\.push"):
        r.predict(np.ones((2, 1)), interval=0.9)
    object.__setattr__(r, "model", None)
    with pytest.raises(InputTypeError, match="loaded without its loss"):
        r.predict(np.ones((2, 1)))


# Blocks and files.


@pytest.fixture
def on_disk(rng, tmp_path):
    table = pd.DataFrame(rng.normal(size=(9000, 2)), columns=["a", "b"])
    table["y"] = rng.poisson(np.exp(0.3 * table.a)).astype(float)
    table[:5000].to_parquet(tmp_path / "part-0.parquet", row_group_size=1000)
    table[5000:].to_parquet(tmp_path / "part-1.parquet")
    return table, tmp_path, mg.glm("y ~ a + b + a:b", table, "poisson")


def test_tables_keep_their_index_and_files_their_order(on_disk):
    table, folder, r = on_disk
    shuffled = table.sample(frac=1, random_state=0)
    got = r.predict(shuffled, interval=0.95)
    assert got.index.equals(shuffled.index)
    files = r.predict(str(folder / "part-*.parquet"), interval=0.95)
    np.testing.assert_allclose(files, got.sort_index(), rtol=1e-12)


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_predictions_are_written_in_groups(on_disk, name, monkeypatch):
    table, folder, r = on_disk
    monkeypatch.setattr("masgrad.fitting.commands.ROW_GROUP", 5000)
    out = folder / name
    count = write_predictions(r, [str(folder / "part-*.parquet")], out, 0.9)
    read = pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out)
    assert count == len(read) == 9000
    np.testing.assert_allclose(read, r.predict(table, interval=0.9), rtol=1e-12)
    if name.endswith("parquet"):
        assert pq.ParquetFile(out).num_row_groups == 2
    write_predictions(r, table, out)
    read = pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out)
    assert list(read.columns) == ["mean"]


def test_a_failed_prediction_leaves_the_old_file(on_disk):
    table, folder, r = on_disk
    out = folder / "means.csv"
    out.write_text("old")
    table.drop(columns="b").to_parquet(folder / "part-2.parquet")
    with pytest.raises(InputError, match="'b'"):
        write_predictions(r, [str(folder / "part-*.parquet")], out)
    assert out.read_text() == "old"
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []
    with pytest.raises(InputError, match=r"means\.txt: a file that ends in \.csv, \.parquet"):
        write_predictions(r, table, folder / "means.txt")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_predictions(r, table, folder / "none" / "means.csv")


def test_arrays_are_predicted_in_blocks(rng):
    """No temporary of the size of the data: X stays as it is, here float32."""
    X = rng.normal(size=(10_000, 3)).astype(np.float32)
    r = made([1.0, 2.0, 3.0], np.eye(3))
    got = r.predict(X, interval=0.95)
    np.testing.assert_allclose(got["mean"], X.astype(float) @ r.theta)
    assert isinstance(Gaussian().mean(X), np.ndarray) and len(r.predict(X[:0])) == 0


def test_predictions_are_in_the_order_of_a_list_of_files(tmp_path):
    frame, rng = two_columns(60)
    frame["y"] = rng.normal(size=60)
    parts = [tmp_path / "part-2.parquet", tmp_path / "part-10.parquet"]
    for part, rows in zip(parts, (frame[:30], frame[30:]), strict=True):
        rows.to_parquet(part)
    r = mg.glm("y ~ a", frame)
    np.testing.assert_allclose(r.predict(parts), r.predict(frame))


def test_a_table_without_rows_has_an_empty_prediction():
    frame, rng = two_columns(60)
    frame["y"], frame["g"] = rng.normal(size=60), np.where(frame["a"] > 0.5, "u", "v")
    r = mg.glm("y ~ b + g", frame)
    for none in (frame[:0], pl.from_pandas(frame)[:0], {"b": [], "g": []}):
        assert r.predict(none).shape == (0,)
        got = r.predict(none, interval=0.9)
        assert len(got) == 0 and list(got.columns) == ["mean", "se", "lower", "upper"]
    with pytest.raises(InputError, match="'g'"):
        r.predict(frame[["b"]][:0])
    plain = mg.fit(mg.Linear(), (frame[["a", "b"]], frame["y"]))
    assert len(plain.predict(frame[["a", "b"]][:0])) == 0


def test_exposures_of_new_rows_are_checked():
    rng = np.random.default_rng(0)
    X = np.ones((20, 1))
    r = mg.fit(mg.Poisson(), (X, rng.poisson(3.0, 20)), exposure=np.ones(20))
    with pytest.raises(InputError, match=r"exposure holds -1 at row 1"):
        r.predict(X[:2], exposure=[1.0, -1.0])


def in_every_container(table, folder):
    table.to_parquet(folder / "rows.parquet")
    table.to_csv(folder / "rows.csv", index=False)
    half = len(table) // 2
    return {
        "pandas": table,
        "dictionary": {name: table[name] for name in table},
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table),
        "parquet": folder / "rows.parquet",
        "csv": str(folder / "rows.csv"),
        "dataset": dataset.dataset(folder / "rows.parquet"),
        "stream": mg.Stream(lambda: iter([table[:half], table[half:]])),
        "iterator": iter([table[:half], table[half:]]),
    }


def test_an_intercept_alone_predicts_for_every_container(rng, tmp_path):
    """Nothing is read but the number of rows; columns may be of any type."""
    table = pd.DataFrame({"t": pd.date_range("2020", periods=50), "y": rng.normal(size=50)})
    r = mg.glm("y ~ 1", table)
    for name, data in in_every_container(table, tmp_path).items():
        got = r.predict(data)
        np.testing.assert_allclose(got, np.full(50, table.y.mean()), rtol=1e-12, err_msg=name)
    assert len(r.predict(table, interval=0.9)) == 50
    assert r.predict(pd.DataFrame(index=range(3))).shape == (3,)
    assert r.predict(table[:0]).shape == (0,)


def test_a_row_without_a_category_an_offset_or_an_exposure_has_no_prediction(rng, tmp_path):
    table = pd.DataFrame({"x": rng.normal(size=60), "g": rng.choice(["u", "v"], 60)})
    table["t"], table["o"] = rng.uniform(1, 2, 60), rng.normal(size=60)
    table["y"] = rng.poisson(table.t)
    r = mg.glm("y ~ x * C(g)", table, "poisson", offset="o", exposure="t")
    whole = r.predict(table)
    table.loc[3, "g"], table.loc[14, "o"], table.loc[25, "t"] = None, np.nan, np.nan
    whole[[3, 14, 25]] = np.nan
    for name, data in in_every_container(table, tmp_path).items():
        with pytest.warns(MissingWarning, match="3 of 60 rows .* row 3.* column 'g' has no value"):
            np.testing.assert_allclose(r.predict(data), whole, rtol=1e-12, err_msg=name)
    with pytest.warns(MissingWarning, match="row 4: its offset or exposure has no finite value"):
        assert np.isnan(r.predict(table[10:20], interval=0.9)).all(axis=1).sum() == 1
    with pytest.raises(InputError, match=r"'t' holds -1 at row 0; an exposure is more than 0"):
        r.predict(table.assign(t=-1.0))
    with pytest.raises(InputError, match="the level 'w' at row 0"):
        r.predict(table.assign(g="w"))
    with pytest.raises(InputError, match="'g' has no value at row 3"):
        r.update(table)


def test_arrays_beside_x_may_have_missing_offsets(rng):
    X, t = rng.normal(size=(40, 2)), rng.uniform(1, 2, 40)
    r = mg.fit(mg.Poisson(), (X, rng.poisson(t)), exposure=t)
    whole = r.predict(X, exposure=t)
    t[[0, 5]] = np.nan, np.inf
    whole[[0, 5]] = np.nan
    with pytest.warns(MissingWarning, match="2 of 40 rows"):
        np.testing.assert_array_equal(r.predict(X, exposure=t), whole)


def test_decimals_and_long_doubles_are_numbers(rng):
    x = np.round(rng.normal(size=50), 2)
    y = x + rng.normal(size=50)
    decimals = [Decimal(f"{value:.2f}") for value in x]
    arrow = pd.array(decimals, pd.ArrowDtype(pa.decimal128(10, 2)))
    plain = mg.glm("y ~ x", {"x": x, "y": y})
    one = mg.fit(mg.Linear(), (pd.DataFrame({"x": x}), y))
    tables = [pd.DataFrame({"x": decimals}), pd.DataFrame({"x": arrow})]
    tables += [pa.table({"x": pa.array(decimals)}), pl.DataFrame({"x": decimals})]
    tables += [pd.DataFrame({"x": x.astype(np.longdouble)})]
    numbered = mg.fit(mg.Linear(), (pd.DataFrame({0: decimals}), y))
    np.testing.assert_allclose(numbered.params, one.params, rtol=1e-12)
    for table in tables:
        np.testing.assert_allclose(plain.predict(table), plain.predict({"x": x}), rtol=1e-12)
        np.testing.assert_allclose(one.predict(table), one.predict(x[:, None]), rtol=1e-12)
    for values in (arrow, x.astype(np.longdouble), decimals):
        got = mg.glm("y ~ x", pd.DataFrame({"x": values, "y": y}))
        np.testing.assert_allclose(got.params, plain.params, rtol=1e-12)
    weighted = mg.glm("y ~ x", pd.DataFrame({"x": x, "y": y, "w": np.ones(50, np.longdouble)}))
    np.testing.assert_allclose(weighted.params, plain.params, rtol=1e-12)


def test_a_missing_category_is_named_by_its_column(rng):
    frame = pd.DataFrame({"area": rng.choice(list("ABCD"), 400), "x": rng.normal(size=400)})
    frame["y"] = rng.normal(size=400)
    new = pd.DataFrame({"area": ["A", None], "x": [1.0, 2.0]})
    for formula, said in (("y ~ area", "'area'"), ("y ~ area:x", "'area' or 'x'")):
        with pytest.warns(MissingWarning, match=f"row 1: its column {said} has no value;"):
            mg.glm(formula, frame).predict(new)

"""Levels are learned once and hold for every block, file and later table; containers agree."""

import json
import re
from datetime import date, time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import masgrad as mg
from masgrad.data.formula.terms import Terms
from masgrad.data.stream import Stream
from masgrad.data.table_source import predictors, table_source
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.sources import as_source

N = 300
FORMULA = "y ~ a*g + C(k) + h + b + log(p):g"
MEMORY = 2**29


@pytest.fixture
def frame(rng):
    return pd.DataFrame(
        {
            "y": np.arange(N, dtype=float),
            "a": rng.normal(size=N),
            "p": rng.random(N) + 0.1,
            "k": rng.integers(1, 5, N),
            "b": rng.random(N) < 0.5,
            "g": np.sort(rng.choice(["c", "a", "é b"], N)),
            "h": rng.choice(["u", "v"], N),
        }
    )


def read(data, formula=FORMULA, block=64, rng=None, **roles):
    source, terms = as_source(mg.Linear(), data, formula, MEMORY, block, **roles)
    blocks = list(source.blocks(rng))
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks]), terms


def design(terms, data):
    """X of a table, all of it."""
    return np.concatenate([X for X, _ in predictors(terms, data).blocks()])


def files(folder, frame, suffix, count=3):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), count)):
        part, path = frame.iloc[rows], folder / f"{k}.{suffix}"
        if suffix == "csv":
            part.to_csv(path, index=False)
        else:
            part.to_parquet(path, row_group_size=31)
    return folder


CONTAINERS = {
    "polars": lambda f, p: pl.from_pandas(f),
    "polars categorical": lambda f, p: pl.from_pandas(f).with_columns(
        pl.col("g").cast(pl.Categorical)
    ),
    "polars enum": lambda f, p: pl.from_pandas(f).with_columns(pl.col("h").cast(pl.Enum("uv"))),
    "polars in pieces": lambda f, p: pl.concat(
        [pl.from_pandas(f[:99]), pl.from_pandas(f[99:])], rechunk=False
    ),
    "arrow": lambda f, p: pa.Table.from_pandas(f),
    "arrow in pieces": lambda f, p: pa.Table.from_batches(
        pa.Table.from_pandas(f).to_batches(max_chunksize=7)
    ),
    "arrow dictionary": lambda f, p: pa.Table.from_pandas(f.astype({"g": "category"})),
    "record batch": lambda f, p: pa.RecordBatch.from_pandas(f),
    "dictionary": lambda f, p: {name: f[name].to_numpy() for name in f},
    "dictionary of lists": lambda f, p: f.to_dict("list"),
    "nullable": lambda f, p: f.convert_dtypes(),
    "pyarrow types": lambda f, p: f.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda f, p: f.astype({"g": object, "a": object, "k": "category"}),
    "categories": lambda f, p: f.astype({"g": "category", "h": "category"}),
    "parquet": lambda f, p: files(p / "d", f, "parquet"),
    "csv": lambda f, p: str(files(p / "d", f, "csv") / "*.csv"),
    "parquet of categories": lambda f, p: files(p / "d", f.astype({"g": "category"}), "parquet"),
    "dataset": lambda f, p: ds.dataset(files(p / "d", f, "parquet")),
    "csv dataset": lambda f, p: ds.dataset(files(p / "d", f, "csv"), format="csv"),
    "dataset in memory": lambda f, p: ds.dataset(pa.Table.from_pandas(f)),
}


@pytest.mark.parametrize("name", list(CONTAINERS))
def test_containers_agree(frame, tmp_path, name):
    wanted, y, terms = read(frame)
    data = CONTAINERS[name](frame, tmp_path)
    X, got, others = read(data)
    np.testing.assert_allclose(X, wanted, rtol=1e-12)
    np.testing.assert_array_equal(got, y)
    assert others == terms and others.names == terms.names
    X, got, _ = read(data, rng=np.random.default_rng(1))
    np.testing.assert_allclose(X, wanted[got.astype(int)], rtol=1e-12)
    np.testing.assert_array_equal(np.sort(got), y)


def test_a_filtered_or_partitioned_dataset(frame, tmp_path):
    data = ds.dataset(files(tmp_path / "d", frame, "parquet"))
    some = frame[frame["a"] > 0].reset_index(drop=True)
    for rng in (None, np.random.default_rng(0)):
        X, y, _ = read(data.filter(ds.field("a") > 0), rng=rng)
        np.testing.assert_array_equal(np.sort(y), some["y"])
    source, _ = as_source(mg.Linear(), data.filter(ds.field("a") > 0), FORMULA, MEMORY)
    assert source.place(3) == "row 3 of the dataset"
    source, _ = as_source(mg.Linear(), data, FORMULA, MEMORY)
    assert source.place(101).endswith("d/1.parquet") and source.count == N
    hive = ds.partitioning(pa.schema([("h", pa.string())]), flavor="hive")
    ds.write_dataset(
        pa.Table.from_pandas(frame), tmp_path / "h", partitioning=hive, format="parquet"
    )
    X, y, _ = read(ds.dataset(tmp_path / "h", partitioning=hive))
    np.testing.assert_allclose(X, read(frame)[0][y.astype(int)], rtol=1e-12)


def test_a_dataset_whose_files_differ(tmp_path):
    pq.write_table(pa.table({"y": [1.0], "a": [1.0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"y": [1.0]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1.parquet has no column 'a'"):
        read(
            ds.dataset(tmp_path, schema=pa.schema([("y", pa.float64()), ("a", pa.float64())])),
            "y~a",
        )
    with pytest.raises(InputError, match="the dataset has no column 'z'; it has y"):
        read(ds.dataset(tmp_path / "1.parquet"), "y ~ z")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_levels_of_all_files(tmp_path, suffix):
    table = pd.DataFrame({"y": np.arange(6.0), "g": list("ccbbaa")})
    X, _, terms = read(files(tmp_path / "d", table, suffix), "y ~ g", block=2)
    assert terms.names == ("Intercept", "g[T.b]", "g[T.c]")
    np.testing.assert_array_equal(X[:, 1:], [[0, 1]] * 2 + [[1, 0]] * 2 + [[0, 0]] * 2)


def test_text_of_several_types(tmp_path):
    for k, kind in enumerate(
        [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
    ):
        column = pa.array(["u", "vw"[k % 2]], kind.value_type if k == 2 else kind)
        column = column.dictionary_encode() if k == 2 else column
        pq.write_table(pa.table({"y": [0.0, 1.0], "g": column}), tmp_path / f"{k}.parquet")
    X, _, terms = read(tmp_path, "y ~ 0 + g")
    assert terms.levels == {"g": ("u", "v", "w")}
    np.testing.assert_array_equal(X.argmax(1), [0, 1, 0, 2, 0, 1])


@pytest.mark.parametrize("way", ["pandas", "parquet", "arrow", "polars"])
def test_declared_order(tmp_path, way):
    kind = pd.CategoricalDtype(["low", "mid", "never", "high"], ordered=True)
    table = pd.DataFrame({"y": np.arange(6.0), "g": ["high", "mid", "low"] * 2})
    declared = table.astype({"g": kind})
    data = {
        "pandas": lambda: declared,
        "parquet": lambda: files(tmp_path / "d", declared, "parquet"),
        "arrow": lambda: pa.Table.from_pandas(declared),
        "polars": lambda: pl.from_pandas(table).cast({"g": pl.Enum(list(kind.categories))}),
    }[way]()
    assert read(data, "y ~ g")[2].names == ("Intercept", "g[T.mid]", "g[T.high]")


def test_numbers_as_categories(frame, tmp_path):
    """Whole numbers are levels 1, 2 in any container; a file of floats has the same levels."""
    _, _, terms = read(frame, "y ~ C(k)")
    assert terms.levels == {"k": (1, 2, 3, 4)} and terms.names[1] == "C(k)[T.2]"
    wanted = design(terms, frame)
    for other in (frame.astype({"k": float}), pl.from_pandas(frame)):
        np.testing.assert_array_equal(design(terms, other), wanted)
    _, _, terms = read(frame.assign(k=frame["k"] + 0.5), "y ~ C(k)")
    assert terms.names[1] == "C(k)[T.2.5]"


def test_numbers_of_a_csv_that_cease_to_be_whole(tmp_path):
    lines = "".join(f"{k},{k % 3}\n" for k in range(300_000))
    (tmp_path / "0.csv").write_text(f"y,k\n{lines}1,0.5\n")
    assert read(tmp_path / "0.csv", "y ~ C(k)", 4096)[2].levels == {"k": (0.0, 0.5, 1.0, 2.0)}


def test_new_tables_and_unseen_levels(frame, tmp_path):
    X, _, terms = read(frame)
    saved = Terms.from_json(json.loads(json.dumps(terms.to_json())))
    few = frame[frame["g"] == "c"].drop(columns="y")
    wanted = X[frame["g"] == "c"]
    for data in (few, pl.from_pandas(few), files(tmp_path / "d", few, "csv")):
        np.testing.assert_allclose(design(saved, data), wanted, rtol=1e-12)
    odd = frame.assign(g=frame["g"].where(frame.index != 222, "z"))
    for data, place in (
        (odd, "row 222,"),
        (pl.from_pandas(odd), "row 222,"),
        (files(tmp_path / "p", odd, "parquet"), "row 22 of .*p/2.parquet"),
        (files(tmp_path / "c", odd, "csv"), "row 22 of .*c/2.csv"),
        (iter([odd[:100], odd[100:]]), "row 222,"),
    ):
        with pytest.raises(InputError, match=f"'g' has the level 'z' at {place}.*'a', 'c', 'é b'"):
            list(table_source(data, terms)[0].blocks())


@pytest.mark.parametrize("suffix", ["parquet", "csv", None])
def test_a_missing_level(frame, tmp_path, suffix):
    frame.loc[150, "g"] = None
    data = frame if suffix is None else files(tmp_path / "d", frame, suffix)
    place = "row 150;" if suffix is None else f"row 50 of .*1.{suffix}"
    with pytest.raises(InputError, match=f"column 'g' has no value at {place}"):
        read(data)


def test_too_many_levels(rng):
    many = pd.DataFrame({"y": np.zeros(5000), "g": [f"id{k}" for k in range(5000)]})
    with pytest.raises(InputError, match=r"'g' has too many levels.*\(5000 in 5000 rows\)"):
        read(many, "y ~ g")
    with pytest.raises(InputError, match=r"'g' has too many levels.*\(60 in 100 rows\)"):
        read(many[:100].assign(g=[f"id{k % 60}" for k in range(100)]), "y ~ g")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_text_in_one_file_and_numbers_in_another(tmp_path, suffix):
    table = pd.DataFrame({"y": [0.0, 1.0], "g": ["a", "b"]})
    folder = files(tmp_path / "d", table, suffix, count=1)
    other = files(tmp_path / "e", table.assign(g=[1, 2]), suffix, count=1)
    for formula in ("y ~ g", "y ~ C(g)"):
        with pytest.raises(InputTypeError, match=r"'g' is numeric in .*e/0.* and text in .*d/0"):
            read([str(folder), str(other)], formula)


def test_numbers_with_something_odd(tmp_path):
    lines = "".join(f"{k},{k}\n" for k in range(30))
    (tmp_path / "0.csv").write_text(f"y,a\n{lines}1,n.a.\n")
    with pytest.raises(
        InputTypeError, match=r"'a' is text, though 30 of its 31.*'n.a.' at row 30 of"
    ):
        read(tmp_path / "0.csv", "y ~ a")
    kids = pd.DataFrame({"y": np.zeros(4), "kids": ["0", "1", "2", "3+"]})
    assert read(kids, "y ~ C(kids)")[2].names[-1] == "C(kids)[T.3+]"


BAD = {
    "text response": (
        {"y": ["no", "yes"] * 2},
        "y ~ a",
        "the response 'y' is not numeric.*0 and 1",
    ),
    "text in arithmetic": ({"a": list("uvuv")}, "y ~ log(a)", "column 'a' is not numeric"),
    "one level": ({"g": ["u"] * 4}, "y ~ g", "'g' has a single level, 'u'"),
    "base": (
        {"g": list("uvuv")},
        "y ~ C(g, Treatment('w'))",
        "base 'w', which is no.*'u', 'v'",
    ),
    "unknown": ({}, "y ~ zz + a", "no column 'zz'; it has y, a"),
    "unknown in a category": ({}, "y ~ C(zz)", "no column 'zz'"),
    "times": ({"g": pd.date_range("2020", periods=4)}, "y ~ g", "'g' is not numeric .timestamp"),
    "lengths of time": ({"g": pd.to_timedelta(range(4), "D")}, "y ~ C(g)", "to text"),
    "structures in Arrow": (
        {"g": pd.array([{"u": 1}] * 4, pd.ArrowDtype(pa.struct({"u": pa.int64()})))},
        "y ~ C(g)",
        "'g' holds values of type struct.*convert it to text",
    ),
    "lists": (
        {"g": pd.array([[1]] * 4, pd.ArrowDtype(pa.list_(pa.int64())))},
        "y ~ C(g)",
        "'g' holds values of type list",
    ),
    "bytes": ({"g": pd.array([b"u"] * 4, pd.ArrowDtype(pa.binary()))}, "y ~ C(g)", "to text"),
    "mixed": ({"g": ["u", 1, 2, 3]}, "y ~ C(g)", "'g' mixes values: 'u' at row 0"),
    "lengths": ({"a": [1.0]}, "y ~ a", "do not make a table"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_refused_table(name):
    columns, formula, message = BAD[name]
    data = {"y": np.array([0.0, 1, 0, 1]), "a": np.arange(4.0), **columns}
    with pytest.raises((InputError, InputTypeError), match=message):
        read(data, formula)


def test_what_is_no_table(frame):
    with pytest.raises(InputTypeError, match=r"got LazyFrame; collect\(\) it first"):
        read(pl.from_pandas(frame).lazy())
    for wrong in (5, np.ones((3, 3)), (frame, frame["y"])):
        with pytest.raises(InputTypeError, match=r"a table .a pandas or polars.* is needed, got"):
            read(wrong)


def test_bool_response_is_zero_and_one(frame):
    for data in (frame, pl.from_pandas(frame)):
        _, y, _ = read(data, "b ~ a")
        np.testing.assert_array_equal(y, frame["b"].astype(float))


def test_nulls_of_numbers_are_nan():
    for data in (
        pl.DataFrame({"y": [1, None, 3], "a": [1.0, 2.0, None], "b": [True, None, False]}),
        pa.table({"y": [1, None, 3], "a": [1.0, 2.0, None], "b": [True, None, False]}),
        {"y": [1, None, 3], "a": [1.0, 2.0, None], "b": [True, None, False]},
    ):
        X, y, _ = read(data, "y ~ 0 + a + b")
        np.testing.assert_array_equal(np.isnan(X), [[0, 0], [0, 1], [1, 0]])
        np.testing.assert_array_equal(np.isnan(y), [0, 1, 0])


class TestChunks:
    """Iterators of data frames."""

    def test_numbers(self, frame):
        wanted = read(frame, "y ~ a*k")
        for chunks in (
            iter([frame[:100], frame[100:]]),
            Stream(lambda: iter([pl.from_pandas(frame[:7]), frame[7:]])),
        ):
            got = read(chunks, "y ~ a*k")
            np.testing.assert_array_equal(got[0], wanted[0])
            np.testing.assert_array_equal(got[1], wanted[1])

    def test_reader_of_pandas(self, frame, tmp_path):
        frame.to_csv(tmp_path / "f.csv", index=False)
        wanted = read(frame, "y ~ a + p")[0]
        with pd.read_csv(tmp_path / "f.csv", chunksize=90) as chunks:
            np.testing.assert_allclose(read(chunks, "y ~ a + p")[0], wanted, rtol=1e-12)

    def test_declared_levels(self, frame):
        kind = pd.CategoricalDtype(["é b", "a", "c"])
        declared = frame.astype({"g": kind})
        got = read(iter([declared[:50], declared[50:]]), "y ~ g")
        assert got[2].names == ("Intercept", "g[T.a]", "g[T.c]")
        np.testing.assert_array_equal(got[0], read(declared, "y ~ g")[0])

    def test_refused(self, frame):
        with pytest.raises(InputError, match=r"column 'g' is a category, and an iterator.*declare"):
            read(iter([frame]), "y ~ g")
        with pytest.raises(InputError, match="holds no data frame"):
            read(iter([]), "y ~ a")
        with pytest.raises(InputError, match=r"'\.' in a formula needs a table"):
            read(iter([frame]), "y ~ .")
        text = frame.assign(a="odd")
        with pytest.raises(InputTypeError, match=r"'a' is numeric in the first.*text.*row 300"):
            read(iter([frame, text]), "y ~ a")


def test_fitted_saved_and_predicted(frame, tmp_path):
    frame["y"] = frame["a"] + frame["g"].eq("c")
    frame["y"] += np.random.default_rng(5).normal(size=N)
    whole = mg.glm("y ~ a*g + C(k)", frame)
    for data in (pl.from_pandas(frame), files(tmp_path / "d", frame, "csv")):
        other = mg.glm("y ~ a*g + C(k)", data)
        np.testing.assert_allclose(other.params, whole.params, rtol=1e-8)
        assert list(other.params.index) == list(whole.params.index)
    whole.save(tmp_path / "r.json")
    again = mg.load(tmp_path / "r.json")
    np.testing.assert_array_equal(again.predict(pl.from_pandas(frame)), whole.predict(frame))
    X, offset = next(predictors(whole.terms, frame[:2], offset=np.ones(2)).blocks())
    assert X.shape == (2, 9) and offset.tolist() == [1, 1]


def test_levels_that_floats_would_merge(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": 2**60 + 100 * rng.integers(0, 6, 200), "y": rng.normal(size=200)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"'id' holds .* digits"):
        mg.glm("y ~ C(id)", tmp_path / "t.csv")
    assert len(mg.glm("y ~ C(id)", frame).params) == 6


TIMES = {
    "days": pd.Series(pd.to_datetime(["2020-03-01", "2020-03-02", "2019-12-31"])),
    "seconds": pd.Series(
        pd.to_datetime(["2020-03-01 12:00:01", "2020-03-02 00:00:00", "2019-12-31 01:00:00"])
    ),
    "zones": pd.Series(pd.to_datetime(["2020-03-01", "2020-03-02", "2019-12-31"], utc=True)),
    "dates": pd.Series([date(2020, 3, 1), date(2020, 3, 2), date(2019, 12, 31)]),
    "times": pd.Series([time(12), time(23, 59, 1), time(3)]),
    "numbers": pd.Series([0.5, 1.25, 0.25]),
    "decimals": pd.Series([Decimal("0.5"), Decimal("1.25"), Decimal("0.25")]),
    "bools": pd.Series([True, True, False]),
}


@pytest.mark.parametrize("name", list(TIMES))
def test_levels_of_every_type_are_saved_and_alike_in_every_container(name, rng, tmp_path):
    """The smallest is the base; a loaded result predicts, also for a file of another kind."""
    values = TIMES[name]
    table = pd.DataFrame({"y": rng.normal(size=60), "g": values[np.arange(60) % 3].to_numpy()})
    table["g"] = table["g"].astype(values.dtype)
    table.to_parquet(tmp_path / "rows.parquet")
    table.to_csv(tmp_path / "rows.csv", index=False)
    r = mg.glm("y ~ C(g)", table)
    means = table.groupby("g")["y"].mean()
    np.testing.assert_allclose(r.params.iloc[0], means.iloc[0], rtol=1e-9)
    np.testing.assert_allclose(r.params.iloc[0] + r.params.iloc[1], means.iloc[1], rtol=1e-9)
    r.save(tmp_path / "r.json")
    loaded = mg.load(tmp_path / "r.json")
    others = (pl.from_pandas(table), pa.Table.from_pandas(table), tmp_path / "rows.parquet")
    coded = table.astype({"g": "category"})
    csv = () if name in ("seconds", "zones") else (tmp_path / "rows.csv",)  # written otherwise
    for other in (table, coded, *others, *csv):
        np.testing.assert_array_equal(loaded.predict(other), r.predict(table))
        assert mg.glm("y ~ C(g)", other).names == r.names


def test_dates_are_named_as_they_are_written():
    table = {"y": [1.0, 2, 4, 3], "g": pd.to_datetime(["2020-01-02", "2020-01-01"] * 2)}
    assert mg.glm("y ~ C(g)", table).names == ("Intercept", "C(g)[T.2020-01-02]")


def test_intervals_and_periods_are_categories(rng, tmp_path):
    x = rng.normal(size=200)
    table = pd.DataFrame({"y": x + rng.normal(size=200), "g": pd.cut(x, [-9, -1, 0, 10])})
    r = mg.glm("y ~ g", table)
    assert r.names == ("Intercept", "g[T.(-1, 0]]", "g[T.(0, 10]]")  # in their order, not as text
    r.save(tmp_path / "r.json")
    np.testing.assert_array_equal(mg.load(tmp_path / "r.json").predict(table), r.predict(table))
    months = pd.Series(pd.period_range("2020-11", periods=3, freq="M"))
    table["g"] = months[np.arange(200) % 3].to_numpy()
    assert mg.glm("y ~ C(g)", table).names[1:] == ("C(g)[T.2020-12]", "C(g)[T.2021-01]")


@pytest.mark.parametrize(
    "odd, words",
    [
        (["1_000"], "'1_000' at row 7"),
        (["1.000,5"], "'1.000,5' at row 7"),
        (["unknown"], "'unknown' at row 7"),
        ([f"{k},5" for k in range(450)], "'0,5' at row 0"),
        ([f"{k}%" for k in range(450)], "'0%' at row 0"),
    ],
)
def test_numbers_written_otherwise_are_no_categories(odd, words, rng, tmp_path):
    """One value of 450, or all of them; C() says that they are."""
    x = [f"{value:.4f}" for value in np.linspace(-3, 3, 450)]
    x = x[:7] + odd + x[8:] if len(odd) == 1 else odd
    table = pd.DataFrame({"y": rng.normal(size=900), "x": x * 2})
    table.to_csv(tmp_path / "rows.csv", index=False)
    for data in (table, tmp_path / "rows.csv"):
        with pytest.raises(InputTypeError, match=f"'x' is text, though .*{re.escape(words)}"):
            mg.glm("y ~ x", data)
    assert len(mg.glm("y ~ C(x)", tmp_path / "rows.csv").params) == 450


def test_codes_that_turn_to_text_far_down_a_file_are_text(rng, tmp_path):
    """Arrow takes the column for numbers, by its first megabyte."""
    N = 120_000
    table = pd.DataFrame({"y": rng.normal(size=N), "code": rng.integers(0, 3, N).astype(str)})
    table.loc[N - 2 :, "code"] = "A1"
    table.to_csv(tmp_path / "rows.csv", index=False)
    r = mg.glm("y ~ C(code)", tmp_path / "rows.csv")
    assert r.names == ("Intercept", "C(code)[T.1]", "C(code)[T.2]", "C(code)[T.A1]")
    np.testing.assert_allclose(
        r.params, mg.glm("y ~ C(code)", table).params, atol=1e-3 * r.bse.min()
    )
    table[:100].to_csv(tmp_path / "first.csv", index=False)  # in which all codes are numbers
    np.testing.assert_array_equal(r.predict(tmp_path / "first.csv"), r.predict(table[:100]))
    for formula in ("y ~ code", "y ~ C(code) + code"):
        with pytest.raises(InputTypeError, match="'code' is not numeric"):
            mg.glm(formula, tmp_path / "rows.csv")

"""Frequencies, offsets and exposures travel with their rows; sparse matrices and names with X."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import masgrad as mg
from masgrad.data.matrices import matrices
from masgrad.data.regression import Regression, offset_of, weight_of
from masgrad.data.table_source import predictors, table_source
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.sources import as_source

N = 200
MEMORY = 2**29
MODEL = mg.Poisson()


@pytest.fixture
def frame(rng):
    return pd.DataFrame(
        {
            "y": np.arange(N, dtype=float),
            "a": rng.normal(size=N),
            "g": rng.choice(["u", "v"], N),
            "w": np.arange(N) % 3 / 2,
            "o": rng.normal(size=N),
            "e": rng.random(N) + 0.5,
        }
    )


def source_of(data, formula=None, block=64, **roles):
    return as_source(MODEL, data, formula, MEMORY, block, **roles)[0]


def gather(source, rng=None):
    blocks = list(source.blocks(rng))
    parts = zip(*blocks, strict=True)
    return Regression(*(None if part[0] is None else np.concatenate(part) for part in parts))


def check(rows, frame):
    """What `rows` should be, by their responses, which are row numbers."""
    part = frame.iloc[rows.y.astype(int)]
    assert sorted(rows.y) == sorted(frame["y"][frame["w"] > 0])
    np.testing.assert_array_equal(rows.weight, part["w"])
    np.testing.assert_allclose(rows.offset, part["o"] + np.log(part["e"]), rtol=1e-12)
    np.testing.assert_array_equal(rows.X[:, -1], part["a"])


ARRAYS = {
    "numpy": lambda f: (f[["a"]].to_numpy(), f["y"].to_numpy()),
    "pandas": lambda f: (f[["a"]], f["y"]),
    "polars": lambda f: (pl.from_pandas(f[["a"]]), pl.from_pandas(f["y"])),
    "arrow": lambda f: (pa.Table.from_pandas(f[["a"]]), f["y"].to_numpy()),
    "csr": lambda f: (sparse.csr_array(f[["a"]].to_numpy()), f["y"].to_numpy()),
    "coo": lambda f: (sparse.coo_matrix(f[["a"]].to_numpy()), f["y"]),
}


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", list(ARRAYS))
def test_arrays(frame, name, seed):
    roles = {"weights": frame["w"], "offset": frame["o"].to_numpy(), "exposure": list(frame["e"])}
    source = source_of(ARRAYS[name](frame), **roles)
    rng = None if seed is None else np.random.default_rng(seed)
    check(gather(source, rng), frame)
    assert source.names == (() if name in ("numpy", "csr", "coo") else ("a",))
    assert source.count == (frame["w"] > 0).sum() and source.place(0) == "row 1"


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("way", ["pandas", "arrays", "polars", "parquet", "csv", "chunks"])
def test_tables(frame, tmp_path, way, seed):
    for k in range(2):
        part = frame[100 * k : 100 * k + 100]
        part.to_parquet(tmp_path / f"{k}.parquet", row_group_size=17)
        part.to_csv(tmp_path / f"{k}.csv", index=False)
    data = {
        "pandas": frame,
        "arrays": frame[["y", "a"]],
        "polars": pl.from_pandas(frame),
        "parquet": str(tmp_path / "*.parquet"),
        "csv": str(tmp_path / "*.csv"),
        "chunks": iter([frame[:50], frame[50:]]),
    }[way]
    named = {"weights": "w", "offset": "o", "exposure": "e"}
    roles = {k: frame[v] if way == "arrays" else v for k, v in named.items()}
    source, terms = as_source(MODEL, data, "y ~ a", MEMORY, 64, **roles)
    rng = None if seed is None else np.random.default_rng(seed)
    check(gather(source, rng), frame)
    saved = (None,) * 3 if way == "arrays" else ("w", "o", "e")
    assert (terms.weight, terms.offset, terms.exposure) == saved
    places = {"parquet": "row 1 of", "csv": "row 1 of", "chunks": "row 0 .rows of weight 0 not"}
    assert source.place(0).startswith(places.get(way, "row 1").replace(".", "("))
    if way in ("parquet", "csv"):
        assert source.place(66) == f"row 0 of {tmp_path / f'1.{way}'}"


def test_only_what_is_given(frame):
    X, y = ARRAYS["numpy"](frame)
    (block, *_) = source_of((X, y)).blocks()
    assert type(block) is tuple and weight_of(block) is None
    rows = gather(source_of((X, y), weights=frame["e"]))
    assert rows.offset is None and rows.weight is not None
    rows = next(source_of((X, y), exposure=frame["e"]).blocks())
    assert weight_of(rows) is None
    np.testing.assert_allclose(offset_of(rows), np.log(frame["e"][:64]))
    whole = source_of((X, y), weights=frame["e"])
    assert np.shares_memory(whole.rows.X, X)


def test_a_row_without_weight_does_no_harm(frame, tmp_path):
    wrong = frame.assign(g=frame["g"].where(frame["w"] > 0, "odd"))
    wrong.loc[frame["w"] == 0, ["y", "a", "o", "e"]] = np.nan
    wrong.loc[3, "g"] = None
    wrong.to_parquet(tmp_path / "w.parquet")
    roles = {"weights": "w", "offset": "o", "exposure": "e"}
    for data in (wrong, pl.from_pandas(wrong), tmp_path / "w.parquet"):
        source = source_of(data, "y ~ g + a", **roles)
        assert source.names == ("Intercept", "g[T.v]", "a")
        check(gather(source), frame)
    X, y = wrong[["a"]].to_numpy(), wrong["y"].to_numpy()
    roles = {role: wrong[name] for role, name in roles.items()}
    check(gather(source_of((X, y), **roles)), frame)


def blocks_of(frame, *names):
    for k in range(0, N, 50):
        part = frame[k : k + 50]
        yield part[["a"]].to_numpy(), part["y"].to_numpy(), *(part[n].to_numpy() for n in names)


def test_streams(frame):
    frame["o"] += np.log(frame["e"])
    for data in (blocks_of(frame, "w", "o"), mg.Stream(lambda: blocks_of(frame, "w", "o"))):
        rows = gather(source_of(data, block=16))
        np.testing.assert_array_equal(rows.offset, frame["o"][frame["w"] > 0])
        np.testing.assert_array_equal(rows.weight, frame["w"][frame["w"] > 0])
    X, y = ARRAYS["numpy"](frame)
    assert gather(source_of(iter([(X, y, None, frame["o"])]))).weight is None
    assert gather(source_of(iter([(X, y, frame["e"])]))).offset is None
    assert weight_of(next(source_of(iter([(X, y)])).blocks())) is None
    stream = source_of(blocks_of(frame, "w"))
    gather(stream)
    assert stream.place(5) == "row 5 (rows of weight 0 not counted)"


def bad(frame, column, row, value):
    return frame.assign(**{column: frame[column].where(frame.index != row, value)})


@pytest.mark.parametrize(
    "role, name, value",
    [
        *(("weights", "w", value) for value in (-1.0, np.nan, np.inf)),
        *(("offset", "o", value) for value in (np.nan, np.inf)),  # any finite number is one
        *(("exposure", "e", value) for value in (-1.0, np.nan, np.inf)),
    ],
)
def test_values_that_are_refused(frame, tmp_path, role, name, value):
    wrong = bad(frame, name, 103, value)
    for k in range(2):
        wrong[100 * k : 100 * k + 100].to_parquet(tmp_path / f"{k}.parquet")
        wrong[100 * k : 100 * k + 100].to_csv(tmp_path / f"{k}.csv", index=False)
    X, y = ARRAYS["numpy"](frame)
    with pytest.raises(InputError, match=f"{role} holds {value:g} at row 103;"):
        source_of((X, y), **{role: wrong[name]})
    with pytest.raises(InputError, match=f"{role} holds {value:g} at row 103;"):
        gather(source_of(frame, "y ~ a", **{role: wrong[name].to_numpy()}))
    with pytest.raises(InputError, match=f"column '{name}' holds {value:g} at row 103;"):
        gather(source_of(wrong, "y ~ a", **{role: name}))
    for suffix in ("parquet", "csv"):
        source = source_of(str(tmp_path / f"*.{suffix}"), "y ~ a", **{role: name})
        for rng in (None, np.random.default_rng(0)):
            with pytest.raises(
                InputError, match=f"'{name}' holds {value:g} at row 3 of .*1.{suffix}"
            ):
                gather(source, rng)


def test_an_exposure_of_zero(frame):
    with pytest.raises(InputError, match="exposure holds 0 at row 7; an exposure is more than 0"):
        source_of(ARRAYS["numpy"](frame), exposure=bad(frame, "e", 7, 0.0)["e"])


REFUSED = {
    "length": ({"weights": np.ones(3)}, r"weights has shape \(3,\); \(200,\) is needed"),
    "shape": ({"offset": np.ones((N, 1))}, r"offset has shape \(200, 1\)"),
    "index": ({"weights": pd.Series(np.ones(N), np.arange(N) + 1)}, "weights.*different indexes"),
    "text": ({"exposure": ["x"] * N}, "exposure are not numbers"),
    "zeros": ({"weights": np.zeros(N)}, "every weight is 0"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused(frame, name):
    roles, message = REFUSED[name]
    with pytest.raises((InputError, InputTypeError), match=message):
        source_of((frame[["a"]], frame["y"]), **roles)
    if name != "zeros":
        with pytest.raises((InputError, InputTypeError), match=message):
            source_of(frame, "y ~ a", **roles)


def test_indexes_are_those_of_the_data(frame):
    moved = pd.Series(frame["w"].to_numpy(), frame.index[::-1])
    for X, y in ((frame[["a"]], frame["y"].to_numpy()), (frame[["a"]].to_numpy(), frame["y"])):
        with pytest.raises(InputError, match="weights and the data have different indexes"):
            source_of((X, y), weights=moved)


def test_the_wrong_kind_of_role(frame, tmp_path):
    frame.to_parquet(tmp_path / "f.parquet")
    with pytest.raises(InputError, match=r"f.parquet has no column 'ww'"):
        source_of(tmp_path / "f.parquet", "y ~ a", weights="ww")
    with pytest.raises(InputTypeError, match="'g' is not numeric"):
        source_of(frame, "y ~ a", weights="g")
    with pytest.raises(InputTypeError, match=r"weights of a file.*is the name of a column"):
        source_of(tmp_path / "f.parquet", "y ~ a", weights=np.ones(N))
    with pytest.raises(InputTypeError, match="weights='w' names a column"):
        source_of(ARRAYS["numpy"](frame), weights="w")
    with pytest.raises(InputError, match=r"weights goes with each block.*yield \(X, y, weights"):
        source_of(blocks_of(frame), weights=np.ones(N))
    with pytest.raises(InputError, match="offset needs a regression"):
        as_source(mg.GaussianMixture(2, 1.0), frame["a"], None, MEMORY, offset=frame["o"])


STREAMS = {
    "negative": ([(np.ones((3, 1)), np.ones(3), [1, -1, 1])], "begins at row 0.*holds -1 at row 1"),
    "length": ([(np.ones((3, 1)), np.ones(3), [1, 1])], r"weights has shape \(2,\); \(3,\)"),
    "some": (
        [(np.ones((3, 1)), np.ones(3), [1, 0, 0]), (np.ones((3, 1)), np.ones(3))],
        "begins at row 3: every block carries weights, or none does",
    ),
    "five": ([(np.ones((3, 1)), *[np.ones(3)] * 4)], r"data=\(X, y\)"),
}


@pytest.mark.parametrize("name", list(STREAMS))
def test_streams_that_are_refused(name):
    blocks, message = STREAMS[name]
    with pytest.raises(InputError, match=message):
        gather(source_of(iter(blocks)))


def test_predictors(frame):
    _, terms = as_source(MODEL, frame, "y ~ a", MEMORY, weights="w", offset="o", exposure="e")
    X, offset = next(predictors(terms, frame.drop(columns=["y", "w"])).blocks())
    np.testing.assert_allclose(offset, frame["o"] + np.log(frame["e"]))
    assert len(X) == N
    _, plain = as_source(MODEL, frame, "y ~ a", MEMORY)
    assert next(predictors(plain, frame).blocks())[1] is None
    np.testing.assert_array_equal(
        next(predictors(plain, frame, frame["o"]).blocks())[1], frame["o"]
    )
    with pytest.raises(InputError, match="no column 'o'"):
        predictors(terms, frame[["a"]])
    again = gather(table_source(frame, plain, weights=frame["w"], offset="o", exposure="e")[0])
    check(again, frame)


class TestSparse:
    """Sparse matrices are made dense block by block."""

    def test_never_the_whole(self, rng, monkeypatch):
        X = sparse.random_array((500, 7), density=0.2, rng=rng, format="csc")
        most = 0
        dense = sparse.csr_array.toarray

        def counted(self, *args, **keywords):
            nonlocal most
            most = max(most, self.shape[0])
            return dense(self, *args, **keywords)

        monkeypatch.setattr(sparse.csr_array, "toarray", counted)
        y = np.arange(500.0)
        source = source_of((X, y), weights=y % 2)
        for seed in (None, 0):
            order = None if seed is None else np.random.default_rng(seed)
            rows = gather(source, order)
            np.testing.assert_array_equal(rows.X, X.toarray()[rows.y.astype(int)])
        assert most == 64

    def test_fit_agrees_with_dense(self, rng):
        X = sparse.random_array((3000, 4), density=0.4, rng=rng, format="csr")
        y = rng.poisson(np.exp(0.3 * X.sum(1)))
        dense, thin = (mg.fit(MODEL, (A, y)) for A in (X.toarray(), X))
        np.testing.assert_allclose(thin.params, dense.params, rtol=1e-8)
        np.testing.assert_allclose(thin.bse, dense.bse, rtol=1e-8)

    def test_refused(self):
        with pytest.raises(InputError, match="differ in their number of rows"):
            source_of((sparse.eye_array(3), np.ones(4)))
        with pytest.raises(InputTypeError, match="complex"):
            source_of((sparse.eye_array(3) * 1j, np.ones(3)))


def test_matrices(frame):
    """X of new rows: the columns of the old ones, in their order, whatever the container."""
    wanted = frame[["e", "a"]].to_numpy()
    for data in (wanted, frame, pl.from_pandas(frame), sparse.csc_array(wanted)):
        blocks = list(matrices(data, ("e", "a"), 64))
        assert len(blocks) == 4
        np.testing.assert_array_equal(np.concatenate(blocks), wanted)
    with pytest.raises(InputError, match="X has no column 'z'; it has y, a"):
        matrices(pl.from_pandas(frame), ("z",))
    with pytest.raises(InputTypeError, match=r"got LazyFrame; collect\(\) it first"):
        source_of((pl.from_pandas(frame).lazy(), frame["y"]))


def test_names_of_polars_and_arrow(rng):
    table = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    y = rng.poisson(1, 500)
    wanted = mg.fit(MODEL, (table, y)).params
    for X in (pl.from_pandas(table), pa.Table.from_pandas(table)):
        pd.testing.assert_series_equal(mg.fit(MODEL, (X, y)).params, wanted)
        with pytest.raises(InputTypeError, match="column 't' is not numeric"):
            source_of((pl.DataFrame({"a": [1.0], "t": ["x"]}), [1.0]))

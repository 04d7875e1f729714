"""Files and frames give each row exactly once, whatever the layout; bad ones are refused first."""

import gzip
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset, feather

import masgrad as mg
from masgrad.data.arrays import BLOCK
from masgrad.data.formula.formulas import parse
from masgrad.data.formula.learning import learn
from masgrad.data.opening import MEMORY_BYTES, Opening, open_table
from masgrad.data.source import shuffle
from masgrad.data.table_rows import TableSource
from masgrad.data.tables.medium import as_numpy
from masgrad.data.tables.paths import column_names, expand
from masgrad.errors import InputError, InputTypeError, MemoryWarning
from scenarios import two_columns

FORMULA = "y ~ a + i + b + a:i"
NAMES = ("Intercept", "a", "i", "b", "a:i")
N = 1000


@pytest.fixture
def frame(rng):
    return pd.DataFrame(
        {
            "y": np.arange(N, dtype=float),
            "a": rng.normal(size=N),
            "i": rng.integers(-5, 5, N),
            "b": rng.random(N) < 0.5,
            "text": "no number",
        }
    )


def expected(frame):
    a, i, b = (frame[name].to_numpy(float) for name in "aib")
    return np.column_stack([np.ones(len(frame)), a, i, b, a * i]), frame["y"].to_numpy(float)


def source_of(data, formula=FORMULA, memory=MEMORY_BYTES, block=BLOCK):
    parsed = parse(formula)
    medium = open_table(data, parsed.columns, Opening(memory))
    return TableSource(medium, learn(parsed, medium), memory, block)


def gather(blocks):
    blocks = list(blocks)
    return np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


def write(folder, frame, suffix=".parquet", files=3, group=70):
    folder.mkdir(exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        part, path = frame.iloc[rows], folder / f"part-{k}{suffix}"
        if suffix == ".parquet":
            part.to_parquet(path, row_group_size=group)
        elif suffix in (".arrow", ".feather"):
            packed = "lz4" if suffix == ".feather" else "uncompressed"
            feather.write_feather(part, path, packed, chunksize=group)
        else:
            part.to_csv(path, index=False)
    return folder


def table(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def arrow(path, **columns):
    feather.write_feather(pa.table(columns), path, "uncompressed")
    return path


def text(path, content):
    path.write_text(content)
    return path


SUFFIXES = [".parquet", ".csv", ".csv.gz", ".arrow", ".feather"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("block", [1, 7, 64, 70, 334, 999, 1000, 4096])
def test_files_in_order(frame, tmp_path, suffix, block):
    source = source_of(write(tmp_path, frame, suffix), FORMULA, block=block)
    blocks = list(source.blocks())
    for got, wanted in zip(gather(blocks), expected(frame), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert {len(y) for _, y in blocks[:-1]} <= {block}
    assert source.names == NAMES and source.rereadable and source.ordered
    assert source.count == (None if "csv" in suffix else N)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_layout_of_a_block(frame, tmp_path, suffix):
    held = list(source_of(write(tmp_path, frame, suffix), FORMULA, block=100).blocks())
    for X, y in held:
        assert X.dtype == y.dtype == np.float64
        assert X.strides[0] == X.itemsize and y.flags.owndata and y.flags.writeable
    again = gather(source_of(tmp_path, FORMULA, block=100).blocks())
    np.testing.assert_array_equal(gather(held)[0], again[0])


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("memory", [1, 10**5, 2**29])
def test_random_order_has_each_row_once(frame, tmp_path, suffix, memory):
    source = source_of(write(tmp_path, frame, suffix), FORMULA, memory, block=10)
    X, y = gather(source.blocks(np.random.default_rng(1)))
    wanted = expected(frame)
    np.testing.assert_array_equal(X, wanted[0][y.astype(int)])
    np.testing.assert_array_equal(np.sort(y), wanted[1])
    same, other = (gather(source.blocks(np.random.default_rng(seed)))[1] for seed in (1, 2))
    np.testing.assert_array_equal(y, same)
    if memory > 1 or "csv" not in suffix:
        assert (y != other).any() and (y != wanted[1]).any()


def test_row_groups_are_permuted_over_files(frame, tmp_path):
    source = source_of(write(tmp_path, frame, group=10), FORMULA, block=10)
    batches = source.medium.batches(np.random.default_rng(0), ("y",))
    y = np.concatenate([batch["y"] for batch in batches])
    assert np.abs(np.diff(y // 334)).sum() > 20


def test_shuffle_holds_no_more_than_it_may():
    taken = []
    source = (taken.append(k) or k for k in range(50))
    seen = []
    for block in shuffle(source, 8, np.random.default_rng(0)):
        seen.append(block)
        assert len(taken) - len(seen) <= 8
    assert sorted(seen) == list(range(50)) != seen


def test_files_whose_types_differ(tmp_path):
    table(tmp_path / "0.parquet", y=pa.array([1, None]), a=pa.array([2**53 + 1, 0]))
    table(tmp_path / "1.parquet", y=[0.5], a=pa.array([3], pa.uint8()), extra=["x"])
    table(tmp_path / "2.pq", a=pa.array([True]), y=pa.array([Decimal("1.25")]))
    table(tmp_path / "3.pq", a=pa.array([1], pa.int8()), y=pa.array([1.5], pa.float32()))
    with pytest.raises(InputError, match="cannot be read: Integer value 9007199254740993"):
        list(source_of(tmp_path, "y ~ 0 + a").blocks())
    X, y = gather(source_of(sorted(tmp_path.iterdir())[1:], "y ~ 0 + a").blocks())
    np.testing.assert_array_equal(X[:, 0], [3, 1, 1])
    np.testing.assert_array_equal(y, [0.5, 1.25, 1.5])


def test_large_integers_are_rounded(tmp_path):
    path = table(tmp_path / "0.parquet", y=[1.0, 2.0], a=[2**60 + 1, -1])
    np.testing.assert_array_equal(gather(source_of(path, "y ~ 0 + a").blocks())[0][0], 2.0**60)


def test_nulls_are_nan_and_have_a_place(tmp_path):
    for k, suffix in enumerate(["parquet", "csv"]):
        folder = tmp_path / suffix
        folder.mkdir()
        parts = [pd.DataFrame({"y": [0.0, 1.0], "a": [1, 2], "b": [True, False]}) for _ in "012"]
        parts[2] = pd.DataFrame({"y": [0.0, 1.0], "a": [1, None], "b": [True, None]})
        for part, rows in enumerate(parts):
            path = folder / f"part-{part}.{suffix}"
            rows.to_csv(path, index=False) if k else rows.convert_dtypes().to_parquet(path)
        source = source_of(folder, "y ~ 0 + a + b")
        X, _ = gather(source.blocks())
        np.testing.assert_array_equal(np.argwhere(np.isnan(X)), [[5, 0], [5, 1]])
        assert source.place(5) == f"row 1 of {folder / f'part-2.{suffix}'}"
        assert source.place(0) == f"row 0 of {folder / f'part-0.{suffix}'}"


def test_a_response_is_not_needed(frame, tmp_path):
    source = source_of(write(tmp_path, frame))
    alone = TableSource(source.medium, replace(source.terms, response=None))
    X = np.concatenate([X for X, offset in alone.blocks() if offset is None])
    np.testing.assert_array_equal(X, expected(frame)[0])


def test_a_source_left_early(frame, tmp_path):
    for suffix in (".parquet", ".csv"):
        source = source_of(
            write(tmp_path, frame, suffix).glob(f"*{suffix}").__next__(), FORMULA, block=9
        )
        blocks = source.blocks()
        next(blocks)
        blocks.close()  # type: ignore[attr-defined]
        assert len(gather(source.blocks())[1]) > 300


def test_column_names(frame, tmp_path):
    for suffix in SUFFIXES:
        write(tmp_path, frame, suffix, files=1)
        assert column_names(tmp_path / f"part-0{suffix}") == list(frame.columns)


BAD = {
    "missing column": (lambda p: table(p / "z.parquet", y=[1.0], c=[1.0]), "no column 'a'.*y, c"),
    "missing in csv": (lambda p: text(p / "z.csv", "y,c\n1,2\n"), "z.csv has no column 'a'.*y, c"),
    "duplicate in csv": (lambda p: text(p / "z.csv", "a,y,a\n1,2,3\n"), "two columns 'a'"),
    "field count": (lambda p: text(p / "z.csv", "y,a\n1,2\n3\n"), "z.csv.*row 1: Expected 2"),
    "zero bytes": (lambda p: text(p / "z.csv", ""), "z.csv: no rows"),
    "header only": (lambda p: text(p / "z.csv", "y,a\n"), "no rows"),
    "header without end": (lambda p: text(p / "z.csv", "y,a"), "no rows"),
    "not Parquet": (lambda p: text(p / "z.parquet", "y,a\n1,2\n"), "z.parquet cannot be read"),
    "empty Parquet file": (lambda p: text(p / "z.parquet", ""), "z.parquet cannot be read"),
    "not Arrow": (
        lambda p: text(p / "z.arrow", "y,a\n1,2\n"),
        "z.arrow cannot be read",
    ),
    "Arrow without rows": (
        lambda p: arrow(p / "z.arrow", y=pa.array([], pa.float64()), a=pa.array([], pa.int8())),
        "z.arrow: no rows",
    ),
    "missing in Arrow": (lambda p: arrow(p / "z.arrow", y=[1.0], c=[1.0]), "no column 'a'.*y, c"),
    "Parquet without rows": (
        lambda p: table(p / "z.parquet", y=pa.array([], pa.float64()), a=pa.array([], pa.int8())),
        "z.parquet: no rows",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_refused_file(tmp_path, name):
    make, message = BAD[name]
    with pytest.raises(InputError, match=message):
        source_of(make(tmp_path), "y ~ a")


NOT_NUMERIC = {
    "text": (
        lambda p: table(p / "z.parquet", y=["x"], a=[1.0]),
        r"z.parquet: the response 'y' is not numeric \(string\).*0 and 1",
    ),
    "list": (lambda p: table(p / "z.parquet", y=[1.0], a=[[1]]), r"z.parquet: column 'a'.*list"),
    "time": (
        lambda p: table(p / "z.parquet", y=[1.0], a=pa.array([0], pa.timestamp("s"))),
        "timestamp",
    ),
    "text in csv": (lambda p: text(p / "z.csv", "y,c,a\n1,2,3\n1,2,x\n"), "'a'.*'x' at row 1"),
    "time in csv": (lambda p: text(p / "z.csv", "y,a\n1,2020-01-01\n"), "'a' is not.*date32"),
}


@pytest.mark.parametrize("name", list(NOT_NUMERIC))
def test_column_that_is_not_numeric(tmp_path, name):
    make, message = NOT_NUMERIC[name]
    with pytest.raises(InputTypeError, match=message):
        source_of(make(tmp_path), "y ~ a")


def test_every_file_is_checked_first(tmp_path):
    table(tmp_path / "0.parquet", y=[1.0], a=[1.0])
    table(tmp_path / "1.parquet", y=[1.0])
    with pytest.raises(InputError, match=r"1.parquet has no column 'a'"):
        source_of(tmp_path, "y ~ a")
    table(tmp_path / "1.parquet", y=[1.0], a=["x"])
    with pytest.raises(InputTypeError, match=r"'a' is numeric in .*0.parquet and text in .*1.pa"):
        source_of(tmp_path, "y ~ a")
    text(tmp_path / "0.csv", "y,a\n1,2\n"), text(tmp_path / "1.csv", "y,a\n1,3\n1,x\n")
    words = r"'a' is numeric in .*0.csv and text in .*1.csv; .*1.csv holds 'x' at row 1"
    with pytest.raises(InputTypeError, match=words):
        source_of(str(tmp_path / "*.csv"), "y ~ a")


def test_duplicate_columns_in_parquet(tmp_path):
    pq.write_table(pa.table([[1.0], [2.0], [3.0]], names=["y", "a", "a"]), tmp_path / "z.parquet")
    with pytest.raises(InputError, match="two columns 'a'"):
        source_of(tmp_path, "y ~ a")
    assert gather(source_of(tmp_path, "y ~ 1").blocks())[1] == [1.0]


def test_some_files_may_have_no_rows(tmp_path):
    text(tmp_path / "0.csv", "y,a\n"), text(tmp_path / "1.csv", "y,a\n1,2\n")
    assert len(gather(source_of(tmp_path, "y ~ a").blocks())[1]) == 1


@pytest.mark.parametrize("line", ["1,x", "1"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv_that_changes_late(tmp_path, line, suffix):
    path, good = tmp_path / f"late{suffix}", "1.25,2\n" * 200_000
    content = f"y,a\n{good}{line}\n{good}".encode()
    path.write_bytes(gzip.compress(content, 1) if suffix == ".csv.gz" else content)
    source = source_of(path, "y ~ a")
    with pytest.raises((InputError, InputTypeError), match=r"late.csv.*row 200000"):
        list(source.blocks())


def test_truncated_files(frame, tmp_path):
    for suffix in (".parquet", ".csv.gz", ".arrow", ".feather"):
        write(tmp_path, frame, suffix, files=1)
        path = tmp_path / f"part-0{suffix}"
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(InputError, match=f"part-0{suffix} cannot be read"):
            list(source_of(path, FORMULA).blocks())


@pytest.mark.parametrize("seed", [None, 0])
def test_bit_flip_with_checksums(frame, tmp_path, seed):
    for k in range(3):
        path = tmp_path / f"part-{k}.parquet"
        pq.write_table(pa.table({"y": frame["y"], "a": frame["a"]}), path, write_page_checksum=True)
    damaged = bytearray((tmp_path / "part-1.parquet").read_bytes())
    damaged[1000] ^= 1
    (tmp_path / "part-1.parquet").write_bytes(damaged)
    source = source_of(tmp_path, "y ~ a")
    with pytest.raises(InputError, match=r"part-1.parquet cannot be read"):
        list(source.blocks(None if seed is None else np.random.default_rng(seed)))


def test_row_groups_that_exceed_memory(frame, tmp_path):
    """The scanner, which a key of a partition needs, decodes whole row groups; files are not so."""
    write(tmp_path / "k=3", frame, files=2, group=500)
    formula, fits = f"{FORMULA} + k", 16 * 5 * 500
    data = dataset.dataset(tmp_path, partitioning="hive")
    source_of(data, formula, memory=fits)
    source_of(tmp_path / "k=3", FORMULA, memory=1)
    with pytest.warns(MemoryWarning, match=r"row group of 500 rows.*row_group_size=499") as caught:
        source_of(data, formula, memory=fits - 1)
    assert len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.parametrize("as_data", [str, dataset.dataset])
@pytest.mark.parametrize("seed", [None, 0])
def test_a_row_group_is_not_decoded_whole(tmp_path, rng, as_data, seed):
    """Arrow's own count of bytes: a few pages of each column, of a row group of 16 MB."""
    columns = {name: rng.normal(size=1_000_000) for name in "ya"}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    medium = open_table(as_data(str(tmp_path / "t.parquet")), ("y", "a"))
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    order = None if seed is None else np.random.default_rng(seed)
    for batch in medium.batches(order, ("y", "a")):
        most, rows = max(most, pa.total_allocated_bytes() - before), rows + len(batch)
    assert rows == 1_000_000 and most < 8e6


@pytest.mark.parametrize("packed, least, most", [("uncompressed", 0, 1e3), ("lz4", 8e5, 2e6)])
def test_columns_of_arrow_files_are_views_of_the_file(tmp_path, rng, packed, least, most):
    """Unless compressed: then those that are read take room, batch by batch."""
    table = pa.table({name: rng.normal(size=100_000) for name in "yabcd"})
    feather.write_feather(table, tmp_path / "t.arrow", packed, chunksize=50_000)
    medium = open_table(tmp_path / "t.arrow", ("y", "a"))
    before, used, found = pa.total_allocated_bytes(), [], []
    for batch in medium.batches(None, ("y", "a")):
        used.append(pa.total_allocated_bytes() - before)
        found.append(batch["a"].to_numpy().copy())
    assert least <= max(used) <= most
    np.testing.assert_array_equal(np.concatenate(found), table["a"].to_numpy())


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
def test_arrow_files_of_other_types_and_batches(tmp_path, suffix):
    """Types are made one, dictionaries differ from file to file, one batch has all rows."""
    feather.write_feather(
        pa.table({"y": [1.0, 2.0, 3.0], "g": pa.array(["u", "v", "u"]).dictionary_encode()}),
        tmp_path / f"0{suffix}",
    )
    feather.write_feather(
        pa.table({"y": pa.array([4, 5], pa.int16()), "g": ["w", "v"]}), tmp_path / f"1{suffix}"
    )
    X, y = gather(source_of(tmp_path, "y ~ g").blocks())
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(X.T, [[1] * 5, [0, 1, 0, 0, 1], [0, 0, 0, 1, 0]])
    assert column_names(tmp_path / f"0{suffix}") == ["y", "g"]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float64"])
def test_numbers_are_copied_once(dtype):
    """A column is a view of Arrow's buffer, of its own type, until it is written to X."""
    column = pa.array(np.arange(10, dtype=dtype))
    view = as_numpy(column)
    assert view.dtype == dtype and view.ctypes.data == column.buffers()[1].address


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
@pytest.mark.parametrize("passes", [1, "auto"])
def test_threads_that_read_files_change_no_digit(tmp_path, rng, suffix, passes):
    """Some blocks have no row of positive weight: the thread that makes them leaves them out."""
    rows = pd.DataFrame({"a": rng.normal(size=120_000), "w": 1.0})
    rows["y"] = rng.poisson(np.exp(0.3 * rows.a)).astype(float)
    rows.loc[60_000:80_000, "w"] = 0.0
    write(tmp_path, rows, suffix, files=2, group=30_000)
    ways = [
        mg.glm("y ~ a", tmp_path, "poisson", weights="w", passes=passes, threads=k)
        for k in (1, 2, 5)
    ]
    for r in ways:
        np.testing.assert_array_equal(r.params, ways[0].params)
        np.testing.assert_array_equal(r.bse, ways[0].bse)
    kept = rows[rows.w > 0]
    whole = mg.glm("y ~ a", kept, "poisson", passes="converge")
    np.testing.assert_allclose(ways[0].params, whole.params, atol=0.02 * whole.bse.min())


def test_expand(tmp_path, monkeypatch):
    names = ["b.parquet", "a.pq", "c.csv", "d.CSV.gz", "note.txt", "e[1].csv"]
    a, b, c, d, e = (tmp_path / names[k] for k in (1, 0, 2, 3, 5))
    for name in names:
        (tmp_path / name).touch()
    assert expand(b) == expand(str(b)) == expand([b]) == [b]
    assert expand(str(tmp_path / "*.p*q*")) == [a, b]
    assert expand([b, a]) == [b, a]  # a list's own order
    assert expand([b, str(b)]) == [b, b] and expand([b, str(tmp_path / "*.p*q*")]) == [b, a, b]
    assert expand(tmp_path / "[cd].*") == [c, d]
    assert expand(str(e)) == [e]
    monkeypatch.chdir(tmp_path)
    assert [str(path) for path in expand("*.pq")] == ["a.pq"]
    (tmp_path / "only").mkdir(), b.rename(tmp_path / "only" / "b.parquet")
    assert len(expand("only/**")) == 1  # which names it, and the folder that holds it
    text(tmp_path / "only" / "_b.parquet", ""), text(tmp_path / "only" / ".b.csv", "")
    assert expand("only") == expand(["on*"]) == expand("**/b.parquet")
    assert [path.name for path in expand("only")] == ["b.parquet"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_that_is_listed_twice_is_read_twice(frame, tmp_path, suffix):
    write(tmp_path, frame, suffix, files=1)
    path = tmp_path / f"part-0{suffix}"
    source = source_of([path, path])
    _, y = gather(source.blocks())
    np.testing.assert_array_equal(y, np.tile(frame["y"], 2))
    assert source.place(N + 3) == f"row 3 of {path}"
    assert mg.glm("y ~ a", [path, str(path)]).nobs == 2 * N


def test_expand_refuses(tmp_path):
    text(tmp_path / "a.csv", ""), text(tmp_path / "b.parquet", ""), text(tmp_path / "c.txt", "")
    (tmp_path / "empty").mkdir()
    for missing in ("no.csv", "no*.csv"):
        with pytest.raises(FileNotFoundError, match=r"no.*csv"):
            expand(tmp_path / missing)
    cases = {"c.txt": "ends in .parquet", "": "CSV and Parquet", "empty": "holds no Parquet"}
    for name, message in cases.items():
        with pytest.raises(InputError, match=message):
            expand(tmp_path / name)
    with pytest.raises(InputError, match="no file"):
        expand([])
    for wrong in (5, [None], b"a.csv"):
        with pytest.raises(InputTypeError, match="a path"):
            expand(wrong)


def test_relative_paths_outlive_a_change_of_directory(frame, tmp_path, monkeypatch):
    write(tmp_path, frame)
    monkeypatch.chdir(tmp_path)
    source = source_of("*.parquet", FORMULA)
    monkeypatch.chdir("/")
    assert len(gather(source.blocks())[1]) == N


@pytest.mark.parametrize("block", [1, 64, 300, 1000, 4096])
def test_frame(frame, block):
    source = source_of(frame, FORMULA, block=block)
    for got, wanted in zip(gather(source.blocks()), expected(frame), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert source.count == N and source.names == NAMES and not source.ordered
    assert source.place(17) == "row 17"


def test_frame_in_random_order(frame):
    source = source_of(frame, FORMULA, block=128)
    X, y = gather(source.blocks(np.random.default_rng(1)))
    np.testing.assert_array_equal(X, expected(frame)[0][y.astype(int)])
    np.testing.assert_array_equal(np.sort(y), expected(frame)[1])
    assert (y != gather(source.blocks(np.random.default_rng(2)))[1]).any()


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_frame_with_missing_values(frame, backend):
    frame = frame.convert_dtypes(dtype_backend=backend)
    frame.loc[7, ["a", "i", "b"]] = pd.NA
    X, _ = next(source_of(frame, FORMULA).blocks())
    assert X.dtype == np.float64
    np.testing.assert_array_equal(np.argwhere(np.isnan(X)), [[7, k] for k in range(1, 5)])


def test_refused_frame(frame):
    with pytest.raises(InputError, match="the data frame has no column 'z'; it has y, a, i"):
        source_of(frame, "y ~ z")
    with pytest.raises(InputError, match="column 'text' has a single level, 'no number'"):
        source_of(frame, "y ~ text")
    for wrong in (frame["a"] * 1j, pd.Series([object()] * N), pd.Series(pd.NaT, frame.index)):
        with pytest.raises(InputTypeError, match="column 'a'"):
            source_of(frame.assign(a=wrong))
    mixed = frame["a"].astype(object)
    source_of(frame.assign(a=mixed))
    mixed[7] = "odd"
    with pytest.raises(InputTypeError, match="column 'a' mixes values: 'odd' at row 7"):
        source_of(frame.assign(a=mixed))
    with pytest.raises(InputError, match="two columns 'a'"):
        source_of(pd.concat([frame, frame[["a"]]], axis=1), FORMULA)
    with pytest.raises(InputError, match="no rows"):
        source_of(frame[:0], FORMULA)


def test_a_dataset_whose_files_disagree_on_a_column(tmp_path):
    pd.DataFrame({"y": [1.0, 2.0], "a": [1.0, 2.0]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"y": [1.0, 2.0], "a": ["1", "2"]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(InputTypeError, match=r"'a' is numeric in .*0.parquet and text in .*1"):
        source_of(dataset.dataset(tmp_path), "y ~ a")


def small_table():
    frame, rng = two_columns(300)
    return frame.assign(y=rng.normal(size=300), g=rng.choice(["a", "b\u00e9"], 300))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_utf_16_is_read_like_utf_8(tmp_path, name):
    frame = small_table()
    frame.to_csv(tmp_path / name, index=False, encoding="utf-16")
    read, held = mg.glm("y ~ a + g", tmp_path / name), mg.glm("y ~ a + g", frame)
    np.testing.assert_allclose(read.params, held.params, rtol=1e-12)


@pytest.mark.parametrize(
    ("encoding", "text", "words"),
    [
        ("utf-16-le", "y,a\n1,2\n", "UTF-16 without a byte-order mark does; save it as UTF-8"),
        ("latin-1", "y,\u00e4\n1,2\n", "not in UTF-8: see a name of a column"),
        ("latin-1", "y,a\n1,b\n2,\u00e4\n", "not in UTF-8: see column 'a' at row 1;.*latin-1"),
    ],
)
def test_other_encodings_are_named(tmp_path, encoding, text, words):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=words):
        mg.glm("y ~ a", path)


@pytest.mark.parametrize(("separator", "written"), [(";", ";"), ("\t", r"\t"), ("|", "|")])
@pytest.mark.parametrize("formula", ["y ~ a", "y ~ ."])
def test_another_separator_than_the_comma_is_named(tmp_path, separator, written, formula):
    """With the call that reads it."""
    path = tmp_path / "rows.csv"
    small_table().to_csv(path, index=False, sep=separator)
    with pytest.raises(InputError) as seen:
        mg.glm(formula, path)
    assert f"pandas.read_csv({str(path)!r}, sep='{written}')" in str(seen.value)


def test_text_among_numbers_is_an_error_of_a_public_class(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y,a\n" + "1,2\n" * 300_000 + "1,none\n")
    with pytest.raises(InputTypeError, match="'none' at row 300000") as seen:
        mg.glm("y ~ a", path)
    assert type(seen.value) is InputTypeError


def test_the_key_of_a_partition_is_that_of_its_folder_though_files_store_it(rng, tmp_path):
    for key in (0, 1):
        (tmp_path / f"k={key}").mkdir()
        rows = {"x": rng.normal(size=50), "k": rng.integers(0, 5, 50).astype(np.int32)}
        rows["y"] = rows["x"] + 0.5 * key + rng.normal(size=50)
        pq.write_table(pa.table(rows), tmp_path / f"k={key}" / "rows.parquet")
    data = dataset.dataset(tmp_path, partitioning="hive")
    wanted = mg.glm("y ~ x + k", data.to_table(), family="gaussian")
    np.testing.assert_allclose(mg.glm("y ~ x + k", data, family="gaussian").theta, wanted.theta)

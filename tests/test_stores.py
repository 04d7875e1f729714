"""Files at stores: the same numbers as from a disk, few requests, and nobody's keys in a message.

The stores are fsspec's file system in memory, also one that counts what it is asked for, one that
breaks, and fsspec's cache of files on a disk, which another process sees as well.
"""

import pickle
import subprocess
import sys
from dataclasses import replace
from urllib.parse import quote

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import parquet

import masgrad as mg
from masgrad import cli
from masgrad.checkpoints.digest import digest, digest_files
from masgrad.checkpoints.fingerprint import fingerprint
from masgrad.data.opening import open_table
from masgrad.data.shards.files import shards_of_files
from masgrad.data.tables.paths import expand
from masgrad.errors import InputError, InputTypeError, MissingPackageError
from masgrad.fitting.options import Options
from masgrad.stores import faults, row_groups
from masgrad.stores.files import AheadFile, StoreFile, joined, streamed
from masgrad.stores.path import StorePath, located
from masgrad.stores.secrets import StorageOptions, options_in_words

FORMULA = "y ~ x0 + x2 + g"
SECRET, PASSWORD = "wJalr/XUtn+FEMI", "hunter2/@7"


class Named(MemoryFileSystem):
    """A file system in memory by another name."""

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix(f"{cls.protocol}://"))


class Counted(Named):
    """A file system in memory that keeps a list of the ranges it was asked for."""

    protocol = "counted"
    store = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    asked = []  # noqa: RUF012
    calls = []  # noqa: RUF012

    def cat_file(self, path, start=None, end=None, **kwargs):
        self.asked.append((start, end))
        return super().cat_file(path, start, end, **kwargs)

    def cat_ranges(self, paths, starts, ends, **kwargs):
        self.calls.append(len(paths))
        return super().cat_ranges(paths, starts, ends, **kwargs)


class Broken(Named):
    """A file system that fails as it is told to, and repeats its key while it does."""

    protocol = "broken"

    def __init__(self, error=RuntimeError, key="", **kwargs):
        super().__init__(**kwargs)
        self.error, self.key = error, key

    def info(self, path, **kwargs):
        said = (self.key, quote(self.key, ""), path, f"https://u:{self.key}@host/x?s={self.key}")
        raise self.error(" ".join(said))


class Whole(Named):
    """A web server that sends whole files, whatever part of them it is asked for."""

    protocol = "whole"

    def cat_file(self, path, start=None, end=None, **kwargs):
        return super().cat_file(path, **kwargs)


class Silent(Named):
    """A file system that does not tell when a file was changed."""

    protocol = "silent"

    def info(self, path, **kwargs):
        return super().info(path, **kwargs) | {"created": None}


class Shaky(Named):
    """A file system whose first reads are cut off."""

    protocol = "shaky"
    failures = 0

    def cat_ranges(self, *args, **kwargs):
        if Shaky.failures > 0:
            Shaky.failures -= 1
            raise ConnectionResetError("by peer")
        return super().cat_ranges(*args, **kwargs)


class ForbiddenError(Exception):
    """As a library of some store names it."""


@pytest.fixture(scope="module", autouse=True)
def registered():
    for kind in (Counted, Broken, Whole, Shaky, Silent):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


@pytest.fixture
def counted():
    for held in (Counted.store, Counted.asked, Counted.calls):
        held.clear()
    return fsspec.filesystem("counted")


def table_of(rng, rows=6000, columns=8):
    frame = pd.DataFrame({f"x{k}": rng.normal(size=rows) for k in range(columns)})
    frame["g"] = rng.choice(["a", "b", "c"], rows)
    frame["y"] = 1 + frame.x0 - frame.x2 + rng.normal(size=rows)
    return frame


def write(frame, path, rows=700):
    path = str(path)
    if path.endswith(".parquet"):
        frame.to_parquet(path, row_group_size=rows)
    elif path.endswith(".arrow"):
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False)


@pytest.fixture
def folder(rng, memory, tmp_path):
    """Two files of each kind on the disk, and the same at a store."""
    frame = table_of(rng)
    for kind in ("parquet", "csv", "csv.gz", "arrow"):
        for k in range(2):
            part = frame[k * 3000 : (k + 1) * 3000].reset_index(drop=True)
            write(part, tmp_path / f"part-{k}.{kind}")
            bytes_of = (tmp_path / f"part-{k}.{kind}").read_bytes()
            memory.pipe(f"/bucket/{kind}/part-{k}.{kind}", bytes_of)
    return tmp_path


def same(a, b):
    assert a.nobs == b.nobs
    np.testing.assert_array_equal(a.theta, b.theta)
    np.testing.assert_array_equal(a.bse, b.bse)


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "arrow"])
def test_a_fit_at_a_store_is_the_local_one_to_the_last_bit(kind, folder):
    local = mg.glm(FORMULA, f"{folder}/*.{kind}")
    same(local, mg.glm(FORMULA, f"memory://bucket/{kind}/part-*.{kind}"))
    same(local, mg.glm(FORMULA, f"memory://bucket/{kind}"))
    same(local, mg.glm(FORMULA, f"file://{folder}/*.{kind}"))
    same(local, mg.glm(FORMULA, f"simplecache::memory://bucket/{kind}/*.{kind}"))
    mixed = [f"memory://bucket/{kind}/part-0.{kind}", f"{folder}/part-1.{kind}"]
    same(local, mg.glm(FORMULA, mixed))


def test_updates_predictions_paths_and_columns_from_a_store(folder):
    first, second = (f"{folder}/part-{k}.parquet" for k in range(2))
    there = "memory://bucket/parquet/part-1.parquet"
    options = {"skip_instance_cache": True}
    r = mg.glm(FORMULA, first)
    same(r.update(second), r.update(there, storage_options=options))
    known = r.predict(second, interval=0.9)
    pd.testing.assert_frame_equal(r.predict(there, 0.9, storage_options=options), known)
    by_effects = mg.glm("y ~ x0 | g", first)
    known = by_effects.predict(second)
    np.testing.assert_array_equal(by_effects.predict(there, storage_options=options), known)
    few = {"formula": "y ~ x0 + x1", "count": 3, "storage_options": options}
    path = mg.penalty_path(mg.Linear(), there, mg.L1(0.1), **few)
    assert len(path.lams) == 3
    loss = mg.CustomLoss(lambda theta, z: (z["y"] - theta[0] * z["x0"]) ** 2, 1)
    same(mg.fit(loss, second), mg.fit(loss, there, storage_options=options))


def test_the_command_line_reads_stores(folder, monkeypatch, capsys, tmp_path):
    def run(*args):
        monkeypatch.setattr(sys, "argv", ["masgrad", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    there = "memory://bucket/csv/part-*.csv"
    options = ("--storage-option", "skip_instance_cache=true", "--storage-option", f"key={SECRET}")
    saved = tmp_path / "r.json"
    code, out, _ = run("fit", there, "--formula", "y ~ x0", "--save", saved, *options)
    assert code == 0 and "6000" in out.replace(",", "") and SECRET not in out + saved.read_text()
    code, out, _ = run("predict", saved, there, "--quiet", *options)
    assert code == 0 and len(out.splitlines()) == 6001
    plan = ("--response", "y", "--columns", "x0,x1", "--epsilon", "0.1")
    assert run("plan", there, *plan, *options)[0] == 0
    code, _, err = run("fit", there, "--formula", "y ~ x0", "--storage-option", SECRET)
    assert code == 2 and "NAME=VALUE" in err and SECRET not in err


def test_options_in_words():
    words = ["anon=true", "key=a=b", 'client_kwargs={"region_name": "eu"}', "n=3"]
    known = {"anon": True, "key": "a=b", "client_kwargs": {"region_name": "eu"}, "n": 3}
    assert options_in_words(words) == known
    assert options_in_words(None) is None


# What is read.


def read_all(url, columns):
    """The ranges that one read of some columns asks for, and the number of calls."""
    medium = open_table(url, columns)
    Counted.asked.clear(), Counted.calls.clear()
    rows = sum(len(batch) for batch in medium.batches(None, columns))
    assert rows == medium.count
    return medium, list(Counted.asked), list(Counted.calls)


def chunks_of(medium, columns):
    """Bytes that the column chunks take in the files."""
    total = 0
    for footer in medium.footers:
        for k in range(footer.num_row_groups):
            group = footer.row_group(k)
            chunks = [group.column(c) for c in range(footer.num_columns)]
            total += sum(c.total_compressed_size for c in chunks if c.path_in_schema in columns)
    return total


def test_bytes_read_are_those_of_the_columns_that_are_used(rng, counted, tmp_path):
    frame = table_of(rng, rows=60_000, columns=12)
    write(frame, tmp_path / "t.parquet", rows=10_000)
    counted.put(str(tmp_path / "t.parquet"), "/t.parquet")
    size = (tmp_path / "t.parquet").stat().st_size
    for columns in (("x1",), ("x1", "x7"), ("y", "g", "x3")):
        medium, asked, calls = read_all("counted://t.parquet", columns)
        read = sum(stop - start for start, stop in asked)
        used = chunks_of(medium, columns)
        assert used <= read <= used + 20_000  # small gaps are read
        assert len(calls) == 1 and len(asked) <= 6 * len(columns)
    _, asked, calls = read_all("counted://t.parquet", tuple(frame.columns))
    assert len(asked) == len(calls) == 1 and size * 0.99 < asked[0][1] - asked[0][0] < size


def test_a_fit_reads_columns_and_footers_alone(rng, counted, tmp_path):
    frame = table_of(rng, rows=60_000, columns=30)
    write(frame, tmp_path / "t.parquet", rows=20_000)
    counted.put(str(tmp_path / "t.parquet"), "/t.parquet")
    size = (tmp_path / "t.parquet").stat().st_size
    r = mg.glm("y ~ x3 + x11", "counted://t.parquet")
    read = sum(stop - start for start, stop in Counted.asked)
    assert r.nobs == 60_000 and read < 4 * size * 3 / 31  # a sample, and one or two reads


def test_a_large_row_group_comes_in_slices_each_once(rng, counted, tmp_path, monkeypatch):
    frame = table_of(rng, rows=50_000, columns=3)
    write(frame, tmp_path / "t.parquet", rows=50_000)
    counted.put(str(tmp_path / "t.parquet"), "/t.parquet")
    monkeypatch.setattr(row_groups, "BATCH_BYTES", 1 << 17)
    monkeypatch.setattr(row_groups, "WHOLE_BYTES", 1 << 18)
    columns = ("x0", "x2", "g")
    medium, asked, calls = read_all("counted://t.parquet", columns)
    assert len(calls) >= 5 and len(set(asked)) == len(asked)
    assert max(stop - start for start, stop in asked) < 1 << 17
    extra = sum(stop - start for start, stop in asked) - chunks_of(medium, columns)
    assert 0 <= extra < 20_000  # small gaps are read
    local = open_table(str(tmp_path / "t.parquet"), columns)
    pairs = zip(local.batches(None, columns), medium.batches(None, columns), strict=True)
    assert all(a.equals(b) for a, b in pairs)


def test_batches_of_ranges():
    class Footer:
        """Two row groups of three columns, of which the chunks have these places."""

        num_columns = 3

        class schema:
            @staticmethod
            def column(k):
                return type("Leaf", (), {"path": ("a", "b", "a.b")[k]})

        def row_group(self, k):
            return self

        def column(self, k):
            place = {"data_page_offset": 4 + k * 10**6, "has_dictionary_page": False}
            return type("Chunk", (), place | {"total_compressed_size": 10**6})

    assert row_groups.batches_of(Footer(), [0], ["a"]) == [
        [(4, 1_000_004)],
    ]
    assert row_groups.batches_of(Footer(), [0], ["a.b", "b"]) == [
        [(1_000_004, 2_000_004), (2_000_004, 3_000_004)]
    ]
    assert joined([(0, 10), (20, 30), (10**6, 10**6 + 1)]) == [
        (0, 30),
        (10**6, 10**6 + 1),
    ]


def test_a_file_that_is_read_ahead_gives_any_range(counted, rng):
    data = rng.bytes(1000)
    counted.pipe("/x.bin", data)
    path = StorePath("counted://x.bin")
    batches = [
        [(10, 20), (50, 70)],
        [(20, 30)],
        [(100, 200)],
        [(300, 400)],
        [(400, 500)],
        [(900, 990)],
    ]
    with AheadFile(path, 1000, batches) as file:
        for start, stop in rng.integers(0, 1000, (200, 2)):
            file.seek(start)
            assert file.read(max(stop - start, 0)) == data[start : max(start, stop)]
        assert set(file.asked) == set(range(6))
        file.seek(-10, 2)
        assert file.tell() == 990 and file.read() == data[-10:] and file.read(5) == b""
    with streamed(path) as file:
        assert file.read() == data
    with StoreFile(path) as file:
        assert file.read(3) + file.read(7) == data[:10]


def test_text_is_asked_for_once_and_in_order(rng, counted, tmp_path, monkeypatch):
    frame = table_of(rng, rows=20_000, columns=4)
    write(frame, tmp_path / "t.csv")
    counted.put(str(tmp_path / "t.csv"), "/t.csv")
    size = (tmp_path / "t.csv").stat().st_size
    monkeypatch.setattr("masgrad.stores.files.STREAM_BYTES", 1 << 18)
    medium = open_table("counted://t.csv", ("y",))
    Counted.asked.clear()
    assert sum(len(batch) for batch in medium.batches(None, ("y",))) == 20_000
    pieces = [(start, stop) for start, stop in Counted.asked if stop - start > 4]
    assert pieces == [(a, min(a + (1 << 18), size)) for a in range(0, size, 1 << 18)]


# Where files are.


def test_folders_and_patterns_work_as_on_a_disk(memory, tmp_path):
    names = ["b.parquet", "a-2.parquet", "a/1.parquet", "_tmp.parquet", ".h.parquet", "read.me"]
    frame = pa.table({"y": [1.0, 2.0]})
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        parquet.write_table(frame, tmp_path / name)
        memory.pipe(f"/bucket/{name}", (tmp_path / name).read_bytes())
    for pattern in ("", "/", "/*.parquet", "/**/*.parquet", "/[ab]*", "/?.parquet", "/b.parquet"):
        local = [str(path.relative_to(tmp_path)) for path in expand(f"{tmp_path}{pattern}")]
        there = [str(path).split("bucket/")[1] for path in expand(f"memory://bucket{pattern}")]
        assert there == local and there
    memory.pipe("/none/read.me", b"")
    with pytest.raises(InputError, match=r"memory:///?none holds no Parquet"):
        expand("memory://none")


def test_home_and_file_addresses_are_paths_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "t.csv").write_text("y\n1\n")
    known = [tmp_path / "t.csv"]
    for given in ("~/t.csv", "~/*.csv", f"file://{tmp_path}/t.csv", f"file://localhost{tmp_path}"):
        assert expand(given) == known
    with pytest.raises(FileNotFoundError, match="is given as text"):
        expand(tmp_path.__class__("s3://bucket/t.csv"))


def test_a_path_pickles_and_another_process_reads_it(folder):
    path = f"simplecache::file://{folder}/part-0.parquet"
    columns = ("x0", "g")
    medium = open_table(located(path, StorageOptions({"same_names": True})), columns)
    shard = shards_of_files(medium)[0]
    assert isinstance(shard.path, StorePath)
    code = """
import pickle, sys
from masgrad.data.shards.outline import Outline
shard, types = pickle.load(sys.stdin.buffer)
medium = shard.open(Outline(types, None), None)
assert medium.paths[0].options.given == {"same_names": True}
print(repr(sum(sum(b.column("x0").to_pylist()) for b in medium.batches(None, ["x0"]))))
"""
    sent = pickle.dumps((shard, medium.types))
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    known = pd.read_parquet(f"{folder}/part-0.parquet").x0
    assert float(done.stdout) == pytest.approx(known.sum(), rel=1e-12)


def test_workers_of_a_cluster_read_a_store(folder):
    address = f"simplecache::file://{folder}/*.parquet"
    options = {"same_names": True, "cache_storage": str(folder / "kept")}
    local = mg.glm(FORMULA, f"{folder}/*.parquet", engine="dask")
    same(local, mg.glm(FORMULA, address, engine="dask", storage_options=options))


# What goes wrong.


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("memory://bucket/none.csv", "none.csv: no such file or bucket"),
        ("memory://bucket/none*.csv", r"none\*.csv: no such file or bucket"),
        ("memory://other", "other: no such file or bucket"),
        ("quux://bucket/a.csv", "quux:// is no protocol that fsspec knows; use s3://"),
        ("memory://bucket/csv/read.me", "no such file"),
        (["memory://bucket/csv", "memory://bucket/parquet"], "names CSV and Parquet"),
        ("memory://bucket/bad.parquet", "bad.parquet cannot be read as Parquet"),
        ("memory://bucket/bad.arrow", "bad.arrow cannot be read as an Arrow file"),
        ("memory://bucket/bad.csv.gz", "bad.csv.gz cannot be read as CSV"),
        ("memory://bucket/empty.csv", "no rows"),
        ("whole://bucket/bad.parquet", "the store does not serve parts of files"),
    ],
)
def test_sentences(data, said, folder, memory):
    for name in ("bad.parquet", "bad.arrow", "bad.csv.gz"):
        memory.pipe(f"/bucket/{name}", b"PAR1 nonsense " * 9000)
    memory.pipe("/bucket/empty.csv", b"")
    with pytest.raises(InputError, match=said):
        mg.glm("y ~ x0", data)


def test_options_that_no_address_takes(folder):
    with pytest.raises(InputError, match="storage_options are for files at stores"):
        mg.glm("y ~ x0", f"{folder}/*.csv", storage_options={"anon": True})
    with pytest.raises(InputError, match="storage_options are for files at stores"):
        mg.glm("y ~ x0", pd.DataFrame({"y": [1.0], "x0": [1.0]}), storage_options={})
    with pytest.raises(InputTypeError, match="storage_options is a str"):
        mg.glm("y ~ x0", "memory://bucket/csv", storage_options=SECRET)


def test_missing_packages_are_named_with_the_extra(monkeypatch):
    for protocol, package, extra in [
        ("s3", "s3fs", "s3"),
        ("gs", "gcsfs", "gs"),
        ("abfs", "adlfs", "azure"),
    ]:
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(fsspec.registry.target, protocol, raising=False) if hasattr(
            fsspec.registry, "target"
        ) else None
        with pytest.raises(MissingPackageError, match=rf"pip install 'masgrad\[{extra}\]'"):
            mg.glm("y ~ x", f"{protocol}://bucket/a.parquet")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'masgrad\[stores\]'"):
        mg.glm("y ~ x", "memory://bucket/a.parquet")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError, "access is denied"),
        (ForbiddenError, "access is denied"),
        (TimeoutError, "cannot be read: TimeoutError"),
        (RuntimeError, "cannot be read: RuntimeError"),
        (FileNotFoundError, "no such file or bucket"),
        (ImportError, "pip install"),
    ],
)
def test_errors_of_a_store_are_told_without_its_keys(error, said):
    options = {"error": error, "key": SECRET}
    address = f"broken://me:{PASSWORD}@bucket/a.csv"
    with pytest.raises((InputError, MissingPackageError), match=said) as caught:
        mg.glm("y ~ x", address, storage_options=options)
    assert "broken://bucket/a.csv" in str(caught.value)
    shown, chained = [], caught.value
    while chained is not None:
        shown += [str(chained), repr(chained)]
        chained = chained.__cause__ or (
            None if chained.__suppress_context__ else chained.__context__
        )
    told = " ".join(shown)
    assert not any(text in told for text in (SECRET, PASSWORD, quote(SECRET, "")))


def test_reads_that_are_cut_off_are_repeated(folder, monkeypatch):
    monkeypatch.setattr(faults, "PAUSE", 1e-3)
    Shaky.failures = 2
    there = "shaky://bucket/parquet/*.parquet"
    same(mg.glm(FORMULA, f"{folder}/*.parquet"), mg.glm(FORMULA, there))
    assert Shaky.failures == 0
    Shaky.failures = 10**6
    with pytest.raises(InputError, match="cannot be read: ConnectionResetError: by peer"):
        mg.glm(FORMULA, there)
    Shaky.failures = 0


def test_keys_are_neither_shown_nor_part_of_fingerprints(memory, tmp_path):
    address = f"https://me:{SECRET}@host:8080/t.csv?X-Amz-Signature={SECRET}"
    options = {"key": SECRET, "client_kwargs": {"token": [SECRET]}, "raw": SECRET.encode()}
    path = located(address, StorageOptions(options))
    assert str(path) == "https://host:8080/t.csv" and path.name == "t.csv"
    held = Options(storage_options=options)
    for thing in (path, held, held.storage_options, [path], replace(path, path="a/b")):
        assert SECRET not in f"{thing} {thing!r}"
    again = located(address, StorageOptions({"key": "another"}))
    assert digest(path) == digest(again)
    assert digest(held) == digest(Options(storage_options={"key": "another"}))
    assert fingerprint(data=[path]) == fingerprint(data=[again])
    assert pickle.loads(pickle.dumps(path)).options.given == options
    memory.pipe("/t.csv", b"y,x\n1,2\n3,4\n2,9\n4,1\n")
    r = mg.glm("y ~ x", "memory://t.csv", storage_options={"key": SECRET})
    r.save(tmp_path / "r.json")
    assert SECRET not in (tmp_path / "r.json").read_text()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://bucket/a@b.csv", "s3://bucket/a@b.csv"),
        ("abfs://box@account.dfs.core.windows.net/a.csv",) * 2,
        ("hdfs://host:8020/a@b.csv", "hdfs://host:8020/a@b.csv"),
        ("s3://AKIA:ab/c+d@bucket/a.csv", "s3://bucket/a.csv"),
        ("sftp://me:p@ss@host/a.csv", "sftp://host/a.csv"),
        ("simplecache::https://h/a.csv?sig=1", "simplecache::https://h/a.csv"),
        ("memory://b/part-?.csv", "memory://b/part-?.csv"),
    ],
)
def test_addresses_are_shown_without_passwords_and_signatures(address, shown):
    assert str(StorePath(address)) == shown


def test_files_that_change_are_noticed_and_have_another_digest(folder, memory):
    there = "memory://bucket/parquet/part-0.parquet"
    before = digest_files(expand(there))
    assert digest_files(expand(located(there, StorageOptions({"key": "a"})))) == before
    medium = open_table(there, ("x0",))
    content = memory.cat("/bucket/parquet/part-1.parquet")
    memory.pipe("/bucket/parquet/part-0.parquet", content)
    with pytest.raises(InputError, match="has changed while it was read"):
        list(medium.batches(None, ("x0",)))
    assert digest_files(expand(there)) != before
    (
        memory.pipe("/a.csv", b"y\n1\n"),
        memory.pipe("/b.csv", b"y\n2\n"),
        memory.pipe("/c.csv", b"y\n2\n"),
    )
    a, b, c = (digest_files(expand(f"silent://{name}.csv")) for name in "abc")
    assert a != b == c

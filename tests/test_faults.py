"""Faults from outside: full disks, closed pipes, damaged and changing files, Ctrl-C, threads."""

import copy
import errno
import gc
import hashlib
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import masgrad as mg
from masgrad import cli
from masgrad.data import opening, table_source
from masgrad.errors import InputError, MasgradError
from masgrad.files import replaced

FORMULA = "y ~ a + C(g)"


def simulated(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=rows), "g": rng.choice(["u", "v", "wörter"], rows)})
    table["y"] = table.a + (table.g == "v") + rng.normal(size=rows)
    return table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulated().to_csv("rows.csv", index=False)
    return tmp_path


@pytest.fixture
def result():
    return mg.glm(FORMULA, simulated())


def shell(line: str, **environment: str) -> subprocess.CompletedProcess:
    """Run a line in which `masgrad` is the command."""
    command = f'masgrad() {{ "{sys.executable}" -m masgrad.cli "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        timeout=120,
        env={**os.environ, **environment},
    )


# Saving


def test_a_result_is_saved_with_the_mode_and_the_links_of_the_old_file(result, folder):
    target = folder / "target.json"
    target.write_text("old")
    target.chmod(0o600)
    link = folder / "link.json"
    link.symlink_to("target.json")
    result.save(link)
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o600
    np.testing.assert_array_equal(mg.load(target).params, result.params)
    dangling = folder / "dangling.json"
    dangling.symlink_to("new.json")
    result.save(dangling)
    assert dangling.is_symlink() and mg.load("new.json").nobs == result.nobs
    before = os.umask(0o027)
    try:
        result.save("masked.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("masked.json").stat().st_mode) == 0o640
    assert not list(folder.glob(".*"))


def test_devices_and_pipes_are_written_to_and_not_replaced(result, folder):
    result.save("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo("pipe.json")
    read = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe.json").read_bytes()))
    reader.start()
    result.save("pipe.json")
    reader.join(10)
    assert Path("pipe.json").is_fifo() and json.loads(read[0])["format"].startswith("masgrad")


@pytest.mark.parametrize("where", ["> out.txt", "| cat > out.txt"])
def test_standard_output_is_no_file_to_replace(folder, where):
    done = shell(f"masgrad fit rows.csv --formula '{FORMULA}' --save /dev/stdout --quiet {where}")
    assert (done.returncode, done.stderr) == (0, b"")
    text = Path("out.txt").read_text()
    saved, end = json.JSONDecoder().raw_decode(text)
    assert saved["result"]["nobs"] == 300 and "Intercept" in text[end:]


def test_a_full_disk_keeps_the_old_file_and_leaves_no_other(result, folder):
    with pytest.raises(OSError, match="/dev/full cannot be written: No space left"):
        result.save("/dev/full")
    Path("r.json").write_text("old")
    done = shell(
        f"ulimit -f 2; masgrad fit rows.csv --formula '{FORMULA}' --save r.json", PYTHONUTF8="1"
    )
    assert done.returncode == 1 and b"Intercept" in done.stdout  # the estimates are not lost
    assert b"masgrad: r.json cannot be written: File too large; nothing was saved" in done.stderr
    assert b"Traceback" not in done.stderr and Path("r.json").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["r.json", "rows.csv"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_folders_and_files_that_are_read_only_are_refused_before_the_fit(result, folder):
    (folder / "closed").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match=r"closed/r.json cannot be written: no permission"):
        result.save("closed/r.json")
    Path("r.json").write_text("old")
    Path("r.json").chmod(0o400)
    with pytest.raises(PermissionError, match=r"r.json cannot be written: no permission"):
        result.save("r.json")
    assert Path("r.json").read_text() == "old"


def test_read_only_disks_are_named(result, folder, monkeypatch):
    """As root has no permissions to lack, the system's refusal is made up."""

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    Path("r.json").write_text("old")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match=r"r.json cannot be written: Read-only file system"):
        result.save("r.json")
    assert Path("r.json").read_text() == "old"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_stops_writing_leaves_the_old_file(folder, error):
    Path("r.json").write_text("old")
    with pytest.raises(error), replaced(Path("r.json")) as file:
        file.write(b"new")
        raise error
    assert Path("r.json").read_text() == "old" and not list(folder.glob(".*"))


FIT = f"masgrad fit rows.csv --formula '{FORMULA}' --save r.json"


@pytest.mark.parametrize(
    "line, code, out, err",
    [
        (f"{FIT} | head -1", 0, b"masgrad", b"saved: r.json\n"),
        (f"{FIT} | true; exit ${{PIPESTATUS[0]}}", 1, b"", b"saved: r.json\n"),
        (f"{FIT} > /dev/full", 1, b"", b"No space left on device\n"),
        pytest.param(f"{FIT} 2> /dev/full", 0, b"Intercept", b"", marks=pytest.mark.long),
        pytest.param(f"{FIT} >&-", 0, b"", b"saved: r.json\n", marks=pytest.mark.long),
        pytest.param(f"{FIT} 2>&-", 0, b"Intercept", b"", marks=pytest.mark.long),
        (f"{FIT} <&- >&- 2>&-", 0, b"", b""),
        pytest.param(
            f"PYTHONUNBUFFERED=1 {FIT} | true; exit ${{PIPESTATUS[0]}}",
            1,
            b"",
            b"saved: r.json\n",
            marks=pytest.mark.long,
        ),
        pytest.param(
            f"{FIT} >&-; masgrad show rows.csv 2>&-",
            1,
            b"",
            b"saved: r.json\n",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_result_is_saved_whatever_becomes_of_the_page(folder, line, code, out, err):
    done = shell(line)
    assert done.returncode == code and out in done.stdout and done.stderr.endswith(err)
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr
    assert mg.load("r.json").nobs == 300


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_letters_that_a_terminal_lacks_are_escaped(folder, encoding):
    table = simulated().rename(columns={"a": "β"})
    table.to_csv("rows.csv", index=False)
    line = "masgrad fit rows.csv --formula 'y ~ β + C(g)' --save r.json"
    done = shell(line, PYTHONIOENCODING=encoding, LC_ALL="C.UTF-8")
    assert done.returncode == 0 and mg.load("r.json").names[1] == "β"
    shown = "C(g)[T.wörter]".encode(encoding, "backslashreplace")
    assert b"\\u03b2 " in done.stdout and shown in done.stdout
    assert b"saved: r.json" in done.stderr and b"Traceback" not in done.stderr


def test_a_column_far_from_zero_is_saved(folder, rng):
    """Rows are centred one by one then, which NumPy says in a Boolean of its own."""
    year = 2000 + rng.integers(0, 2, 300) / 10
    r = mg.fit(mg.Linear(), (np.column_stack([np.ones(300), year]), rng.normal(size=300)))
    assert r.coordinates.transforms_rows
    r.save("r.json")
    loaded = mg.load("r.json")
    np.testing.assert_array_equal(loaded.params, r.params)
    assert loaded.update((np.column_stack([np.ones(9), year[:9]]), np.ones(9))).nobs == 309


NO_RESULTS = {
    "a picture": b"\x89PNG\r\n\x1a\n\x00\xff",
    "a number": b"1",
    "a list": b'["result", "format"]',
    "an object": b"{}",
    "another object": b'{"result": {}, "format": "masgrad result 9"}',
    "no names": b'{"result": null, "format": ["masgrad result 3"], "sha256": 1}',
    "nothing": b"",
    "brackets": b"[" * 100_000,
    "UTF-16": "{}".encode("utf-16"),
    "a part": b'{"format": "masgrad result 3", "sha256": "0", "result": {"x',
}


@pytest.mark.parametrize("name", list(NO_RESULTS))
def test_what_is_no_result_is_not_shown(name, folder, monkeypatch, capfd):
    Path("r.json").write_bytes(NO_RESULTS[name])
    monkeypatch.setattr(sys, "argv", ["masgrad", "show", "r.json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capfd.readouterr()
    assert end.value.code == 1 and out == "" and err.startswith("masgrad: r.json ")
    assert "is not a saved result" in err or "has the format" in err


# Files that change while they are read


def replaced_after_learning(monkeypatch, change):
    """Let the file change between the look at its levels and the first read."""
    learn = table_source.learn

    def learn_and_change(*args, **kwargs):
        terms = learn(*args, **kwargs)
        change()
        return terms

    monkeypatch.setattr(table_source, "learn", learn_and_change)


def write(table: pd.DataFrame, path: str) -> None:
    if path.endswith(".csv"):
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, compression=None)


@pytest.mark.parametrize("path", ["rows.csv", "rows.parquet"])
def test_a_file_that_changes_during_a_fit_is_refused(path, folder, monkeypatch):
    table = simulated()
    write(table, path)
    replaced_after_learning(monkeypatch, lambda: write(table.head(200), path))
    with pytest.raises(InputError, match=f"{path} has changed while it was read"):
        mg.glm(FORMULA, path)
    write(table, path)
    replaced_after_learning(monkeypatch, lambda: Path(path).unlink())
    with pytest.raises(FileNotFoundError, match=path):
        mg.glm(FORMULA, path)


@pytest.mark.parametrize("path", ["rows.csv", "rows.parquet"])
def test_a_new_level_in_a_changed_file_is_not_taken_for_another(path, folder, monkeypatch):
    """Even if neither the size nor the time of the file tells of the change."""
    table = simulated()
    write(table, path)
    other = table.replace({"g": {"v": "t"}})

    def change():
        before = os.stat(path)
        write(other, path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert os.stat(path).st_size == before.st_size

    replaced_after_learning(monkeypatch, change)
    row = int(np.argmax(table.g == "v"))
    with pytest.raises(InputError, match=rf"'g' has a level that was not there .* at row {row} of"):
        mg.glm(FORMULA, path)


@pytest.mark.parametrize("path", ["rows.csv", "rows.parquet"])
def test_a_file_that_is_cut_while_it_is_read_is_refused(path, folder):
    write(simulated(300_000), path)
    medium = opening.open_table(path, ("a", "g", "y"))
    batches = medium.batches(None, ("a", "g", "y"))
    next(batches)
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    with pytest.raises(InputError, match=f"{path} has changed while it was read"):
        list(batches)
    with pytest.raises(InputError, match=f"{path} has changed while it was read"):
        list(medium.batches(None, ("a",)))


# Damage


def damaged(good: bytes, rng: np.random.Generator) -> bytes:
    """A file with a bit flipped, its end cut off, or a few bytes overwritten."""
    how, at = rng.integers(4), int(rng.integers(len(good)))
    if how == 0:
        return good[:at]
    if how == 1:
        end = min(at + int(rng.integers(1, 20)), len(good))
        return good[:at] + rng.bytes(end - at) + good[end:]
    return good[:at] + bytes([good[at] ^ (1 << int(rng.integers(8)))]) + good[at + 1 :]


def fitted(data) -> tuple | None:
    """What a fit says, or None if it refuses; any other exception is the test's to report."""
    try:
        r = mg.glm(FORMULA, data)
    except MasgradError:
        return None
    return r.nobs, r.names, r.params.round(9).tolist(), r.bse.round(9).tolist()


MANY = [pytest.param(60), pytest.param(3000, marks=pytest.mark.long)]


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
@pytest.mark.parametrize("count", MANY)
def test_a_damaged_parquet_file_is_refused_or_read_as_it_was(count, folder, rng):
    """Pages have checksums, the footer has none: it must not lead to other numbers either."""
    table = pa.Table.from_pandas(simulated())
    pq.write_table(table, "rows.parquet", write_page_checksum=True, row_group_size=100)
    good, truth, refused = Path("rows.parquet").read_bytes(), fitted("rows.parquet"), 0
    for _ in range(count):
        Path("rows.parquet").write_bytes(damaged(good, rng))
        got = fitted("rows.parquet")
        refused += got is None
        assert got in (None, truth)
    assert count / 2 < refused < count


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
@pytest.mark.parametrize("count", MANY)
def test_a_damaged_csv_file_is_refused_or_read_as_it_stands(count, folder, rng):
    """A digit that has become another is a number like any: pandas tells what is there."""
    good, refused = Path("rows.csv").read_bytes(), 0
    for _ in range(count):
        Path("rows.csv").write_bytes(damaged(good, rng))
        got = fitted("rows.csv")
        refused += got is None
        if got is not None:
            assert got == fitted(pd.read_csv("rows.csv", float_precision="round_trip"))
    assert count / 3 < refused < count


MANY_RESULTS = [pytest.param(200), pytest.param(5000, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", MANY_RESULTS)
def test_a_damaged_result_is_refused_or_read_as_it_was(count, result, folder, rng):
    result.save("r.json")
    good, truth, refused = Path("r.json").read_bytes(), result.summary(), 0
    for _ in range(count):
        Path("r.json").write_bytes(damaged(good, rng))
        try:
            assert mg.load("r.json").summary() == truth
        except InputError:
            refused += 1
    assert refused > 0.9 * count


ODD = (
    *(None, True, -1, 3, 1e308, 10**400, "", "x", "\x1b", [], [1], ["x"], {}, {"a": 1}, [[]]),
    {"shape": [2], "float64": "AAAA"},
    {"shape": [2, 2], "float64": "AAAAAAAA8D8AAAAAAADwPwAAAAAAAPA/AAAAAAAA8D8="},
)


def places(node, at=()):
    """The path to every value of a JSON document."""
    items = node.items() if isinstance(node, dict) else ()
    for key, value in enumerate(node) if isinstance(node, list) else items:
        yield (*at, key)
        yield from places(value, (*at, key))


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
@pytest.mark.parametrize("every", [pytest.param(7), pytest.param(1, marks=pytest.mark.long)])
def test_a_result_of_wrong_types_is_refused_or_works(every, folder):
    """Its checksum is right: somebody has written it by hand."""
    table = simulated()
    mg.glm("y ~ log(a + 10) + C(g)", table, penalty=mg.L1("bic")).save("r.json")
    good = json.loads(Path("r.json").read_bytes())
    changes = [(place, odd) for place in places(good["result"]) for odd in ODD][::every]
    refused = 0
    for (*way, last), odd in changes:
        new = copy.deepcopy(good)
        node = new["result"]
        for key in way:
            node = node[key]
        node[last] = odd
        body = json.dumps(new["result"], sort_keys=True).encode()
        new["sha256"] = hashlib.sha256(body).hexdigest()
        Path("r.json").write_text(json.dumps(new))
        try:
            r = mg.load("r.json")
            assert "\x1b" not in r.summary() + r.to_html() + r.to_latex() + repr(r)
            r.predict(table[:5], interval=0.9)
        except MasgradError:
            refused += 1
    assert len(changes) / 3 < refused < len(changes)


# Ctrl-C


COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has not
from masgrad.cli import main
main()
"""


def ctrl_c(rows: int, moments: np.ndarray) -> None:
    """Interrupt `masgrad fit` at these shares of its time, and look at what it leaves."""
    simulated(rows).to_parquet("rows.parquet", row_group_size=max(rows // 20, 1))
    mg.glm(FORMULA, simulated(100)).save("old.json")
    old = Path("old.json").read_bytes()
    line = [sys.executable, "-c", COMMAND, "fit", "rows.parquet", "--formula", FORMULA]
    line += ["--save", "r.json"]
    start = time.perf_counter()
    subprocess.run(line, capture_output=True, check=True)
    whole = time.perf_counter() - start
    allowed = {"rows.csv", "rows.parquet", "old.json", "r.json", "r.interrupted.json"}
    for moment in moments:
        Path("r.json").write_bytes(old)
        Path("r.interrupted.json").unlink(missing_ok=True)
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(moment * whole)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert {path.name for path in Path().iterdir()} <= allowed
        started = b"Traceback" not in err  # not before Python had read the command's own code
        assert started or (err.rstrip().endswith(b"KeyboardInterrupt") and moment < 0.5), err
        assert process.returncode in (0, 130, -signal.SIGINT, 1)
        if process.returncode == 0 or Path("r.json").read_bytes() != old:
            whole_result = mg.load("r.json")  # the signal came after it was saved, or not at all
            assert whole_result.nobs == rows and whole_result.status is not mg.Status.INTERRUPTED
            continue
        if Path("r.interrupted.json").exists():
            partial = mg.load("r.interrupted.json")
            assert partial.status is mg.Status.INTERRUPTED
            assert "Interrupted: the fit was stopped" in partial.summary()


@pytest.mark.long
def test_ctrl_c_at_some_moments(folder, rng):
    ctrl_c(100_000, rng.uniform(0.2, 1.0, 6))


@pytest.mark.long
def test_ctrl_c_at_a_hundred_moments(folder, rng):
    ctrl_c(1_000_000, rng.uniform(0.1, 1.05, 100))


# Threads and updates


def test_sixteen_threads_give_the_digits_of_one(folder):
    """Half of them fit the same rows, the others rows of their own; from memory and from files."""
    tables = [simulated(40_000, seed=max(k - 7, 0)) for k in range(16)]
    for k, table in enumerate(tables):
        table.to_parquet(f"{k}.parquet", row_group_size=10_000)

    def fit(k):
        r = mg.glm(FORMULA, tables[k] if k % 2 else f"{k}.parquet")
        return r.theta.tobytes(), r.cov.tobytes(), r.predict(tables[k][:100]).tobytes()

    alone = [fit(k) for k in range(16)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(fit, range(16))) == alone


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
@pytest.mark.parametrize("count", [pytest.param(300), pytest.param(10**5, marks=pytest.mark.long)])
def test_many_small_updates_take_no_more_memory(count, rng):
    """Neither the result nor the process grows, once the first updates have filled caches."""
    X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    r = mg.fit(mg.Linear(), (X, y))
    sizes, before = [], 0
    for k in range(count):
        r = r.update((X[:10], y[:10]))
        if k == count // 3:
            gc.collect()
            before = resident_bytes()
        if k in (0, count - 1):
            sizes.append(len(pickle.dumps(vars(r))))
    gc.collect()
    assert r.nobs == 1000 + 10 * count
    assert sizes[1] < sizes[0] + 500 and resident_bytes() < before + 2**24

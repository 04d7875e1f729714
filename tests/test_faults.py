"""Faults from outside: full disks, closed pipes, damaged and changing files, Ctrl-C, threads."""

import errno
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
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
        (f"{FIT} 2> /dev/full", 0, b"Intercept", b""),
        (f"{FIT} >&-", 0, b"", b"saved: r.json\n"),
        (f"{FIT} 2>&-", 0, b"Intercept", b""),
        (f"{FIT} <&- >&- 2>&-", 0, b"", b""),
        (f"PYTHONUNBUFFERED=1 {FIT} | true; exit ${{PIPESTATUS[0]}}", 1, b"", b"saved: r.json\n"),
        (f"{FIT} >&-; masgrad show rows.csv 2>&-", 1, b"", b"saved: r.json\n"),
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

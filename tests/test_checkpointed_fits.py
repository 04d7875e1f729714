"""A fit that was killed and goes on from its checkpoint is the fit that was not."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masgrad as mg
import resumable
import scenarios
from masgrad.checkpoints import file
from masgrad.checkpoints.digest import digest
from masgrad.checkpoints.saver import Saver
from masgrad.data.tables import parquet
from masgrad.data.tables.medium import Medium
from masgrad.errors import CheckpointError, InterruptedWarning
from masgrad.fitting.journal import recorded
from masgrad.fitting.objective.monitor import Monitor
from resumable import FITS, told


class Killed(BaseException):
    """Stands for a kill right after a save."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("fits")
    resumable.write(where)
    return where


@pytest.fixture
def killed(monkeypatch):
    """Make a fit die after its save of this number; its list counts the saves."""
    save, seen, at = Saver.save, [], [None]

    def dying(self, *args, **rest):
        save(self, *args, **rest)
        seen.append(1)
        if len(seen) == at[0]:
            raise Killed

    def kill(number):
        seen.clear()
        at[0] = number
        return seen

    kill(None)
    monkeypatch.setattr(Saver, "save", dying)
    return kill


SHORT = (
    *("single read", "stream", "frames", "missing", "HC3", "two-way clusters", "CR2", "L2"),
    *("scores by time", "within units", "effects", "effects of an iterator"),
    *("effects in little memory", "many levels"),
)


@pytest.mark.parametrize("name", scenarios.short_of(SHORT, [n for n in FITS if n not in SHORT]))
def test_a_killed_fit_goes_on_bit_for_bit(name, folder, killed, tmp_path):
    """Killed in several of its reads it says the same to the last digit; finished, it says it
    again, though fits use up some of their totals."""
    fit, asked = FITS[name], {"checkpoint": tmp_path / "c", "every": 0, "resume": True}
    whole, places = told(fit(folder), tmp_path), []
    for number in (2, 2, 6, 12):
        killed(number)
        try:
            fit(folder, **asked)
        except Killed:
            places.append(file.read_heading(tmp_path / "c").place)
    killed(None)
    assert len(set(places)) == len(places) > 1
    for _ in range(3):
        assert told(fit(folder, **asked), tmp_path) == whole
        assert file.read_heading(tmp_path / "c").finished


def killed_by_a_process(folder, seed, kills, names):
    """The number of processes with these fits that another one has killed (SIGKILL).

    Nothing that the fits say in the end may differ.
    """
    call = [sys.executable, resumable.__file__, folder, str(seed), str(kills), *names]
    run = subprocess.run(call, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = dict(line.split(": ") for line in run.stdout.splitlines())
    assert list(told) == list(names)
    return sum(map(int, told.values()))


def test_processes_that_are_killed_lose_nothing(folder):
    assert killed_by_a_process(folder, 1, 3, ["arrays", "parquet", "csv", "generator"]) == 12


@pytest.mark.long
def test_two_hundred_kills(folder):
    assert killed_by_a_process(folder, 0, 8, FITS) >= 200


@pytest.mark.long
def test_another_interpreter_goes_on(folder, killed, tmp_path):
    names, whole = ["csv", "custom loss", "effects"], []
    for name in names:
        whole.append(told(FITS[name](folder), tmp_path))
        killed(6)
        with pytest.raises(Killed):
            FITS[name](folder, checkpoint=tmp_path / name, every=0)
    script = """
import sys
from pathlib import Path
from resumable import FITS, told
data, folder, *names = map(Path, sys.argv[1:])
for name in names:
    print(told(FITS[str(name)](data, checkpoint=folder / name, resume=True), folder))
"""
    call = [sys.executable, "-c", script, folder, tmp_path, *names]
    run = subprocess.run(
        call, capture_output=True, text=True, check=True, cwd=Path(resumable.__file__).parent
    )
    assert run.stdout.splitlines() == whole


@pytest.mark.parametrize("name", ["parquet", "generator", "single read"])
@pytest.mark.parametrize("where", ["between blocks", "while a block is added"])
def test_ctrl_c_saves_and_returns_what_there_is(name, where, folder, tmp_path, monkeypatch):
    """The next call goes on; the interval is longer than the fit."""
    fit, asked = FITS[name], {"checkpoint": tmp_path / "c"}
    whole = told(fit(folder), tmp_path)
    part = (Saver, "due") if where == "between blocks" else (Monitor, "tick")
    work, seen = getattr(*part), []

    def pressed(self, *args):
        seen.append(1)
        if len(seen) == 5:
            signal.raise_signal(signal.SIGINT)
        return work(self, *args)

    monkeypatch.setattr(*part, pressed)
    with pytest.warns(InterruptedWarning, match="stopped by Ctrl-C") as said:
        result = fit(folder, **asked)
    assert str(said[-1].message).endswith(f"resume=True goes on from {tmp_path / 'c'}")
    assert result.status is mg.Status.INTERRUPTED
    assert not file.read_heading(tmp_path / "c").finished
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="holds an unfinished fit"):
        fit(folder, **asked)
    assert told(fit(folder, **asked, resume=True), tmp_path) == whole


def test_ctrl_c_saves_where_there_is_no_partial_result(folder, tmp_path, monkeypatch):
    call = {"checkpoint": tmp_path / "c", "resume": True}
    whole = told(FITS["effects"](folder), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Saver, "due", lambda self: signal.raise_signal(signal.SIGINT))
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                FITS["effects"](folder, **call)
    assert "after" in file.read_heading(tmp_path / "c").place
    assert told(FITS["effects"](folder, **call), tmp_path) == whole


@pytest.fixture
def begun(folder, killed, tmp_path):
    """A checkpoint in the middle of a fit of arrays."""
    killed(12)
    with pytest.raises(Killed):
        FITS["arrays"](folder, checkpoint=tmp_path / "c", every=0)
    killed(None)
    return tmp_path / "c"


def test_checkpoints_of_other_calls_are_refused(folder, begun, monkeypatch):
    (X, y), again = resumable.arrays(folder), {"checkpoint": begun, "resume": True}
    other = X.copy()
    other[-1, 0] += 1e-9
    cases = [
        ("data differs", mg.Logistic(), (other, y), {}),
        ("passes was 'auto' and is 3", mg.Logistic(), (X, y), {"passes": 3}),
        ("weights differs", mg.Logistic(), (X, y), {"weights": np.ones(len(y))}),
        ("model differs", mg.GLM("binomial", "probit"), (X, y), {}),
        ("seed was 0 and is 1", mg.Logistic(), (X, y), {"seed": 1}),
    ]
    for said, model, data, asked in cases:
        with pytest.raises(CheckpointError, match=said):
            mg.fit(model, data, **asked, **again)
    with pytest.raises(CheckpointError, match="function was 'fit' and is 'penalty_path'"):
        mg.penalty_path(mg.Logistic(), (X, y), mg.L1(0.1), **again)
    mg.fit(mg.Logistic(), (X, y), threads=2, progress=False, **again)  # these change no digit
    monkeypatch.setattr("masgrad.version.__version__", "0.0.1")
    with pytest.raises(CheckpointError, match="was written with masgrad"):
        mg.fit(mg.Logistic(), (X, y), **again)


def large(changed=None):
    """Rows in four partitions; one of the last is beyond the sample of any of them."""
    import pandas as pd

    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(48_000, 2)), columns=["a", "w"]).abs()
    frame["y"] = (rng.random(48_000) < 0.5).astype(float)
    if changed is not None:
        frame.loc[47_900, changed] = 1 - frame.loc[47_900, changed]
    return frame


def in_chunks(column):
    import dask.array as da

    rows: Any = 12_000
    return da.from_array(column.to_numpy(), chunks=rows)


def in_partitions(frame):
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=4)


def distance_of_columns(theta, row):
    return (row["y"] - theta[0] * row["a"]) ** 2


def both(frame):
    """An array and a data frame that something has been done to."""
    return [in_chunks(frame.y).map_blocks(abs), in_partitions(frame[["y"]]).map_partitions(abs)]


ON_DASK = {
    "arrays": lambda f, **k: mg.fit(
        mg.Logistic(), (in_chunks(f[["a"]]), in_chunks(f.y)), weights=in_chunks(f.w), **k
    ),
    "lists": lambda f, **k: mg.fit(mg.Logistic(), [in_chunks(f[["a", "w"]]), in_chunks(f.y)], **k),
    "series": lambda f, **k: mg.fit(
        mg.Logistic(), (in_partitions(f)[["a", "w"]], in_partitions(f).y), **k
    ),
    "dictionaries": lambda f, **k: mg.fit(
        mg.CustomLoss(distance_of_columns, 1), {n: in_chunks(f[n]) for n in ("a", "y")}, **k
    ),
    "frames": lambda f, **k: mg.glm("y ~ a", in_partitions(f), "binomial", weights="w", **k),
}


@pytest.mark.parametrize("name", ON_DASK)
def test_other_rows_of_dask_are_refused(name, tmp_path):
    """Wherever they differ; the same rows have the same names in another collection."""
    call = {"checkpoint": tmp_path / "c", "resume": True, "engine": "local"}
    whole = ON_DASK[name](large(), **call)
    again = ON_DASK[name](large(), **call)
    np.testing.assert_array_equal(np.asarray(whole.params), np.asarray(again.params))
    for column in ("a", "y", "w") if name in ("arrays", "frames") else ("a", "y"):
        said = "weights differs" if (name, column) == ("arrays", "w") else "data differs"
        with pytest.raises(CheckpointError, match=said):
            ON_DASK[name](large(column), **call)


def test_another_process_knows_the_rows_of_dask():
    script = """
import test_checkpointed_fits as here
print(here.digest(here.both(here.large())))
"""
    call = [sys.executable, "-c", script]
    where = Path(resumable.__file__).parent
    run = subprocess.run(call, capture_output=True, text=True, check=True, cwd=where)
    assert run.stdout.strip() == digest(both(large())) != digest(both(large("y")))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"every": -1}, "every=-1; a number >= 0 is needed"),
        ({"every": "often"}, "every='often'"),
        ({"resume": 1}, "resume=1; True or False is needed"),
        ({"checkpoint": 7}, "checkpoint=7; the path of a file is needed"),
        ({"checkpoint": "no/such/folder/c"}, "no/such/folder"),
    ],
)
def test_options_of_checkpoints_are_checked_before_a_cluster_is_asked(asked, said, folder):
    """Also without a checkpoint. No scheduler is at this address."""
    cluster = {"engine": "dask", "scheduler": "tcp://127.0.0.1:1"}
    calls = [
        lambda **k: FITS["parquet"](folder, **k),
        lambda **k: mg.penalty_path(
            mg.Linear(), folder / "t.parquet", mg.L1(0.1), formula="score ~ a", **k
        ),
        lambda **k: FITS["update"](folder, **k),
    ]
    for call in calls:
        for where in (cluster, {}):
            with pytest.raises((ValueError, TypeError, OSError), match=said):
                call(**asked, **where)


def test_levels_are_not_looked_for_again(folder, killed, tmp_path, monkeypatch):
    """Neither those of a formula nor, with at=, those of the result's."""
    formula = "score ~ a + C(town)"
    at = mg.glm(formula, folder / "t.parquet")
    call = {"checkpoint": tmp_path / "c", "resume": True, "every": 0}
    looked, find = [], Medium.find

    def counted(self, *asked):
        looked.append(1)
        return find(self, *asked)

    monkeypatch.setattr(Medium, "find", counted)
    whole = told(mg.glm(formula, folder / "t.parquet", at=at), tmp_path)
    for more in ({}, {"at": at}):
        killed(4)
        with pytest.raises(Killed):
            mg.glm(formula, folder / "t.parquet", **more, **call)
        killed(None)
        looked.clear()
        r = mg.glm(formula, folder / "t.parquet", **more, **call)
        assert not looked
        (tmp_path / "c").unlink()
    assert told(r, tmp_path) == whole


def test_damaged_checkpoints_are_refused(folder, begun):
    held = begun.read_bytes()
    for at in (100, len(held) // 2, len(held) - 5):
        begun.write_bytes(held[:at] + bytes([held[at] ^ 1]) + held[at + 1 :])
        with pytest.raises(CheckpointError, match="is damaged or incomplete"):
            FITS["arrays"](folder, checkpoint=begun, resume=True)
    begun.write_bytes(held[:-1000])
    with pytest.raises(CheckpointError, match="checksum does not hold"):
        FITS["arrays"](folder, checkpoint=begun, resume=True)


def test_files_that_have_changed_are_refused(tmp_path, folder, killed):
    path = tmp_path / "t.parquet"
    path.write_bytes((folder / "t.parquet").read_bytes())
    killed(10)
    call = (resumable.FORMULA, path, "binomial")
    with pytest.raises(Killed):
        mg.glm(*call, checkpoint=tmp_path / "c", every=0)
    killed(None)
    os.utime(path, (1, 1))
    with pytest.raises(CheckpointError, match="data differs"):
        mg.glm(*call, checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize("again", [True, False])
def test_a_stream_of_other_blocks_is_refused(again, folder, killed, tmp_path):
    """Also if the block that differs is one that would be passed over."""

    changed = tmp_path / "changed"

    def blocks():
        for number, (X, y) in enumerate(resumable.blocks(folder)):
            if number == 7 and changed.exists():
                X = X.copy()
                X[17, 1] += 1e-12
            yield X, y

    def fit(**keywords):
        data = mg.Stream(blocks) if again else blocks()
        return mg.fit(mg.Logistic(), data, checkpoint=tmp_path / "c", **keywords)

    killed(11)
    with pytest.raises(Killed):
        fit(every=0)
    killed(None)
    changed.touch()
    with pytest.raises(CheckpointError, match="gives others"):
        fit(resume=True)
    changed.unlink()
    fit(resume=True)


def test_totals_that_are_large_are_written_once(folder, killed, tmp_path, monkeypatch):
    """Each in a file of its own, which no later save writes again; a lost one is an error."""
    monkeypatch.setattr(recorded, "VOLUME_BYTES", 1 << 16)
    killed(18)
    call = {"checkpoint": tmp_path / "c", "resume": True, "every": 0}
    with pytest.raises(Killed):
        FITS["effects"](folder, **call)
    killed(None)
    stray = tmp_path / "c.7-0123abcd"  # of a process that was killed before it listed it
    stray.touch()
    volumes = {path: path.stat().st_mtime_ns for path in tmp_path.glob("c.*") if path != stray}
    assert len(volumes) > 1
    whole = told(FITS["effects"](folder), tmp_path)
    assert told(FITS["effects"](folder, **call), tmp_path) == whole
    assert all(path.stat().st_mtime_ns == when for path, when in volumes.items())
    assert not stray.exists()
    min(volumes).unlink()
    with pytest.raises(CheckpointError, match="is missing or another one"):
        FITS["effects"](folder, **call)


def test_row_groups_that_are_done_are_not_read_again(folder, killed, tmp_path, monkeypatch):
    killed(30)
    with pytest.raises(Killed):
        FITS["parquet"](folder, checkpoint=tmp_path / "c", every=0)
    killed(None)
    decoded, groups = parquet.decoded, []

    def counted(file, held, schema):
        groups.append(held)
        return decoded(file, held, schema)

    monkeypatch.setattr(parquet, "decoded", counted)
    FITS["parquet"](folder, checkpoint=tmp_path / "c", resume=True)
    assert [held[0] for held in groups] != [0] * len(groups)


def test_penalty_paths_go_on_as_well(folder, killed, tmp_path):
    call = mg.Logistic(), resumable.arrays(folder), mg.L1("bic")
    whole = mg.penalty_path(*call, count=5)
    killed(12)
    with pytest.raises(Killed):
        mg.penalty_path(*call, count=5, checkpoint=tmp_path / "c", every=0)
    killed(None)
    again = mg.penalty_path(*call, count=5, checkpoint=tmp_path / "c", resume=True)
    np.testing.assert_array_equal(whole.coefs, again.coefs)
    np.testing.assert_array_equal(whole.lams, again.lams)

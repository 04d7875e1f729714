"""Fits whose rows the workers of a Dask cluster sum, in real processes."""

import gc
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import masgrad as mg
from masgrad.checkpoints.digest import digest
from masgrad.checkpoints.saver import Saver
from masgrad.data.shards import files
from masgrad.distributed.cluster import cluster
from masgrad.distributed.tasks import Tasks
from masgrad.errors import ClusterError, InputError, InputTypeError, InterruptedWarning

ROWS, PER_FILE = 48_000, 16_000
FORMULA = "y ~ a + b + g"


@pytest.fixture(scope="module")
def client():
    with cluster(workers=2) as found:
        yield found


@pytest.fixture(scope="module")
def frame():
    """More rows than the pilot sample has."""
    rng = np.random.default_rng(22)
    table = pd.DataFrame({name: rng.normal(size=ROWS) for name in "abc"})
    table["g"] = rng.choice(["left", "middle", "right"], ROWS)
    table["firm"], table["year"] = rng.integers(900, size=ROWS), np.arange(ROWS) // 1000
    table["w"] = rng.integers(0, 3, ROWS).astype(float)
    effect = rng.normal(size=900)[table.firm]
    eta = 0.3 * table.a - 0.2 * table.b + 0.4 * (table.g == "right") + 0.3 * effect
    table["y"] = (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(float)
    table["z"] = eta + rng.normal(size=ROWS)
    table["n"] = rng.poisson(np.exp(0.5 * eta)).astype(float)
    table["gap"] = table.c.where(table.c < 1.5)
    return table


@pytest.fixture(scope="module")
def paths(frame, tmp_path_factory):
    """Three files of four row groups."""
    folder = tmp_path_factory.mktemp("files")
    written = []
    for k, start in enumerate(range(0, ROWS, PER_FILE)):
        part = pa.Table.from_pandas(frame[start : start + PER_FILE], preserve_index=False)
        written.append(folder / f"part-{k}.parquet")
        parquet.write_table(part, written[-1], row_group_size=PER_FILE // 4)
    return written


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(files, "SHARD_ROWS", PER_FILE // 2)


def squares(theta, row):
    return (row["z"] - theta[0] - theta[1] * row["a"]) ** 2


def in_chunks(values, rows):
    import dask.array as da

    return da.from_array(values, chunks=rows)


def apart(r, other):
    """The largest distance of two estimates, and of their errors, in standard errors."""
    se = np.asarray(other.bse)
    assert r.nobs == other.nobs
    shift = np.abs(np.asarray(r.params) - np.asarray(other.params)) / se
    return float(np.nanmax(shift)), float(np.nanmax(np.abs(np.asarray(r.bse) / se - 1)))


FITS = {
    "plain": lambda data, **k: mg.glm(FORMULA, data, "binomial", **k),
    "probit, trusted": lambda data, **k: mg.glm(
        FORMULA, data, "binomial", "probit", cov_type="nonrobust", **k
    ),
    "HC3": lambda data, **k: mg.glm(FORMULA, data, "binomial", cov_type="HC3", **k),
    "weights and a gap": lambda data, **k: mg.glm(
        "n ~ a + gap", data, "poisson", weights="w", missing="drop", **k
    ),
    "two-way clusters": lambda data, **k: mg.glm("z ~ a + b", data, clusters=["firm", "year"], **k),
    "CR2": lambda data, **k: mg.glm("z ~ a", data, clusters="year", cov_type="CR2", **k),
    "fixed effects": lambda data, **k: mg.glm("z ~ a + b | firm + year", data, **k),
    "counts with effects": lambda data, **k: mg.glm("n ~ a | firm^g", data, "poisson", **k),
    "many levels": lambda data, **k: mg.glm("z ~ a + C(firm)", data, **k),
    "L1 by cross-validation": lambda data, **k: mg.glm(
        "z ~ a + b + c", data, penalty=mg.L1("cv"), **k
    ),
    "L2": lambda data, **k: mg.glm(FORMULA, data, "binomial", penalty=mg.L2(0.01), **k),
    "HAC": lambda data, **k: mg.glm("z ~ a", data, cov_type="HAC", **k),
    "Driscoll-Kraay": lambda data, **k: mg.glm(
        "z ~ a + gap", data, cov_type="DK", time="year", missing="drop", **k
    ),
    "a loss of one's own": lambda data, **k: mg.fit(mg.CustomLoss(squares, 2), data, **k),
    "collinear powers": lambda data, **k: mg.glm(
        "z ~ " + " + ".join(f"I(a**{k})" for k in range(1, 10)), data, **k
    ),
    "learned transforms": lambda data, **k: mg.glm("z ~ center(a) + scale(b) + C(g)", data, **k),
}


LONGER = ("CR2", "HAC", "collinear powers", "learned transforms", "L2", "probit, trusted")
NAMES = [pytest.param(n, marks=pytest.mark.long) if n in LONGER else n for n in FITS]


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_that_of_one_process(name, client, paths):
    one = FITS[name](paths)
    many = FITS[name](paths, engine="dask", client=client)
    shift, errors = apart(many, one)
    assert shift < 1e-3 and errors < 2e-3
    if many.penalized is not None:  # the same rows are in the same folds
        near = 1e-3 * np.asarray(one.bse)
        np.testing.assert_array_less(np.abs(many.penalized_params - one.penalized_params), near)
    again = FITS[name](paths, engine="dask", client=client)
    np.testing.assert_array_equal(np.asarray(many.params), np.asarray(again.params))
    np.testing.assert_array_equal(np.asarray(many.bse), np.asarray(again.bse))


@pytest.mark.parametrize("rows", [PER_FILE // 4, ROWS])
def test_converged_fits_do_not_depend_on_shards_or_workers(rows, client, paths, monkeypatch):
    monkeypatch.setattr(files, "SHARD_ROWS", rows)
    fit = FITS["plain"]
    one = fit(paths, passes="converge")
    two = fit(paths, passes="converge", engine="dask", client=client)
    assert max(apart(two, one)) < 1e-6
    with cluster(workers=1) as alone:
        single = fit(paths, passes="converge", engine="dask", client=alone)
    assert (single.params == two.params).all() and (single.cov == two.cov).all(axis=None)


def test_data_frames_of_dask_are_read_by_partitions(client, frame):
    import dask.dataframe as dd

    spread = dd.from_pandas(frame, npartitions=5)
    found = FITS["plain"](spread, client=client)
    assert max(apart(found, FITS["plain"](frame))) < 1e-3
    assert max(apart(FITS["plain"](spread, engine="local"), FITS["plain"](frame))) < 1e-3
    pair = mg.fit(mg.Linear(), (spread[["a", "b"]], spread.z), client=client)
    assert max(apart(pair, mg.fit(mg.Linear(), (frame[["a", "b"]], frame.z)))) < 1e-3
    assert pair.names == ("a", "b")
    own = mg.fit(mg.CustomLoss(squares, 2), spread, client=client)
    assert max(apart(own, mg.fit(mg.CustomLoss(squares, 2), frame))) < 1e-3
    np.testing.assert_allclose(found.predict(spread), found.predict(frame), rtol=1e-12)
    mean = mg.CustomLoss(squares, 2, predict=lambda theta, row: theta[0] + theta[1] * row["a"])
    own = mg.fit(mean, frame)
    np.testing.assert_allclose(own.predict(spread), own.predict(frame), rtol=1e-12)


def test_arrays_of_dask_with_all_that_may_stand_beside_them(client, frame):
    X, n, w = frame[["a", "b"]].to_numpy(), frame.n.to_numpy(), frame.w.to_numpy()
    spread = in_chunks(X, (11_000, 1)), in_chunks(n, 9000)
    beside = {"exposure": 1 + w, "clusters": frame.firm.to_numpy()}
    one = mg.fit(mg.Poisson(), (X, n), weights=w, **beside)
    two = mg.fit(mg.Poisson(), spread, weights=in_chunks(w, 7000), **beside, client=client)
    assert max(apart(two, one)) < 1e-3 and one.df == two.df
    rows = {"z": frame.z.to_numpy(), "a": frame.a.to_numpy()}
    chunked = {name: in_chunks(column, 10_000) for name, column in rows.items()}
    loss = mg.CustomLoss(squares, 2)
    assert max(apart(mg.fit(loss, chunked, client=client), mg.fit(loss, rows))) < 1e-3


def test_paths_are_fitted_and_updated_on_dask(client, paths):
    path = mg.penalty_path(
        mg.Linear(), paths, mg.L1(0.05), formula="z ~ a + b", count=3, engine="dask", client=client
    )
    local = mg.penalty_path(mg.Linear(), paths, mg.L1(0.05), formula="z ~ a + b", count=3)
    np.testing.assert_allclose(path.coefs, local.coefs, atol=1e-9)
    first = mg.glm("z ~ a", paths[:2], engine="dask", client=client)
    both = first.update(paths[2:], engine="dask", client=client)
    assert max(apart(both, mg.glm("z ~ a", paths))) < 1e-3


@pytest.mark.parametrize("suffix", ["csv", "arrow"])
def test_other_files_are_shards_as_they_are(suffix, client, frame, tmp_path):
    part = frame[["y", "a", "b", "g"]]
    for k in range(4):  # one of them without rows
        rows = part[k * 5000 : (k + 1) * 5000] if k else part[:0]
        if suffix == "csv":
            rows.to_csv(tmp_path / f"{k}.csv", index=False)
        else:
            schema = pa.Schema.from_pandas(part, preserve_index=False)
            table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
            with pa.ipc.new_file(tmp_path / f"{k}.arrow", schema) as file:
                file.write_table(table)
    both = [FITS["plain"](tmp_path, **k) for k in ({}, {"engine": "dask", "client": client})]
    assert max(apart(*both)) < 1e-9


# What may go wrong.


def killing(monkeypatch, rounds):
    """Kill a worker when tasks of these rounds have been sent."""
    count, before = 0, Tasks._submit

    def submit(self, *told):
        nonlocal count
        pids = list(self.client.run(os.getpid).values())
        futures = before(self, *told)
        if count in rounds:
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
        count += 1
        return futures

    killed = []
    monkeypatch.setattr(Tasks, "_submit", submit)
    return killed, lambda: count


def test_a_killed_worker_changes_no_digit(client, paths, monkeypatch):
    fit = FITS["two-way clusters"]
    undisturbed = fit(paths, engine="dask", client=client)
    killed, rounds = killing(monkeypatch, ())
    fit(paths, engine="dask", client=client)
    last = rounds() - 1
    assert last >= 3 and not killed
    killed, _ = killing(monkeypatch, (1, last))
    found = fit(paths, engine="dask", client=client)
    assert len(killed) == 2
    np.testing.assert_array_equal(found.params, undisturbed.params)
    np.testing.assert_array_equal(found.cov, undisturbed.cov)
    assert found.nobs == ROWS


def test_ctrl_c_ends_a_fit_with_the_shards_that_have_come(client, paths, monkeypatch):
    rounds, before = 0, Tasks.each

    def each(self, *told):
        nonlocal rounds
        rounds += 1
        for number, done in enumerate(before(self, *told)):
            if rounds == 3 and number == 4:  # levels, gradients, then the correcting round
                signal.raise_signal(signal.SIGINT)
            yield done

    monkeypatch.setattr(Tasks, "each", each)
    with pytest.warns(InterruptedWarning, match="Ctrl-C"):
        found = FITS["plain"](paths, engine="dask", client=client)
    assert rounds == 3 and found.status is mg.Status.INTERRUPTED
    assert found.nobs == 4 * PER_FILE // 2


@pytest.mark.long
def test_ctrl_c_before_the_first_round_leaves_no_noise(client, frame, tmp_path, caplog):
    """While a partition is brought here; its task is let go, and Dask has nothing to tell."""
    import dask.dataframe as dd

    def slow(part):
        (tmp_path / "begun").touch()
        time.sleep(2)
        return part

    def press():
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    spread = dd.from_pandas(frame, npartitions=2).map_partitions(slow, meta=frame)
    main, hand = threading.get_ident(), threading.Thread(target=press)
    hand.start()
    with pytest.raises(KeyboardInterrupt):
        mg.glm("z ~ a", spread, client=client)
    hand.join()
    deadline = time.monotonic() + 10
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    gc.collect()
    client.nthreads()  # the event loop has had its turn
    assert not [told.getMessage() for told in caplog.records if told.levelno >= logging.WARNING]


def test_a_shard_that_fails_is_named(client, frame, tmp_path):
    path = tmp_path / "damaged.parquet"
    table = pa.Table.from_pandas(frame[["y", "a", "b", "g"]], preserve_index=False)
    parquet.write_table(table, path, row_group_size=8000, write_page_checksum=True)
    bytes_of = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(4).column(1)
    at = column.data_page_offset + column.total_compressed_size // 2
    bytes_of[at : at + 8] = b"damaged!"
    path.write_bytes(bytes_of)
    with pytest.raises(InputError, match=r"damaged.parquet.*cannot be read"):
        FITS["plain"](path, engine="dask", client=client)


def test_a_disk_that_fails_for_a_moment_is_asked_again(client, paths, tmp_path):
    """The second attempt of a worker finds the file."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def fail_once(folder):
        from masgrad.data.tables import parquet as medium

        before = medium.decoded

        def decoded(file, groups, schema):
            mark = Path(folder) / "failed"
            if not mark.exists():
                mark.touch()
                raise OSError("Input/output error")
            yield from before(file, groups, schema)

        medium.decoded = decoded

    with cluster(workers=1) as alone:
        alone.run(fail_once, str(marks))
        found = FITS["plain"](paths, engine="dask", client=alone)
    assert list(marks.iterdir())
    assert max(apart(found, FITS["plain"](paths))) < 1e-3


def test_a_partition_that_always_raises_is_named(client, frame):
    X = in_chunks(frame[["a", "b"]].to_numpy(), (12_000, 2))
    y = in_chunks(frame.z.to_numpy(), 12_000)

    def fails(part, block_info=None):
        if block_info and block_info[0]["chunk-location"] == (2,):
            raise OSError("the disk is gone")
        return part

    said = "chunk 2 cannot be read, after 3 attempts: OSError: the disk is gone"
    with pytest.raises(ClusterError, match=said):
        mg.fit(mg.Linear(), (X, y.map_blocks(fails, dtype=float)), client=client)


def test_a_missing_value_is_found_in_its_shard(client, frame, paths, tmp_path):
    import dask.dataframe as dd

    changed = frame.copy()
    changed.loc[ROWS - 7000, "a"] = np.nan
    last = tmp_path / "last.parquet"
    changed[2 * PER_FILE :].to_parquet(last, row_group_size=PER_FILE // 4)
    where = f"column 'a' holds nan at row {PER_FILE - 7000} of .*last.parquet"
    with pytest.raises(InputError, match=where):
        FITS["plain"]([*paths[:2], last], engine="dask", client=client)
    with pytest.raises(InputError, match="'a' holds nan at row 1000 of partition 5"):
        FITS["plain"](dd.from_pandas(changed, npartitions=6), client=client)


@pytest.mark.parametrize("column", ["a", "g"])
def test_partitions_of_other_types_are_named(column, client, frame):
    import dask.dataframe as dd
    from dask.delayed import delayed

    parts = [frame[["y", "a", "b", "g"]][k : k + 12_000] for k in range(0, ROWS, 12_000)]
    other = parts[2].assign(**{column: "text" if column == "a" else 1.0})
    frames = [delayed(part) for part in (*parts[:2], other, parts[3])]
    spread = dd.from_delayed(frames, meta=parts[0].iloc[:0], verify_meta=False)
    with pytest.raises(InputTypeError, match=f"column '{column}' is .* in partition 2, and"):
        FITS["plain"](spread, client=client)
    short = [delayed(part) for part in (*parts[:3], parts[3].drop(columns=column))]
    spread = dd.from_delayed(short, meta=parts[0].iloc[:0], verify_meta=False)
    with pytest.raises(Exception, match=column):
        FITS["plain"](spread, client=client)


def test_empty_partitions_and_unknown_chunk_sizes_are_fine(client, frame):
    import dask.dataframe as dd

    spread = dd.from_pandas(frame, npartitions=6)
    some = spread[(spread.year < 5) | (spread.year > 20)]  # the second and third lose all rows
    here = frame[(frame.year < 5) | (frame.year > 20)]
    assert max(apart(FITS["plain"](some, client=client), FITS["plain"](here))) < 1e-3
    arrays = some[["a", "b"]].to_dask_array(), some.z.to_dask_array()
    found = mg.fit(mg.Linear(), arrays, client=client)
    assert (
        max(apart(found, mg.fit(mg.Linear(), (here[["a", "b"]].to_numpy(), here.z.to_numpy()))))
        < 1e-3
    )
    with pytest.raises(InputError, match=r"numbers of partitions differ .*compute_chunk_sizes"):
        mg.fit(
            mg.Linear(),
            (arrays[0], dd.from_pandas(here, npartitions=4).z.to_dask_array()),
            client=client,
        )
    with pytest.raises(InputError, match=r"weights is in memory.*compute_chunk_sizes"):
        mg.fit(mg.Linear(), arrays, weights=np.ones(len(here)), client=client)


def test_what_no_worker_can_read_is_refused(client, frame, paths):
    on_dask = {"engine": "dask", "client": client}
    X, y = frame[["a", "b"]].to_numpy(), frame.z.to_numpy()
    with pytest.raises(InputError, match="this process alone; give paths or a Dask array"):
        mg.fit(mg.Linear(), (X, y), **on_dask)
    with pytest.raises(InputError, match="the data frame can be read by this process alone"):
        FITS["plain"](frame, **on_dask)
    with pytest.raises(InputError, match="memory:// is in this process"):
        FITS["plain"]("memory://rows.parquet", **on_dask)
    with pytest.raises(FileNotFoundError, match="no such file"):
        FITS["plain"]("nowhere/*.parquet", engine="dask")
    with pytest.raises(InputError, match="client= is for engine='dask'"):
        FITS["plain"](paths, client=client)
    with pytest.raises(InputError, match="scheduler= is for engine='dask'"):
        FITS["plain"](paths, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="engine='spark' is not known; use one of local, dask"):
        FITS["plain"](paths, engine="spark")
    with pytest.raises(InputError, match=r"passes=1 .*leave passes= out"):
        FITS["plain"](paths, passes=1, **on_dask)
    with pytest.raises(InputError, match="method='chains' draws rows in one process"):
        FITS["plain"](paths, method="chains", **on_dask)


# What is sent, and compiled.


def test_a_loss_of_arrays_does_not_send_them_with_every_round(client, frame, monkeypatch):
    told, before = [], Tasks.each

    def each(self, call, payload, parts, shards):
        told.append(len(payload))
        yield from before(self, call, payload, parts, shards)

    monkeypatch.setattr(Tasks, "each", each)
    rows = {name: in_chunks(frame[name].to_numpy(), 8000) for name in ("z", "a")}
    mg.fit(mg.CustomLoss(squares, 2), rows, client=client)
    assert told and max(told) < 1 << 13


def test_a_partition_of_weight_0_has_no_levels(client, frame):
    import dask.dataframe as dd

    none = frame.assign(w=frame.w.where(frame.index >= ROWS // 4, 0.0))
    spread = dd.from_pandas(none, npartitions=4)
    found = mg.glm("n ~ a + g", spread, "poisson", weights="w", client=client)
    assert max(apart(found, mg.glm("n ~ a + g", none, "poisson", weights="w"))) < 1e-3


@pytest.mark.parametrize("p", [8, 60])
def test_a_shard_sends_less_than_ten_p_squared_doubles_a_round(p, client, tmp_path, monkeypatch):
    rng, n = np.random.default_rng(p), 40_000
    columns = {f"x{k}": rng.normal(size=n) for k in range(p - 1)}
    columns["y"] = rng.poisson(1.0, n).astype(float)
    path = tmp_path / "wide.parquet"
    parquet.write_table(pa.table(columns), path, row_group_size=10_000)
    sent, before = [], Tasks.each

    def counting(self, call, payload, parts, each):
        told = len(payload) + sum(len(pickle.dumps(one)) for one in each) / len(each)
        for done in before(self, call, payload, parts, each):
            sent.append(told + len(pickle.dumps(done)))
            yield done

    monkeypatch.setattr(Tasks, "each", counting)
    formula = "y ~ " + " + ".join(list(columns)[:-1])
    mg.glm(formula, path, "poisson", engine="dask", client=client)
    overhead = 1 << 12  # names of classes and of the file
    assert sent and max(sent) < 10 * p * p * 8 + overhead


def test_a_loss_of_a_script_is_compiled_once_per_worker(tmp_path, paths):
    script, traces = tmp_path / "script.py", tmp_path / "traces"
    script.write_text(SCRIPT.format(traces=str(traces), files=[str(path) for path in paths]))
    env = os.environ | {"PYTHONPATH": str(Path(mg.__file__).parents[1])}
    subprocess.run([sys.executable, script], check=True, env=env, timeout=120)
    first, second = (traces.with_suffix(f".{k}").read_text().split() for k in (1, 2))
    workers = {pid for pid in first if pid != "main"}
    assert len(workers) == 2
    assert not [pid for pid in second if pid != "main"]  # all of it was there already


SCRIPT = """
import os, pathlib
import masgrad as mg
from masgrad.distributed.cluster import cluster

MAIN = os.getpid()
STAGE = pathlib.Path({traces!r})

def loss(theta, row):
    count = 1 if not STAGE.with_suffix(".done").exists() else 2
    with open(STAGE.with_suffix(f".{{count}}"), "a") as file:
        file.write(f"{{'main' if os.getpid() == MAIN else os.getpid()}}\\n")
    return (row["z"] - theta[0] - theta[1] * row["a"]) ** 2

if __name__ == "__main__":
    STAGE.with_suffix(".2").write_text("")
    with cluster(workers=2) as client:
        for _ in range(2):
            r = mg.fit(mg.CustomLoss(loss, 2), {files!r}, engine="dask", client=client)
            STAGE.with_suffix(".done").write_text("")
"""


def test_the_page_on_scale_runs(client, capsys):
    from distributed import Client

    text = Path(__file__).parents[1].joinpath("docs/scale.md").read_text()
    scope: dict = {"__name__": "__main__"}
    with Client(client.scheduler.address):  # which the page's fits find
        for block in re.findall(r"```python\n(.*?)```", text, re.S):
            exec(block, scope)
    r = scope["r"]
    assert np.abs((r.params - [0.0, 0.2, -0.1]) / r.bse).max() < 6 and r.cov_type == "CR1"
    assert "[1. 2. 3.]" in capsys.readouterr().out


def test_the_command_line_starts_and_stops_its_own_cluster(paths, tmp_path):
    saved = tmp_path / "r.json"
    command = [sys.executable, "-m", "masgrad", "fit", *map(str, paths), "--formula", FORMULA]
    options = ["--family", "binomial", "--engine", "dask", "--save", str(saved), "--quiet"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert max(apart(mg.load(saved), FITS["plain"](paths))) < 1e-3


class Killed(BaseException):
    """Stands for a kill of the process that leads."""


def test_a_frame_that_the_cluster_holds_is_known_again(client, frame):
    """Though its futures are others each time, as they are in another process."""
    import dask.dataframe as dd

    def held(rows):
        return client.persist(dd.from_pandas(rows[["y", "a"]], npartitions=3))

    other = frame.assign(y=1 - frame.y)
    same = digest([held(frame), held(frame)[["a"]]])
    assert digest([held(frame), held(frame)[["a"]]]) == same
    assert digest([held(other), held(other)[["a"]]]) != same


@pytest.mark.parametrize(
    "name", ["weights and a gap", "two-way clusters", "counts with effects", "Driscoll-Kraay"]
)
def test_a_fit_goes_on_after_the_shards_that_are_done(name, client, paths, tmp_path, monkeypatch):
    """Bit for bit, after two kills; no shard is read again but the one in course.

    Of Driscoll and Kraay's the last read gathers what each block gives, rather than adding it.
    """
    fit = FITS[name]
    whole = fit(paths, engine="dask", client=client)
    save, each, saved, read = Saver.save, Tasks.each, [], []

    def dying(self, *args, **rest):
        save(self, *args, **rest)
        saved.append(1)
        if len(saved) in kills:
            raise Killed

    def counted(self, call, payload, parts, numbered):
        for done in each(self, call, payload, parts, numbered):
            read.append(1)
            yield done

    monkeypatch.setattr(Tasks, "each", counted)
    fit(paths, engine="dask", client=client)
    shards, call = len(read), {"engine": "dask", "client": client, "resume": True, "every": 0}
    kills = (shards - 2, shards) if name == "Driscoll-Kraay" else (9, 17)
    read.clear()
    monkeypatch.setattr(Saver, "save", dying)
    for _ in range(2):
        with pytest.raises(Killed):
            fit(paths, checkpoint=tmp_path / "c", **call)
    r = fit(paths, checkpoint=tmp_path / "c", **call)
    assert len(read) == shards
    np.testing.assert_array_equal(r.params, whole.params)
    np.testing.assert_array_equal(r.cov, whole.cov)
    assert (r.nobs, r.notes) == (whole.nobs, whole.notes)

"""Shards of fits on Dask: which file a worker reads, errors that name it, and what travels."""

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import masgrad as mg
from masgrad.data.shards import brought, files
from masgrad.data.shards.outline import Outline
from masgrad.data.tables.parquet import Parquet
from masgrad.distributed.cluster import cluster
from masgrad.distributed.tasks import Tasks
from masgrad.errors import ClusterError, InputError
from masgrad.fitting.effects.fits import first

ROWS, SHARD = 40_000, 5000


@pytest.fixture(scope="module")
def client():
    with cluster(workers=2) as found:
        yield found


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(files, "SHARD_ROWS", SHARD)


@pytest.fixture(scope="module")
def frame():
    """More rows than the pilot sample has."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.normal(size=ROWS), "firm": rng.integers(900, size=ROWS)})
    table["year"] = np.arange(ROWS) % 50
    table["z"] = 0.5 * table.a + rng.normal(size=ROWS)
    table["y"] = (table.z > 0).astype(float)
    return table


@pytest.fixture
def path(frame, tmp_path):
    return written(frame, tmp_path / "t.parquet")


def written(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path, row_group_size=SHARD, compression="none")
    return path


def logit(data, client):
    return mg.glm("y ~ a", data, "binomial", engine="dask", client=client)


def before_round(monkeypatch, number: int, act: Callable[[], None]) -> list[int]:
    """Act before the tasks of a round are sent; the rounds that there have been."""
    rounds, submit = [], Tasks._submit

    def acting(self, *told):
        rounds.append(1)
        if len(rounds) == number:
            act()
        return submit(self, *told)

    monkeypatch.setattr(Tasks, "_submit", acting)
    return rounds


# Which file a worker reads.


def test_a_file_replaced_in_the_last_round_is_refused(client, frame, path, monkeypatch):
    rounds = before_round(monkeypatch, 0, lambda: None)
    logit(path, client)
    other = frame.assign(a=1.0001 * frame.a)  # so little that no other round is needed
    before_round(monkeypatch, len(rounds), lambda: written(other, path) and None)
    with pytest.raises(InputError, match=r"t\.parquet has changed while it was read"):
        logit(path, client)


def test_a_file_that_changes_after_its_last_shard_is_refused(client, path, monkeypatch):
    rounds = before_round(monkeypatch, 0, lambda: None)
    logit(path, client)
    last, each = 2 * len(rounds), Tasks.each

    def touching(self, *told):
        yield from each(self, *told)
        if len(rounds) == last:
            os.utime(path)

    monkeypatch.setattr(Tasks, "each", touching)
    with pytest.raises(InputError, match=r"t\.parquet has changed while it was read"):
        logit(path, client)


def test_other_machines_compare_what_files_hold_and_not_their_times(frame, path):
    columns = ["a", "y"]
    medium = Parquet([path], columns)
    shard = files.shards_of_files(medium)[0]
    outline = Outline(medium.types, None)
    elsewhere = replace(shard, mark=replace(shard.mark, machine="another"))
    os.utime(path, (0, 0))
    assert elsewhere.open(outline, None).count == SHARD
    with pytest.raises(InputError, match="has changed while it was read, or is another file"):
        shard.open(outline, None)
    size = path.stat().st_size
    written(frame.assign(a=-frame.a), path)
    assert path.stat().st_size == size
    with pytest.raises(InputError, match="or is another file on the machine"):
        elsewhere.open(outline, None)


# Errors that name a shard.


def in_chunks(values, rows=7000):
    import dask.array as da

    return da.from_array(np.asarray(values), chunks=(rows, *np.shape(values)[1:]))


@pytest.mark.parametrize("engine", ["dask", "local"])
def test_errors_in_pilot_rows_of_arrays_name_the_chunk_and_its_row(engine, client, frame):
    weights = np.ones(ROWS)
    weights[35_100] = -1.0
    on = {"engine": engine, "client": client if engine == "dask" else None}
    X, y = in_chunks(frame[["a"]]), in_chunks(frame.z)
    with pytest.raises(InputError, match="chunk 5: weights holds -1 at row 100;"):
        mg.fit(mg.Linear(), (X, y), weights=in_chunks(weights), **on)


def test_a_partition_that_fails_after_the_pilot_is_named(client, frame, tmp_path, monkeypatch):
    import dask.dataframe as dd

    gone = tmp_path / "gone"

    def fails(part):
        if len(part) and part.index[0] >= 30_000 and gone.exists():
            raise OSError("the disk is gone")
        return part

    spread = dd.from_pandas(frame, npartitions=4).map_partitions(fails)
    before_round(monkeypatch, 2, gone.touch)
    said = "partition 3 cannot be read, after 3 attempts: OSError: the disk is gone"
    with pytest.raises(ClusterError, match=said):
        mg.glm("z ~ a", spread, client=client)
    with pytest.raises(ClusterError, match="partition 3 cannot be read: OSError: the disk is gone"):
        mg.glm("z ~ a", spread, engine="local")


@pytest.mark.parametrize("in_a_round", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_scheduler_that_dies_is_said_to_be_lost(in_a_round, frame, monkeypatch):
    """In the pilot rows, which the client asks for, and in a round."""
    import dask.dataframe as dd

    dask = [sys.executable, "-m", "distributed.cli"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    port = str(18_700 + os.getpid() % 1000 + 1000 * in_a_round)
    address = f"tcp://127.0.0.1:{port}"
    place = ["--port", port, "--no-dashboard", "--host", "127.0.0.1"]
    dask[-1] += ".dask_scheduler"
    scheduler = subprocess.Popen([*dask, *place], **quiet)
    dask[-1] = "distributed.cli.dask_worker"
    worker = subprocess.Popen([*dask, address, "--no-dashboard", "--no-nanny"], **quiet)

    def slow(part):
        time.sleep(0.3)
        return part

    try:
        spread = dd.from_pandas(frame, npartitions=4).map_partitions(slow)
        with cluster(scheduler=address) as found:
            if in_a_round:
                submit = Tasks._submit

                def killing(self, *told):
                    futures = submit(self, *told)
                    os.kill(scheduler.pid, signal.SIGKILL)
                    return futures

                monkeypatch.setattr(Tasks, "_submit", killing)
            else:
                compute = found.compute

                def dying(*args, **rest):
                    futures = compute(*args, **rest)
                    os.kill(scheduler.pid, signal.SIGKILL)
                    return futures

                monkeypatch.setattr(found, "compute", dying)
            with pytest.raises(ClusterError, match=rf"the scheduler {address} was lost before par"):
                mg.glm("z ~ a", spread, client=found)
    finally:
        scheduler.kill()
        worker.kill()
        scheduler.wait()
        worker.wait()
        gc.collect()  # what Dask logs of the lost connection belongs to this test


# What is computed, and what travels.


def test_pilot_rows_are_computed_side_by_side_and_short_partitions_once(client, tmp_path):
    from dask.delayed import delayed

    def rows(number):
        begin = time.time()
        time.sleep(0.05)
        name = tmp_path / f"{number} {begin} {time.time()}"
        name.write_text("")
        length = 3000 if number == 7 else 1000
        return number * 10_000 + np.arange(length)

    partitions = [delayed(rows)(number) for number in range(18)]
    names = [f"partition {number}" for number in range(18)]
    rng = np.random.default_rng(0)
    found = list(brought.sample_of(partitions, names, rng, client))
    values = np.concatenate([part for _, part in found])
    expected = np.concatenate([rows(number) for number in range(18)])
    assert sorted(values) == sorted(expected)
    spans = sorted(
        (float(begin), float(end), int(number))
        for number, begin, end in (name.name.split() for name in tmp_path.iterdir())
    )[: -len(partitions)]
    computed = [number for _, _, number in spans]
    in_sample = 7 in [number for number, _ in found[: brought.FEW_PARTITIONS]]
    assert sorted(computed) == sorted([*range(18), 7] if in_sample else range(18))
    heads = spans[: brought.FEW_PARTITIONS]
    assert any(later[0] < sooner[1] for sooner, later in pairwise(heads))


def told_and_sent(monkeypatch) -> list[tuple[int, int]]:
    """The bytes that each round tells, and the largest answer of a shard."""
    rounds, each = [], Tasks.each

    def counting(self, call, payload, parts, numbered):
        largest = 0
        for done in each(self, call, payload, parts, numbered):
            largest = max(largest, len(pickle.dumps(done)))
            yield done
        rounds.append((len(payload), largest))

    monkeypatch.setattr(Tasks, "each", counting)
    return rounds


def test_codes_of_rows_do_not_travel_if_they_are_too_many(client, path, monkeypatch):
    def fit():
        return mg.glm("z ~ a | year", path, engine="dask", client=client)

    rounds = told_and_sent(monkeypatch)
    roomy = fit()
    assert max(sent for _, sent in rounds) > 4 * SHARD
    rounds.clear()
    room = 5 * SHARD  # enough for the codes of one shard, and not for those of all
    monkeypatch.setattr(first, "FACTS_SHARE", (1 << 29) // room)
    tight = fit()
    assert max(sent for _, sent in rounds) < 2 * SHARD
    np.testing.assert_array_equal(tight.params, roomy.params)
    np.testing.assert_array_equal(tight.cov, roomy.cov)


def test_rows_left_out_are_the_same_if_codes_do_not_travel(client, frame, tmp_path, monkeypatch):
    rare = np.random.default_rng(6).integers(15_000, size=ROWS)
    path = written(frame.assign(rare=rare), tmp_path / "rare.parquet")

    def fit():
        return mg.glm("y ~ a | rare", path, "binomial", engine="dask", client=client)

    roomy = fit()
    monkeypatch.setattr(first, "FACTS_SHARE", 1 << 29)
    tight = fit()
    assert roomy.nobs == tight.nobs < ROWS and roomy.notes == tight.notes
    np.testing.assert_array_equal(tight.params, roomy.params)


def test_combined_keys_are_sent_once(client, frame, path, monkeypatch):
    rounds = told_and_sent(monkeypatch)
    found = mg.glm("z ~ a", path, clusters="firm^year", engine="dask", client=client)
    assert len(rounds) > 2 and max(told for told, _ in rounds) < 1 << 14
    here = mg.glm("z ~ a", frame, clusters="firm^year")
    np.testing.assert_allclose(found.bse, here.bse, rtol=1e-6)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of one process")
def test_the_memory_of_a_worker_is_that_of_blocks_and_not_of_its_shard(tmp_path, monkeypatch):
    rows, groups, columns = 50_000, 100, 10
    monkeypatch.setattr(files, "SHARD_ROWS", rows * groups)
    rng = np.random.default_rng(0)
    path = tmp_path / "large.parquet"
    names = ["y", *(f"x{k}" for k in range(1, columns))]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for _ in range(groups):
            file.write_table(
                pa.table(dict(zip(names, rng.normal(size=(columns, rows)), strict=True)), schema)
            )
    small = tmp_path / "small.parquet"
    with parquet.ParquetFile(path) as whole:
        parquet.write_table(whole.read_row_groups([0, 1]), small, row_group_size=rows)

    def peak() -> int:  # of this process alone: getrusage has that of its parent as well
        [line] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(line) * 1024

    def peak_with_the_whole() -> int:
        assert parquet.read_table(path).num_rows
        return peak()

    formula = "y ~ " + " + ".join(names[1:])
    size = path.stat().st_size
    with cluster(workers=1) as alone:
        mg.glm(formula, small, engine="dask", client=alone)  # imports and compiles
        [before] = alone.run(peak).values()
        r = mg.glm(formula, path, engine="dask", client=alone)
        [after] = alone.run(peak).values()
        [other] = alone.run(peak_with_the_whole).values()
    assert r.nobs == rows * groups and size >= 4e8
    assert after - before < size / 8
    assert other - before > size / 2  # which is what it would be
    print(f"shard {size / 1e6:.0f} MB: {(after - before) / 1e6:.0f}, {(other - before) / 1e6:.0f}")

"""How a fit on a cluster scales: measured constants, simulated stragglers, extrapolated sizes.

    python benchmarks/scale.py       prints a page and writes scale.md here

Three constants are measured here: the seconds that a worker takes for a row, those that a task
costs besides, and those that the client takes to add a shard's total. A round is then simulated:
shards go to the worker that is free first, in their order, and the client adds totals in that
order. Nothing is said of networks or disks that are slower than this machine's.
"""

import heapq
import os
import pathlib
import pickle
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import masgrad as mg
from masgrad.data.shards.files import MOST_SHARDS, SHARD_ROWS
from masgrad.distributed.cluster import cluster
from masgrad.distributed.payload import Packer
from masgrad.distributed.tasks import Tasks
from masgrad.fitting.objective.totals import BlockSums
from masgrad.models.model import RowSums

PAGE = pathlib.Path(__file__).with_name("scale.md")
COLUMNS, READS = 20, 3
SIZES = (10**7, 10**9, 10**11, 10**12)
WORKERS = (1, 2, 10, 100, 1000)


# Constants.


def seconds_per_row() -> float:
    """Of a correcting read of a logistic regression by one thread, from the slope in the rows."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in (500_000, 2_500_000):
            path = pathlib.Path(folder) / f"{rows}.parquet"
            rng = np.random.default_rng(rows)
            columns = {f"x{k}": rng.normal(size=rows) for k in range(COLUMNS)}
            columns["y"] = (rng.random(rows) < 1 / (1 + np.exp(-columns["x0"]))).astype(float)
            options: Any = {"compression": "none", "use_dictionary": False}
            parquet.write_table(pa.table(columns), path, row_group_size=100_000, **options)
            formula = "y ~ " + " + ".join(list(columns)[:-1])
            found: Any = None

            def fit(path: pathlib.Path = path, formula: str = formula) -> None:
                nonlocal found
                found = mg.glm(formula, path, "binomial", threads=1, progress=False)

            times.append((rows, least(fit) / found.fit_info.reads))
    (few, short), (many, long) = times
    return (long - short) / (many - few)


def seconds_per_task(tasks: int = 500) -> float:
    """Of a task that does nothing, among many."""
    with cluster(workers=2) as client:
        payload, parts = Packer(lambda _: False).pack(None)
        each = Tasks(client, [str(k) for k in range(tasks)], [None] * tasks)
        return least(lambda: list(each.each(nothing, payload, parts, range(tasks)))) / tasks


def nothing(payload: bytes, parts: Any, shard: Any, data: Any) -> None:
    """A task."""


def seconds_per_join(p: int) -> float:
    """Of one more total of p columns."""
    square, row = np.ones((p, p)), np.ones(p)
    total = BlockSums(1, 1.0, RowSums(row, square, square, 1.0, row, 1.0), np.zeros(2), (0.0, 1.0))
    sent = pickle.dumps(total)
    return least(lambda: [total.plus(pickle.loads(sent)) for _ in range(200)]) / 200


def least(call: Callable[[], object], turns: int = 3) -> float:
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


# A round.


def shards_of(rows: float) -> int:
    """The number of shards, as files are cut."""
    return max(1, int(np.ceil(rows / max(SHARD_ROWS, rows / MOST_SHARDS))))


def round_seconds(work: np.ndarray, speeds: np.ndarray, task: float, join: float) -> float:
    """The seconds of a round: shards with this much work, on workers of these speeds."""
    free = [(0.0, k) for k in range(len(speeds))]
    ready = np.empty(len(work))
    for number, seconds in enumerate(work):
        start, worker = heapq.heappop(free)
        start = max(start, number * task)  # the scheduler hands out one after the other
        ready[number] = start + seconds / speeds[worker]
        heapq.heappush(free, (ready[number], worker))
    added = 0.0
    for at in ready:  # in the order of the shards
        added = max(added, at) + join
    return added


def scenarios(rng: np.random.Generator, shards: int, workers: int) -> dict[str, Any]:
    """Work of each shard over the mean, and speeds of workers."""
    even, same = np.ones(shards), np.ones(workers)
    slow = np.where(np.arange(workers) < max(1, workers // 20), 1 / 3, 1.0)
    rare = np.where(rng.random(shards) < 0.01, 10.0, 1.0)
    skewed = rng.lognormal(sigma=1.0, size=shards)
    return {
        "even": (even, same),
        "1 % of tasks take ten times as long": (rare, same),
        "5 % of workers at a third of the speed": (even, slow),
        "skewed shards (lognormal, sigma 1)": (skewed / skewed.mean(), same),
    }


def efficiency(name: str, workers: int, rows: float, row: float, task: float, join: float) -> float:
    """Work over what the workers could have done in the time, the mean of ten draws."""
    found = []
    for seed in range(10):
        shards = shards_of(rows)
        work, speeds = scenarios(np.random.default_rng(seed), shards, workers)[name]
        work = work * (row * rows / shards)
        found.append(work.sum() / speeds.sum() / round_seconds(work, speeds, task, join))
    return float(np.mean(found))


def duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def main() -> None:
    load, p = os.getloadavg()[0], COLUMNS + 1
    row, task, join = seconds_per_row(), seconds_per_task(), seconds_per_join(p)
    names = list(scenarios(np.random.default_rng(0), 1, 1))
    per_worker = 16 * SHARD_ROWS
    weak = [
        f"| {name} | "
        + " | ".join(f"{efficiency(name, w, per_worker * w, row, task, join):.2f}" for w in WORKERS)
        + " |"
        for name in names
    ]
    sizes = []
    for rows in SIZES:
        cells = []
        for workers in WORKERS:
            shards = shards_of(rows)
            work = np.full(shards, row * rows / shards)
            cells.append(duration(READS * round_seconds(work, np.ones(workers), task, join)))
        read = READS * rows * 8 * p / 1e12
        sent = READS * shards_of(rows) * 10 * p * p * 8 / 1e9
        sizes.append(f"| {rows:.0e} | {read:.3g} TB | {sent:.3g} GB | {' | '.join(cells)} |")
    head = " | ".join(f"{w:,} worker" + "s" * (w > 1) for w in WORKERS)
    text = f"""# How fits on a cluster scale

`make bench-scale` reruns it; {os.cpu_count()} cores, with a load of {load:.1f} by others before it.

Measured here: {1e9 * row:.0f} ns a row and read of {COLUMNS} columns by one thread, from Parquet;
{1e3 * task:.2f} ms a task; {1e6 * join:.0f} us for the client to add a shard's total.

Simulated efficiency of a round, with {per_worker:,} rows a worker (weak scaling; ten draws):

| | {head} |
|---|{"---|" * len(WORKERS)}
{chr(10).join(weak)}

Extrapolated, {READS} reads, even shards and workers: bytes read, bytes sent at most (10 p^2 doubles
a shard and round), and time.

| rows | read | sent | {head} |
|---|---|---|{"---|" * len(WORKERS)}
{chr(10).join(sizes)}
"""
    print(text)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()

"""Fits by one and two workers of a Dask cluster, beside a plain fit with two threads.

    python benchmarks/fits_on_dask.py             prints a page and writes fits_on_dask.md here
    python benchmarks/fits_on_dask.py --quick     a tenth of the rows, printed

Ten Parquet files of 21 columns of doubles are written to a temporary folder (1.7 GB). All run in
turns, several times over; clusters are started, and programs compiled, before. The least time of
each counts: whatever else the machine does makes them longer, never shorter.
"""

import argparse
import contextlib
import os
import pathlib
import pickle
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import masgrad as mg
from masgrad.distributed.cluster import cluster
from masgrad.distributed.tasks import Tasks

FILES, ROWS, COLUMNS, GROUP = 10, 1_000_000, 20, 100_000
RUNS = ("two threads", "one worker", "two workers", "one worker, half the rows")
PAGE = pathlib.Path(__file__).with_name("fits_on_dask.md")
FORMULA = "y ~ " + " + ".join(f"x{k}" for k in range(COLUMNS))


def write(folder: pathlib.Path, rows: int, seed: int) -> list[pathlib.Path]:
    """Files of a logistic regression."""
    rng = np.random.default_rng(seed)
    theta, paths = rng.normal(size=COLUMNS) / 4, []
    for number in range(FILES):
        X = rng.normal(size=(COLUMNS, rows))
        y = (rng.random(rows) < 1 / (1 + np.exp(-theta @ X))).astype(float)
        columns = {f"x{k}": column for k, column in enumerate(X)} | {"y": y}
        paths.append(folder / f"{number}.parquet")
        parquet.write_table(
            pa.table(columns),
            paths[-1],
            row_group_size=GROUP,
            compression="none",
            use_dictionary=False,
        )
    return paths


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def fit(paths: list[pathlib.Path], **keywords: Any) -> Any:
    return mg.glm(FORMULA, paths, "binomial", progress=False, **keywords)


def distance(r: Any, other: Any) -> float:
    """The largest one of two estimates, in standard errors."""
    return float(np.abs((r.params - other.params) / other.bse).max())


def largest_memory() -> int:
    """The most memory that a process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def most_memory(client: Any) -> int:
    return max(client.run(largest_memory).values())


@contextlib.contextmanager
def counted() -> Iterator[list[list[int]]]:
    """Inside, the bytes that each shard is told and sends, round by round."""
    rounds, before = [], Tasks.each

    def counting(self: Tasks, call: Any, payload: bytes, parts: Any, each: Any) -> Iterator[Any]:
        rounds.append([])
        for done in before(self, call, payload, parts, each):
            rounds[-1].append(len(payload) + len(pickle.dumps(done)))
            yield done

    Tasks.each = counting
    try:
        yield rounds
    finally:
        Tasks.each = before


def measure(rows: int, seeds: list[int], turns: int) -> str:
    """The page."""
    lines, ratios, weak, apart, rounds = [], [], [], [], []
    load = os.getloadavg()[0]
    with cluster(workers=1) as one, cluster(workers=2) as two:
        bare = most_memory(two)
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                paths = write(pathlib.Path(folder), rows, seed)
                calls = (
                    partial(fit, paths, threads=2),
                    partial(fit, paths, engine="dask", client=one),
                    partial(fit, paths, engine="dask", client=two),
                    partial(fit, paths[: FILES // 2], engine="dask", client=one),
                )
                runs = dict(zip(RUNS, calls, strict=True))
                first = {name: run() for name, run in runs.items()}
                found = [{name: timed(run) for name, run in runs.items()} for _ in range(turns)]
                least = {name: min(turn[name] for turn in found) for name in runs}
                optimum = fit(paths, engine="dask", client=two, passes="converge")
                ends = first["two threads"], first["two workers"]
                apart.append([distance(end, optimum) for end in ends])
                ratios.append(least["one worker"] / least["two workers"])
                weak.append(least["one worker, half the rows"] / least["two workers"])
                cells = " | ".join(f"{least[name]:.2f}" for name in runs)
                plain = least["two threads"] / least["two workers"]
                lines.append(f"| {seed} | {cells} | {ratios[-1]:.2f} | {plain:.2f} |")
                print(lines[-1], flush=True)
                with counted() as rounds:
                    fit(paths, engine="dask", client=two)
        grown = most_memory(two) - bare
        overhead = min(timed(lambda: two.submit(os.getpid, pure=False).result()) for _ in range(50))
    here, there = np.max(apart, 0)
    p, sent = COLUMNS + 1, [max(each) for each in rounds]
    bar = "met" if min(ratios) >= 1.5 else "not met"
    shard = 11 * GROUP * p * 8 / 2**20
    return f"""# Fits on a Dask cluster

`make bench-fits-on-dask` reruns it: {FILES * rows:,} rows of {COLUMNS} columns and an intercept,
a logistic regression in {FILES} Parquet files, by one and two workers of one thread each, and by a
plain `mg.glm` with two threads in the same turns. {os.cpu_count()} cores, with a load of {load:.1f}
by others before it; the least seconds of {turns} turns. Clusters run already: starting one takes
some two seconds.

| seed | {" | ".join(RUNS)} | one worker / two | two threads / two workers |
|---|{"---|" * len(RUNS)}---|---|
{chr(10).join(lines)}

- **Bar: two workers at least 1.5 times as fast as one:** {min(ratios):.2f} at least, {bar}.
- Weak scaling, from one worker with half of the rows to two with all of them: {min(weak):.2f} to
  {max(weak):.2f}.
- From the optimum of these rows (`passes="converge"`) two workers are {there:.1e} standard errors
  away at most, and two threads {here:.1e}: one process begins with MasGrad's read of a part of the
  rows, workers with gradients of all of them.
- Rounds of a fit: {len(sent)}; a shard is told and sends {max(sent):,} bytes at most, which are
  {max(sent) / 8 / p**2:.1f} p^2 doubles (bar: 10).
- A worker grew by {grown / 2**20:.0f} MB over what it takes when idle; a shard has {shard:.0f} MB.
- One task there and back takes {1e3 * overhead:.1f} ms.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    text = measure(ROWS // 10 if given.quick else ROWS, given.seeds, given.turns)
    print(text)
    if not given.quick:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()

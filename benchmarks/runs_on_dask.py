"""Chains on one and two workers of a Dask cluster, beside a plain run in this process.

    python benchmarks/runs_on_dask.py      prints a table and writes it to runs_on_dask.md here

The three run in turns, several times over; clusters are started, and programs compiled, before. The
least time of each counts: whatever else the machine does makes them longer, never shorter.
"""

import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import masgrad as mg
from masgrad.distributed.cluster import cluster

TIMES = 4
PAGE = pathlib.Path(__file__).with_name("runs_on_dask.md")


def logistic(rows: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a logistic regression."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, p))
    return X, (rng.random(rows) < 1 / (1 + np.exp(-X.sum(1) / np.sqrt(p)))).astype(float)


PROBLEMS = {
    "SGD, 100,000 x 20 rows, n = 100": (mg.sgd(0.1), 100_000, 20, 100, 3_000),
    "MasGrad, 2,000 x 4 rows, n = 25": (mg.masgrad(0.2), 2_000, 4, 25, 3_000),
    "MasGrad, 1,000 x 20 rows, n = 25": (mg.masgrad(0.2), 1_000, 20, 25, 200),
}
"""Kernel, rows, p, batch size and steps."""


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measured(name: str, one: object, two: object) -> str:
    """A row of the table."""
    kernel, rows, p, batch, steps = PROBLEMS[name]
    call = (kernel, mg.Logistic(), logistic(rows, p), np.zeros(p), steps, batch, 256)
    keywords = {"thin": steps // 20, "progress": False}
    runs = {
        "here": lambda: mg.run(*call, **keywords),
        "one": lambda: mg.run(*call, **keywords, engine="dask", client=one),
        "two": lambda: mg.run(*call, **keywords, engine="dask", client=two),
    }
    paths: list[Any] = [run() for run in runs.values()]
    for path in paths[1:]:
        np.testing.assert_allclose(path.theta, paths[0].theta, rtol=1e-10, atol=1e-10)
    turns = [{where: timed(run) for where, run in runs.items()} for _ in range(TIMES)]
    here, first, both = (min(turn[where] for turn in turns) for where in runs)
    seconds = f"{here:.2f} | {first:.2f} | {both:.2f}"
    return f"| {name} | {seconds} | {first / both:.2f} | {here / both:.2f} |"


def started() -> float:
    """The seconds of a run of one step on a cluster that is started for it."""
    call = (mg.sgd(0.1), mg.Logistic(), logistic(100, 2), np.zeros(2), 1)
    mg.run(*call)
    return min(timed(lambda: mg.run(*call, engine="dask")) for _ in range(3))


def round_milliseconds(client: object) -> float:
    """Milliseconds of a run of one step on a cluster that has compiled it: one round of tasks."""
    call = (mg.sgd(0.1), mg.Logistic(), logistic(100, 2), np.zeros(2), 1)
    run = lambda: mg.run(*call, engine="dask", client=client)  # noqa: E731
    run()
    here = min(timed(lambda: mg.run(*call)) for _ in range(10))
    return 1e3 * (min(timed(run) for _ in range(10)) - here)


def main() -> None:
    load = os.getloadavg()[0]
    with cluster(workers=1) as one, cluster(workers=2) as two:
        lines = [measured(name, one, two) for name in PROBLEMS]
        overhead = round_milliseconds(two)
    text = f"""# Chains on a Dask cluster

`python benchmarks/runs_on_dask.py` on {os.cpu_count()} cores, with a load of {load:.1f} by others
before it. 256 chains, which are four groups; the least seconds of {TIMES} turns. Paths agree to
1e-10.

| run | here, s | one worker, s | two workers, s | one / two workers | here / two workers |
|---|---|---|---|---|---|
{chr(10).join(lines)}

"Here" is `mg.run` without a cluster, in threads of this process: as many as cores, except for the
last line, whose steps call LAPACK (p > 5), which a process runs for one group at a time.

A run of one step on a cluster that is open takes {overhead:.0f} ms more than here: rows are sent, a
task runs, rows are dropped. On a cluster that is started for it, it takes {started():.1f} s.
"""
    print(text)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()

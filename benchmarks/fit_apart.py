"""Measurements in a process of their own: peak memory, streams, one thread, the first fit.

    python benchmarks/fit_apart.py parquet PATH PASSES
    python benchmarks/fit_apart.py stream ROWS SEED
    python benchmarks/fit_apart.py single PROBLEM ROWS SEED
    python benchmarks/fit_apart.py first

Each prints one line of JSON. `apart` starts one of them.
"""

import json
import os
import subprocess
import sys

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
"""The numbers of threads of OpenMP, BLAS, and masgrad with XLA."""


def apart(*what: object, single_thread: bool = False) -> dict[str, float]:
    """Run this file for one measurement."""
    command = [sys.executable, __file__, *map(str, what)]
    environment = os.environ | dict.fromkeys(THREADS, "1") if single_thread else os.environ
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def parquet(path: str, passes: str) -> dict[str, float]:
    import masgrad as mg
    from fit_problems import parquet_formula
    from fit_timing import peak_memory, seconds

    reads = int(passes) if passes.isdecimal() else passes
    took, _ = seconds(lambda: mg.glm(parquet_formula(), path, family="binomial", passes=reads))
    return {"seconds": took, "gigabytes": peak_memory()}


def stream(rows: str, seed: str) -> dict[str, float]:
    import masgrad as mg
    from fit_problems import simulated_stream
    from fit_timing import peak_memory, seconds

    data = simulated_stream(int(rows), int(seed))
    took, _ = seconds(lambda: mg.fit(mg.Logistic(), data, passes=2))
    return {"seconds": took, "gigabytes": peak_memory()}


def single(name: str, rows: str, seed: str) -> dict[str, float]:
    """Seconds by program, on one core; libraries that start more threads share it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    from fit_peers import FIT, GLUM, GRAM, masgrad_arrays, programs_of
    from fit_problems import Arrays, draw
    from fit_timing import in_turn

    data = draw(name, int(rows), int(seed))
    assert isinstance(data, Arrays)
    programs = programs_of(data)
    chosen = {GRAM: programs[GRAM], FIT: lambda: masgrad_arrays(data, threads=1)}
    return in_turn(chosen | {GLUM: programs[GLUM]})[0]


def first() -> dict[str, float]:
    """The first fit of a process, imports apart: nothing is compiled."""
    import numpy as np

    import masgrad as mg
    from fit_timing import seconds

    fit, model = mg.fit, mg.Poisson()
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 5)), rng.poisson(1, 1000) * 1.0
    return {"seconds": seconds(lambda: fit(model, (X, y)))[0]}


if __name__ == "__main__":
    kinds = {"parquet": parquet, "stream": stream, "single": single, "first": first}
    print(json.dumps(kinds[sys.argv[1]](*sys.argv[2:])))

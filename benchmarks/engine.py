"""The engine against plain NumPy and against the products it cannot avoid.

    python benchmarks/engine.py            prints a table and writes it to benchmarks/engine.md

Each ratio compares two programs measured in turn in one process, the median of several rounds.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

import masgrad as mg

LAGS = "lags"
THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"
ONE_THREAD = dict.fromkeys(THREADS, "1")


def logistic(rng, N, p):
    X = rng.normal(size=(N, p))
    w = rng.uniform(1, 2, p) * 2 / np.sqrt(p)
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ w))).astype(float)


def plain_numpy(data, steps=100, chains=100, n=25, eta=0.2, seed=0):
    """MasGrad as one would write it in NumPy: vectorised over chains, gradients as (K, N, p)."""
    X, y = data
    N, p = X.shape
    rng = np.random.default_rng(seed)
    theta = np.zeros((chains, p))
    path = [theta]
    for _ in range(steps):
        residual = 1 / (1 + np.exp(-theta @ X.T)) - y
        G = residual[:, :, None] * X
        centred = G - G.mean(1, keepdims=True)
        cov = centred.transpose(0, 2, 1) @ centred / (N - 1)
        index = rng.integers(0, N, (chains, n))
        g = np.take_along_axis(G, index[:, :, None], 1).mean(1)
        values, Q = np.linalg.eigh(cov)
        along = np.einsum("kij,ki->kj", Q, g) / np.sqrt(values)
        theta = theta - eta * np.einsum("kij,kj->ki", Q, along)
        path.append(theta)
    return np.stack(path, 1)


def tuned_numpy(data, steps=100, chains=100, n=25, eta=0.2, seed=0):
    """The same with the second moment as one product with the rows' outer products."""
    X, y = data
    N, p = X.shape
    XX = (X[:, :, None] * X[:, None]).reshape(N, -1)
    rng = np.random.default_rng(seed)
    theta = np.zeros((chains, p))
    path = [theta]
    for _ in range(steps):
        residual = 1 / (1 + np.exp(-theta @ X.T)) - y
        b = residual @ X / N
        second = (residual**2 @ XX).reshape(chains, p, p)
        cov = (second - N * b[:, :, None] * b[:, None]) / (N - 1)
        index = rng.integers(0, N, (chains, n))
        g = (np.take_along_axis(residual, index, 1)[:, :, None] * X[index]).mean(1)
        values, Q = np.linalg.eigh(cov)
        along = np.einsum("kij,ki->kj", Q, g) / np.sqrt(values)
        theta = theta - eta * np.einsum("kij,kj->ki", Q, along)
        path.append(theta)
    return np.stack(path, 1)


def bare_products(X, chains, steps):
    """X theta, X' r and X' diag(r^2) X for every chain, in BLAS, and nothing else."""
    theta = np.full((X.shape[1], chains), 0.01)
    for _ in range(steps):
        eta = X @ theta
        X.T @ eta
        for _ in range(chains):
            X.T @ X


def seconds(program):
    """One run, timed right after another of its own.

    After another program's run it would pay for that one's caches and BLAS threads still spinning.
    """
    program()
    start = time.perf_counter()
    program()
    return time.perf_counter() - start


def ratio(theirs, ours, rounds=9, repeats=3):
    """Median of theirs over median of ours, in turn: its middle and range over repeats."""
    values = []
    for _ in range(repeats):
        pairs = np.array([(seconds(theirs), seconds(ours)) for _ in range(rounds)])
        values.append(np.divide(*np.median(pairs, axis=0)))
    low, middle, high = np.sort(values)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def cold_ratio(theirs, between, ours, rounds=9, repeats=3):
    """The same without warm-up: each program is timed right after another one's run."""
    values = []
    for _ in range(repeats):
        times = []
        for _ in range(rounds):
            for program in (theirs, between, ours):
                start = time.perf_counter()
                program()
                times.append(time.perf_counter() - start)
        first, _, last = np.median(np.reshape(times, (rounds, 3)), axis=0)
        values.append(first / last)
    low, middle, high = np.sort(values)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def paper_setting(rng):
    data = logistic(rng, 500, 4)
    kernel, model = mg.masgrad(0.2), mg.Logistic()

    def masgrad():
        return mg.run(kernel, model, data, np.zeros(4), steps=100, batch_size=25, chains=100)

    start = time.perf_counter()
    masgrad()
    first = time.perf_counter() - start
    setting = "logistic N=500 p=4 n=25, 100 chains x 100 steps"
    yield f"{setting}: plain NumPy / masgrad", ratio(lambda: plain_numpy(data), masgrad), "6, aim 8"
    yield (
        "the same, NumPy with one product for all covariances",
        ratio(lambda: tuned_numpy(data), masgrad),
        "",
    )
    cold = cold_ratio(lambda: plain_numpy(data), lambda: tuned_numpy(data), masgrad)
    yield "the first row again, each program timed right after another one's run", cold, "6"
    yield "the same, first call with compilation", f"{first:.1f} s", "4 s"


def large_setting(rng, steps=20):
    data = logistic(rng, 10_000, 50)
    kernel, model = mg.masgrad(0.05), mg.Logistic()

    def masgrad(steps):
        return mg.run(kernel, model, data, np.zeros(50), steps=steps, chains=20)

    masgrad(1)
    ours = np.median([seconds(lambda: masgrad(steps)) - seconds(lambda: masgrad(1)) for _ in "abc"])
    bare = np.median([seconds(lambda: bare_products(data[0], 20, steps - 1)) for _ in "abc"])
    what = "logistic N=10,000 p=50, 20 chains: a step / its bare products in BLAS"
    yield what, f"{ours / bare:.2f}", "3"


def scaling(rng):
    data = logistic(rng, 500, 4)
    kernel, model = mg.masgrad(0.2), mg.Logistic()

    def masgrad(steps, chains):
        return lambda: mg.run(kernel, model, data, np.zeros(4), steps=steps, chains=chains)

    yield "4 times the steps / once", ratio(masgrad(1000, 100), masgrad(250, 100), 3), "linear: 4"
    yield "4 times the chains / once", ratio(masgrad(250, 400), masgrad(250, 100), 3), "linear: 4"


def processor_time(kernel, data, n, steps=400, chains=64):
    """Microseconds of processor time for a step of a chain; setting up a run is subtracted."""

    def spent(steps):
        start = time.process_time()
        mg.run(kernel, mg.Logistic(), data, np.zeros(20), steps, n, chains, thin=steps)
        return time.process_time() - start

    spent(steps)
    rounds = [spent(steps) - spent(1) for _ in range(5)]
    return 1e6 * np.median(rounds) / (steps - 1) / chains


def print_lags():
    """A JSON line for each n: SGD, V from past batches with a root at every step, every tenth."""
    data = logistic(np.random.default_rng(0), 2000, 20)
    kernels = mg.sgd(0.1), mg.masgrad(0.1, "running"), mg.masgrad(0.1, "running", root_every=10)
    for n in (25, 50):
        print(json.dumps([n, *(processor_time(kernel, data, n) for kernel in kernels)]))


def lagged_roots(rng):
    """`print_lags` in a process with one thread: waiting threads would count as processor time."""
    del rng
    command = [sys.executable, __file__, LAGS]
    told = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, check=True)
    for line in told.stdout.splitlines():
        n, sgd, running, lagged = json.loads(line)
        what = f'`masgrad(covariance="running")`, logistic p=20 n={n}: a root at every step'
        measured = f"{running / lagged:.1f} ({running:.0f} and {lagged:.1f} us; SGD {sgd:.1f})"
        yield f"{what} / every 10 steps, processor time of a chain's step", measured, "4"


def main():
    rng = np.random.default_rng(0)
    lines = ["# Engine benchmark", "", "Last run of `make bench`, on 2 cores: ratios of times "]
    lines[-1] += "measured in turn, the middle of three repeats with their range."
    lines += ["", "| what | measured | bar |", "|---|---|---|"]
    for part in (paper_setting, large_setting, scaling, lagged_roots):
        for what, measured, bar in part(rng):
            lines.append(f"| {what} | {measured} | {bar} |")
            print(f"{what}: {measured}   bar: {bar}", flush=True)
    pathlib.Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    print_lags() if sys.argv[1:] == [LAGS] else main()

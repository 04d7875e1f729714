"""The network study, fifty experiments in one run, against a loop over chains.

    python benchmarks/experiments.py       prints a table and writes it to benchmarks/experiments.md

50 experiments x 100 chains x 100 steps of MasGrad with V from all 300 rows. The loop takes one
chain after the other in NumPy, with the gradients of all rows as matrices; it is timed on a few
chains, in the same run, and scaled up.
"""

import pathlib
import time
import warnings

import numpy as np

import masgrad as mg
from masgrad.paper.experiments.network import BATCH, ETA, STEPS
from masgrad.paper.experiments.network_population import EXPERIMENTS, network_rows

HEADER = f"""# Experiments benchmark

Last run of `make bench-experiments`, on 2 cores: the network study's MasGrad, {EXPERIMENTS} starts
x 100 chains x {STEPS} steps, when compiled and with compiling.

| inputs x hidden | loop / masgrad | masgrad | with compiling |
|---|---|---|---|
"""
CHAINS, SOME = 100, 10


def gradients(theta, X, y, inputs, hidden):
    """Of every row, (N, p), by hand."""
    W1, W2 = theta[: hidden * inputs].reshape(hidden, inputs), theta[hidden * inputs :]
    units = np.maximum(1 + X @ W1.T, 0)
    out = 1 + units @ W2
    slope = np.where(out > 0, np.maximum(out, 0) - y, 0.0)
    first = (slope[:, None] * W2 * (units > 0))[:, :, None] * X[:, None]
    return np.concatenate([first.reshape(len(X), -1), slope[:, None] * units], axis=1)


def loop(landscape, starts, rng):
    """MasGrad, one chain after the other."""
    (X, y), model = landscape.rows, landscape.model
    for theta in starts:
        for _ in range(STEPS):
            G = gradients(theta, X, y, model.inputs, model.hidden)
            values, vectors = np.linalg.eigh(np.cov(G.T))
            floor = max(1e-12 * values[-1], 1e-300)
            b = G[rng.integers(len(X), size=BATCH)].mean(0)
            theta = theta - ETA * vectors @ (vectors.T @ b / np.sqrt(np.maximum(values, floor)))


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(inputs, hidden):
    landscape = network_rows(inputs, hidden)
    theta = landscape.starts[0]
    expected = landscape.model.gradients(theta, landscape.rows)
    np.testing.assert_allclose(gradients(theta, *landscape.rows, inputs, hidden), expected)
    starts = np.repeat(landscape.starts, CHAINS, axis=0)
    study = lambda: mg.run(  # noqa: E731
        mg.masgrad(ETA), landscape.model, landscape.rows, starts, STEPS, BATCH, len(starts)
    )
    first, ours = seconds(study), seconds(study)
    rng = np.random.default_rng(0)
    plain = seconds(lambda: loop(landscape, starts[:: len(starts) // SOME], rng))
    plain *= len(starts) / SOME
    return f"| {inputs} x {hidden} | {plain / ours:.0f} | {ours:.1f} s | {first:.1f} s |"


def main():
    warnings.simplefilter("ignore", mg.errors.SingularWarning)  # units that are off at all rows
    text = HEADER
    print(HEADER, end="")
    for size in ((2, 2), (3, 2), (3, 3)):
        line = measure(*size)
        print(line, flush=True)
        text += line + "\n"
    pathlib.Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()

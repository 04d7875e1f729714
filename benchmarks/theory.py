"""The search over pairs of points against factoring every pair.

    python benchmarks/theory.py            prints a table and writes it to benchmarks/theory.md

alpha and gamma over all pairs of m points, with Sigma and H at the points already known. The plain
loop factors V(w) and takes eigenvalues for each pair; it is timed on some of the pairs, in the same
run, and scaled up.
"""

import pathlib
import time

import numpy as np

import masgrad as mg
from masgrad.theory.curvature.conditioning import from_matrices

HEADER = """# Theory benchmark

Last run of `make bench-theory`, on 2 cores: condition numbers over all pairs of m points, logistic
regression, a ball of radius 1. Medians of 3.

| p | m | plain loop / masgrad | masgrad, pairs | with the moments (5,000 rows) |
|---|---|---|---|---|
"""


def seconds(work, repeats=3):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def plain_loop(covs, hessians):
    low, high = np.inf, -np.inf
    for S in covs:
        for H in hessians:
            values, vectors = np.linalg.eigh(S)
            half = (vectors * values**-0.25) @ vectors.T
            ends = np.linalg.eigvalsh(half @ H @ half)
            low, high = min(low, ends[0]), max(high, ends[-1])
    return low, high


def measure(p, m, some=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, p)) * np.logspace(0, -1, p)
    y = (rng.random(5000) < 1 / (1 + np.exp(-X.sum(1) / np.sqrt(p)))).astype(float)
    points = mg.theory.ball(np.full(p, p**-0.5), 1.0, m)
    found = [mg.moments(mg.Logistic(), t, (X, y)) for t in points]
    covs, hessians = (np.stack([getattr(f, k) for f in found]) for k in ("cov", "hessian"))
    ours = seconds(lambda: from_matrices(covs, hessians, points, points))
    loop = seconds(lambda: plain_loop(covs[:some], hessians[:some])) * (m / some) ** 2
    c = from_matrices(covs[:some], hessians[:some], points[:some], points[:some])
    np.testing.assert_allclose((c.alpha, c.gamma), plain_loop(covs[:some], hessians[:some]))
    whole = seconds(lambda: mg.theory.conditioning(mg.Logistic(), (X, y), points))
    return f"| {p} | {m} | {loop / ours:.0f} | {ours:.2f} s | {whole:.2f} s |"


if __name__ == "__main__":
    rows = [measure(p, m) for p, m in ((4, 300), (20, 300), (50, 300), (20, 1000))]
    text = HEADER + "\n".join(rows) + "\n"
    print(text)
    pathlib.Path(__file__).with_suffix(".md").write_text(text)

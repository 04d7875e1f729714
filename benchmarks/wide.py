"""Wide problems: `mg.fit` against glum, both with robust standard errors, on one core.

    python benchmarks/wide.py                       prints a table
    python benchmarks/wide.py --seed 11 --draws 3 --page benchmarks/wide.md
    python benchmarks/wide.py --only 2000           only problems with so many columns

Both programs run in turn in one process, with one BLAS thread each. Ratios are of processor times,
since other programs may share the machine, and of wall times beside them. The peak memory is that
of a process of its own, with its data and imports.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"), "1"))

import argparse
import json
import pathlib
import subprocess
import sys
import time

import numpy as np
from glum import GeneralizedLinearRegressor

import masgrad as mg

PROBLEMS = (
    ("binomial", 20_000, 500),
    ("binomial", 12_000, 1000),
    ("poisson", 12_000, 1000),
    ("gaussian", 12_000, 1000),
    ("binomial", 20_000, 2000),
)
MODELS = {"binomial": mg.Logistic, "poisson": mg.Poisson, "gaussian": mg.Linear}
MUST, AIM = 3.0, 1.0


def draw(family, N, p, seed):
    """Correlated columns and an intercept; linear predictors have a standard deviation of 1."""
    rng = np.random.default_rng([seed, N, p])
    X = rng.standard_normal((N, p)) + 0.5 * rng.standard_normal((N, 1))
    X[:, 0] = 1.0
    theta = rng.standard_normal(p)
    t = X @ theta
    t = 0.2 + (t - t.mean()) / t.std()
    if family == "binomial":
        return X, (rng.random(N) < 1 / (1 + np.exp(-t))).astype(float)
    if family == "poisson":
        return X, rng.poisson(np.exp(t / 2)).astype(float)
    return X, t + rng.standard_normal(N)


def with_masgrad(family, X, y):
    r = mg.fit(MODELS[family](), (X, y))
    return r.params, r.bse


def with_glum(family, X, y):
    name = {"gaussian": "normal"}.get(family, family)
    model = GeneralizedLinearRegressor(family=name, alpha=0, fit_intercept=False).fit(X, y)
    return model.coef_, np.sqrt(np.diag(model.covariance_matrix(X, y, robust=True)))


PROGRAMS = {"masgrad": with_masgrad, "glum": with_glum}


def seconds(program, *data):
    began = time.process_time(), time.perf_counter()
    out = program(*data)
    return time.process_time() - began[0], time.perf_counter() - began[1], out


def compared(family, N, p, seed):
    """Ratios of processor and wall time, masgrad's seconds, and the distance in standard errors."""
    X, y = draw(family, N, p, seed)
    took = {name: seconds(program, family, X, y) for name, program in PROGRAMS.items()}
    ours, theirs = took["masgrad"], took["glum"]
    away = np.abs((ours[2][0] - theirs[2][0]) / ours[2][1]).max()
    return ours[0] / theirs[0], ours[1] / theirs[1], ours[0], float(away)


def memory_of(name, family, N, p, seed):
    """Megabytes of a process that draws the data and fits them."""
    command = [sys.executable, __file__, "memory", name, family, str(N), str(p), str(seed)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(name, family, N, p, seed):
    PROGRAMS[name](family, *draw(family, int(N), int(p), int(seed)))
    print(json.dumps(peak_memory()))


def peak_memory():
    """Megabytes; getrusage would count the process that started this one."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def rows_of(problems, seeds):
    for family, N, p in problems:
        peaks = [memory_of(name, family, N, p, seeds[0]) for name in PROGRAMS]
        for seed in seeds:
            cpu, wall, took, away = compared(family, N, p, seed)
            bar = MUST if p >= 2000 else AIM
            met = "yes" if cpu <= AIM else f"under {MUST:g}" if cpu < bar else "NO"
            yield (
                f"{family}, {N:,} x {p:,}",
                f"{seed}",
                f"{took:.1f}",
                f"{cpu:.2f}",
                f"{wall:.2f}",
                f"{away:.0e}",
                f"{peaks[0]:.0f} / {peaks[1]:.0f}",
                met,
            )


HEADER = (
    "problem",
    "seed",
    "processor seconds",
    "x glum (processor)",
    "x glum (wall)",
    "apart (s.e.)",
    "peak MB, masgrad / glum",
    "within 1.0 x",
)


def line(cells):
    return "| " + " | ".join(cells) + " |"


def page(rows):
    lines = "\n".join([line(HEADER), "|" + "---|" * len(HEADER), *map(line, rows)])
    return f"""# Wide problems, side by side

`make bench-wide` reruns it. Fits of arrays in memory with robust standard errors at the default
`memory`, against glum with its robust covariance; one core and one BLAS thread each, in turn.

{lines}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", type=int, help="number of columns")
    parser.add_argument("--page", type=pathlib.Path)
    given = parser.parse_args()
    problems = [problem for problem in PROBLEMS if given.only in (None, problem[2])]
    rows = []
    print(line(HEADER), flush=True)
    for row in rows_of(problems, range(given.seed, given.seed + given.draws)):
        rows.append(row)
        print(line(row), flush=True)
    if given.page is not None:
        given.page.write_text(page(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        measure_memory(*sys.argv[2:])
    else:
        main()

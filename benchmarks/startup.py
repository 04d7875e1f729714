"""How long a new process takes to its first fit, beside the imports of other libraries.

    python benchmarks/startup.py           prints a table and writes it to benchmarks/startup.md

Every line is the best of several processes, after one that leaves bytecode behind, as an installed
package has it.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

TIMES = 5
PAGE = pathlib.Path(__file__).with_name("startup.md")

CLOCKED = """
import time
{before}
began = time.perf_counter(), time.process_time()
{what}
print("seconds", time.perf_counter() - began[0], time.process_time() - began[1])
"""

ROWS = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(100_000, 10))
y = (rng.random(100_000) < 1 / (1 + np.exp(-X @ np.linspace(-0.5, 0.5, 10)))).astype(float)
"""

FIT = "import masgrad as mg\nr = mg.fit(mg.Logistic(), (X, y))"
SECOND = "mg.fit(mg.Logistic(), (X, y))"

PARTS = {
    "import masgrad, first fit of 100,000 x 10 rows": (ROWS, FIT),
    "second fit": (f"{ROWS}\n{FIT}", SECOND),
    "import numpy": ("", "import numpy"),
    "import scipy.linalg, scipy.special (after numpy)": (
        "import numpy, numpy.random",
        "import scipy.linalg, scipy.special",
    ),
    "import jax, equinox (after numpy)": ("import numpy, numpy.random", "import jax, equinox"),
    "import statsmodels.api": ("", "import statsmodels.api"),
}
COMMAND = "masgrad fit small.csv --formula 'y ~ a + C(g)', the whole process"


def fastest(runs: list[tuple[float, float]]) -> tuple[float, float]:
    """The least wall-clock time and the least processor time."""
    wall, processor = zip(*runs, strict=True)
    return min(wall), min(processor)


def inside(code: str, env: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and processor time that a part of a process reports."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    wall, processor = done.stdout.rsplit("seconds", 1)[1].split()
    return float(wall), float(processor)


def whole(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and processor time of a process from its start to its end."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, env=env, capture_output=True, check=True)
    wall, after = time.perf_counter() - began, os.times()
    user = after.children_user - before.children_user
    return wall, user + after.children_system - before.children_system


def small_csv(folder: str) -> str:
    """500 rows of a number and a category."""
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal()},{rng.normal()},{'uvw'[rng.integers(3)]}" for _ in range(500)]
    path = pathlib.Path(folder, "small.csv")
    path.write_text("\n".join(["y,a,g", *lines]) + "\n")
    return str(path)


def table() -> str:
    rows = ["| | wall clock, s | processor, s |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = folder
        command = [sys.executable, "-m", "masgrad", "fit", small_csv(folder)]
        command += ["--formula", "y ~ a + C(g)"]
        codes = {name: CLOCKED.format(before=b, what=w) for name, (b, w) in PARTS.items()}
        measures = {name: lambda c=code: inside(c, env) for name, code in codes.items()}
        measures = {COMMAND: lambda: whole(command, env)} | measures
        for name, measure in measures.items():
            wall, processor = fastest([measure() for _ in range(TIMES + 1)][1:])
            rows.append(f"| {name} | {wall:.2f} | {processor:.2f} |")
    return "\n".join(rows)


def main() -> None:
    text = f"""# Start-up

How long a new process takes to its first fit; the best of {TIMES} processes on {os.cpu_count()}
cores. A fit of a linear predictor runs in NumPy and SciPy's LAPACK: JAX, pandas, pyarrow and the
others are imported by what needs them (`tests/test_startup.py` lists them).

{table()}
"""
    print(text)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()

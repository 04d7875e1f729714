"""Two-way fixed effects from a Parquet file: time in scans, and peak memory.

    python benchmarks/panels_files.py memory PATH COVARIANCE     one line of JSON

A scan decodes all columns to NumPy, batch by batch. The solve is what a fit does between its reads:
it is timed inside the fit, and the bar is 3 scans plus the solve.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import masgrad as mg
from fit_files import scan, scan_to_matrix, tuned
from fit_report import Bar, Section, spread, table
from fit_timing import peak_memory
from masgrad.fitting.effects.fits import newton
from panels_fits import COVARIANCES
from panels_problems import COLUMNS, FIRMS, FORMULA, WORKERS, write_panel
from panels_timing import ROUNDS, Times, clocked, in_rounds

SCANS, GIGABYTE = 3.0, 1.0
BYTES_A_PAIR = 16


@contextmanager
def timed_solves() -> Iterator[list[Times]]:
    """The times of every elimination of effects meanwhile."""
    took: list[Times] = []
    eliminate = newton.eliminate

    def timed(*args: Any, **options: Any) -> Any:
        times, out = clocked(lambda: eliminate(*args, **options))
        took.append(times)
        return out

    newton.eliminate = timed
    try:
        yield took
    finally:
        newton.eliminate = eliminate


class InScans(NamedTuple):
    """A fit and the scans beside it: seconds, and the fit less its solve in scans."""

    scan: float
    fit: float
    solve: float
    scans: float
    scans_to_matrix: float
    processor_scans: float


def in_scans(path: str, covariance: str) -> InScans:
    """The best of some rounds of scans and fits in turn."""
    fit = solve = Times()
    once = matrix = Times()
    scans = {
        "serial": lambda: scan(path, **tuned(), use_threads=False),
        "threads": lambda: scan(path, **tuned()),
        "matrix": lambda: scan_to_matrix(path, **tuned()),
    }
    for _ in range(ROUNDS):
        took, _ = in_rounds(scans, 1)
        once = Times(*map(min, once, took["serial"], took["threads"]))
        matrix = min(matrix, took["matrix"])
        with timed_solves() as solves:
            times, _ = clocked(lambda: mg.glm(FORMULA, path, **COVARIANCES[covariance][0]))
        if times < fit:
            fit, solve = times, Times(*map(sum, zip(*solves, strict=True)))
    rest = Times(fit.wall - solve.wall, fit.processor - solve.processor)
    own, processor = rest.over(once)
    return InScans(once.wall, fit.wall, solve.wall, own, rest.wall / matrix.wall, processor)


def memory_of(path: str, covariance: str) -> dict[str, float]:
    """Gigabytes of a process of its own, before and at most, and the pairs of levels."""
    command = [sys.executable, __file__, "memory", path, covariance]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(path: str, covariance: str) -> None:
    """The fit of a small file imports everything first."""
    with tempfile.TemporaryDirectory() as folder:
        small = str(pathlib.Path(folder) / "small.parquet")
        write_panel(small, "easy", 100_000, 0)
        mg.glm(FORMULA, small, **COVARIANCES[covariance][0])
    before = _clear_peak()
    mg.glm(FORMULA, path, **COVARIANCES[covariance][0])
    print(json.dumps({"before": before, "peak": peak_memory()}))


def _clear_peak() -> float:
    """Gigabytes now, from which the peak is counted on."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def pairs_in(path: str) -> int:
    """Pairs of levels that meet."""
    import pyarrow.parquet as pq

    levels = pq.read_table(path, columns=["worker", "firm"])
    worker, firm = (levels.column(name).to_numpy() for name in ("worker", "firm"))
    return len(np.unique(worker * FIRMS + firm))


def section(rows: int, seeds: Sequence[int]) -> Section:
    """Times with all seeds in the hard design, with one in the easy; memory with the first."""
    cells, bars, peaks = [], [], []
    for design, own in (("easy", seeds[:1]), ("hard", seeds)):
        runs = []
        for seed in own:
            with tempfile.TemporaryDirectory() as folder:
                path = str(pathlib.Path(folder) / "rows.parquet")
                write_panel(path, design, rows, seed)
                runs.append({covariance: in_scans(path, covariance) for covariance in COVARIANCES})
                if seed == seeds[0]:
                    peaks.append(_memory_cells(design, path))
        for covariance in COVARIANCES:
            over = [run[covariance] for run in runs]
            cells.append(
                (design, covariance, *(spread(column) for column in zip(*over, strict=True)))
            )
            print("  " + ", ".join(cells[-1]), flush=True)
            name = f"Parquet, {design}, {covariance}: (fit - solve) in scans"
            bars.append(
                Bar(name, float(np.median([one.scans for one in over])), SCANS, unit="scans")
            )
    bars += [bar for _, bars_of_design in peaks for bar in bars_of_design]
    return Section(
        f"Parquet, {rows:,} x {COLUMNS} with {WORKERS:,} x {FIRMS:,} levels",
        f"""{table(TIMES_HEADER, cells)}

{table(MEMORY_HEADER, [line for lines, _ in peaks for line in lines])}

{TEXT}""",
        bars,
    )


TIMES_HEADER = (
    *("design", "errors", "one scan, s", "fit, s", "of it the solve, s"),
    *("(fit - solve) / scan", "over a scan to a matrix", "over a scan, in processor time"),
)
MEMORY_HEADER = ("design", "errors", "peak over the start, GB", "pairs of levels", "may be, GB")
TEXT = f"""A scan decodes all columns to NumPy, serially or with Arrow's threads, whichever is
quicker; the scan to a matrix also puts them side by side, as a fit needs them. iid errors take one
read of the file, the others two. The file is in the page cache. Peak memory is that of a process of
its own over what it had after a fit of a small file; it may be 1 GB plus 8 bytes x levels x p a
worker plus {BYTES_A_PAIR} bytes a pair."""


def _memory_cells(design: str, path: str) -> tuple[list[tuple[str, ...]], list[Bar]]:
    lines, bars, pairs = [], [], pairs_in(path)
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    levels = 8 * (WORKERS + FIRMS) * COLUMNS * (workers or 1)
    most = GIGABYTE + (levels + BYTES_A_PAIR * pairs) / 2**30
    for covariance in ("iid", "clustered"):
        found = memory_of(path, covariance)
        over = found["peak"] - found["before"]
        lines.append((design, covariance, f"{over:.2f}", f"{pairs:,}", f"{most:.2f}"))
        bars.append(Bar(f"Parquet, {design}, {covariance}: peak memory", over, most, unit="GB"))
    return lines, bars


if __name__ == "__main__":
    measure_memory(*sys.argv[2:])

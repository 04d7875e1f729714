"""A logistic fit from a Parquet file, in units of one scan of it, and its peak memory."""

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.dataset as ds

import masgrad as mg
from fit_apart import apart
from fit_problems import PARQUET_COLUMNS, parquet_formula, write_parquet
from fit_report import Bar, Ratio, Section, spread, table
from fit_timing import Program, in_turn

SCAN, TUNED = "pyarrow scan to NumPy columns", "pyarrow scan to NumPy columns, tuned"
MATRIX = "pyarrow scan to a NumPy matrix, tuned"
ONE_SCAN = "one scan"
ONE_READ, DEFAULT = "`mg.glm(passes=1)`", "`mg.glm`"

BARS = {ONE_READ: (1.6, 1.3), DEFAULT: (2.2, 1.8)}
GIGABYTES = (0.8, 0.5)


def scan(path: str, **options: Any) -> None:
    """One pyarrow scan of the file, every column to NumPy."""
    for batch in ds.dataset(path).scanner(**options).to_batches():
        for column in batch.columns:
            column.to_numpy()


def scan_to_matrix(path: str, **options: Any) -> None:
    """The same, with the columns of a batch put side by side, as a fit needs them."""
    for batch in ds.dataset(path).scanner(**options).to_batches():
        np.column_stack([column.to_numpy() for column in batch.columns])


def tuned() -> dict[str, Any]:
    """The scan that holds the least memory and is the quickest we found."""
    return {
        "batch_size": 1 << 16,
        "batch_readahead": 1,
        "fragment_readahead": 1,
        "fragment_scan_options": ds.ParquetFragmentScanOptions(pre_buffer=False),
    }


def programs_of(path: str) -> dict[str, Program]:
    formula = parquet_formula()
    return {
        SCAN: lambda: scan(path),
        TUNED: lambda: scan(path, **tuned()),
        MATRIX: lambda: scan_to_matrix(path, **tuned()),
        ONE_READ: lambda: mg.glm(formula, path, family="binomial", passes=1),
        DEFAULT: lambda: mg.glm(formula, path, family="binomial"),
    }


def section(rows: int, seeds: Sequence[int]) -> Section:
    """Times with all seeds; peak memory with the first, in processes of their own."""
    runs: list[dict[str, float]] = []
    peaks: dict[str, float] = {}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "rows.parquet")
            write_parquet(path, rows, seed)
            runs.append(in_turn(programs_of(path))[0])
            if not peaks:
                peaks = {k: apart("parquet", path, k)["gigabytes"] for k in ("1", "auto")}
        print(f"  parquet, seed {seed}: {runs[-1][DEFAULT] / runs[-1][MATRIX]:.2f} scans")
    in_scans = {k: [run[k] / run[MATRIX] for run in runs] for k in runs[0]}
    cells = [
        (k, f"{np.median([run[k] for run in runs]):.3g}", spread(values))
        for k, values in in_scans.items()
    ]
    text = f"""{table(("program", "seconds", "x scan to a matrix"), cells)}

Peak memory of a process of its own: {peaks["1"]:.2f} GB for one read, {peaks["auto"]:.2f} GB by
default. The file is in the page cache, so that no scan waits for a disk."""
    title = f"Parquet, {rows:,} x {PARQUET_COLUMNS} doubles, logistic with an intercept"
    return Section(title, text, bars(in_scans, peaks), ratios(runs))


def bars(in_scans: dict[str, list[float]], peaks: dict[str, float]) -> list[Bar]:
    times = [
        Bar(f"Parquet, {k}: in scans to a matrix", float(np.median(in_scans[k])), *BARS[k], "scans")
        for k in BARS
    ]
    return [*times, Bar("Parquet: peak memory", max(peaks.values()), *GIGABYTES, unit="GB")]


def ratios(runs: Sequence[dict[str, float]]) -> list[Ratio]:
    scans = [run[MATRIX] / run[DEFAULT] for run in runs]
    return [Ratio(f"logistic from Parquet, p = {PARQUET_COLUMNS}", ONE_SCAN, scans)]

"""Predictions to a file or to standard output, block by block; files are whole or not there."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from masgrad.errors import InputError
from masgrad.fitting.prediction import predicted_blocks
from masgrad.fitting.replacing import replaced
from masgrad.precision import float64
from masgrad.progress import Progress

if TYPE_CHECKING:
    from masgrad.fitting.result import Result

GROUP = 1 << 16
"""Rows that are written at a time: a row group of a Parquet file."""

SUFFIXES = (".csv", ".parquet", ".pq")


@float64
def write_predictions(
    result: "Result",
    data: Any,
    out: Path | None,
    interval: float | None = None,
    which: str = "mean",
    progress: bool | None = None,
) -> int:
    """Write the predictions for these rows, in their order, and say how many there are.

    Args:
        out: a .csv or .parquet file; standard output, as CSV, if None.
    """
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise InputError(f"{out}: a file that ends in {', '.join(SUFFIXES)} is needed")
    with Progress(None, progress, "rows") as bar:
        tables = _tables(predicted_blocks(result, data, interval, which), bar)
        if out is None:
            return _write(tables, sys.stdout.buffer, csv_out=True)
        with replaced(out) as file:
            return _write(tables, file, csv_out=out.suffix.lower() == ".csv")


def _tables(blocks: Iterator[dict[str, np.ndarray]], bar: Progress) -> Iterator[pa.Table]:
    """Blocks joined to groups of rows."""
    held, rows, done = [], 0, 0
    for block in blocks:
        held.append(pa.table(block))
        rows += len(held[-1])
        done += len(held[-1])
        bar.update(done)
        if rows >= GROUP:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if held:
        yield pa.concat_tables(held)


def _write(tables: Iterator[pa.Table], file: IO[bytes], csv_out: bool) -> int:
    first, count = next(tables), 0
    if csv_out:
        file.write((",".join(first.column_names) + "\n").encode())
        options = csv.WriteOptions(include_header=False)
        writer = csv.CSVWriter(file, first.schema, write_options=options)
    else:
        writer = parquet.ParquetWriter(file, first.schema)
    with writer:
        for table in _from(first, tables):
            writer.write_table(table)
            count += len(table)
    return count


def _from(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest

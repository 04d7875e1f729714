"""`masgrad fit`, `show` and `predict` behind the command line.

Predictions are written block by block; files are complete or not there at all, and they are there
before anything is printed. Messages go to stderr: one that cannot be written is lost, and nothing
else.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from masgrad.checkpoints.saver import check_checkpoint
from masgrad.errors import InputError, MasgradWarning, printable
from masgrad.examples import RANDHIE, RANDHIE_FORMULA
from masgrad.files import check_destination, replaced
from masgrad.fitting.api import glm, load
from masgrad.fitting.keywords import options_of
from masgrad.fitting.options import CLUSTERED
from masgrad.fitting.results.prediction import check_which
from masgrad.fitting.results.result import Result
from masgrad.fitting.results.views.markup import page
from masgrad.fitting.results.views.summary import number
from masgrad.fitting.status import Status
from masgrad.models.glm import GLM
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import L1, L2, ElasticNet
from masgrad.progress import Progress
from masgrad.stores.path import as_storage_options, located
from masgrad.types import float64

ROW_GROUP = 1 << 16
"""Rows that are written at a time: a row group of a Parquet file."""

SUFFIXES = (".csv", ".parquet", ".pq")
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".eps", ".ps", ".tif", ".tiff", ".webp")


def fit_keywords(
    family: str, link: str | None, l1: str | None, l2: float | None, **given: Any
) -> dict[str, Any]:
    """The keywords of `glm` that the options of `masgrad fit` mean; an InputError for a wrong one.

    Args:
        family: its name.
        link: its name, or None.
        l1: lam of the L1 penalty, or how it is chosen.
        l2: lam of the L2 penalty.
        given: the others, by their names in `fit`.
    """
    options = options_of("fit", given)
    check_checkpoint(options.checkpoint, options.every, options.resume)
    return {"family": GLM(family, link), "penalty": _penalty(l1, l2), **given}


def fit_files(
    data: list[str],
    formula: str | None,
    *,
    save: Path | None = None,
    level: float = 0.95,
    quiet: bool = False,
    at: Path | None = None,
    **keywords: Any,
) -> bool:
    """Fit, save the result if asked, and print it; without data, fit the bundled example.

    With `at`, sums are taken at that saved result. Returns whether the fit came to its end, rather
    than being stopped by Ctrl-C.
    """
    if save is not None:  # before the work, not after it
        check_destination(save)
    if not data:
        _tell(
            "No data given: doctor's visits in the RAND Health Insurance Experiment. Years of one "
            "person belong together: clusters='person'.",
            quiet,
        )
        data, formula = [str(RANDHIE)], formula or RANDHIE_FORMULA
        if keywords.get("cov_type") in ("robust", *CLUSTERED):
            keywords = {"clusters": "person"} | keywords
    with _plain_warnings():
        try:
            progress = False if quiet else None
            point = {} if at is None else {"at": load(at)}
            result = glm(formula or "", list(data), progress=progress, **keywords, **point)
        except KeyboardInterrupt:
            _tell("masgrad: stopped by Ctrl-C before there was an estimate; nothing is saved")
            raise
    try:
        if save is not None:
            _save(result, save, quiet)
    finally:
        _print(result, level)
    return result.status is not Status.INTERRUPTED


def _save(result: Result, path: Path, quiet: bool) -> None:
    """Save a result; one that was stopped by Ctrl-C takes no other file's place."""
    kept = result.status is Status.INTERRUPTED and path.is_file()
    if kept:
        path, old = path.with_name(f"{path.stem}.interrupted{path.suffix}"), path
        _tell(f"masgrad: {old} stays as it was, since the fit did not come to its end")
    with _plain_warnings():
        result.save(path)
    _tell(f"saved: {path}", quiet and not kept)


def merge_files(paths: list[Path], out: Path | None, level: float, repeated: str) -> None:
    """Merge saved results, save what they give if asked, and print it."""
    if len(paths) < 2:
        raise InputError("one result has nothing to be merged with; give two or more")
    if out is not None:
        check_destination(out)
    first, *others = map(load, paths)
    with _plain_warnings():
        result = first.merge(*others, repeated=repeated)
    try:
        if out is not None:
            _save(result, out, quiet=False)
    finally:
        _print(result, level)


def _print(result: Result, level: float) -> None:
    print(result.summary(1 - level))
    if result.penalized is not None:
        print(_shrunk(result))


def _penalty(l1: str | None, l2: float | None) -> Penalty | None:
    """That of --l1 and --l2; both together are an elastic net."""
    if l1 is None:
        return None if l2 is None else L2(l2)
    try:
        lam: float | str = float(l1)
    except ValueError:
        lam = l1
    if l2 is None:
        return L1(lam)
    if isinstance(lam, str):
        raise InputError(f"--l2 goes with a number for --l1, not {l1!r}")
    if not (lam >= 0 and l2 >= 0):
        raise InputError(f"--l1 {lam:g} --l2 {l2:g}: numbers >= 0 are needed")
    return ElasticNet(lam + l2, lam / (lam + l2) if lam + l2 else 1.0)


def _shrunk(result: Result) -> str:
    """The penalised coefficients that are not 0, a line each."""
    pairs = zip(result.labels, result.penalized, strict=True)  # pyright: ignore
    kept = [(printable(name), w) for name, w in pairs if w != 0]
    width = max((len(n) for n, _ in kept), default=0)
    lines = [f"  {name:<{width}}  {number(w):>11}" for name, w in kept]
    others = " (the others are 0)" if len(kept) < len(result.labels) else ""
    return "\n".join([f"With the penalty{others}:", *lines])


def show_result(path: Path, level: float, html: Path | None, plot: Path | None) -> None:
    """Print a saved result; write it as a page or a picture if asked."""
    result = load(path)
    try:
        if html is not None:
            written = page(f"{path.name}: {result.kind}", result.to_html(1 - level))
            with replaced(html) as file:
                file.write(written.encode())
            _tell(f"saved: {html}")
        if plot is not None:
            result.plot(plot, 1 - level)
            _tell(f"saved: {plot}")
    finally:
        _print(result, level)


def check_picture(path: Path | None) -> None:
    """Refuse a picture whose name has no known ending."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise InputError(f"{path}: a name that ends in {', '.join(PICTURES)} is needed")


def predict_files(
    path: Path,
    data: list[str],
    out: Path | None,
    *,
    interval: float | None,
    which: str,
    quiet: bool,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """Write the predictions of a saved result for every row of some files."""
    progress = False if quiet else None
    with _plain_warnings():
        rows = located(list(data), as_storage_options(storage_options))
        count = write_predictions(load(path), rows, out, interval, which, progress=progress)
    if out is not None:
        _tell(f"saved: {out} ({count:,} rows)", quiet)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as one line each on stderr, without the place in our code."""

    def show(message, category, *_) -> None:
        _tell(f"masgrad: {category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", MasgradWarning)
        warnings.showwarning = show
        yield


def _tell(message: str, quiet: bool = False) -> None:
    """Messages go to stderr, so that standard output is the table or the predictions alone."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError, ValueError):  # a full device, a closed file
            print(printable(message, "\n"), file=sys.stderr)


@float64
def write_predictions(
    result: Result,
    data: Any,
    out: Path | None,
    interval: float | None = None,
    which: str = "mean",
    *,
    progress: bool | None = None,
) -> int:
    """Write the predictions for these rows, in their order, and return their number.

    `out` is a .csv or .parquet file; None is standard output, as CSV.
    """
    check_predictions(out, which)
    with Progress(None, progress, "rows") as bar:
        tables = _tables(result.predicted_blocks(data, interval, which), bar)
        if out is None:
            return _write(tables, sys.stdout.buffer, csv_out=True)
        with replaced(out) as file:
            return _write(tables, file, csv_out=out.suffix.lower() == ".csv")


def check_predictions(out: Path | None, which: str) -> None:
    """Refuse a file of another kind, and what cannot be predicted."""
    check_which(which)
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise InputError(f"{out}: a file that ends in {', '.join(SUFFIXES)} is needed")


def _tables(blocks: Iterator[dict[str, np.ndarray]], bar: Progress) -> Iterator[pa.Table]:
    """Blocks joined to groups of rows."""
    held, rows, done = [], 0, 0
    for block in blocks:
        held.append(pa.table(block))
        rows += len(held[-1])
        done += len(held[-1])
        bar.update(done)
        if rows >= ROW_GROUP:
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
        from pyarrow import parquet

        writer = parquet.ParquetWriter(file, first.schema)
    with writer:
        for table in _from(first, tables):
            writer.write_table(table)
            count += len(table)
    return count


def _from(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest

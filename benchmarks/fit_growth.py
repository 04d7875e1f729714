"""Growth of time with the number of rows and of columns, as slopes of log time on log size."""

from collections.abc import Iterable, Sequence

import numpy as np

from fit_apart import apart
from fit_peers import FIT, GLUM, GRAM, programs_of
from fit_problems import logistic
from fit_report import Bar, Ratio, Section, table
from fit_timing import in_turn

COLUMNS_OF_GROWING_ROWS = 10


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The least squares slope of log time on log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def times_of(rows: int, columns: int, seed: int) -> dict[str, float]:
    """Seconds of X'X, masgrad and glum on a logistic problem of this shape."""
    programs = programs_of(logistic(np.random.default_rng(seed), rows, columns, 0.3))
    times, _ = in_turn({name: programs[name] for name in (GRAM, FIT, GLUM)})
    print(f"  {rows:,} x {columns:,}: {times[FIT]:.3g} s, glum {times[GLUM]:.3g} s", flush=True)
    return times


def growth_table(label: str, sizes: Sequence[int], measured: Sequence[dict[str, float]]) -> str:
    """Seconds by size and program; the last two lines are slopes."""
    rows: list[Iterable[str]] = [
        (f"{size:,}", *(f"{took:.3g}" for took in times.values()))
        for size, times in zip(sizes, measured, strict=True)
    ]
    columns = [[times[name] for times in measured] for name in measured[0]]
    rows.append(("slope", *(f"{slope(sizes, column):.2f}" for column in columns)))
    last = (slope(sizes[-2:], column[-2:]) for column in columns)
    rows.append(("slope of the last two", *(f"{value:.2f}" for value in last)))
    return table((label, *measured[0]), rows)


def growth_section(
    title: str,
    label: str,
    sizes: Sequence[int],
    measured: Sequence[dict[str, float]],
    shapes: Sequence[tuple[int, int]],
) -> Section:
    """The table with its slopes; every size is a comparison with glum."""
    ratios = [
        Ratio(f"logistic, {N:,} x {p:,}", GLUM, [times[GLUM] / times[FIT]])
        for (N, p), times in zip(shapes, measured, strict=True)
    ]
    text = f"Seconds, with the first seed.\n\n{growth_table(label, sizes, measured)}"
    return Section(title, text, ratios=ratios, pictured=False)


def rows_section(sizes: Sequence[int], seed: int) -> Section:
    measured = [times_of(rows, COLUMNS_OF_GROWING_ROWS, seed) for rows in sizes]
    title = f"Growth with the number of rows: logistic, p = {COLUMNS_OF_GROWING_ROWS}, in memory"
    shapes = [(rows, COLUMNS_OF_GROWING_ROWS) for rows in sizes]
    return growth_section(title, "rows", sizes, measured, shapes)


def columns_section(rows: int, sizes: Sequence[int], seed: int) -> Section:
    measured = [times_of(rows, columns, seed) for columns in sizes]
    title = f"Growth with the number of columns: logistic, N = {rows:,}, in memory"
    return growth_section(title, "columns", sizes, measured, [(rows, p) for p in sizes])


def streams_section(sizes: Sequence[int], seed: int) -> Section:
    """Rows that are drawn as they are read, in a process for each number of rows."""
    got = [apart("stream", rows, seed) for rows in sizes]
    took = [one["seconds"] for one in got]
    rows = [
        (f"{size:,}", f"{one['seconds']:.1f}", f"{one['gigabytes']:.2f}")
        for size, one in zip(sizes, got, strict=True)
    ]
    rows.append(("slope", f"{slope(sizes, took):.2f}", ""))
    rows.append(("slope of the last two", f"{slope(sizes[-2:], took[-2:]):.2f}", ""))
    factor = sizes[-1] / sizes[-2]
    name = f"stream, {factor:.0f} times the rows: growth of the time"
    return Section(
        "A simulated stream, p = 5, two reads, a process of its own each",
        "Compilation is included; the first seed.\n\n"
        + table(("rows", "seconds", "peak memory (GB)"), rows),
        [Bar(name, took[-1] / took[-2], factor)],
    )

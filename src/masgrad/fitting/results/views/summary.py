"""A result as text, in the layout that users of statsmodels know.

80 columns wide; wider where names are long and the terminal has the room, narrower where it has
not: then facts are stacked, and z and its p-value give way before the interval does. A name that
is still too long stands on a line of its own, for cut names look alike. The facts, and the row of
each coefficient, are those of every view: text, HTML and LaTeX differ in their marks only.
"""

import shutil
import textwrap
from collections.abc import Callable
from itertools import zip_longest

import numpy as np

from masgrad.checks import as_number
from masgrad.errors import InputError, printable
from masgrad.fitting.merging.record import Merged
from masgrad.fitting.results.inference import Tested

WIDTH = 80
DEFAULT_WIDTH = 100
"""Width without a terminal: in a file or a notebook."""
NARROWEST = 44
NAME = 18
SIZES = (11, 11, 10, 8, 11, 11)
"""Characters of the columns coef, std err, z, P>|z| and of the interval's ends."""
ALL = (0, 1, 2, 3, 4, 5)
CHOICES = (ALL, (0, 1, 3, 4, 5), (0, 1, 4, 5))
"""Columns that are shown, from the most to the fewest."""


Fact = tuple[str, Callable[[Tested], str | None]]

MODEL: tuple[Fact, ...] = (
    ("Dep. variable", lambda r: None if r.terms is None else r.terms.response),
    ("No. rows", lambda r: f"{r.nobs:,}"),
    ("Parameters", lambda r: f"{len(r.theta)}"),
    ("Fixed effects", lambda r: r.absorbed),
    ("Status", lambda r: str(r.status)),
    ("Covariance", lambda r: r.cov_type),
    ("Shards", lambda r: None if r.merged is None else f"{r.merged.shards:,}"),
    ("Clusters", lambda r: None if r.clusters is None else r.clusters.in_words),
    ("Degrees of freedom", lambda r: _range(r.df)),
    ("Intervals for", lambda r: r.target),
    ("Log-likelihood", lambda r: _decimal(r.log_likelihood)),
    ("AIC", lambda r: _decimal(r.aic)),
)
"""About the model, on the left; a fact whose getter returns None is left out."""

FIT: tuple[Fact, ...] = (
    ("Reads of the data", lambda r: f"{r.fit_info.reads}"),
    ("Rows per second", lambda r: f"{r.fit_info.rows_per_second:.3g}"),
    ("Last correction (s.e.)", lambda r: f"{r.fit_info.correction:.2g}"),
    ("Predicted remainder (s.e.)", lambda r: f"{r.fit_info.remainder:.2g}"),
    ("Condition number of H", lambda r: f"{r.fit_info.condition:.3g}"),
    ("Heterogeneity", lambda r: _test(r.merged)),
    ("Deviance", lambda r: _decimal(r.deviance)),
    ("R-squared within", lambda r: None if r.r2_within is None else f"{r.r2_within:.4f}"),
    ("Dispersion", lambda r: None if r.dispersion is None else f"{r.dispersion:.4g}"),
)
"""About how the estimate was reached, on the right."""


def _test(merged: Merged | None) -> str | None:
    """The test that merged shards have one theta*."""
    if merged is None or not merged.heterogeneity.df:
        return None
    test = merged.heterogeneity
    return f"Q {test.statistic:.4g}, df {test.df}, p {test.pvalue:.2g}"


def _decimal(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.6g}"


def _range(df: int | np.ndarray | None) -> str | None:
    """The least and the largest degrees of freedom, if coefficients have their own."""
    if not isinstance(df, np.ndarray) or not np.isfinite(df).any():
        return None
    return f"{np.nanmin(df):.1f} to {np.nanmax(df):.1f}"


def known(result: Tested, facts: tuple[Fact, ...]) -> list[tuple[str, str]]:
    """Labels and values of the facts that this result has."""
    found = ((label, getter(result)) for label, getter in facts)
    return [(label, printable(value)) for label, value in found if value is not None]


def remarks(result: Tested) -> list[str]:
    """The advice of the status, the notes, and the diagnostics that need attention."""
    status = result.status
    end = "" if status.message.endswith("?") else "."
    advice = [] if status.ok else [f"{str(status).capitalize()}: {status.message}{end}"]
    troubles = (f"{d.name}: {d.sentence}" for d in result.diagnostics.troubles)
    return [printable(" ".join(said.split())) for said in (*advice, *result.notes, *troubles)]


def headings(result: Tested, alpha: float) -> list[str]:
    """Over the numbers: coef, std err, z, P>|z|, and the ends of the interval."""
    z = "z" if result.df is None else "t"
    ends = f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]"
    return ["coef", "std err", z, f"P>|{z}|", *ends]


def cells(result: Tested, alpha: float) -> list[tuple[str, list[str]]]:
    """A name and six rounded numbers for each parameter."""
    names = [result.labels[j] for j in result.shown]
    rows = result.coefficients.to_numpy(alpha)[result.shown]
    return [
        (printable(name), [number(t), number(s), f"{z:.3f}", f"{p:.3f}", number(low), number(high)])
        for name, (t, s, z, p, low, high) in zip(names, rows, strict=True)
    ]


def number(x: float) -> str:
    """Four decimals, or four digits where those would not do."""
    if x == 0 or not np.isfinite(x) or 1e-3 <= abs(x) < 1e5:
        return f"{x:.4f}"
    return f"{x:.3e}"


def summary(result: Tested, alpha: float = 0.05, width: int | None = None) -> str:
    """The header, a line for each parameter, and the notes."""
    longest = max(len(printable(result.labels[j])) for j in result.shown)
    width = min(_room(width), max(WIDTH, longest + _size(ALL)))
    chosen = next((c for c in CHOICES if _size(c) + min(longest, NAME) <= width), CHOICES[-1])
    room = width - _size(chosen)
    rule = "=" * width
    title = f"masgrad: {printable(result.kind)}"
    lines = [_middle(title, width), rule, *_header(result, width), rule]
    lines += [_line("", headings(result, alpha), chosen, room), "-" * width]
    lines += [_line(name, row, chosen, room) for name, row in cells(result, alpha)]
    return "\n".join([*lines, rule, *_left_out(result, alpha, chosen), *_notes(result, width)])


def _left_out(result: Tested, alpha: float, chosen: tuple[int, ...]) -> list[str]:
    """The columns for which there was no room, if any."""
    names = [name for i, name in enumerate(headings(result, alpha)) if i not in chosen]
    return [f"Left out for lack of room: {', '.join(names)}."] if names else []


def _size(chosen: tuple[int, ...]) -> int:
    return sum(SIZES[i] for i in chosen)


def _room(width: int | None) -> int:
    """The width given, or that of the terminal."""
    if width is None:
        return max(shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns, NARROWEST)
    if not as_number("width", width) >= NARROWEST:
        raise InputError(f"width={width}; at least {NARROWEST} columns are needed")
    return int(width)


def _header(result: Tested, width: int) -> list[str]:
    """Facts in two columns, or in one if the page is narrow."""
    left, right = known(result, MODEL), known(result, FIT)
    if width < WIDTH:
        return [_fact(*pair, width) for pair in [*left, *right]]
    half = width // 2 - 1
    pairs = zip_longest(left, right, fillvalue=("", ""))
    return [f"{_fact(*a, half)}  {_fact(*b, width - half - 2)}".rstrip() for a, b in pairs]


def _fact(label: str, value: str, width: int) -> str:
    if not label:
        return " " * width
    room = width - len(label) - 2
    return f"{label}: {value if len(value) <= room else value[: room - 3] + '...':>{room}}"


def _line(name: str, row: list[str], chosen: tuple[int, ...], room: int) -> str:
    """A name and its numbers; a long name has a line of its own."""
    numbers = "".join(f" {row[i]:>{SIZES[i] - 1}}" for i in chosen)  # a space, however long
    if len(name) <= room:
        return f"{name:<{room}}{numbers}"
    return f"{name}\n{'':<{room}}{numbers}"


def _middle(text: str, width: int) -> str:
    return "\n".join(line.center(width).rstrip() for line in textwrap.wrap(text, width))


def _notes(result: Tested, width: int) -> list[str]:
    return [line for note in remarks(result) for line in textwrap.wrap(note, width)]

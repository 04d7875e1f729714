"""Rows that a fit leaves out: those in which a value is missing, and those that cannot be read.

A value is missing if it is NaN, None, pandas' NA or NaT, or null in Arrow and polars. Infinite
values are not missing: they are errors. Rows of weight 0 are no rows, and are not counted. Every
complete read leaves out the same rows, so that the counts of the longest read are those of the
data, however often and in whatever order the rows are read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masgrad.data.designs.sparse_rows import SparseRows
from masgrad.errors import InputError
from masgrad.types import is_from

PIECE_ROWS = 1 << 12
"""Rows that are searched at a time: what has been read of them stays in cache."""

MOST_SHOWN = 8
"""Largest number of columns that a note lists."""

Column = tuple[str | Sequence[str], Any]
"""A name and the values: a matrix has a name for each column, or one for all of them."""


@dataclass(frozen=True)
class Omitted:
    """What a fit has left out.

    Args:
        rows: number of rows, before any was left out for missing values.
        missing: how many of them lack a value.
        columns: how many lack a value of each column.
        bad: rows of CSV files that could not be read, which `rows` does not count.
        read: rows of these files that could be read.
        first_bad: the first of the bad rows, and why.
    """

    rows: int = 0
    missing: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)
    bad: int = 0
    read: int = 0
    first_bad: str = ""

    def plus(self, other: "Omitted") -> "Omitted":
        """What two fits have left out, of different rows."""
        return Omitted(
            self.rows + other.rows,
            self.missing + other.missing,
            dict(Counter(self.columns) + Counter(other.columns)),
            self.bad + other.bad,
            self.read + other.read,
            self.first_bad or other.first_bad,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a summary; none if nothing was left out."""
        notes = []
        if self.missing:
            some = " (a row may lack several)" * (len(self.columns) > 1)
            was = "was" if self.missing == 1 else "were"
            notes.append(
                f"{self.missing:,} of {self.rows:,} rows {was} left out for missing values: "
                f"{_listed(self.columns)}{some}."
            )
        if self.bad:
            was = "was" if self.bad == 1 else "were"
            notes.append(
                f"{self.bad:,} of {self.read + self.bad:,} rows could not be read and {was} left "
                f"out: the first is {self.first_bad}."
            )
        return tuple(notes)


class Tally:
    """The rows of one read: all that were given, those of weight, and those that lack a value."""

    def __init__(self) -> None:
        self.given, self.rows, self.missing = 0, 0, 0
        self.columns: Counter[str] = Counter()

    def see(
        self, columns: Iterable[Column], rows: int, weight: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Count rows; the mask of those that have every value, None if all have.

        Args:
            columns: what rows must have: floats, or masks of missing values.
            rows: their number.
            weight: their weights, (rows,), if they have any.
        """
        columns = [(name, gaps) for name, gaps in columns if gaps is not None]
        live = None if weight is None else ~(np.asarray(weight) == 0)
        self.given += rows
        self.rows += rows if live is None else int(live.sum())
        lacking = np.zeros(rows, bool)
        for start in range(0, rows, PIECE_ROWS):
            for name, gaps in columns:
                at, *which = _missing(gaps[start : start + PIECE_ROWS])
                on = slice(None) if live is None else live[start + at]
                lacking[start + at[on]] = True
                self._count(name, at[on], *(j[on] for j in which))
        missing = int(lacking.sum())
        self.missing += missing
        return ~lacking if missing else None

    @classmethod
    def of(cls, counts: tuple[int, int, int, Mapping[str, int]]) -> "Tally":
        """A tally with these counts."""
        tally = cls()
        tally.given, tally.rows, tally.missing, columns = counts
        tally.columns = Counter(columns)
        return tally

    def join(self, other: "Tally") -> None:
        """Count the rows of another part as well."""
        if other is not self:
            self.given, self.rows = self.given + other.given, self.rows + other.rows
            self.missing += other.missing
            self.columns.update(other.columns)

    def _count(self, name: str | Sequence[str], at: np.ndarray, *which: np.ndarray) -> None:
        if not which and len(at):
            self.columns[str(name)] += len(at)
        for columns in which:
            for j, count in zip(*np.unique(columns, return_counts=True), strict=True):
                label = f"{name}[:, {j}]" if isinstance(name, str) else str(name[j])
                self.columns[label] += int(count)


class LeftOut:
    """Which rows a fit is asked to leave out, and those that it has left out.

    Args:
        missing: whether rows with missing values are left out.
        bad: whether rows of CSV files that cannot be read are left out.
    """

    def __init__(self, missing: bool, bad: bool):
        self.missing, self.bad, self.whole = missing, bad, True
        self._longest, self._course, self.before = Tally(), Tally(), Tally()
        self.bad_rows: Any = None

    @contextmanager
    def read(self) -> Iterator[Tally]:
        """The tally of a read; an error if the read ends and no row was complete."""
        tally = self._course = Tally()
        try:
            yield tally
            if self.whole and tally.rows and tally.missing == tally.rows:
                raise _none_complete(tally)
        finally:
            if tally.rows >= self._longest.rows:
                self._longest = tally

    @contextmanager
    def of_part(self) -> Iterator[Tally]:
        """Count what a part of the rows leaves out, though it may be all of them, by itself."""
        tally = Tally()
        self.whole, self._longest = False, tally
        yield tally
        tally.join(self._longest)

    def state(self) -> Any:
        """What has been counted, in whole reads and in the one in course; for `restore`."""
        counts = [(t.given, t.rows, t.missing, dict(t.columns)) for t in self._tallies]
        return counts, None if self.bad_rows is None else self.bad_rows.state()

    def restore(self, state: Any) -> None:
        """Know what was counted when the state was taken; `before` is of the read in course."""
        counts, bad = state
        self._longest, self.before = map(Tally.of, counts)
        if self.bad_rows is not None:
            self.bad_rows.restore(bad)

    @property
    def _tallies(self) -> tuple[Tally, Tally]:
        return self._longest, self._course

    @property
    def omitted(self) -> Omitted:
        """What has been left out so far."""
        seen, bad = self._longest, self.bad_rows
        files = {} if bad is None else {"bad": bad.count, "read": bad.read, "first_bad": bad.first}
        return Omitted(seen.rows, seen.missing, dict(seen.columns), **files)


def advice(value: Any, where: str = "") -> str:
    """What can be done about a row with a value that is not finite, and where it helps."""
    more = f", or missing='drop'{where}" if np.isnan(value) else ""
    return f"drop or impute missing rows first{more}"


def gaps_of(values: Any) -> Any:
    """What `Tally.see` searches of an array: floats, a mask; None if nothing can be missing."""
    if isinstance(values, SparseRows):
        return _sparse_gaps(values)
    return values if values.dtype.kind == "f" else None


def with_nan(values: Any) -> Any:
    """Values with NaN for what is missing, as arrays of NumPy know it; others as they are."""
    if is_from("pandas", values, "DataFrame") and values.shape[1] == 1:
        values = values.iloc[:, 0]
    if is_from("pandas", values, "Series"):
        numbers = not isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiub"
        return values.to_numpy(np.float64, na_value=np.nan) if numbers else values
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "fiub":
        return np.ma.filled(np.ma.asarray(values, np.float64), np.nan)
    return values


def _missing(piece: Any) -> tuple[np.ndarray, ...]:
    """The rows of missing values, and of a matrix the columns."""
    if piece.dtype.kind == "f":
        if not _has_nan(piece):
            return (np.empty(0, np.intp),)
        piece = np.isnan(piece)
    if piece.ndim > 2:
        piece = piece.reshape(len(piece), -1).any(1)
    return piece.nonzero()


def _has_nan(a: np.ndarray) -> bool:
    """Whether the sum of squares is NaN, as it is if an entry is, and else never."""
    flat = a if a.ndim == 1 else a.ravel("K")
    with np.errstate(all="ignore"):
        return bool(np.isnan(np.dot(flat, flat)))


def _sparse_gaps(rows: SparseRows) -> Any:
    from scipy import sparse

    found = rows.matrix.tocoo()
    at = np.isnan(found.data)
    if not at.any():
        return None
    where = found.row[at], found.col[at]
    return sparse.csr_array((np.ones(int(at.sum()), bool), where), shape=rows.shape)


def _listed(columns: Mapping[str, int]) -> str:
    order = sorted(columns, key=lambda name: -columns[name])
    more = len(order) - MOST_SHOWN
    rest = f" and {more} other columns" if more > 0 else ""
    return ", ".join(f"{name} {columns[name]:,}" for name in order[:MOST_SHOWN]) + rest


def _none_complete(tally: Tally) -> InputError:
    whole = [name for name, count in tally.columns.items() if count == tally.rows]
    have = "has" if len(whole) == 1 else "have"
    said = f"; {', '.join(map(repr, whole))} {have} no value in any row" if whole else ""
    return InputError(
        f"each of the {tally.rows:,} rows lacks a value ({_listed(tally.columns)}){said}: leave "
        "such a column out, or impute it"
    )

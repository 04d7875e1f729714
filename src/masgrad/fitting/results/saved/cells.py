"""Sums over so few rows that they say much about each, named before they are written to a file.

One warning has a sentence for each kind. Kinds that every panel has, such as small clusters, are
counted and not listed, so that who keeps the file for himself reads one line.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from masgrad.errors import CellWarning, InputError, say
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.results.saved.clusters import is_kept
from masgrad.fitting.uncertainty.serial.record import Serial, TimeScores
from masgrad.fitting.uncertainty.serial.windows import Windows

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms

FEWEST_ROWS = 10
"""Rows of a level below which it is named before a result is saved."""

MOST_NAMED = 8


def check_cells(r: Fitted, asked: str, more: tuple[str, ...] = ()) -> None:
    """Warn of sums over few rows, of these and of `more` kinds, unless that is allowed."""
    if asked not in ("warn", "allow"):
        raise InputError(f"small_cells={asked!r} is not known; use 'warn' or 'allow'")
    if asked == "allow":
        return
    found = [*_levels(r.terms), *_clusters(r.clusters), *_lags(r.serial), *more]
    if found:
        say(
            CellWarning,
            "the saved sums say much about single rows, if the file leaves this place: "
            f"{'; '.join(found)}. small_cells='allow' says that this is known",
        )


def small_levels(terms: "Terms | None") -> list[tuple[str, int]]:
    """The levels of categories that few rows have, with the number of these rows."""
    return [
        (f"{category.column} = {level!r}", count)
        for category in (() if terms is None else terms.categories)
        for level, count in zip(category.levels, category.counts, strict=bool(category.counts))
        if 0 < count < FEWEST_ROWS
    ]


def _levels(terms: "Terms | None") -> Iterator[str]:
    found = small_levels(terms)
    if found:
        named = ", ".join(f"{name} ({count})" for name, count in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        yield f"levels of fewer than {FEWEST_ROWS} rows, {named}{more}: join levels"


def _clusters(kept: Clustered | None) -> Iterator[str]:
    """Of every grouping, and of combinations; sums of very many are not in the file."""
    for way in kept.ways if kept is not None and is_kept(kept) else ():
        rows = way.sums.rows
        small, alone = few(rows), int((rows == 1).sum())
        if small:
            scores = f", {alone:,} of 1 row, whose score is there" if alone else ""
            yield (
                f"{small:,} clusters of {' and '.join(way.names)} of fewer than {FEWEST_ROWS} "
                f"rows{scores}, with their keys"
            )


def _lags(serial: Serial | None) -> Iterator[str]:
    """Of windows the scores of rows; of times those of few rows."""
    match None if serial is None else serial.kept:
        case Windows() as kept:
            rows = min(kept.rows, len(kept.head) + len(kept.tail))
            if rows:
                yield f"the scores of the first and last rows in order, {rows:,} in all"
        case TimeScores() as kept:
            small = few(kept.rows)
            if small:
                yield f"{small:,} times of fewer than {FEWEST_ROWS} rows, with their scores"


def few(rows: np.ndarray) -> int:
    """How many of these numbers of rows are small, and not 0."""
    return int(((rows > 0) & (rows < FEWEST_ROWS)).sum())

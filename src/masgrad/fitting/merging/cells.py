"""Levels of so few rows that sums over them say much about each."""

from typing import TYPE_CHECKING

from masgrad.errors import CellWarning, InputError, say

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms

FEWEST_ROWS = 10
"""Rows of a level below which it is named before a result is saved."""

MOST_NAMED = 8


def small_cells(terms: "Terms | None") -> list[tuple[str, int]]:
    """The levels of categories that few rows have, with the number of these rows."""
    return [
        (f"{category.column} = {level!r}", count)
        for category in (() if terms is None else terms.categories)
        for level, count in zip(category.levels, category.counts, strict=bool(category.counts))
        if 0 < count < FEWEST_ROWS
    ]


def check_cells(terms: "Terms | None", asked: str) -> None:
    """Warn of levels that few rows have, unless that is allowed."""
    if asked not in ("warn", "allow"):
        raise InputError(f"small_cells={asked!r} is not known; use 'warn' or 'allow'")
    found = small_cells(terms) if asked == "warn" else []
    if found:
        named = ", ".join(f"{name} ({count})" for name, count in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        say(
            CellWarning,
            f"the saved sums have levels of fewer than {FEWEST_ROWS} rows, about which an "
            f"aggregate says much: {named}{more}; join levels if the file leaves this place, or "
            "say small_cells='allow'",
        )

"""A result as text, in the layout that users of statsmodels know.

80 columns wide; wider where names are long and the terminal has the room, narrower where it has
not: then facts are stacked, and z and its p-value give way before the interval does. A name that
is still too long stands on a line of its own, for cut names look alike.
"""

import shutil
import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from masgrad.checks import as_number
from masgrad.errors import InputError
from masgrad.fitting.facts import FIT, MODEL, cells, headings, known, remarks

if TYPE_CHECKING:
    from masgrad.fitting.result import Result

WIDTH = 80
UNSEEN = 100
"""Columns that are taken to be there where there is no terminal: in a file or a notebook."""
NARROWEST = 44
NAME = 18
SIZES = (11, 11, 10, 8, 11, 11)
"""Characters of the columns coef, std err, z, P>|z| and of the interval's ends."""
ALL = (0, 1, 2, 3, 4, 5)
CHOICES = (ALL, (0, 1, 3, 4, 5), (0, 1, 4, 5))
"""Columns that are shown, from the most to the fewest."""


def summary(result: "Result", alpha: float = 0.05, width: int | None = None) -> str:
    """The header, a line for each parameter, and the notes."""
    longest = max(map(len, result.labels))
    width = min(_room(width), max(WIDTH, longest + _size(ALL)))
    chosen = next((c for c in CHOICES if _size(c) + min(longest, NAME) <= width), CHOICES[-1])
    room = width - _size(chosen)
    rule = "=" * width
    lines = [_middle(f"masgrad: {result.kind}", width), rule, *_header(result, width), rule]
    lines += [_line("", headings(result, alpha), chosen, room), "-" * width]
    lines += [_line(name, row, chosen, room) for name, row in cells(result, alpha)]
    return "\n".join([*lines, rule, *_left_out(result, alpha, chosen), *_notes(result, width)])


def _left_out(result: "Result", alpha: float, chosen: tuple[int, ...]) -> list[str]:
    """The columns for which there was no room, if any."""
    names = [name for i, name in enumerate(headings(result, alpha)) if i not in chosen]
    return [f"Left out for lack of room: {', '.join(names)}."] if names else []


def _size(chosen: tuple[int, ...]) -> int:
    return sum(SIZES[i] for i in chosen)


def _room(width: int | None) -> int:
    """Columns that there are: as given, or the terminal's."""
    if width is None:
        return max(shutil.get_terminal_size((UNSEEN, 24)).columns, NARROWEST)
    if not as_number("width", width) >= NARROWEST:
        raise InputError(f"width={width}; at least {NARROWEST} columns are needed")
    return int(width)


def _header(result: "Result", width: int) -> list[str]:
    """Facts in two columns, or one below the other where there is no room for two."""
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


def _notes(result: "Result", width: int) -> list[str]:
    return [
        line for note in remarks(result) for line in textwrap.wrap(" ".join(note.split()), width)
    ]

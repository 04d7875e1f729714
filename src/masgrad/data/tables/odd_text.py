"""Columns of text that are mostly numbers: which of their values are none."""

import re
from collections.abc import Sequence
from typing import Any

OTHER_NOTATION = re.compile(
    r"[+-]?(\d+,\d+|\d{1,3}([,._' \u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d+)?\s?[%\u20ac$\u00a3])"
)
"""Numbers with a decimal comma, signs between thousands, a percent sign or a currency's."""


def odd_levels(levels: Sequence[Any]) -> list[Any]:
    """The levels that are not numbers, if at least half of all levels are, or look like it."""
    other = [level for level in levels if not is_number_text(level)]
    unlike = [level for level in other if not is_like_a_number(level)]
    return (unlike or other) if len(unlike) <= len(levels) / 2 else []


def is_number_text(level: Any) -> bool:
    """Whether a text is a number."""
    try:
        float(level)
    except ValueError:
        return False
    return "_" not in str(level)  # Python reads 1_000, and nothing else does


def is_like_a_number(level: Any) -> bool:
    """Whether a text is a number in another notation."""
    return isinstance(level, str) and OTHER_NOTATION.fullmatch(level.strip()) is not None

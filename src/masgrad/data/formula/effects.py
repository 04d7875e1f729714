"""Fixed effects of a formula: what stands after its bar.

    y ~ x1 + x2 | firm + year            a coefficient for each firm, and one for each year
    y ~ x1 | firm^year + state           one for each combination of a firm and a year

Effects are columns, or combinations of columns; nothing is evaluated, and the formula before the
bar has an intercept in name only, which the effects absorb.
"""

import re

from masgrad.errors import InputError

PLAIN = r"[A-Za-z_][A-Za-z0-9_.]*|`[^`]+`"
EFFECT = re.compile(rf"\s*(?:{PLAIN})(?:\s*\^\s*(?:{PLAIN}))*\s*")
QUOTES = ("`", "'", '"')

Columns = tuple[str, ...]
"""The columns of an effect: one, or those whose combinations have a coefficient each."""


def split_effects(formula: str) -> tuple[str, tuple[Columns, ...]]:
    """The formula before the bar, and the columns of each effect after it.

    Example:
        >>> split_effects("y ~ x | firm + state^year")
        ('y ~ x ', (('firm',), ('state', 'year')))
    """
    before, *after = _split(formula, "|")
    if not after:
        return formula, ()
    if len(after) > 1:
        raise InputError(
            f"formula {formula!r} has {len(after)} bars; fixed effects stand after one bar, as in "
            "'y ~ x | firm + year', and instruments are not known"
        )
    if "~" in after[0]:
        raise InputError(f"formula {formula!r} has '~' after the bar; effects alone stand there")
    effects = [_effect(formula, text) for text in _split(after[0], "+")]
    return before, tuple(dict.fromkeys(effects))


def _effect(formula: str, text: str) -> Columns:
    """The columns of one effect, such as "firm" or "firm^year"."""
    if EFFECT.fullmatch(text):
        return tuple(part.strip("`") for part in re.findall(PLAIN, text))
    said = text.strip()
    if not said:
        raise InputError(
            f"formula {formula!r} has no name where an effect is needed; 'y ~ x | firm + year' has "
            "an effect of each firm and of each year"
        )
    if re.search(r"\[.*\]$", said):
        raise InputError(
            f"formula {formula!r} has slopes by level ({said}), which are not known; with few "
            "levels write the product before the bar, C(firm):x, and keep the effect after it"
        )
    if re.search(r"[:*]", said):
        raise InputError(
            f"formula {formula!r} has {said!r} after the bar; combinations of columns are written "
            "firm^year"
        )
    raise InputError(
        f"formula {formula!r} has {said!r} after the bar; the names of columns stand there, as in "
        "'y ~ x | firm + year', or combinations of them, firm^year: add anything else to the data "
        "first, as a column"
    )


def _split(text: str, mark: str) -> list[str]:
    """The text between marks outside quotes and brackets."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == mark and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    return parts

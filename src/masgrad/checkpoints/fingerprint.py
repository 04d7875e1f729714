"""Fingerprints: what a checkpoint belongs to, and how two of them differ, in words.

Versions are part of it: of masgrad to the last digit, since a fix may change what a fit does, and
of the libraries that compute, since another release may add numbers in another order.
"""

from typing import Any

from masgrad.checkpoints.digest import digest
from masgrad.version import LIBRARIES, versions


def fingerprint(**parts: Any) -> dict[str, str]:
    """Versions, and each part of a call: short ones in clear, others as digests."""
    return versions() | {name: _short(value) for name, value in parts.items()}


def _short(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain and len(repr(value)) <= 40 else digest(value)


def difference(saved: dict[str, str], now: dict[str, str]) -> str | None:
    """The first thing in which two fingerprints differ, as the end of a sentence; or None."""
    for name in ("masgrad", *LIBRARIES):
        if saved.get(name) != now.get(name):
            return f"was written with {name} {saved.get(name)}, and this is {now.get(name)}"
    for name in (*now, *saved):
        if saved.get(name) != now.get(name):
            return f"belongs to another call: {_change(name, saved.get(name), now.get(name))}"
    return None


def _change(name: str, before: str | None, after: str | None) -> str:
    if None in (before, after) or _is_digest(before) or _is_digest(after):
        return f"{name} differs"
    return f"{name} was {before} and is {after}"


def _is_digest(text: Any) -> bool:
    return len(text) == 16 and set(text) <= set("0123456789abcdef")

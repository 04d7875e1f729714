"""Options of a connection, which may be keys and tokens, and texts without them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masgrad.errors import InputError

HIDDEN = "***"

PASSWORD = re.compile(r"://[^/:@\s'\"]*:(?!\d+(?:/|$))[^\s'\"]*@")
"""user:password@ in an address; the number of a port is none, and a password may hold a slash."""

QUERY = re.compile(r"(https?://[^\s?'\"]*)\?[^\s'\"]*")
"""What follows the question mark of a web address, such as a signature."""


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Options of a connection to a store: pickled with a path, and never shown.

    Args:
        given: as fsspec takes them.
    """

    given: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(f'{name}={HIDDEN}' for name in self.given)})"

    @property
    def secrets(self) -> list[str]:
        """Every text among the values, however deep."""
        return sorted(set(_texts(self.given)), key=len, reverse=True)


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, list | tuple | set):
        return [text for part in value for text in _texts(part)]
    if isinstance(value, bytes):
        return [value.decode(errors="replace")] if value else []
    return [value] if isinstance(value, str) and value else []


def without_secrets(text: str, secrets: list[str] | None = None) -> str:
    """A text without passwords and signatures in addresses, nor any of these secrets."""
    for secret in secrets or ():
        text = text.replace(secret, HIDDEN)
    return QUERY.sub(r"\1", PASSWORD.sub("://", text))


def options_in_words(words: Sequence[str] | None) -> dict[str, Any] | None:
    """Options from the command line, name=value each: numbers, true and {"a": 1} as in JSON."""
    found = {}
    for number, word in enumerate(words or (), 1):
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InputError(f"--storage-option {number} is not NAME=VALUE, such as anon=true")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None

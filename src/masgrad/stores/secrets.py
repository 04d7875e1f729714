"""Options of a connection, which may be keys and tokens, and texts without them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from masgrad.errors import InputError

HIDDEN = "***"

LEAST_NUMBER = 1000
"""Smaller numbers are no passwords, and would be found in any text."""

PASSWORD = re.compile(r"://[^/:@\s'\"]*:(?!\d+(?:/|$))([^\s'\"]*)@")
"""user:password@ in an address; the number of a port is none, and a password may hold a slash."""

QUERY = re.compile(r"(https?://[^\s?'\"]*)\?([^\s'\"]*)")
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
        return _texts(self.given)


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, list | tuple | set):
        return [text for part in value for text in _texts(part)]
    if isinstance(value, bytes):
        return [value.decode(errors="replace")] if value else []
    if isinstance(value, int) and value >= LEAST_NUMBER:
        return [str(value)]
    return [value] if isinstance(value, str) and value else []


def secrets_in(address: str) -> list[str]:
    """The password and the values of the query of an address."""
    passwords = PASSWORD.findall(address)
    queries = [query for _, query in QUERY.findall(address)]
    values = [part.partition("=")[2] for query in queries for part in query.split("&")]
    return [text for text in (*passwords, *queries, *values) if text]


def without_secrets(text: str, secrets: Sequence[str] = ()) -> str:
    """A text without passwords and signatures in addresses, nor any of these secrets."""
    written = {form for secret in secrets for form in (secret, quote(secret, ""), quote(secret))}
    for form in sorted(written, key=len, reverse=True):
        text = text.replace(form, HIDDEN)
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

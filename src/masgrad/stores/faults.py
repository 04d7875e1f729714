"""What goes wrong at a store, as sentences that say what to do, without anybody's keys."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from masgrad.errors import InputError, MasgradError, MissingPackageError
from masgrad.stores.secrets import without_secrets

Done = TypeVar("Done")

EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "azure"),
    **dict.fromkeys(("http", "https"), "http"),
}
"""The extra of masgrad that brings what a protocol needs."""

DENIED = ("Credential", "Forbidden", "AccessDenied", "Unauthorized", "Authentication", "Token")
"""In the names of the errors by which libraries of stores say that access is denied."""


PASSING = ("Timeout", "Connection", "Throttl", "Unavailable", "ServerError", "Payload")
"""The same for errors that may be over when the question is asked again."""

TRIES, PAUSE = 3, 0.5
"""How often a range is asked for, and the seconds before the second time; then twice as many."""


def tried(read: Callable[[], Done]) -> Done:
    """What a read gives, repeated where the network may have failed it."""
    for number in range(TRIES - 1):
        try:
            return read()
        except Exception as error:
            if not _is_passing(error):
                raise
            time.sleep(PAUSE * 2**number)
    return read()


def _is_passing(error: Exception) -> bool:
    known = isinstance(error, ConnectionError | TimeoutError)
    return known or any(word in type(error).__name__ for word in PASSING)


@contextmanager
def explained(path: Any) -> Iterator[None]:
    """Inside, whatever a store or its library raises becomes an error of ours."""
    try:
        yield
    except MasgradError:
        raise
    except Exception as error:
        raise _ours(path, error) from None  # whose own words may tell keys


def _ours(path: Any, error: Exception) -> MasgradError:
    said = without_secrets(f"{type(error).__name__}: {error}", path.secrets)[:300]
    protocols = path.url.partition("://")[0].split("::")
    if isinstance(error, ImportError):
        extra = next((EXTRAS[p] for p in reversed(protocols) if p in EXTRAS), "stores")
        return MissingPackageError(
            f"{path} needs a package that is not installed ({said}): pip install 'masgrad[{extra}]'"
        )
    if isinstance(error, FileNotFoundError):
        return InputError(
            f"{path}: no such file or bucket; check the address, and that storage_options lead to "
            "the right account or endpoint"
        )
    if isinstance(error, PermissionError) or any(d in type(error).__name__ for d in DENIED):
        return InputError(
            f"{path}: access is denied ({said}); give keys as the environment of the store's "
            "library has them, or storage_options={...}; {'anon': True} is for public files at "
            "s3://"
        )
    if isinstance(error, ValueError) and "rotocol not known" in str(error):
        return InputError(
            f"{path}: {protocols[0]}:// is no protocol that fsspec knows; use s3://, gs://, "
            "abfs://, https://, or a path of this machine"
        )
    if isinstance(error, TypeError) and "keyword argument" in str(error):
        return InputError(f"{path}: storage_options do not fit this store ({said}); correct them")
    return InputError(
        f"{path} cannot be read: {said}; check the address, the connection and storage_options"
    )

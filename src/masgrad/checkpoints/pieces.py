"""Pieces of rows, of which the first may be left out: those that an earlier process has read."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any


class Pieces(Iterable[Any]):
    """Pieces in order, which can begin at any of them without a look at those before.

    Args:
        begin: the pieces from one of this number on.
    """

    def __init__(self, begin: Callable[[int], Iterator[Any]]):
        self.begin = begin

    def __iter__(self) -> Iterator[Any]:
        return self.begin(0)


def pieces_after(pieces: Iterable[Any], done: int) -> Iterable[Any]:
    """The pieces without the first ones; those that cannot be passed over are made in vain."""
    if isinstance(pieces, Pieces):
        return pieces.begin(done)
    return pieces[done:] if hasattr(pieces, "__getitem__") else islice(pieces, done, None)  # pyright: ignore

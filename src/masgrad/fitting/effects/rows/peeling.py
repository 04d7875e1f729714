"""Rows that are the only ones of a level, again and again: chains of them, link by link.

Leaving a row out may leave another level with a single row. With the exclusive or of the numbers of
the rows that a level still has, its last row is known without a search, so that a chain costs its
length and not a look at all rows for each link.
"""

from collections.abc import Sequence

import numpy as np


def single_rows(
    codes: np.ndarray, alive: np.ndarray, counts: Sequence[np.ndarray], more: np.ndarray | None
) -> np.ndarray:
    """The mask of the rows that are left out, (n,).

    Args:
        codes: of the rows' levels, (n, K).
        alive: the rows that there are, (n,).
        counts: rows of each level, (L_k,) each; a row that stands for several counts twice.
        more: mask of such rows, (n,); None if there are none.
    """
    left, counts = alive.copy(), [own.copy() for own in counts]
    rows = np.flatnonzero(alive)
    members = [np.zeros(len(own), np.int64) for own in counts]
    for k, held in enumerate(members):
        np.bitwise_xor.at(held, codes[rows, k], rows)
    last = [held[own == 1] for held, own in zip(members, counts, strict=True)]
    while len(found := np.unique(np.concatenate(last))):
        found = found[left[found]]
        left[found] = False
        last = [
            _without(found, codes[found, k], counts[k], members[k], more)
            for k in range(len(counts))
        ]
    return alive & ~left


def _without(
    rows: np.ndarray,
    levels: np.ndarray,
    counts: np.ndarray,
    members: np.ndarray,
    more: np.ndarray | None,
) -> np.ndarray:
    """Take rows from their levels, and return the last rows of those that have one left."""
    np.subtract.at(counts, levels, 1 if more is None else 1 + more[rows])
    np.bitwise_xor.at(members, levels, rows)
    met = np.unique(levels)
    return members[met[counts[met] == 1]]

"""Rows at the boundary of their response: on which side of a direction they lie."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from masgrad.fitting.identification.rank import sides
from masgrad.fitting.objective.objective import Objective
from masgrad.types import Rows

MORE_ROWS = 500
"""Rows on the wrong side of a direction that are kept."""

Guess = Callable[["Block"], np.ndarray]
"""Mask of the rows of a block that may be separated."""


class Block(NamedTuple):
    """Rows in phi scaled to length 1, their sides, and the rows themselves."""

    U: np.ndarray
    s: np.ndarray
    rows: Rows


class Verified(NamedTuple):
    """What one read says about a direction."""

    wrong: np.ndarray
    separated: int
    border: int
    gram: np.ndarray

    def plus(self, later: "Verified", d: np.ndarray) -> "Verified":
        """The same of more rows."""
        return Verified(
            furthest(np.concatenate([self.wrong, later.wrong]), d),
            self.separated + later.separated,
            self.border + later.border,
            self.gram + later.gram,
        )


def block_of(objective: Objective, rows: Rows) -> Block:
    """Rows of the design in phi, scaled to length 1."""
    U = objective.features(rows)
    size = np.linalg.norm(U, axis=1, keepdims=True)
    return Block(U / np.where(size > 0, size, 1.0), sides(objective, rows), rows)


def square(U: np.ndarray) -> np.ndarray:
    return U.T @ U


def furthest(signed: np.ndarray, d: np.ndarray) -> np.ndarray:
    return signed[np.argsort(signed @ d, kind="stable")[:MORE_ROWS]]

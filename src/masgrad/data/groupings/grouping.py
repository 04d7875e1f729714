"""Groupings of rows: rows carry a column of codes for each.

A grouping says what the codes stand for (`Keys`), and what it is for: clusters, fixed effects, or
the units and times of a panel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from masgrad.data.groupings.keys import Keys
from masgrad.errors import InputError

ROLES_OF_GROUPS = ("clusters", "unit", "time", "effects")


@dataclass(frozen=True)
class Grouping:
    """A grouping of the rows.

    Args:
        name: of its column, or of the keyword that gave it.
        role: one of `ROLES_OF_GROUPS`.
        keys: by code.
    """

    name: str
    role: str
    keys: Keys = field(compare=False)

    @classmethod
    def of(cls, name: str, role: str) -> "Grouping":
        return cls(name, role, Keys(name))

    @property
    def size(self) -> int:
        """The number of groups seen so far."""
        return len(self.keys)


def places_of_role(groupings: Sequence[Grouping], role: str) -> list[int]:
    """The columns of the rows' codes that have a role."""
    return [k for k, grouping in enumerate(groupings) if grouping.role == role]


def with_role(groupings: Sequence[Grouping], role: str) -> tuple[Grouping, ...]:
    """The groupings that have a role."""
    return tuple(grouping for grouping in groupings if grouping.role == role)


def check_keys(
    groupings: Sequence[Grouping], codes: np.ndarray, place: Callable[[int], str]
) -> None:
    """Refuse a row without a key, by name."""
    if codes.size and codes.min() < 0:
        row, k = (int(at) for at in np.argwhere(codes < 0)[0])
        raise InputError(
            f"{groupings[k].name} has no value at {place(row)}; drop such rows (missing='drop')"
        )

"""Columns of a table by which rows are grouped, one by one or several combined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.groupings.combined import CombinedKeys
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.groupings.keys import Keys
from masgrad.errors import InputError


@dataclass(frozen=True)
class GroupColumns:
    """The columns of a table by which rows are grouped.

    Args:
        role: one of `ROLES_OF_GROUPS`.
        columns: one, or several whose combinations are the groups.
    """

    role: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, role: str, name: str) -> "GroupColumns":
        """Those of a name such as "firm" or "firm^year"."""
        columns = tuple(part.strip() for part in name.split("^"))
        if not all(columns):
            raise InputError(f"{role}={name!r}; a column, or several as in 'firm^year'")
        return cls(role, columns)

    @property
    def name(self) -> str:
        return "^".join(self.columns)


class ColumnGroups:
    """The groupings of a table's rows.

    Args:
        groups: the columns.
        shown: the name of a column in messages.
        known: groupings of an earlier table, whose keys are looked up and not added to.
    """

    def __init__(
        self,
        groups: Sequence[GroupColumns],
        shown: Callable[[str], str] = str,
        known: Sequence[Grouping] = (),
    ):
        names = dict.fromkeys(name for group in groups for name in group.columns)
        self.groups, self.keys = groups, {name: Keys(shown(name)) for name in names}
        if known:
            self.groupings = tuple(replace(one, keys=one.keys.closed()) for one in known)
            self.keys = _keys_by_column(groups, self.groupings)
            return
        self.groupings = tuple(
            Grouping("^".join(map(shown, group.columns)), group.role, self._keys_of(group))
            for group in groups
        )

    def _keys_of(self, group: GroupColumns) -> Keys:
        keys = [self.keys[name] for name in group.columns]
        return keys[0] if len(keys) == 1 else CombinedKeys(group.name, keys)

    def combined(self, codes_of_column: Callable[[str], np.ndarray]) -> dict[str, np.ndarray]:
        """The codes of combinations by their name, given those of each column."""
        return {
            group.name: grouping.keys.codes_of([codes_of_column(name) for name in group.columns])
            for group, grouping in zip(self.groups, self.groupings, strict=True)
            if isinstance(grouping.keys, CombinedKeys)
        }

    def codes(self, codes_of_group: Callable[[str], np.ndarray]) -> np.ndarray | None:
        """The codes of rows, (n, k), given those of each grouping; None without groupings."""
        if not self.groups:
            return None
        return np.column_stack([codes_of_group(group.name) for group in self.groups])


def _keys_by_column(
    groups: Sequence[GroupColumns], groupings: Sequence[Grouping]
) -> dict[str, Keys]:
    """The keys of each column of some groupings."""
    found = {}
    for group, grouping in zip(groups, groupings, strict=True):
        keys = grouping.keys
        parts = keys.columns if isinstance(keys, CombinedKeys) else [keys]
        found |= dict(zip(group.columns, parts, strict=True))
    return found

"""Groupings as a user gives them: names of columns, or arrays of keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.data.groupings.grouping import Grouping
from masgrad.errors import InputError, InputTypeError
from masgrad.types import is_from


@dataclass(frozen=True)
class Asked:
    """A grouping as a user gives it.

    Args:
        role: one of `ROLES_OF_GROUPS`.
        name: of the column, or of the keyword.
        value: the name of a column, or keys (n,).
    """

    role: str
    name: str
    value: Any

    @property
    def is_column(self) -> bool:
        return isinstance(self.value, str)


def asked(given: Mapping[str, Any]) -> tuple[Asked, ...]:
    """The groupings that are asked for, by role."""
    return tuple(
        Asked(role, name, value)
        for role, values in given.items()
        for name, value in several(role, values)
    )


class ArrayGroups:
    """Codes of groups that are given as arrays, block after block.

    Attributes:
        groupings: filled when the first block is coded, and the same in all.
    """

    def __init__(self) -> None:
        self.groupings: list[Grouping] = []
        self._started = False

    def keys(self, groups: Sequence[Asked], rows: int, index: Any = None) -> list[np.ndarray]:
        """The keys of rows, (n,), for each grouping."""
        for one in groups:
            check_is_array(one)
        self.begin(groups)
        if [one.role for one in groups] != [grouping.role for grouping in self.groupings]:
            raise InputError("every block carries the same groupings, or none does")
        return [as_keys(one.name, one.value, rows, index) for one in groups]

    def begin(self, groups: Sequence[Asked]) -> None:
        """Learn which groupings there are, once."""
        if not self._started:
            self.groupings += [Grouping.of(one.name, one.role) for one in groups]
            self._started = True

    def codes(self, keys: Sequence[np.ndarray]) -> np.ndarray | None:
        """The codes of keys, (n, k); None without groupings."""
        if not keys:
            return None
        return np.column_stack(
            [grouping.keys.codes(k) for grouping, k in zip(self.groupings, keys, strict=True)]
        )


def check_is_array(one: Asked) -> None:
    """Refuse the name of a column where the data have none."""
    if one.is_column:
        raise InputTypeError(
            f"{one.role}={one.value!r} names a column, and the data have no names; give an array, "
            "or a formula and a table"
        )


def as_keys(name: str, given: Any, rows: int, index: Any = None) -> np.ndarray:
    """The keys of rows as an array (n,); a Series must have the data's index."""
    series = is_from("pandas", given, "Series")
    if series and index is not None and not given.index.equals(index):
        raise InputError(
            f"{name} and the data have different indexes; align them: .loc[data.index]"
        )
    if is_from("pyarrow", given, "Array", "ChunkedArray"):
        given = given.to_numpy(zero_copy_only=False)
    elif hasattr(given, "to_numpy"):
        given = given.to_numpy()
    values = np.asarray(given)
    if values.shape != (rows,):
        raise InputError(f"{name} has shape {values.shape}; ({rows},) is needed, one for each row")
    return values


def gaps_of_keys(values: np.ndarray) -> np.ndarray | None:
    """Floats, or a mask of missing keys; None if none can be missing."""
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return values if values.dtype.kind == "f" else None
    import pandas as pd

    return pd.isna(values)


def several(role: str, given: Any) -> list[tuple[str, Any]]:
    """Names and values of groupings given as one, or as a list of columns or arrays.

    A list of numbers is one grouping; of a matrix each column is one, two for errors clustered both
    ways.
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [(given, given)]
    if isinstance(given, dict):
        return [(str(name), value) for name, value in given.items()]
    if isinstance(given, list | tuple):
        if given and all(isinstance(one, str) for one in given):
            return [(one, one) for one in given]
        if given and all(isinstance(one, str) or _is_column(one) for one in given):
            return [
                (one if isinstance(one, str) else f"{role}[{k}]", one)
                for k, one in enumerate(given)
            ]
        given = np.asarray(given)
    if is_from("pandas", given, "DataFrame"):
        return [(str(name), given[name]) for name in given.columns]
    if len(getattr(given, "shape", ())) == 2:
        columns = given.shape[1]
        return [(f"{role}[{k}]" if columns > 1 else role, given[:, k]) for k in range(columns)]
    return [(str(getattr(given, "name", None) or role), given)]


def _is_column(given: Any) -> bool:
    """Whether it is an array of keys, rather than one key."""
    return bool(getattr(given, "shape", ())) or is_from("pyarrow", given, "Array", "ChunkedArray")

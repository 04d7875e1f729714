"""Keys of groups, such as the number or name of a firm, and their codes 0, 1, 2, ...

Codes are given in the order in which keys are first seen. Keys are learned while rows are read, so
that no read is spent on finding them, and a key has one code in all blocks and reads.
"""

import copy
import threading
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.types import is_from

NO_KEY = -1
"""The code of a missing key."""

PLAIN = (str, int, float, type(None))
"""Types of keys, which JSON has as well."""

KINDS_OF_KEYS = "keys of groups are whole numbers, text or dates; convert it to one of them"

WIDEST_TABLE = 1 << 25
"""Largest range of whole numbers that are looked up in a table with an entry for each."""

SPARSE_TABLE = 16
"""Entries of that table for each row from which new keys are sorted instead of marked in it."""

FIRST_ROWS = 1 << 17
"""Rows from which keys are learned before all others are looked up."""

WHOLE_FLOATS = 2.0**53
"""Size up to which a float keeps every whole number."""


def level_of(value: Any) -> Any:
    """A value as a key, plain enough for JSON; None if it is missing."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value:
        return None
    if isinstance(value, datetime):
        return str(value).removesuffix(" 00:00:00")  # as the date that it is
    if isinstance(value, date | time) or is_from("pandas", value, "Period", "Interval"):
        return str(value)
    return float(value) if isinstance(value, Decimal) else value


class Keys:
    """The keys of a column and their codes.

    Args:
        name: the column, for messages.

    Example:
        >>> keys = Keys("firm")
        >>> keys.codes(np.array([7, 9, 7])).tolist(), keys.codes(np.array([9, 8])).tolist()
        ([0, 1, 0], [1, 2])
        >>> keys.values
        [7, 9, 8]
    """

    def __init__(self, name: str):
        self.name, self.values = name, []
        self._known: dict[Any, int] = {}
        self._table, self._low = np.empty(0, np.int32), 0
        self._lock, self._learns = threading.Lock(), True

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The codes of keys, (n,) int32; `NO_KEY` for a missing one."""
        values = np.asarray(values)
        if values.dtype.kind == "f":
            return self._of_floats(values)
        if values.dtype.kind in "iub":
            self._check_kind(text=False)
            with self._lock:
                return self._of_integers(values)
        return self._of_objects(values)

    def codes_of_distinct(self, keys: Iterable[Any]) -> np.ndarray:
        """The codes of distinct keys, plain Python values; None is missing."""
        keys = list(keys)
        for kind in set(map(type, keys)):
            if not issubclass(kind, PLAIN):
                odd = next(key for key in keys if type(key) is kind)
                raise InputTypeError(f"{self.name} holds {odd!r:.60}: {KINDS_OF_KEYS}")
        if any(isinstance(key, str) for key in keys):
            self._check_kind(text=True)
        with self._lock:
            return self._codes(keys)

    def extend(self, values: Iterable[Any]) -> None:
        """Give the next codes to further keys, in this order, as if they had been learned."""
        with self._lock:
            self.values += values
            self._known, self._table, self._low = {}, np.empty(0, np.int32), 0

    def _check_kind(self, text: bool) -> None:
        """Refuse text after numbers, or numbers after text: 3 and "3" would be two keys."""
        if self.values and isinstance(self.values[0], str) != text:
            now, before = ("text", "numbers") if text else ("numbers", "text")
            where = "in later rows" if self._learns else "here"
            raise InputTypeError(
                f"{self.name} holds {now} {where}, and {before} in the rows of the fit before: "
                "keys are of one kind, for 3 and '3' would be two; convert one to the other"
            )

    def key(self, code: int) -> Any:
        """The key of a code."""
        return self.values[code]

    def to_json(self) -> dict[str, Any]:
        """The keys as JSON."""
        return {"name": self.name, "keys": self.values}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Keys":
        """The keys of what `to_json` made, to which none is added."""
        keys = cls(saved["name"])
        keys.values = list(saved["keys"])
        return keys.closed()

    def closed(self) -> "Keys":
        """The same keys, to which none is added: a new one has the code `NO_KEY`."""
        other = copy.copy(self)
        other._table, other._low = self._table.copy(), self._low
        other._known, other._learns = self._known, False
        return other

    @property
    def learns(self) -> bool:
        """Whether new keys get a code."""
        return self._learns

    def close(self) -> None:
        """Add no key from here on."""
        self._learns = False

    def __getstate__(self) -> dict[str, Any]:
        own = {"_lock", "_table", "_low", "_known"}  # which are made anew
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._known, self._table, self._low = {}, np.empty(0, np.int32), 0
        self._lock = threading.Lock()

    def _codes(self, keys: list[Any]) -> np.ndarray:
        """The codes of keys, plain Python values; None is missing."""
        known = self._lookup()
        new = dict.fromkeys(keys)
        new.pop(None, None)
        if known:
            new = [key for key in new if key not in known]
        if len(new) == len(keys):
            return self._codes_of_new(list(new))
        self._codes_of_new(list(new))
        known = self._lookup()
        return np.fromiter((known.get(key, NO_KEY) for key in keys), np.int32, len(keys))

    def _codes_of_new(self, keys: list[Any]) -> np.ndarray:
        """The codes of distinct keys that have none yet."""
        if not self._learns:
            return np.full(len(keys), NO_KEY, np.int32)
        start = len(self.values)
        self.values += keys
        return np.arange(start, start + len(keys), dtype=np.int32)

    def _lookup(self) -> dict[Any, int]:
        """The codes by key, with those of the latest keys: a table finds most of them without."""
        late = self.values[len(self._known) :]
        self._known.update(zip(late, range(len(self._known), len(self.values)), strict=True))
        return self._known

    def _of_floats(self, values: np.ndarray) -> np.ndarray:
        """Whole numbers that a missing one among them has made floats."""
        known = ~np.isnan(values)
        whole = (values == np.floor(values)) & (np.abs(values) < WHOLE_FLOATS)
        if (known & ~whole).any():
            odd = values[np.argmax(known & ~whole)]
            raise InputError(
                f"{self.name} holds {odd:g}: keys of groups are whole numbers, text or dates; is "
                "it an identifier? Convert it to text"
            )
        codes = np.full(len(values), NO_KEY, np.int32)
        codes[known] = self.codes(values[known].astype(np.int64))
        return codes

    def _of_integers(self, values: np.ndarray) -> np.ndarray:
        if not len(values):
            return np.empty(0, np.int32)
        low, high = int(values.min()), int(values.max())
        if not self._covers(low, high):
            import pandas as pd

            inverse, distinct = pd.factorize(values)
            return self._codes(distinct.tolist())[inverse]
        few = values[:FIRST_ROWS]  # they have most of the keys, unless these are very many
        rest = values[FIRST_ROWS:]
        found = [self._of_covered(part) for part in (few, rest) if len(part)]
        return np.concatenate(found) if len(found) > 1 else found[0]

    def _of_covered(self, values: np.ndarray) -> np.ndarray:
        """The codes of whole numbers that have a place in the table."""
        at = values.astype(np.int64) - self._low
        codes = self._table[at]
        new = at[codes < 0]
        if len(new):
            places = _in_order_of_appearance(new, len(self._table))
            keys = (places + self._low).astype(values.dtype).tolist()
            self._table[places] = self._codes_of_new(keys)
            codes = self._table[at]
        return codes

    def _covers(self, low: int, high: int) -> bool:
        """Whether the table has entries from low to high, after it has grown if it may."""
        size = len(self._table)
        if size and self._low <= low and high < self._low + size:
            return True
        first, last = (
            (min(low, self._low), max(high, self._low + size - 1)) if size else (low, high)
        )
        room = last - first + 1
        first, last = first - room // 2, last + room // 2
        if last - first >= WIDEST_TABLE or max(abs(first), abs(last)) >= 2**62:
            return False
        table = np.full(last - first + 1, NO_KEY, np.int32)
        table[self._low - first :][:size] = self._table
        if np.count_nonzero(self._table >= 0) < len(self.values):
            for code, key in enumerate(self.values):
                if isinstance(key, int) and first <= key <= last:
                    table[key - first] = code
        self._table, self._low = table, first
        return True

    def _of_objects(self, values: np.ndarray) -> np.ndarray:
        import pandas as pd

        if values.dtype.kind in "mM":  # in nanoseconds their plain values would be numbers
            values = values.astype(f"{values.dtype.kind}8[us]")
        try:
            codes, distinct = pd.factorize(values)
        except TypeError as error:
            raise InputTypeError(f"{self.name} holds values that are no keys: {error}") from None
        keys = distinct.tolist()
        if pd.api.types.infer_dtype(distinct, skipna=False) != "string":
            keys = map(level_of, keys)
        known = self.codes_of_distinct(keys)
        return np.append(known, np.int32(NO_KEY))[codes]


def _in_order_of_appearance(places: np.ndarray, size: int) -> np.ndarray:
    """The distinct ones of some places below `size`, in the order in which they first appear."""
    if size > SPARSE_TABLE * len(places):
        distinct, first = np.unique(places, return_index=True)
        return distinct[np.argsort(first)]
    first = np.full(size, -1)
    first[places[::-1]] = np.arange(len(places))[::-1]
    distinct = np.flatnonzero(first >= 0)
    return distinct[np.argsort(first[distinct])]

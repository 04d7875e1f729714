"""Keys of several columns, combined: such as a firm in a year."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from masgrad.data.groupings.keys import NO_KEY, Keys


def keys_from_json(saved: dict[str, Any]) -> Keys:
    """The keys of what `Keys.to_json` made, to which none is added."""
    return (CombinedKeys if "columns" in saved else Keys).from_json(saved)


class CombinedKeys(Keys):
    """The combinations of the keys of several columns, such as a firm in a year.

    Args:
        name: such as "firm^year".
        columns: the keys of each column.

    Example:
        >>> firm, year = Keys("firm"), Keys("year")
        >>> codes = [firm.codes(np.array([7, 7, 9])), year.codes(np.array([1, 2, 1]))]
        >>> CombinedKeys("firm^year", [firm, year]).codes_of(codes).tolist()
        [0, 1, 2]
    """

    def __init__(self, name: str, columns: Sequence[Keys]):
        super().__init__(name)
        self.columns = columns
        self.stages = [Keys(name) for _ in columns[2:]]

    def codes_of(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """The codes of combinations, given those of each column; `NO_KEY` if one has none."""
        known = np.all([c >= 0 for c in codes], axis=0)
        if not known.all():
            found = np.full(len(known), NO_KEY, np.int32)
            found[known] = self.codes_of([c[known] for c in codes]) if known.any() else NO_KEY
            return found
        total = codes[0]
        for stage, more in zip((*self.stages, self), codes[1:], strict=True):
            total = stage.codes((total.astype(np.int64) << 32) + more)
            if not self._learns and (total < 0).any():  # a combination that is not known
                return self.codes_of([np.where(total < 0, NO_KEY, c) for c in codes])
        return total

    def closed(self) -> "CombinedKeys":
        other = super().closed()
        assert isinstance(other, CombinedKeys)
        other.columns = [keys.closed() for keys in self.columns]
        other.stages = [keys.closed() for keys in self.stages]
        return other

    def close(self) -> None:
        super().close()
        for keys in (*self.columns, *self.stages):
            keys.close()

    def columns_of(self, codes: np.ndarray) -> list[np.ndarray]:
        """The codes in each column of these combinations."""
        found = []
        for stage in (self, *self.stages[::-1]):
            pairs = np.array(stage.values, np.int64)[codes]
            codes = pairs >> 32
            found.append((pairs & 0xFFFFFFFF).astype(np.int32))
        return [codes.astype(np.int32), *found[::-1]]

    def to_json(self) -> dict[str, Any]:
        columns = [keys.to_json() for keys in self.columns]
        return {**super().to_json(), "columns": columns, "stages": [k.values for k in self.stages]}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "CombinedKeys":
        keys = cls(saved["name"], [Keys.from_json(column) for column in saved["columns"]])
        keys.values = list(saved["keys"])
        for stage, values in zip(keys.stages, saved["stages"], strict=True):
            stage.values = list(values)
        return keys.closed()

    def key(self, code: int) -> tuple[Any, ...]:
        """The keys that a code combines."""
        found = []
        for stage, column in zip((self, *self.stages[::-1]), self.columns[:0:-1], strict=True):
            code, last = divmod(stage.values[code], 1 << 32)
            found.append(column.key(last))
        return (self.columns[0].key(code), *found[::-1])

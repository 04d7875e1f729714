"""Two categories at once: sums by level of either are the margins of one cross table.

    D'z = T 1,    E'z = T'1,    T = D'diag(z) E

with a cell more in either direction for rows that have no level. So one addition for each row gives
both sums, and with z = w the cross table as well.
"""

from typing import NamedTuple

import numpy as np


class Pair(NamedTuple):
    """Two categories of m and k levels.

    Args:
        m: levels of the first.
        k: levels of the second.
        cells: the cell of each row in the table of shape (m + 1, k + 1), row by row.
    """

    m: int
    k: int
    cells: np.ndarray

    @classmethod
    def of(cls, a: np.ndarray, m: int, b: np.ndarray, k: int) -> "Pair":
        """From the codes of both, in which m and k stand for no level."""
        return cls(m, k, a * (k + 1) + b)

    @property
    def size(self) -> int:
        """The number of cells."""
        return (self.m + 1) * (self.k + 1)

    def sums(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The sums of z by level of either, (m,) and (k,), and the table of both, (m, k)."""
        T = np.bincount(self.cells, z, self.size).reshape(self.m + 1, self.k + 1)
        return T.sum(1)[: self.m], T.sum(0)[: self.k], T[: self.m, : self.k]

    def chosen(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """For each row the value of its first level plus that of its second; 0 for no level."""
        T = np.append(first, 0.0)[:, None] + np.append(second, 0.0)
        return T.ravel().take(self.cells, mode="clip")  # unlike an index it frees the GIL

"""The column that each row has in a product of categories, without writing the columns out."""

import numpy as np

from masgrad.data.tables.levels import MISSING
from masgrad.data.tables.medium import Columns

Places = list[tuple[str, np.ndarray]]
"""For each category of a product: the column of its codes, and the column of X per code, or -1."""


def cells_of_rows(places: Places, columns: Columns, width: int) -> np.ndarray | None:
    """The column of each row, of `width` columns in all, and `width` for none.

    A base level counts `width`, and so does whatever is added to it. None if a category is missing
    somewhere.
    """
    where, stride = None, 1
    for name, column_of in places:
        codes = columns[name]
        if (codes == MISSING).any():
            return None
        level = np.where(column_of < 0, width, stride * column_of).take(codes, mode="clip")
        where = level if where is None else np.minimum(where + level, width)
        stride *= int(column_of.max()) + 1
    return where

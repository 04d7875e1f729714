"""The columns of a table that a user's function of one row asks for, z["x"].

The function is traced once with a row that remembers what it was asked. Other columns, of text or
with missing values, then need not be read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masgrad.types import Array, jax_float64


class NoColumn(KeyError):
    """A column that a table does not have."""


class Asked(Mapping):
    """A row of a table, in which every number is 1, that remembers which columns were asked for."""

    def __init__(self, names: Sequence[str]):
        self.names, self.asked = names, {}

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise NoColumn(name)
        self.asked[name] = None
        return jnp.ones((), np.int64)  # which may be an index, and counts as a real number too

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@jax_float64
def columns_asked(
    fn: Callable[[Any, Any], Any], size: int, names: Sequence[str]
) -> list[str] | None:
    """The columns that `fn(theta, z)` asks of a row, in that order; None if that cannot be told.

    If the table does not have one of them, it is that column alone.

    Args:
        fn: a function that JAX can trace.
        size: the number of parameters.
        names: of the table's columns.
    """
    row = Asked(names)
    try:
        jax.eval_shape(lambda theta: fn(theta, row), jax.ShapeDtypeStruct((size,), np.float64))
    except NoColumn as missing:
        return [missing.args[0]]
    except Exception:  # whatever the user's code does to a row: the check of the loss will tell
        return None
    return list(row.asked) or None


def table_columns(data: Any, asks: Any) -> dict[str, np.ndarray]:
    """Columns of a data frame; `asks` says which, from the names of all."""
    from masgrad.data.column_source import open_columns  # pyarrow

    medium, names = open_columns(data, asks)
    return medium.columns(names, {})  # pyright: ignore

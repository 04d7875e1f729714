"""A formula, or terms that were learned before, over a table: the source of rows that results.

Weights, offset and exposure are columns of the table, by name, or arrays beside a table in memory;
such arrays become columns of it under names that no column has.
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from masgrad.data.arrays import BLOCK
from masgrad.data.formulas import parse
from masgrad.data.frames import is_frame
from masgrad.data.learning import check_table, learn
from masgrad.data.medium import Medium
from masgrad.data.source import Source
from masgrad.data.tables import MEMORY, given, names_of, open_table, table_rows
from masgrad.data.terms import Terms
from masgrad.data.weighing import ROLES, as_vector
from masgrad.errors import InputTypeError


def learn_table(
    data: Any, formula: str, memory: int, block: int, roles: dict[str, Any]
) -> tuple[Source, Terms]:
    """The rows of a table, and the terms by which later tables are read alike.

    Args:
        data: a table in memory, a dataset, files, or an iterator of tables.
        formula: such as "y ~ a + C(g)".
        memory: bytes that reading may take.
        block: rows of a block.
        roles: weights, offset and exposure: None, the name of a column, or an array.
    """
    parsed = parse(formula, names_of(data) if "." in formula else None)
    columns = [value for value in roles.values() if isinstance(value, str)]
    medium = _open(data, [*parsed.columns, *columns], memory, roles)
    terms = learn(parsed, medium, **_columns(roles))
    arrays = {part: None for part, name in _columns(roles).items() if _is_array(name)}
    return table_rows(medium, terms, memory, block), replace(terms, **arrays)


def table_source(
    data: Any,
    terms: Terms,
    memory: int = MEMORY,
    block: int = BLOCK,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
) -> Source:
    """A table seen through terms that were learned before: unseen levels are errors.

    Args:
        data: a table in memory, a dataset, files, or an iterator of tables.
        terms: of the formula.
        memory: bytes that reading may take.
        block: rows of a block.
        weights: instead of the column that the terms name: an array, or another column.
        offset: likewise.
        exposure: likewise.
    """
    roles = dict(zip(ROLES, (weights, offset, exposure), strict=True))
    terms = replace(terms, **{k: v for k, v in _columns(roles).items() if v is not None})
    columns = [name for name in terms.columns if not _is_array(name)]
    medium = _open(data, columns, memory, roles)
    check_table(terms, medium)
    return table_rows(medium, terms, memory, block)


def predictors(terms: Terms, data: Any, offset: Any = None, exposure: Any = None) -> Source:
    """X of a table and the offset, if there is one, block by block; no response is needed."""
    alone = replace(terms, response=None, weight=None)
    return table_source(data, alone, offset=offset, exposure=exposure)


def _open(data: Any, columns: list[str], memory: int, roles: dict[str, Any]) -> Medium:
    """The medium of a table, with the arrays that were given beside it."""
    arrays = {k: v for k, v in roles.items() if v is not None and not isinstance(v, str)}
    unique = tuple(dict.fromkeys(columns))
    if not arrays:
        return open_table(data, unique, memory)
    if not is_frame(data) and not isinstance(data, dict):
        raise InputTypeError(
            f"{next(iter(arrays))} of a file, a dataset or an iterator is the name of a column"
        )
    rows = len(next(iter(data.values()))) if isinstance(data, dict) else len(data)
    index = data.index if isinstance(data, pd.DataFrame) else None
    extra = {given(k): as_vector(k, v, rows, index) for k, v in arrays.items()}
    return open_table(data, unique, memory, extra)


def _columns(roles: dict[str, Any]) -> dict[str, Any]:
    """The columns of the roles, under the names that terms have for them."""
    named = (v if isinstance(v, str | None) else given(role) for role, v in roles.items())
    return dict(zip(("weight", "offset", "exposure"), named, strict=True))


def _is_array(column: str | None) -> bool:
    return column in {given(role) for role in ROLES}

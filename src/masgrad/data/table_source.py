"""A formula over a table, as a source of blocks of (X, y).

Weights, offset and exposure are columns of the table; arrays beside it become such columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.formula.expressions import columns_of
from masgrad.data.formula.formulas import Formula, parse
from masgrad.data.formula.learning import also_counted, check_table, counted, is_of, learn
from masgrad.data.formula.terms import Terms
from masgrad.data.groupings.columns import GroupColumns
from masgrad.data.groupings.given import Asked, as_keys
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.left_out import LeftOut
from masgrad.data.opening import MEMORY_BYTES, Opening, open_table
from masgrad.data.regression import ROLES, as_vector, given
from masgrad.data.source import Source
from masgrad.data.table_rows import table_rows
from masgrad.data.tables.complete import Complete
from masgrad.data.tables.frames import names_of
from masgrad.data.tables.medium import Medium
from masgrad.data.tables.paths import is_frame
from masgrad.errors import InputError, InputTypeError


def learn_table(
    data: Any,
    formula: str,
    memory: int,
    block: int | None,
    roles: dict[str, Any],
    groups: Sequence[Asked] = (),
    *,
    left_out: LeftOut | None = None,
    client: Any = None,
    remember: Callable[[str, Callable[[], Any]], Any] = lambda name, compute: compute(),
) -> tuple[Source, Terms]:
    """The rows of a table, and the terms that code later tables in the same way.

    Args:
        data: a table in memory, a dataset, files, or an iterator of tables.
        formula: such as "y ~ a + C(g)".
        memory: limit on the memory used for reading, in bytes.
        block: rows per block.
        roles: weights, offset and exposure: None, the name of a column, or an array.
        groups: clusters and the like: names of columns, or arrays.
        left_out: which rows are left out.
        client: of the cluster that reads them; None if this process does.
        remember: what a function returns, or has returned before it was interrupted.
    """
    parsed = parse(formula, names_of(data) if "." in formula else None)
    columns = [value for value in roles.values() if isinstance(value, str)]
    effects = (GroupColumns("effects", columns) for columns in parsed.effects)
    by = (*effects, *_group_columns(groups))
    columns += [name for group in by for name in group.columns if not _is_array(name)]
    categories = {f.expression[1] for f in parsed.factors.values() if f.category}
    text = {*categories, *(name for group in by for name in group.columns)} - _numbers(parsed)
    opening = Opening(memory, left_out, frozenset(text), client)
    medium = _open(data, [*parsed.columns, *columns], opening, roles, groups)

    def learned() -> tuple[Terms, Any]:
        return learn(parsed, medium, **_columns(roles)), medium.state()

    terms, state = remember("terms", learned)
    medium.restore(state)
    terms = replace(terms, groups=by)
    arrays: dict[str, Any] = {p: None for p, name in _columns(roles).items() if _is_array(name)}
    named = tuple(group for group in by if not any(map(_is_array, group.columns)))
    return table_rows(medium, terms, memory, block), replace(terms, groups=named, **arrays)


def table_source(
    data: Any,
    terms: Terms,
    memory: int = MEMORY_BYTES,
    block: int | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    groups: Sequence[Asked] = (),
    left_out: LeftOut | None = None,
    known: Sequence[Grouping] = (),
    client: Any = None,
) -> tuple[Source, Terms]:
    """A table seen through terms learned from another table; unseen levels are errors.

    The terms come with the rows that levels have in this table and had before.

    Args:
        data: a table in memory, a dataset, files, or an iterator of tables.
        terms: the terms of the formula.
        memory: limit on the memory used for reading, in bytes.
        block: rows per block.
        weights: an array or a column that replaces the one named by the terms.
        offset: as for weights.
        exposure: as for weights.
        groups: arrays or columns that replace those of the same role.
        left_out: which rows are left out.
        known: groupings of that table; by default keys are learned from this one.
        client: of the cluster that reads them; None if this process does.
    """
    roles = dict(zip(ROLES, (weights, offset, exposure), strict=True))
    given_roles = {one.role for one in groups}
    kept = tuple(group for group in terms.groups if group.role not in given_roles)
    terms = replace(terms, groups=kept + _group_columns(groups))
    opening = Opening(memory, left_out, client=client)
    medium, terms = _seen_as(terms, data, opening, roles, groups)
    found = check_table(terms, medium)
    return table_rows(medium, terms, memory, block, known), also_counted(terms, found)


def _seen_as(
    terms: Terms, data: Any, opening: Opening, roles: dict[str, Any], groups: Sequence[Asked]
) -> tuple[Medium, Terms]:
    """A table opened for terms of another, which read its weights and offsets."""
    terms = replace(terms, **{k: v for k, v in _columns(roles).items() if v is not None})
    columns = [name for name in terms.columns if not _is_array(name)]
    text = set(terms.levels).union(*(g.columns for g in terms.groups)) - set(terms.numbers)
    medium = _open(data, columns, replace(opening, text=frozenset(text)), roles, groups)
    return medium, terms


def table_like(
    data: Any,
    formula: str,
    terms: Terms,
    memory: int,
    block: int | None,
    roles: dict[str, Any],
    *,
    groups: Sequence[Asked] = (),
    left_out: LeftOut | None = None,
    client: Any = None,
    remember: Callable[[str, Callable[[], Any]], Any] = lambda name, compute: compute(),
) -> tuple[Source, Terms]:
    """As `learn_table`, but with the columns of X that were learned from other tables.

    Levels that this table lacks have columns of 0; their rows are counted here.
    """
    parsed = parse(formula, names_of(data) if "." in formula else None)
    if not is_of(terms, parsed):
        raise InputError(
            f"the formula {formula!r} is another one than that of the result at which sums are "
            f"taken, whose coefficients are {', '.join(terms.names[:8])}; give the same formula"
        )
    effects = (GroupColumns("effects", columns) for columns in parsed.effects)
    by = (*effects, *_group_columns(groups))
    bare = replace(terms, weight=None, offset=None, exposure=None, groups=by)
    opening = Opening(memory, left_out, client=client)
    medium, seen = _seen_as(bare, data, opening, roles, groups)

    def learned() -> tuple[Terms, Any]:
        return counted(seen, check_table(seen, medium)), medium.state()

    known, state = remember("terms", learned)
    medium.restore(state)
    source = table_rows(medium, seen, memory, block)
    arrays = {p: None for p, name in _columns(roles).items() if _is_array(name)}
    named = tuple(group for group in by if not any(map(_is_array, group.columns)))
    return source, replace(known, groups=named, **arrays)


def predictors(
    terms: Terms,
    data: Any,
    offset: Any = None,
    exposure: Any = None,
    effects: Sequence[Grouping] = (),
) -> Source:
    """Blocks of X and the offset, or None, of a table without a response; codes of its effects."""
    by = tuple(group for group in terms.groups if group.role == "effects" and effects)
    alone = replace(terms, response=None, weight=None, groups=by)
    return table_source(data, alone, offset=offset, exposure=exposure, known=effects)[0]


def _group_columns(groups: Sequence[Asked]) -> tuple[GroupColumns, ...]:
    """The columns of groupings; arrays become columns of their own."""
    return tuple(
        GroupColumns.of(one.role, one.value)
        if one.is_column
        else GroupColumns(one.role, (given(one.name),))
        for one in groups
    )


def _open(
    data: Any,
    columns: list[str],
    opening: Opening,
    roles: dict[str, Any],
    groups: Sequence[Asked] = (),
) -> Medium:
    """Open a table together with the arrays given beside it; rows may be left out of both."""
    medium = _opened(data, columns, opening, roles, groups)
    left_out = opening.left_out
    if left_out is not None and left_out.missing:
        beside = [given(role) for role, value in roles.items() if _is_given(value)]
        keys = [given(one.name) for one in groups if not one.is_column]
        weight = _columns(roles)["weight"]
        medium.leave_out(Complete.of([*columns, *beside, *keys], weight, left_out))
    return medium


def _opened(
    data: Any,
    columns: list[str],
    opening: Opening,
    roles: dict[str, Any],
    groups: Sequence[Asked],
) -> Medium:
    arrays = {k: v for k, v in roles.items() if _is_given(v)}
    keys = [one for one in groups if not one.is_column]
    unique = tuple(dict.fromkeys(columns))
    if not arrays and not keys:
        return open_table(data, unique, opening)
    if not is_frame(data) and not isinstance(data, dict):
        first = next(iter([*arrays, *(one.role for one in keys)]))
        raise InputTypeError(f"{first} of a file, a dataset or an iterator is the name of a column")
    rows = len(next(iter(data.values()))) if isinstance(data, dict) else len(data)
    index = getattr(data, "index", None)
    missing = opening.left_out is not None and opening.left_out.missing
    vectors = ((k, as_vector(k, v, rows, index, missing)) for k, v in arrays.items())
    extra: dict[str, Any] = {given(k): vector for k, vector in vectors}
    for one in keys:
        extra[given(one.name)] = _as_arrow(as_keys(one.name, one.value, rows, index))
    return open_table(data, unique, opening, extra)


def _columns(roles: dict[str, Any]) -> dict[str, Any]:
    """The columns of weights, offset and exposure, keyed by the fields of `Terms`."""
    named = (v if isinstance(v, str | None) else given(role) for role, v in roles.items())
    return dict(zip(("weight", "offset", "exposure"), named, strict=True))


def _numbers(parsed: Formula) -> set[str]:
    """The columns that a formula takes as numbers, or may take as such."""
    numbers = [f.expression for f in parsed.factors.values() if not f.category]
    return {name for expression in numbers for name in columns_of(expression)}


def _is_given(value: Any) -> bool:
    """Whether weights, an offset or an exposure are an array."""
    return value is not None and not isinstance(value, str)


def _as_arrow(keys: np.ndarray) -> Any:
    """Keys as a column: numbers as they are, others as Arrow has them."""
    if keys.dtype.kind in "iufb":
        return keys
    import pyarrow as pa

    return pa.array(keys, from_pandas=True)


def _is_array(column: str | None) -> bool:
    """Whether this is the name of an array that was given beside the table."""
    return column is not None and column.startswith("\0") and column.endswith(" given")

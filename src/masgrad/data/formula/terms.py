"""Terms of a formula once their types and levels are known: how columns of a table become X.

A factor is a number (an expression of columns) or a category (a column with its levels, known once
and for all). A term is a product of factors; a category that loses its base level is `reduced`.
Nothing here holds code: terms are saved as JSON and read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.arrays import empty_columns
from masgrad.data.designs.coded import CodedDesign, Group
from masgrad.data.formula.cells import Places, cells_of_rows
from masgrad.data.formula.expressions import Expression, columns_of, evaluate
from masgrad.data.formula.expressions import from_json as read_expression
from masgrad.data.groupings.columns import GroupColumns
from masgrad.data.tables.levels import MISSING
from masgrad.data.tables.medium import Columns, codes_of
from masgrad.errors import InputError

Part = tuple[str, bool]
"""The name of a factor, and whether it is a category without its base level."""

Coded = tuple[Part, ...]
"""A product of factors, which gives one or more columns of X; () is the intercept."""

NOWHERE = -2
"""The column of X of a missing category: none, and the row has no value in any."""

DENSE_LEVELS = 1000
"""Levels up to which a category has columns of a dense Gram matrix."""

CODED_COLUMNS = 24
"""Columns of categories from which products of dense columns take longer than sums by level."""

Planned = tuple[list[Expression], int, Places]
"""A product: its numeric factors, its number of columns, its categories."""


class Number(NamedTuple):
    """A numeric factor: a column of the table, or an arithmetic expression of columns."""

    name: str
    expression: Expression


class Category(NamedTuple):
    """A categorical factor: one column per level, without the base level if reduced.

    `counts` are the rows of each level where levels were learned; () if they were not counted.
    """

    name: str
    column: str
    levels: tuple[Any, ...]
    base: int = 0
    counts: tuple[int, ...] = ()

    def kept(self, reduced: bool) -> list[int]:
        """The codes of the levels that have a column."""
        return [k for k in range(len(self.levels)) if not (reduced and k == self.base)]

    def labels(self, reduced: bool) -> list[str]:
        mark = "T." if reduced else ""
        return [f"{self.name}[{mark}{self.levels[k]}]" for k in self.kept(reduced)]

    def places(self, reduced: bool) -> np.ndarray:
        """The column of each level, -1 for the base level if reduced; at the end `NOWHERE`."""
        kept = self.kept(reduced)
        places = np.full(len(self.levels) + 1, -1)
        places[kept] = np.arange(len(kept))
        places[MISSING] = NOWHERE
        return places


@dataclass(frozen=True)
class Terms:
    """The response, the columns of X, and the columns of weights and offsets.

    Attributes:
        response: the column of y, or None.
        factors: numbers and categories by name.
        products: the products that form the columns of X, in order; () is the intercept.
        weight: the column of frequencies, if any.
        offset: the column added to the linear predictor, if any.
        exposure: the column whose logarithm is added to the linear predictor, if any.
        groups: the columns by which rows are grouped, such as clusters.
    """

    response: str | None
    factors: Mapping[str, Number | Category]
    products: tuple[Coded, ...]
    weight: str | None = None
    offset: str | None = None
    exposure: str | None = None
    groups: tuple[GroupColumns, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of X; in a product of categories the first varies fastest."""
        return tuple(name for coded in self.products for name in self._names(coded))

    def _names(self, coded: Coded) -> Iterator[str]:
        labels = [self._labels(name, reduced) for name, reduced in coded]
        for chosen in product(*reversed(labels)):
            yield ":".join(reversed(chosen)) or "Intercept"

    def _labels(self, name: str, reduced: bool) -> list[str]:
        factor = self.factors[name]
        return [factor.name] if isinstance(factor, Number) else factor.labels(reduced)

    def behind(self, j: int) -> tuple[str, ...]:
        """The columns of the table behind column j of X, if some are categories; else ()."""
        coded = [c for c in self.products for _ in self._names(c)][j]
        factors = [self.factors[name] for name, _ in coded]
        if all(isinstance(factor, Number) for factor in factors):
            return ()
        used = (
            [f.column] if isinstance(f, Category) else columns_of(f.expression) for f in factors
        )
        return tuple(dict.fromkeys(chain.from_iterable(used)))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns read as numbers, the response first."""
        roles = (self.response, self.weight, self.offset, self.exposure)
        used = (
            name
            for factor in self.factors.values()
            if isinstance(factor, Number)
            for name in columns_of(factor.expression)
        )
        return tuple(dict.fromkeys([*(name for name in roles if name is not None), *used]))

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """The levels of the columns read as categories."""
        return {factor.column: factor.levels for factor in self.categories}

    @property
    def categories(self) -> list[Category]:
        """The factors that are categories."""
        return [f for f in self.factors.values() if isinstance(f, Category)]

    @property
    def uncounted(self) -> "Terms":
        """The same terms for other rows, in which levels were not counted."""
        plain = {category.name: category._replace(counts=()) for category in self.categories}
        return replace(self, factors={**self.factors, **plain})

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        by = (name for group in self.groups for name in group.columns)
        return tuple(dict.fromkeys([*self.numbers, *self.levels, *by]))

    def matrix(self, columns: Columns) -> np.ndarray | CodedDesign:
        """X of shape (n, p) in float64: with contiguous columns, or coded if `is_coded`."""
        n = len(next(iter(columns.values())))
        if self.is_coded:
            return self._coded(columns, n)
        X = empty_columns(n, len(self.names))
        start = 0
        for numbers, width, places in self._plan:
            _fill(X.T[start : start + width], numbers, places, columns)
            start += width
        return X

    @cached_property
    def is_coded(self) -> bool:
        """Whether categories have so many columns that they stay codes."""
        return sum(width for _, width, places in self._plan if places) >= CODED_COLUMNS

    @property
    def effects(self) -> tuple[GroupColumns, ...]:
        """The columns whose levels have fixed effects."""
        return tuple(group for group in self.groups if group.role == "effects")

    @property
    def large(self) -> list[Category]:
        """Categories of so many levels that their columns are not written out, nor their Gram."""
        return [category for category in self.categories if len(category.levels) > DENSE_LEVELS]

    @property
    def width(self) -> int:
        """The number of columns of X beside those of large categories."""
        return len(self.names) - sum(len(category.levels) - 1 for category in self.large)

    def _coded(self, columns: Columns, n: int) -> CodedDesign:
        """X with its categories as codes; NaN in a column of a category that is missing."""
        plain = [numbers for numbers, _, places in self._plan if not places]
        written, at, groups, start = empty_columns(n, len(plain)), [], [], 0
        for numbers, width, places in self._plan:
            if places:
                codes = cells_of_rows(places, columns, width)
                value = _product(numbers, columns, np.empty(n)) if numbers else None
                if codes is None:
                    where, kept, missing = _cells(places, columns)
                    codes = np.where(kept, where, np.where(missing, 0, width))
                    value = np.where(missing, np.nan, 1.0 if value is None else value)
                if value is not None:
                    value[codes == width] = 0.0  # it stands in no column
                groups.append(Group(start, width, codes, value))
            else:
                _product(numbers, columns, written[:, len(at)])
                at.append(start)
            start += width
        return CodedDesign(written, at, groups)

    @cached_property
    def _plan(self) -> list[Planned]:
        plan = []
        for coded in self.products:
            parts = [(self.factors[name], reduced) for name, reduced in coded]
            numbers = [f.expression for f, _ in parts if isinstance(f, Number)]
            categories = [(f, r) for f, r in parts if isinstance(f, Category)]
            places = [(codes_of(f.column), f.places(reduced)) for f, reduced in categories]
            width = reduce(lambda n, p: n * (p[1].max() + 1), places, 1)
            plan.append((numbers, int(width), places))
        return plan

    def to_json(self) -> dict[str, Any]:
        return {
            "response": self.response,
            "numbers": [list(f) for f in self.factors.values() if isinstance(f, Number)],
            "categories": [category._asdict() for category in self.categories],
            "products": [[list(part) for part in coded] for coded in self.products],
            "weight": self.weight,
            "offset": self.offset,
            "exposure": self.exposure,
            "groups": [[group.role, *group.columns] for group in self.groups],
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Terms":
        try:
            numbers = [Number(str(name), read_expression(e)) for name, e in saved["numbers"]]
            categories = [_category(**fields) for fields in saved["categories"]]
            products = tuple(
                tuple((str(name), bool(reduced)) for name, reduced in coded)
                for coded in saved["products"]
            )
            roles = [saved[role] for role in ("response", "weight", "offset", "exposure")]
            factors = {factor.name: factor for factor in (*numbers, *categories)}
            whole = all(isinstance(role, str | None) for role in roles)
            if not whole or any(name not in factors for coded in products for name, _ in coded):
                raise KeyError
            groups = tuple(
                GroupColumns(str(role), tuple(map(str, columns)))
                for role, *columns in saved.get("groups", [])
            )
            return cls(roles[0], factors, products, *roles[1:], groups=groups)
        except (KeyError, TypeError, ValueError):
            raise InputError(f"saved terms are damaged: {saved!r:.80}; save it again") from None


def _category(
    name: str, column: str, levels: list, base: int, counts: Sequence[int] = ()
) -> Category:
    texts = isinstance(name, str) and isinstance(column, str)
    plain = all(isinstance(level, str | int | float) for level in levels)
    counted = len(counts) in (0, len(levels)) and all(isinstance(n, int) for n in counts)
    if not (texts and plain and counted and base in range(len(levels))):
        raise KeyError
    return Category(name, column, tuple(levels), base, tuple(counts))


def _fill(out: np.ndarray, numbers: list[Expression], places: Places, columns: Columns) -> None:
    """Fill in the columns of one product, (width, n)."""
    if not places and len(numbers) == 1:
        out[0] = evaluate(numbers[0], columns)
        return
    value = _product(numbers, columns, np.empty(out.shape[1]) if places else out[0])
    if places:
        out[:] = 0.0
        where, kept, missing = _cells(places, columns)
        rows = np.flatnonzero(kept)
        out[where[rows], rows] = value[rows]
        out[:, missing] = np.nan


def _product(numbers: list[Expression], columns: Columns, out: np.ndarray) -> np.ndarray:
    """The product of numeric factors, written to `out`."""
    out[:] = evaluate(numbers[0], columns) if numbers else 1.0
    for expression in numbers[1:]:
        out *= evaluate(expression, columns)
    return out


def _cells(places: Places, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which column of the product each row has, whether it has one, and whether a level is missing.

    A row with a base level has none.
    """
    where, stride = np.zeros(len(columns[places[0][0]]), np.intp), 1
    kept = np.ones(len(where), bool)
    missing = np.zeros(len(where), bool)
    for codes, column_of in places:
        column = column_of[columns[codes]]
        kept &= column >= 0
        missing |= column == NOWHERE
        where += stride * column
        stride *= column_of.max() + 1
    return where, kept, missing

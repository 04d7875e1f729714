"""The category of a formula that has too many levels for a dense Gram matrix.

Its columns stay codes throughout a fit (`fitting/levels`). Beside an intercept it has lost its base
level; the rows of that level then have the code `size`, so that codes from 0 to `size` are levels
of their own, and the intercept, which is the base level's mean, is left out.
"""

from typing import NamedTuple

from masgrad.data.formula.terms import DENSE_LEVELS, Category, Terms
from masgrad.errors import InputError


class ManyLevels(NamedTuple):
    """Where the columns of the category are.

    Args:
        category: the category.
        start: its first column of X.
        size: number of its columns.
        intercept: the intercept's column if the category has lost its base level, else None.
    """

    category: Category
    start: int
    size: int
    intercept: int | None

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.size)

    @property
    def levels_count(self) -> int:
        """Number of levels, the base level included."""
        return self.size + (self.intercept is not None)


def many_levels(terms: Terms) -> ManyLevels:
    """The category with more than `DENSE_LEVELS` levels; an error if it cannot be eliminated."""
    large = terms.large
    if len(large) > 1:
        first, second = (factor.name for factor in large[:2])
        raise InputError(
            f"{first} and {second} have more than {DENSE_LEVELS:,} levels each, and one category "
            "of a formula may; write the other as a fixed effect after a bar, "
            f"'| {large[1].column}', or group its levels"
        )
    return _located(terms, large[0])


def _located(terms: Terms, category: Category) -> ManyLevels:
    """Where a category of very many levels stands: alone, beside an intercept or in full."""
    said = f"{category.name} has {len(category.levels):,} levels, and"
    reduced = [part[1] for coded in terms.products for part in coded if part[0] == category.name]
    if len(reduced) != 1 or ((category.name, reduced[0]),) not in terms.products:
        raise InputError(
            f"{said} a product with it has a column for each; up to {DENSE_LEVELS:,} levels may "
            "stand in a product"
        )
    labels = category.labels(reduced[0])
    if reduced[0] and () not in terms.products:
        raise InputError(
            f"{said} without an intercept it has to be the first category of the formula"
        )
    intercept = terms.names.index("Intercept") if reduced[0] else None
    return ManyLevels(category, terms.names.index(labels[0]), len(labels), intercept)

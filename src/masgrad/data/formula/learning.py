"""From a formula to terms: types, levels, means and deviations are learned from a table, once.

The mean and the deviation of scale(a) become numbers of its expression, (a - mean) / deviation, so
that later tables are centred and scaled as the first one was.

Which categories lose a column, so that X has full rank by its structure (`full_rank`): a category's
columns sum to the intercept's, so beside an intercept one of them (the base) goes. In general a
product of factors spans a sum of spaces, one for each choice of "reduced" or "left out" for each of
its categories; spaces that earlier terms span are taken away, and what remains is joined again
wherever  (rest) + (rest):(reduced) = (rest):(full)  allows: R's rule, as patsy and formulaic do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from masgrad.data.arrays import BLOCK
from masgrad.data.formula.expressions import LEARNED, Expression, columns_of, evaluate
from masgrad.data.formula.formulas import Factor, Formula
from masgrad.data.formula.terms import Category, Coded, Number, Part, Terms
from masgrad.data.tables.levels import Found, check_missing, check_text, not_numeric, order
from masgrad.data.tables.medium import Medium, is_number, is_text, length_of
from masgrad.errors import InputError, InputTypeError

Spread = tuple[float, float]
"""Mean and standard deviation."""


def learn(
    formula: Formula,
    medium: Medium,
    weight: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
) -> Terms:
    """The terms of a formula for the columns of this table.

    Args:
        formula: the parsed formula.
        medium: the table; its categorical columns are read once.
        weight: the column of frequencies; rows of weight 0 are ignored.
        offset: the column of offsets.
        exposure: the column of exposures.
    """
    categories = {n: f for n, f in formula.factors.items() if _is_category(f, medium)}
    numbers = {
        n: Number(n, f.expression) for n, f in formula.factors.items() if n not in categories
    }
    names = [tuple(factor.name for factor in term) for term in formula.terms]
    products = _products(names, set(categories), absorbed=bool(formula.effects))
    terms = Terms(formula.response, numbers, products, weight, offset, exposure)
    check_types(terms, medium)
    known = _fitted(numbers, medium, weight) | _learned(formula, categories, medium, weight)
    terms = replace(terms, factors=known)
    check_types(terms, medium)  # what looked like numbers may have turned out to be text
    _check_names(formula, terms)
    return terms


def _fitted(numbers: dict[str, Number], medium: Medium, weight: str | None) -> dict[str, Any]:
    fitted = fit_transforms([number.expression for number in numbers.values()], medium, weight)
    return {name: Number(name, e) for name, e in zip(numbers, fitted, strict=True)}


def _learned(
    formula: Formula, categories: dict[str, Factor], medium: Medium, weight: str | None
) -> dict[str, Any]:
    columns = tuple(dict.fromkeys(factor.expression[1] for factor in categories.values()))
    found = medium.find(columns, weight)
    check_missing(found, medium.place)
    _check_text(categories.values(), found, medium)
    levels = {name: _levels(name, found[name], medium) for name in columns}
    made = {n: _category(formula, f, levels[f.expression[1]]) for n, f in categories.items()}
    return {n: with_counts(category, found[category.column]) for n, category in made.items()}


def with_counts(category: Category, found: Found) -> Category:
    """The category with the rows of each of its levels; without, if they were not counted."""
    counts = tuple(found.counts[level] for level in category.levels) if found.counts else ()
    return category._replace(counts=counts)


def check_types(terms: Terms, medium: Medium) -> None:
    """Check that the columns used as numbers are numeric; an empty table may have any types.

    Only a table for predictions, without a response, may be empty.
    """
    if medium.count == 0:
        if terms.response is None:
            return
        raise InputError(f"{medium.where} has no rows; at least one observation is needed")
    for name in terms.numbers:
        kind = medium.types[name]
        if is_number(kind):
            continue
        if name == terms.response:
            raise InputTypeError(
                f"{medium.where}: the response {name!r} is not numeric ({kind}); numbers are "
                "needed, for two classes 0 and 1"
            )
        raise not_numeric(medium.where, name, kind)


def check_table(terms: Terms, medium: Medium) -> dict[str, Found] | None:
    """Check that a new table has the types and levels of the table the terms were learned from.

    Returns:
        What was found in the columns of categories, if they were looked at.
    """
    check_types(terms, medium)
    return medium.check(terms.levels, terms.weight, missing=terms.response is None)


def is_of(terms: Terms, formula: Formula) -> bool:
    """Whether terms are those of a formula, of whatever table they were learned."""
    if formula.response != terms.response or set(formula.factors) != set(terms.factors):
        return False
    categories = {category.name for category in terms.categories}
    names = [tuple(factor.name for factor in term) for term in formula.terms]
    return _products(names, categories, absorbed=bool(formula.effects)) == terms.products


def counted(terms: Terms, found: dict[str, Found] | None) -> Terms:
    """The same terms with the rows that each level has in another table, if they were counted."""
    if found is None:
        return terms.uncounted
    known = {
        category.name: with_counts(category, found[category.column])
        for category in terms.categories
    }
    return replace(terms, factors={**terms.factors, **known})


def also_counted(terms: Terms, found: dict[str, Found] | None) -> Terms:
    """The same terms with the rows of each level so far and in another table, if both are known."""
    both, new = {}, counted(terms, found)
    for before, later in zip(terms.categories, new.categories, strict=True):
        known = before.counts and later.counts
        counts = tuple(map(add, before.counts, later.counts)) if known else ()
        both[before.name] = before._replace(counts=counts)
    return replace(terms, factors={**terms.factors, **both})


def _is_category(factor: Factor, medium: Medium) -> bool:
    return factor.category or (factor.plain and is_text(medium.types[factor.expression[1]]))


def _levels(name: str, found: Found, medium: Medium) -> tuple[Any, ...]:
    whole = pa.types.is_integer(medium.types[name])
    return order(name, found, medium.declared(name), whole)


def _check_text(categories: Iterable[Factor], found: dict[str, Found], medium: Medium) -> None:
    for factor in categories:
        name = factor.expression[1]
        if not factor.category and not pa.types.is_dictionary(medium.types[name]):
            check_text(name, found[name], medium.place)


def _category(formula: Formula, factor: Factor, levels: tuple[Any, ...]) -> Category:
    if factor.base is not None and factor.base not in levels:
        said = ", ".join(map(repr, levels[:10]))
        raise InputError(
            f"formula {formula.text!r}: {factor.name} has the base {factor.base!r}, which is no "
            f"level; the data have {said}"
        )
    base = 0 if factor.base is None else levels.index(factor.base)
    return Category(factor.name, factor.expression[1], levels, base)


def _check_names(formula: Formula, terms: Terms) -> None:
    """Check that the columns of X have distinct names and that no product is empty."""
    for coded in terms.products:
        for name, reduced in coded:
            factor = terms.factors[name]
            if reduced and isinstance(factor, Category) and len(factor.levels) == 1:
                raise InputError(
                    f"column {factor.column!r} has a single level, {factor.levels[0]!r}, as the "
                    f"intercept has; leave {name} out of {formula.text!r}"
                )
    counts = Counter(terms.names)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InputError(f"formula {formula.text!r} makes two columns {twice[0]!r}; rename one")


def fit_transforms(
    expressions: Sequence[Expression], medium: Medium, weight: str | None
) -> list[Expression]:
    """Replace center and scale in the expressions by fitted numbers, innermost first."""
    fitted = list(expressions)
    while pending := list(dict.fromkeys(e for whole in fitted for e in _innermost(whole))):
        spreads = dict(zip(pending, _spreads(pending, medium, weight), strict=True))
        fitted = [_with_numbers(whole, spreads) for whole in fitted]
    return fitted


def _innermost(whole: Expression) -> Iterator[Expression]:
    """Arguments of center and scale that contain neither."""
    if whole[0] in ("column", "number"):
        return
    inner = [e for argument in whole[1:] for e in _innermost(argument)]
    yield from inner
    if whole[0] in LEARNED and not inner:
        yield whole[1]


def _with_numbers(whole: Expression, spreads: dict[Expression, Spread]) -> Expression:
    if whole[0] in ("column", "number"):
        return whole
    if whole[0] not in LEARNED or whole[1] not in spreads:
        return (whole[0], *(_with_numbers(argument, spreads) for argument in whole[1:]))
    mean, deviation = spreads[whole[1]]
    centred = ("-", whole[1], ("number", mean))
    return centred if whole[0] == "center" else ("/", centred, ("number", deviation))


def _spreads(pending: list[Expression], medium: Medium, weight: str | None) -> list[Spread]:
    """Mean and standard deviation of each expression, merged over blocks."""
    if not medium.rereadable:
        raise InputError("center() and scale() need a read of their own; an iterator has only one")
    columns = tuple(dict.fromkeys(c for e in pending for c in columns_of(e)))
    needed = columns if weight is None else tuple(dict.fromkeys((*columns, weight)))
    total, mean, squares = 0.0, np.zeros(len(pending)), np.zeros(len(pending))
    row = 0
    for block in medium.blocks(None, BLOCK, needed, {}):
        w = np.ones(length_of(block)) if weight is None else np.asarray(block[weight], float)
        values = np.stack([np.broadcast_to(evaluate(e, block), len(w)) for e in pending])
        _check_finite(np.isfinite(values).all(0) | (w == 0), columns, medium, row)
        row += len(w)
        w, values = w[w > 0], values[:, w > 0].astype(np.float64)
        if not len(w):
            continue
        here = values @ w / w.sum()
        step, merged = here - mean, total + w.sum()
        squares += ((values - here[:, None]) ** 2) @ w + step**2 * total * w.sum() / merged
        mean, total = mean + step * w.sum() / merged, merged
    if not squares.all():
        name = next(columns_of(pending[int(np.argmin(squares))]))
        raise InputError(f"scale() or center() of column {name!r}: it is constant; leave it out")
    deviations = np.sqrt(squares / (total - 1))
    return list(zip(mean.tolist(), deviations.tolist(), strict=True))


def _check_finite(good: np.ndarray, columns: Sequence[str], medium: Medium, row: int) -> None:
    if not good.all():
        place = medium.place(row + int(np.argmin(good)))
        said = ", ".join(map(repr, columns))
        raise InputError(
            f"center() or scale() of {said} has no value at {place}; drop or impute missing rows "
            "first, or missing='drop' where the column has none"
        )


# Which categories lose their base level.


def _products(
    terms: list[tuple[str, ...]], categories: set[str], absorbed: bool
) -> tuple[Coded, ...]:
    """The products that make up X; those beside an intercept that fixed effects have absorbed."""
    if not absorbed:
        return tuple(full_rank(terms, categories))
    return tuple(coded for coded in full_rank([(), *terms], categories) if coded)


def full_rank(terms: Iterable[Sequence[str]], categories: set[str]) -> list[Coded]:
    """The products that make up X, in order, for terms given as names of factors."""
    spanned: set[frozenset[Part]] = set()
    coded: list[Coded] = []
    for term in terms:
        new = [space for space in _spaces(term, categories) if frozenset(space) not in spanned]
        spanned.update(map(frozenset, new))
        coded += _join(new)
    return coded


def _spaces(term: Sequence[str], categories: set[str]) -> list[Coded]:
    """The spaces whose sum a term spans: each category either reduced or omitted."""
    choices = [[((f, True),), ()] if f in categories else [((f, False),)] for f in term]
    return [sum(choice, ()) for choice in product(*choices)]


def _join(spaces: Sequence[Coded]) -> list[Coded]:
    """The smallest set of products with the same span, short ones first."""
    joined: list[Coded] = []
    for space in sorted(spaces, key=len):
        partner = next((other for other in joined if _extra(space, other) is not None), None)
        if partner is None:
            joined.append(space)
            continue
        extra = _extra(space, partner)
        full = tuple((part[0], False) if part == extra else part for part in space)
        joined = _join([other for other in joined if other != partner] + [full])
    return joined


def _extra(space: Coded, other: Coded) -> Part | None:
    """The reduced factor by which a product exceeds another, if that is the only difference."""
    more = set(space) - set(other)
    if len(space) - 1 != len(other) or len(more) != 1:
        return None
    extra = more.pop()
    return extra if extra[1] else None

"""Terms of several tables united: the same formula, all levels, and the map between columns.

A shard's columns X_k are those of its own levels, measured from its own base. The united columns
span the same space over its rows, X = X_k A_k, so that theta_k = A_k theta: its linear predictors
are those of the united coefficients. A_k has whole numbers. It is found from rows that have every
level of the shard at random, with numbers at random: what holds for them holds for all rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.formula.terms import Category, Number, Terms
from masgrad.data.tables.medium import codes_of
from masgrad.errors import InputError

ROWS_PER_COLUMN = 4
"""Rows at random for each column; as many again, and again, until they tell all columns apart."""

MOST_DOUBLINGS = 8

WHOLE = 1e-6
"""How far an entry of A_k may be from a whole number by rounding."""


def united_terms(shards: Sequence[Terms]) -> Terms:
    """The terms of the first shard with the levels of all."""
    first = shards[0]
    for k, other in enumerate(shards[1:], 1):
        _check_alike(first, other, k)
    factors = {
        name: _united(name, [terms.factors[name] for terms in shards]) for name in first.factors
    }
    return replace(first, factors=factors)


def _check_alike(first: Terms, other: Terms, k: int) -> None:
    """Refuse another response or other terms, by name."""
    if first.response != other.response:
        raise InputError(
            f"result 0 is about {first.response!r} and result {k} about {other.response!r}; "
            "results of one response are merged"
        )
    names = [{tuple(sorted(n for n, _ in c)) for c in terms.products} for terms in (first, other)]
    for has, lacks, more in ((0, k, names[0] - names[1]), (k, 0, names[1] - names[0])):
        if more:
            term = ":".join(min(more)) or "Intercept"
            raise InputError(
                f"result {has} has the term {term}, which result {lacks} has not; fit all shards "
                "by the same formula"
            )


def _united(name: str, factors: Sequence[Number | Category]) -> Number | Category:
    """One factor of all shards."""
    if all(isinstance(factor, Number) for factor in factors):
        k = next((k for k, f in enumerate(factors) if f != factors[0]), None)
        if k is not None:
            raise InputError(
                f"{name} has other numbers in result {k} than in result 0, since scale() and "
                "center() learn theirs from the rows; write them into the formula, such as "
                "I((a - 50) / 10), or take the sums of every shard at one result: at=result"
            )
        return factors[0]
    categories = [factor for factor in factors if isinstance(factor, Category)]
    if len(categories) < len(factors):
        raise InputError(
            f"{name} is a category in some results and a number in others; write C({name}) in all"
        )
    return _united_category(name, categories)


def _united_category(name: str, shards: Sequence[Category]) -> Category:
    """A category with the levels of all shards: sorted if theirs are, else in the order found."""
    found = list(dict.fromkeys(level for category in shards for level in category.levels))
    if len({isinstance(level, str) for level in found}) > 1:
        raise InputError(f"the levels of {name} are text in some results and numbers in others")
    if all(list(category.levels) == sorted(category.levels) for category in shards):
        found.sort()
    bases = {category.levels[category.base] for category in shards}
    base = found.index(bases.pop()) if len(bases) == 1 else 0
    known = all(category.counts for category in shards)
    counts = tuple(sum(_rows(c, level) for c in shards) for level in found) if known else ()
    return Category(name, shards[0].column, tuple(found), base, counts)


def _rows(category: Category, level: Any) -> int:
    """The rows of a level, 0 if the shard lacks it."""
    levels = category.levels
    return category.counts[levels.index(level)] if level in levels else 0


def map_to(own: Terms, united: Terms) -> np.ndarray:
    """A_k with theta_k = A_k theta, (p_k, p)."""
    if _columns_of(own) == _columns_of(united):
        return np.eye(len(own.names))
    rng, size = np.random.default_rng(0), ROWS_PER_COLUMN * (len(own.names) + 1)
    X, Y = np.empty((0, len(own.names))), np.empty((0, len(united.names)))
    for _ in range(MOST_DOUBLINGS):
        X, Y = (
            np.vstack(pair) for pair in zip((X, Y), _rows_of(own, united, size, rng), strict=True)
        )
        A, _, rank, _ = np.linalg.lstsq(X, Y)
        if rank == X.shape[1]:
            return _whole(A)
        size *= 2
    raise InputError(
        "the columns of a shard cannot be told apart by its levels; fit all shards by a formula "
        "without interactions of very many levels, or with the same levels"
    )


def _columns_of(terms: Terms) -> tuple[Any, ...]:
    """What the columns of X are made of, without counts."""
    return terms.products, {c.name: (c.levels, c.base) for c in terms.categories}


def _rows_of(
    own: Terms, united: Terms, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows at random as both have them: (size, p_k) and (size, p)."""
    here, there = {}, {}
    for name, factor in own.factors.items():
        if isinstance(factor, Number):
            here[name] = there[name] = rng.normal(size=size)
            continue
        other = united.factors[name]
        assert isinstance(other, Category)
        codes = rng.integers(len(factor.levels), size=size)
        places = np.array([other.levels.index(level) for level in factor.levels])
        here[codes_of(name)], there[codes_of(name)] = codes, places[codes]
    empty = {"": np.zeros(size)}  # for a formula of an intercept alone
    return _dense(own, here | empty), _dense(united, there | empty)


def _dense(terms: Terms, columns: dict[str, np.ndarray]) -> np.ndarray:
    """X, where every factor is a column of its own name."""
    plain = {
        name: f._replace(column=name) if isinstance(f, Category) else Number(name, ("column", name))
        for name, f in terms.factors.items()
    }
    X = replace(terms, factors=plain).matrix(columns)
    return X if isinstance(X, np.ndarray) else X.dense()


def _whole(A: np.ndarray) -> np.ndarray:
    """A, whose entries are whole numbers but for rounding."""
    near = np.round(A)
    if np.abs(A - near).max(initial=0.0) > WHOLE:
        raise InputError(
            "the columns of a shard do not span those of the united formula; fit all shards by "
            "the same formula"
        )
    return near + 0.0

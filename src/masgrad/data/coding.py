"""Which categories lose a column, so that X has full rank by its structure.

A category's columns sum to the intercept's, so beside an intercept one of them (the base) goes. In
general a product of factors spans a sum of spaces, one for each choice of "reduced" or "left out"
for each of its categories; spaces that earlier terms span are taken away, and what remains is
joined again wherever  (rest) + (rest):(reduced) = (rest):(full)  allows. This is R's rule in the
form that patsy and formulaic gave it.
"""

from collections.abc import Iterable, Sequence
from itertools import product

Part = tuple[str, bool]
"""A factor by name, and whether it is a category that is reduced."""

Coded = tuple[Part, ...]
"""A product of such factors: some columns of X. () is the intercept."""


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
    """The spaces whose sum a term spans: each category reduced, or left out."""
    choices = [[((f, True),), ()] if f in categories else [((f, False),)] for f in term]
    return [sum(choice, ()) for choice in product(*choices)]


def _join(spaces: Sequence[Coded]) -> list[Coded]:
    """The fewest products that span the same, small ones first."""
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
    """The one reduced factor that a product has beyond another, if that is all."""
    more = set(space) - set(other)
    if len(space) - 1 != len(other) or len(more) != 1:
        return None
    extra = more.pop()
    return extra if extra[1] else None

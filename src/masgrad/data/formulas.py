"""Formulas over numeric columns: which columns of a table make X, and which is y.

`parse("y ~ a*b - 1")` says that X has the columns a, b and a:b (their product), and no intercept.
The grammar is formulaic's, and only its parser is used: nothing in a formula is ever evaluated.
What would need evaluation, such as log(a) or C(a), is refused; the column is made beforehand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.errors import InputError, InputTypeError

OPERATORS = {"~", "+", "-", ":", "*"}
"""The others are refused: formulaic reads a**2 as a, which would be a silent surprise."""

ADVICE = (
    "only numeric columns and products of them (a:b, a*b) are supported so far: add the column to "
    "the data first"
)


@dataclass(frozen=True)
class Terms:
    """The response and the columns of X, each a product of columns; () is the intercept.

    Example:
        >>> parse("y ~ a + a:b").names
        ('Intercept', 'a', 'a:b')
    """

    response: str | None
    terms: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return tuple(":".join(term) or "Intercept" for term in self.terms)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have: the response first, if any."""
        response = () if self.response is None else (self.response,)
        return tuple(dict.fromkeys([*response, *(name for term in self.terms for name in term)]))

    def matrix(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """X of shape (n, p), float64, each of its columns contiguous."""
        rows = len(next(iter(columns.values())))
        buffer = np.empty((len(self.terms), rows))
        for out, term in zip(buffer, self.terms, strict=True):
            out[:] = columns[term[0]] if term else 1.0
            for name in term[1:]:
                out *= columns[name]
        return buffer.T

    def to_json(self) -> dict[str, Any]:
        return {"response": self.response, "terms": [list(term) for term in self.terms]}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Terms":
        response, terms = saved.get("response"), saved.get("terms")
        if not isinstance(response, str | None) or not _are_terms(terms):
            raise InputError(f"saved terms are damaged: {dict(saved)!r:.80}; lists of names needed")
        return cls(response, tuple(tuple(term) for term in saved["terms"]))


def _are_terms(saved: Any) -> bool:
    lists = isinstance(saved, list) and all(isinstance(term, list) for term in saved)
    return lists and all(isinstance(name, str) for term in saved for name in term)


def parse(formula: str, columns: Sequence[str] | None = None) -> Terms:
    """The terms of "y ~ a + b:c"; `columns` are those that "." stands for, besides y."""
    if not isinstance(formula, str):
        raise InputTypeError(f"a formula such as 'y ~ a + b' is needed, got {formula!r:.80}")
    try:
        left, right = _sides(formula, columns)
    except InputError:
        raise
    except Exception as error:  # formulaic's own are not ValueErrors; Python's parser adds others
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"formula {formula!r} cannot be read: {reason}") from None
    terms = Terms(_response(formula, left), tuple(_term(formula, term) for term in right))
    _check(formula, terms)
    return terms


def _sides(formula: str, columns: Sequence[str] | None) -> tuple[list, list]:
    """What formulaic makes of either side of "~": lists of its terms."""
    from formulaic import Formula  # a second to import, which those without a formula are spared
    from formulaic.parser.algos.tokenize import tokenize

    if not formula.strip() or formula.rstrip().endswith("~"):
        raise InputError(f"formula {formula!r} has no right-hand side; 'y ~ a + b' is needed")
    _check_tokens(formula, list(tokenize(formula)), columns)
    make: Any = Formula  # its metaclass returns a subclass, which type checkers do not see
    parsed = make(formula, _context={"__formulaic_variables_available__": columns})
    return (list(parsed.lhs), list(parsed.rhs)) if hasattr(parsed, "lhs") else ([], list(parsed))


def _check_tokens(formula: str, tokens: list, columns: Sequence[str] | None) -> None:
    dot = any(token.token == "." for token in tokens)
    if dot and columns is None:
        raise InputError(f"formula {formula!r} uses '.'; name the columns of X instead")
    names = {token.token for token in tokens if token.kind is token.Kind.NAME}
    if "1" in names.union((columns or ()) if dot else ()):
        raise InputError(f"formula {formula!r}: column '1' would be the intercept; rename it")
    for token in tokens:
        if token.kind is token.Kind.OPERATOR and token.token not in OPERATORS:
            raise InputError(f"formula {formula!r} uses {token.token!r}; {ADVICE}")


def _term(formula: str, term: Any) -> tuple[str, ...]:
    if str(term) == "1":
        return ()
    for factor in term.factors:
        if factor.eval_method is not factor.EvalMethod.LOOKUP:
            raise InputError(f"formula {formula!r} has the term {str(term)!r}; {ADVICE}")
    return tuple(factor.expr for factor in term.factors)


def _response(formula: str, left: list) -> str:
    names = [_term(formula, term) for term in left]
    if len(names) != 1 or len(names[0]) != 1:
        said = " + ".join(map(str, left)) or "none"
        raise InputError(
            f"formula {formula!r} has the response {said}; one column is needed: 'y ~ a + b'"
        )
    return names[0][0]


def _check(formula: str, terms: Terms) -> None:
    if not terms.terms:
        raise InputError(f"formula {formula!r} has no right-hand side; name a column, or 1")
    if any(terms.response in term for term in terms.terms):
        raise InputError(f"formula {formula!r} has the response {terms.response!r} on both sides")
    twice = [name for name in terms.names if terms.names.count(name) > 1]
    if twice:
        raise InputError(f"formula {formula!r} makes two columns {twice[0]!r}; rename one")

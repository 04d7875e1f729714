"""Linear combinations of parameters: from a matrix, a vector, or words such as "2*a - b/2 = 1".

Words are parsed, never evaluated:

    hypotheses = equation ("," equation)*        equation = sum (("=" | "==") sum)*
    sum = term (("+" | "-") term)*               term = factor (("*" | "/") factor)*
    factor = ("+" | "-")* (number | name | "(" sum ")")

A value is a vector (p + 1,): the coefficient of every parameter, then the constant. Names may hold
any sign ("a:b", "C(g)[T.b]", "log(a) - 1"): known names are tried first, the longest before others.
Quotes or backticks around a name are welcome, and needed where a name is a number.
"""

import difflib
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from masgrad.errors import InputError, InputTypeError

NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
QUOTED = re.compile(r"`([^`]*)`|\"([^\"]*)\"|'([^']*)'")
WORD = re.compile(r"[^\s+\-*/=,()]+(\([^()]*\)[^\s+\-*/=,()]*)*")
INSIDE = re.compile(r"[\w.:\[]")
SIGNS = "+-*/(),="
MOST_PARENTHESES = 50
"""Depth of nested parentheses."""


class Combinations(NamedTuple):
    """R (k, p), the values q (k,) that it is compared with, and a label for each row."""

    R: np.ndarray
    q: np.ndarray
    labels: tuple[str, ...]


def combinations(R: Any, names: Sequence[str], q: Any = None) -> Combinations:
    """R as a matrix, given as a matrix, a vector, a text or a list of texts."""
    texts = [R] if isinstance(R, str) else R
    if isinstance(texts, list | tuple) and texts and all(isinstance(t, str) for t in texts):
        found = [e for text in texts for e in read_equations(text, names)]
        rows = Combinations(
            np.array([e.coefficients for e in found]),
            np.array([e.value for e in found]),
            tuple(e.text for e in found),
        )
    else:
        rows = _matrix(R, names)
    return rows if q is None else rows._replace(q=_values(rows, q))


def places_of(which: Any, names: Sequence[str]) -> list[int]:
    """Places of some parameters, given by their names or by their places."""
    given = [which] if isinstance(which, str | int) else list(which)
    known = {name: j for j, name in enumerate(names)}
    for one in given:
        if isinstance(one, str) and one not in known:
            raise _unknown(one, names, one)
        if not isinstance(one, str) and not -len(names) <= one < len(names):
            raise InputError(f"there is no parameter {one!r}; there are {len(names):,}")
    return [known[one] if isinstance(one, str) else range(len(names))[one] for one in given]


def _matrix(R: Any, names: Sequence[str]) -> Combinations:
    try:
        R = np.atleast_2d(np.asarray(R, np.float64))
    except (TypeError, ValueError):
        raise InputTypeError(
            f"R={R!r:.60}; a matrix is needed, or a text over {', '.join(names[:3])}"
        ) from None
    if R.ndim != 2 or R.shape[1] != len(names) or not len(R):
        raise InputError(f"R has shape {R.shape}; (k, {len(names)}) is needed")
    if not np.isfinite(R).all():
        raise InputError("R has an entry that is not finite")
    return Combinations(R, np.zeros(len(R)), tuple(_written(row, names) for row in R))


def _values(rows: Combinations, q: Any) -> np.ndarray:
    if rows.q.any():
        raise InputError(f"{', '.join(rows.labels)}: the values are in the text; leave q out")
    try:
        q = np.atleast_1d(np.asarray(q, np.float64))
    except (TypeError, ValueError):
        raise InputTypeError(f"q={q!r:.60}; numbers are needed, one a row of R") from None
    if q.shape != rows.q.shape:
        raise InputError(f"q has shape {q.shape}; {rows.q.shape} is needed, one value a row of R")
    if not np.isfinite(q).all():
        raise InputError(f"q={q}; finite numbers are needed")
    return q


def _written(row: np.ndarray, names: Sequence[str]) -> str:
    """A row of R in words, such as "a - 0.5*b"."""
    text = ""
    for j in np.flatnonzero(row)[:4]:
        size = "" if abs(row[j]) == 1 else f"{abs(row[j]):.4g}*"
        sign = ("-" if row[j] < 0 else "") if not text else (" - " if row[j] < 0 else " + ")
        text += f"{sign}{size}{names[int(j)]}"
    return (text or "0") + (" + ..." if np.count_nonzero(row) > 4 else "")


class Equation(NamedTuple):
    """One equation of a text: coefficients'theta = value, and its words."""

    coefficients: np.ndarray
    value: float
    text: str


class Token(NamedTuple):
    kind: str
    value: float | str
    start: int
    end: int


def read_equations(text: str, names: Sequence[str]) -> list[Equation]:
    """Every equation in a text; without "=" an expression is one whose value is 0.

    Example:
        >>> [(e.coefficients.tolist(), e.value) for e in read_equations("a = b, 2*b = 1", "ab")]
        [([1.0, -1.0], 0.0), ([0.0, 2.0], 1.0)]
    """
    return _Reader(text, names).equations()


def _tokens(text: str, names: Sequence[str]) -> list[Token]:
    known = sorted((n for n in names if n and not NUMBER.fullmatch(n)), key=len, reverse=True)
    tokens, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        tokens.append(_token(text, at, known, names))
        at = tokens[-1].end
    return [*tokens, Token("end", "", at, at)]


def _token(text: str, at: int, known: Sequence[str], names: Sequence[str]) -> Token:
    for name in known:
        if text.startswith(name, at) and _ends(text, at + len(name), name):
            return Token("name", name, at, at + len(name))
    if text.startswith("==", at):
        return Token("=", "=", at, at + 2)
    if text[at] in SIGNS:
        return Token(text[at], text[at], at, at + 1)
    if quoted := QUOTED.match(text, at):
        name = quoted[quoted.lastindex or 1]
        if name not in names:
            raise _unknown(name, names, text)
        return Token("name", name, at, quoted.end())
    number = NUMBER.match(text, at)
    if number and _ends(text, number.end(), number[0]):
        return Token("number", float(number[0]), at, number.end())
    word = WORD.match(text, at)
    raise _unknown(word[0] if word else text[at], names, text)


def _ends(text: str, at: int, name: str) -> bool:
    """Whether a word ends here, rather than being the beginning of a longer one."""
    closed = INSIDE.match(name[-1]) or name[-1] in ")]"
    return at == len(text) or not closed or not INSIDE.match(text[at])


def _unknown(name: str, names: Sequence[str], text: str) -> InputError:
    near = _nearest(name, names)
    some = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    hint = f"did you mean {near[0]!r}?" if near else f"there are {some}"
    where = "" if text == name else f" in {text!r}"
    return InputError(f"there is no parameter {name!r}{where}; {hint}")


def _nearest(name: str, names: Sequence[str]) -> list[str]:
    """At most one name: of those of the same column, which differ in "[...]", before others."""
    column = name.split("[")[0]
    kin = [known for known in names if column and known.split("[")[0] == column]
    return difflib.get_close_matches(name, kin or names, n=1, cutoff=0.0 if kin else 0.5)


class _Reader:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, names: Sequence[str]):
        self.text, self.names = text, list(names)
        self.tokens = _tokens(text, self.names)
        self.at = self.depth = 0

    def equations(self) -> list[Equation]:
        found = self._equation()
        while self._take(","):
            found += self._equation()
        if self._peek() != "end":
            self._refuse(self._odd(self.tokens[self.at]))
        return found

    def _equation(self) -> list[Equation]:
        """The equations between commas: several if there is more than one "="."""
        sides = [self._side()]
        while self._take("="):
            sides.append(self._side())
        if len(sides) == 1:
            value, start, end = sides[0]
            if value[-1]:
                self._refuse("a constant is compared with by '=': 'a - b = 1'")
            sides.append((np.zeros_like(value), start, end))
        return [self._difference(*pair) for pair in pairwise(sides)]

    def _side(self) -> tuple[np.ndarray, int, int]:
        """A sum, and where in the text it is."""
        start = self.tokens[self.at].start
        return self._sum(), start, self.tokens[self.at - 1].end

    def _difference(self, left: tuple, right: tuple) -> Equation:
        value = left[0] - right[0]
        if not value[:-1].any():
            self._refuse("no parameter is left in it")
        return Equation(value[:-1], float(0.0 - value[-1]), self.text[left[1] : right[2]])

    def _sum(self) -> np.ndarray:
        total = self._term()
        while (sign := self._peek()) in "+-":
            self.at += 1
            total = total + self._term() if sign == "+" else total - self._term()
        return total

    def _term(self) -> np.ndarray:
        product = self._factor()
        while (sign := self._peek()) in "*/":
            self.at += 1
            product = self._times(product, self._factor(), sign)
        return product

    def _times(self, left: np.ndarray, right: np.ndarray, sign: str) -> np.ndarray:
        if sign == "/":
            if right[:-1].any() or not right[-1]:
                self._refuse("only numbers other than 0 divide")
            return left / right[-1]
        if left[:-1].any() and right[:-1].any():
            self._refuse("a product of parameters is not linear; see result.law.push")
        return right * left[-1] if right[:-1].any() else left * right[-1]

    def _factor(self) -> np.ndarray:
        sign = 1.0
        while (kind := self._peek()) in "+-":
            self.at += 1
            sign = -sign if kind == "-" else sign
        return sign * self._atom()

    def _atom(self) -> np.ndarray:
        token, value = self.tokens[self.at], np.zeros(len(self.names) + 1)
        self.at += 1
        if token.kind == "name":
            value[self.names.index(str(token.value))] = 1.0
        elif token.kind == "number":
            value[-1] = float(token.value)
        elif token.kind == "(" and self.depth < MOST_PARENTHESES:
            self.depth += 1
            value = self._sum()
            self.depth -= 1
            if not self._take(")"):
                self._refuse("a ')' is missing")
        else:
            self._refuse("it ends too soon" if token.kind == "end" else self._odd(token))
        return value

    def _peek(self) -> str:
        return self.tokens[self.at].kind

    def _take(self, kind: str) -> bool:
        taken = self._peek() == kind
        self.at += taken
        return taken

    def _odd(self, token: Token) -> str:
        return f"{token.value!r} is not expected where it stands"

    def _refuse(self, why: str) -> None:
        raise InputError(f"{self.text!r} cannot be read: {why}; write 'a - b' or '2*a + b = 1'")

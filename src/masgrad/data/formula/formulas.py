"""Formulas: their structure, before anything is known about the data.

`parse("y ~ a*b - 1")` says that X is made of a, b and their product, without an intercept. The
grammar is formulaic's, whose parser reads whatever is more than a sum of columns: nothing in a
formula is ever evaluated by Python. Whether a column is a number or a category, and which levels it
has, is learned from the data (`masgrad.data.formula.learning`).
"""

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from masgrad.data.formula.effects import Columns, split_effects
from masgrad.data.formula.expressions import (
    FUNCTIONS,
    LEARNED,
    Expression,
    NotKnown,
    columns_of,
    python_tree,
    read,
)
from masgrad.errors import InputError, InputTypeError

MOST_TERMS = 10_000
"""Largest number of terms that a formula may stand for, before equal ones are joined."""

OPERATORS = {"~", "+", "-", ":", "*", "/", "**", "^"}

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
SUM_OF_COLUMNS = re.compile(rf" *{NAME} *~ *({NAME}|C\({NAME}\))( *\+ *({NAME}|C\({NAME}\)))* *")
"""Such as "y ~ a + b + C(g)"."""

ADVICE = (
    f"columns, C(column), arithmetic in I(), and {', '.join((*FUNCTIONS, *LEARNED))} are known: "
    "add anything else to the data first, as a column"
)


class Factor(NamedTuple):
    """A factor as written in a formula.

    Attributes:
        name: its text in the formula.
        expression: a plain column may turn out to be a category; anything else is a number.
        category: whether it was written C(...).
        base: the reference level named in C(...), if any.
    """

    name: str
    expression: Expression
    category: bool = False
    base: Any = None

    @property
    def plain(self) -> bool:
        return self.expression[0] == "column"


@dataclass(frozen=True)
class Formula:
    """The response and the terms of X, each a product of factors; () is the intercept.

    Attributes:
        text: the formula as written.
        response: the column of y.
        terms: of X, without an intercept if there are effects.
        effects: the columns of each fixed effect.

    Example:
        >>> [":".join(f.name for f in term) for term in parse("y ~ a + a:C(g)").terms]
        ['', 'a', 'a:C(g)']
    """

    text: str
    response: str
    terms: tuple[tuple[Factor, ...], ...]
    effects: tuple[Columns, ...] = ()

    @property
    def factors(self) -> dict[str, Factor]:
        return {factor.name: factor for term in self.terms for factor in term}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have: the response first."""
        used = (c for factor in self.factors.values() for c in columns_of(factor.expression))
        by = (name for columns in self.effects for name in columns)
        return tuple(dict.fromkeys([self.response, *used, *by]))


def parse(formula: str, columns: Sequence[str] | None = None) -> Formula:
    """Parse a formula such as "y ~ a + b:C(g)"; "." stands for `columns` other than y."""
    if not isinstance(formula, str):
        raise InputTypeError(f"a formula such as 'y ~ a + b' is needed, got {formula!r:.80}")
    before, effects = split_effects(formula) if "|" in formula else (formula, ())
    if columns is not None:  # "." is none of the effects' columns
        columns = [name for name in columns if (name,) not in effects]
    parsed = _sum_of_columns(before) or _by_formulaic(before, columns)
    if effects:
        parsed = _with_effects(parsed, formula, effects)
    if not parsed.terms:
        raise InputError(f"formula {formula!r} has no right-hand side; name a column, or 1")
    if any(parsed.response in columns_of(f.expression) for f in parsed.factors.values()):
        raise InputError(f"formula {formula!r} has the response {parsed.response!r} on both sides")
    return parsed


def _with_effects(before: Formula, text: str, effects: tuple[Columns, ...]) -> Formula:
    """The formula with its effects, which absorb the intercept."""
    terms = tuple(term for term in before.terms if term)
    if not terms:
        raise InputError(
            f"formula {text!r} has effects alone; name a column before the bar whose coefficient "
            "is wanted"
        )
    if (before.response,) in effects:
        raise InputError(f"formula {text!r} has the response {before.response!r} on both sides")
    return replace(before, text=text, terms=terms, effects=effects)


def of_columns(response: str, columns: Sequence[str], intercept: bool = True) -> Formula:
    """The formula "response ~ columns"; names may contain any characters.

    Example:
        >>> of_columns("y", ["a", "body mass"], intercept=False).text
        '`y` ~ 0 + `a` + `body mass`'
    """
    text = " + ".join(["1" if intercept else "0", *(f"`{name}`" for name in columns)])
    factors = tuple((Factor(name, ("column", name)),) for name in columns)
    return Formula(f"`{response}` ~ {text}", response, ((), *factors) if intercept else factors)


def _sum_of_columns(formula: str) -> Formula | None:
    """A sum of columns and C(column), which needs no grammar; None for any other formula.

    It spares the commonest formulas the import of formulaic, which takes as long as ten small fits.
    """
    if not SUM_OF_COLUMNS.fullmatch(formula):
        return None
    response, *names = re.findall(r"C\(\w+\)|\w+", formula)
    factors = (
        Factor(name, ("column", name.removeprefix("C(").removesuffix(")")), name.endswith(")"))
        for name in dict.fromkeys(names)
    )
    return Formula(formula, response, ((), *((factor,) for factor in factors)))


def _by_formulaic(formula: str, columns: Sequence[str] | None) -> Formula:
    try:
        left, right = _sides(formula, columns)
    except InputError:
        raise
    except Exception as error:  # formulaic's own are not ValueErrors; Python's parser adds others
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"formula {formula!r} cannot be read: {reason}") from None
    terms = tuple(_term(formula, term) for term in right)
    return Formula(formula, _response(formula, left), terms)


def _sides(formula: str, columns: Sequence[str] | None) -> tuple[list, list]:
    """The left-hand and right-hand terms, as parsed by formulaic."""
    from formulaic import Formula
    from formulaic.parser.algos.tokenize import tokenize

    if not formula.strip() or formula.rstrip().endswith("~"):
        raise InputError(f"formula {formula!r} has no right-hand side; 'y ~ a + b' is needed")
    _check_tokens(formula, list(tokenize(formula)), columns)
    _check_size(formula, columns)
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
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.kind is not token.Kind.OPERATOR:
            continue
        if token.token not in OPERATORS:
            raise InputError(f"formula {formula!r} uses {token.token!r}; {ADVICE}")
        if token.token in ("**", "^") and (before is None or before.token != ")"):
            said = "" if before is None else before.token
            raise InputError(  # the grammar's a**2 is a:a, which is a: a silent surprise
                f"formula {formula!r} has {said}{token.token}, which in a formula crosses terms, "
                f"as in (a + b)**2; for a power write I({said}**2)"
            )


def _check_size(formula: str, columns: Sequence[str] | None) -> None:
    """Refuse a formula whose terms would take for ever to list, such as (a + b)**50."""
    from formulaic.parser import DefaultFormulaParser

    context = {"__formulaic_variables_available__": columns}
    tree = DefaultFormulaParser().get_ast(formula, context=context)
    if _size(tree, len(columns or ())) > MOST_TERMS:
        raise InputError(
            f"formula {formula!r:.80} stands for more than {MOST_TERMS:,} products of terms; cross "
            "fewer of them: (a + b)**2 has all products of two"
        )


def _size(tree: Any, columns: int) -> float:
    """A bound on the number of terms of a formula's tree; it counts equal ones as well."""
    nodes, pending, sizes = [], [tree], {}
    while pending:  # not by recursion: a sum of a thousand columns is as deep
        nodes.append(pending.pop())
        pending += getattr(nodes[-1], "args", ())
    for node in reversed(nodes):
        arguments = getattr(node, "args", ())
        sizes[id(node)] = _node_size(node, [sizes[id(part)] for part in arguments], columns)
    return sizes[id(tree)]


def _node_size(node: Any, sizes: list[float], columns: int) -> float:
    """The number of terms of a node, given those of its arguments."""
    if not hasattr(node, "operator"):
        return 1.0
    match str(node.operator.symbol), sizes:
        case ".", _:
            return float(columns)
        case (("**" | "^"), [left, _]):
            power = str(node.args[1])
            times = int(power) if power.isdigit() and len(power) < 9 else 10**9
            return math.exp(min(times * math.log(left), 100.0))
        case ":", [left, right]:
            return left * right
        case (("*" | "/"), [left, right]):
            return left + right + left * right
    return sum(sizes)


def _term(formula: str, term: Any) -> tuple[Factor, ...]:
    if str(term) == "1":
        return ()
    try:
        return tuple(_factor(factor) for factor in term.factors)
    except NotKnown:
        raise InputError(f"formula {formula!r} has the term {str(term)!r}; {ADVICE}") from None


def _factor(factor: Any) -> Factor:
    if factor.eval_method is factor.EvalMethod.LOOKUP:
        return Factor(factor.expr, ("column", factor.expr))
    if factor.eval_method is factor.EvalMethod.LITERAL:
        raise NotKnown
    tree, quoted = python_tree(factor.expr)
    match tree:
        case ast.Call(func=ast.Name(id="C"), args=[ast.Name() as column, *contrast], keywords=[]):
            return Factor(factor.expr, read(column, quoted), True, _base(contrast))
    expression = read(tree, quoted)
    if not any(columns_of(expression)):
        raise NotKnown
    if expression[0] == "column":  # I(a) is a number, whatever a is
        expression = ("*", ("number", 1.0), expression)
    return Factor(factor.expr, expression)


def _base(contrast: list[ast.expr]) -> Any:
    """The reference level in Treatment("b") or contr.treatment("b"), by position or keyword."""
    match contrast:
        case []:
            return None
        case [ast.Call(func=function, args=args, keywords=keywords)] if _is_treatment(function):
            given = [*args, *(k.value for k in keywords if k.arg in ("base", "reference"))]
            match given:
                case []:
                    return None
                case [ast.Constant(value=str() | int() | float() as value)]:
                    return value
        case [function] if _is_treatment(function):
            return None
    raise NotKnown


def _is_treatment(tree: ast.expr) -> bool:
    match tree:
        case ast.Name(id="Treatment"):
            return True
        case ast.Attribute(value=ast.Name(id="contr"), attr="treatment"):
            return True
    return False


def _response(formula: str, left: list) -> str:
    factors = [_term(formula, term) for term in left]
    if len(factors) != 1 or len(factors[0]) != 1:
        said = " + ".join(map(str, left)) or "none"
        raise InputError(
            f"formula {formula!r} has the response {said}; one column is needed: 'y ~ a + b'"
        )
    (response,) = factors[0]
    if not response.plain or response.category:
        raise InputError(
            f"formula {formula!r} has the response {response.name}; a column is needed: add "
            "it to the data first"
        )
    return response.name

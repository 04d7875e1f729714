"""Arithmetic of columns, such as log(a + 1) or I(a ** 2): read from a formula, never evaluated by
Python.

An expression is a nested tuple, plain enough for JSON:

    ("column", name) · ("number", value) · (operation, argument, ...)

Operations are those listed here; whatever else a formula holds is refused by name.
"""

import ast
import operator
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from masgrad.errors import InputError

Expression: TypeAlias = tuple

FUNCTIONS = {
    f.__name__: f for f in (np.log, np.log1p, np.log2, np.log10, np.exp, np.expm1, np.sqrt)
} | {"abs": np.abs}

BINARY = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "**": operator.pow,
}

LEARNED = ("center", "scale")
"""Operations that become arithmetic once the mean and standard deviation are known (`learning`)."""

_SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_ARITY = dict.fromkeys(FUNCTIONS, 1) | dict.fromkeys(BINARY, 2)


class NotKnown(ValueError):
    """Python syntax that is not one of the operations above."""


def python_tree(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Python's syntax tree of a factor, and the backquoted columns by their placeholders."""
    quoted: dict[str, str] = {}

    def stand_in(match: re.Match) -> str:
        name = f"__quoted_{len(quoted)}"
        quoted[name] = match[1]
        return name

    try:
        tree = ast.parse(re.sub(r"`([^`]*)`", stand_in, text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotKnown(text) from None
    return tree, quoted


def read(tree: ast.expr, quoted: Mapping[str, str]) -> Expression:
    """Convert a syntax tree to an expression."""
    match tree:
        case ast.Name(id=name):
            return ("column", quoted.get(name, name))
        case ast.Constant(value=bool()):
            raise NotKnown
        case ast.Constant(value=int() | float() as value) if abs(value) < 1e300:
            return ("number", float(value))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return ("*", ("number", -1.0), read(inner, quoted))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SYMBOLS:
            return (_SYMBOLS[type(op)], read(left, quoted), read(right, quoted))
        case ast.Call(func=function, args=[inner], keywords=[]):
            name = _function(function)
            return read(inner, quoted) if name == "I" else (name, read(inner, quoted))
    raise NotKnown


def _function(tree: ast.expr) -> str:
    """The name of a function written as log, np.log or numpy.log."""
    match tree:
        case ast.Name(id=name) if name in ("I", *FUNCTIONS, *LEARNED):
            return name
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name) if name in FUNCTIONS:
            return name
    raise NotKnown


def evaluate(expression: Expression, columns: Mapping[str, np.ndarray]) -> Any:
    """The values of an expression; NaN where it is undefined, such as log(-1)."""
    operation, *arguments = expression
    if operation == "column":
        return columns[arguments[0]]
    if operation == "number":
        return arguments[0]
    function = FUNCTIONS.get(operation) or BINARY[operation]
    with np.errstate(all="ignore"):
        return function(*(np.asarray(evaluate(a, columns), np.float64) for a in arguments))


def columns_of(expression: Expression) -> Iterator[str]:
    """The columns that an expression reads."""
    match expression:
        case ("column", name):
            yield name
        case ("number", _):
            return
        case (_, *arguments):
            for argument in arguments:
                yield from columns_of(argument)


def from_json(saved: Any) -> Expression:
    """An expression from nested lists."""
    match saved:
        case ["column", str(name)]:
            return ("column", name)
        case ["number", int(value) | float(value)]:
            return ("number", float(value))
        case [str(operation), *arguments] if _ARITY.get(operation) == len(arguments):
            return (operation, *map(from_json, arguments))
    raise InputError(f"saved terms are damaged: {saved!r:.80} is no expression")

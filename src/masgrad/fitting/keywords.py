"""The keywords of `Options` as functions take them: their checks, signatures and documentation."""

import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from masgrad.errors import InputTypeError
from masgrad.fitting.options import KEYWORDS, Options


def options_of(
    function: str,
    given: dict[str, Any],
    known: Iterable[str] = KEYWORDS,
    own: tuple[str, ...] = (),
) -> Options:
    """The options of a call of `function`; a keyword that it does not have is a TypeError.

    `own` are keywords that the function takes beside the options.
    """
    check_keywords(function, given, known, own)
    return Options(**given)


def check_keywords(
    function: str, given: dict[str, Any], known: Iterable[str], own: tuple[str, ...] = ()
) -> None:
    """Refuse a keyword that a function does not have, and name the nearest one."""
    names = [*own, *known]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise InputTypeError(
                f"{function}() got an unexpected keyword argument {name!r}; {hint}"
            )


def takes_keywords(*names: str, documented: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Give a function of `**keywords` the signature and documentation of these keywords.

    `documented` are keywords that its own signature has, for its documentation.
    """

    def decorate(function: Any) -> Any:
        own = inspect.signature(function)
        before = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        new = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=KEYWORDS[name].default,
                annotation=KEYWORDS[name].metadata["accepts"] or KEYWORDS[name].type,
            )
            for name in names
        ]
        function.__signature__ = own.replace(parameters=[*before, *new])
        entries = "".join(map(_documentation, (*documented, *names)))
        function.__doc__ = function.__doc__.replace("        keywords:\n", entries)
        return function

    return decorate


def _documentation(name: str) -> str:
    """The entry of a keyword in a docstring."""
    entry = f"{name}: {KEYWORDS[name].metadata['meaning']}"
    indent = " " * 8
    return (
        textwrap.fill(entry, 100, initial_indent=indent, subsequent_indent=indent + "    ") + "\n"
    )

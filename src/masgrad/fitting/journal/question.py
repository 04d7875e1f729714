"""What a read asks, as a short text: a fit that is repeated asks the same in the same order.

The name of the function that works on the blocks counts, and the numbers and arrays it holds, such
as the point at which gradients are taken. That point follows from all rows that were read before:
were they others, it would be another one.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from masgrad.checkpoints.digest import digest

PLAIN = (bool, int, float, str, type(None), np.ndarray, np.generic)


DEPTH = 6
"""Functions inside of functions that are looked into: some call themselves."""


def question(work: Callable[..., Any]) -> str:
    """A text of 16 digits that stands for what a read asks."""
    return digest(_asked(work, DEPTH))


def _asked(value: Any, depth: int) -> Any:
    """Names of functions, and the numbers and arrays that they hold; other objects by their type.

    Objects may hold what differs between two processes, such as a clock.
    """
    if isinstance(value, PLAIN):
        return value
    if depth and isinstance(value, tuple | list):
        return [_asked(item, depth - 1) for item in value]
    if depth and isinstance(value, functools.partial):
        parts = value.func, value.args, tuple(value.keywords.values())
        return ["partial", *(_asked(part, depth - 1) for part in parts)]
    if isinstance(value, types.MethodType):
        return ["method", value.__func__.__qualname__]
    if depth and isinstance(value, types.FunctionType):
        cells = [_asked(_content(cell), depth - 1) for cell in value.__closure__ or ()]
        return [value.__qualname__, *cells]
    return type(value).__qualname__


def _content(cell: types.CellType) -> Any:
    """What a cell holds, if it has been filled."""
    try:
        return cell.cell_contents
    except ValueError:
        return None

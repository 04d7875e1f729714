"""Arguments that are one number or word: checked, or an error that says what is needed."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

from masgrad.errors import InputError, InputTypeError

UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(f"{name}={value!r}; a whole number is needed")
    if value < least:
        raise InputError(f"{name}={value}; at least {least} is needed")
    return int(value)


def check_seed(seed: Any) -> int:
    """A seed that JAX takes."""
    seed = check_count("seed", seed, 0)
    if seed >= 2**63:
        raise InputError(f"seed={seed}; a number below 2**63 is needed")
    return seed


def as_number(name: str, value: Any) -> float:
    """One finite real number."""
    try:
        number = None if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None:
        raise InputTypeError(f"{name}={value!r}; a number is needed")
    if not math.isfinite(number):
        raise InputError(f"{name}={number}; a finite number is needed")
    return number


def as_size(name: str, value: Any, zero: bool = False) -> float:
    """One positive number (or 0, if allowed) whose fourth power is a number as well."""
    number = as_number(name, value)
    if number < 0 or (number == 0 and not zero):
        needed = "a number >= 0" if zero else "a positive number"
        raise InputError(f"{name}={number:g}; {needed} is needed")
    if number and not 1e-70 < number < 1e70:
        raise InputError(f"{name}={number:g}; a number between 1e-70 and 1e70 is needed")
    return number


def as_bytes(memory: str | int) -> int:
    """A size such as "512MB", or a number of bytes."""
    if isinstance(memory, str):
        text = memory.strip().upper().replace("IB", "B")
        for unit in sorted(UNITS, key=len, reverse=True):
            if text.endswith(unit):
                try:
                    memory = float(text.removesuffix(unit)) * UNITS[unit]  # pyright: ignore
                    break
                except ValueError:
                    pass
    if isinstance(memory, str | bool) or not 2**20 <= memory < math.inf:
        raise InputError(f"memory={memory!r}; a size of at least a megabyte is needed: '512MB'")
    return int(memory)


def whole(name: str, least: int) -> Callable[[Any], int]:
    """The check of a whole number that is at least `least`."""
    return lambda value: check_count(name, value, least)


def one_of(name: str, choices: tuple[str, ...]) -> Callable[[Any], str]:
    """The check of a keyword that is one of several words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InputError(f"{name}={value!r} is not known; use one of {', '.join(choices)}")
        return value

    return check

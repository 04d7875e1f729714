"""Arguments that are one number: checked, or an error that says what is needed."""

import math
from numbers import Integral
from typing import Any

from masgrad.errors import InputError, InputTypeError


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

"""The symmetry of a search: any function that maps theta to the representative of its equals."""

from collections.abc import Callable

import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.models.symmetry import Exchangeable

Canonical = Callable[[np.ndarray], np.ndarray]
"""A function from theta to the representative of its equals."""


def as_symmetry(given: Canonical | None, units: np.ndarray | None, p: int) -> Canonical | None:
    """The symmetry of a call: the one that was given, or the model's own units."""
    if given is None:
        return None if units is None else Exchangeable(units)
    if not callable(given):
        raise InputTypeError(
            f"symmetry={given!r:.60}; a function from theta to the representative of its equals "
            "is needed, such as mg.Exchangeable(units)"
        )
    if isinstance(given, Exchangeable) and given.units.max(initial=0) >= p:
        raise InputError(f"symmetry names parameter {given.units.max()}; theta has {p}")
    shape = np.shape(given(np.arange(1.0, p + 1)))
    if shape != (p,):
        raise InputError(f"symmetry returns shape {shape}; a theta of shape ({p},) is needed")
    return given

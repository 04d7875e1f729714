"""float64 inside masgrad, whatever the session's JAX default is.

`jax.enable_x64` is a thread-local context, so the flag is entered at every public door
(`@float64`) and nowhere else. Three traps follow from it: arithmetic outside the context falls
back to float32, a new thread starts outside it, and an object built outside it would truncate
what it converts. Hence records hold NumPy arrays, and JAX arrays never leave a door.

Fits of linear predictors run in NumPy alone and are spared the import of JAX: a door enters the
context only if JAX is loaded by then. Modules that compute with JAX import it at their top, and so
before any of their doors is called; a function that imports JAX itself is a door of its own
(`@jax_float64`).
"""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def jax_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with 64-bit JAX arrays, in whichever thread calls it."""

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        import jax

        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside


def float64(door: Callable[P, R]) -> Callable[P, R]:
    """Run a public function with 64-bit JAX arrays, if JAX is loaded."""
    with_jax = jax_float64(door)

    @functools.wraps(door)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        return (with_jax if "jax" in sys.modules else door)(*args, **kwargs)

    return inside

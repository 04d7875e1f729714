"""float64 inside masgrad, whatever the session's JAX default is.

`jax.enable_x64` is a thread-local context, so the flag is entered at every public door
(`@float64`) and nowhere else. Three traps follow from it: arithmetic outside the context falls
back to float32, a new thread starts outside it, and an object built outside it would truncate
what it converts. Hence records hold NumPy arrays, and JAX arrays never leave a door.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def float64(door: Callable[P, R]) -> Callable[P, R]:
    """Run a public function with 64-bit JAX arrays, in whichever thread calls it."""

    @functools.wraps(door)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        import jax

        with jax.enable_x64(True):
            return door(*args, **kwargs)

    return inside

"""The vocabulary of shapes, and the one place that asks which library a value belongs to.

Letters in shapes: `N` rows, `n` rows of a batch, `p` parameters, `K` chains. Inside the engine
the chain axis is last, so that one instruction advances neighbouring chains.

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
from types import ModuleType
from typing import Annotated, Any, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

Array: TypeAlias = Any
"""A NumPy or JAX array."""

Vectors: TypeAlias = Annotated[Array, "p K"]
"""A vector for each chain."""

Matrices: TypeAlias = Annotated[Array, "p p K"]
"""A matrix for each chain."""

Rows: TypeAlias = Any
"""Observations: an array or a pytree of arrays that share their leading axis."""

StepSize: TypeAlias = float | Callable[[Array], Array]
"""A constant step, or a schedule of the (traced) step number, which starts at 0."""

RootKind: TypeAlias = Literal["symmetric", "diagonal", "low_rank", "rank_one", "products", "auto"]
Part: TypeAlias = Literal["mean", "cov", "hessian"]


def namespace(x: Array) -> ModuleType:
    """NumPy for what NumPy made, `jax.numpy` for everything else (traced values included)."""
    if isinstance(x, np.ndarray | np.generic | float | int):
        return np
    import jax.numpy as jnp

    return jnp


def is_from(library: str, value: Any, *classes: str) -> bool:
    """Whether a value is an instance of these classes of a heavy library, without importing it.

    Nothing is an instance of a class of a library that no one has imported.

    Example:
        >>> is_from("pandas", [1.0, 2.0], "Series", "DataFrame")
        False
    """
    module = sys.modules.get(library)
    return isinstance(value, tuple(getattr(module, c, ()) for c in classes))


def loop(unfinished: Callable[[Any], Array], step: Callable[[Any], Any], carry: Any) -> Any:
    """Steps while `unfinished(carry)`; the first part of the carry tells the library."""
    if namespace(carry[0]) is not np:
        import jax

        return jax.lax.while_loop(unfinished, step, carry)
    while unfinished(carry):
        carry = step(carry)
    return carry


def repeat(count: int, step: Callable[[Any], Any], carry: Any) -> Any:
    """Repeat a step `count` times; when traced, it is compiled once."""
    if namespace(carry[0]) is not np:
        import jax

        return jax.lax.fori_loop(0, count, lambda _, c: step(c), carry)
    for _ in range(count):
        carry = step(carry)
    return carry


def log_ndtr(t: Array) -> Array:
    """Logarithm of the standard normal distribution function."""
    if namespace(t) is np:
        from scipy.special import log_ndtr as host

        return host(t)
    from jax.scipy.special import log_ndtr as device

    return device(t)


# float64.


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

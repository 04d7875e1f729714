"""The vocabulary of shapes, and the one place that asks which library a value belongs to.

Letters in shapes: `N` rows, `n` rows of a batch, `p` parameters, `K` chains. Inside the engine
the chain axis is last, so that one instruction advances neighbouring chains.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

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

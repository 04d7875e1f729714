"""A user's function, tried on the shapes of one row, and its look-ups on the rows.

JAX takes the last entry of an array for an index beyond it, and says nothing.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.experimental import checkify

from masgrad.data.arrays import BLOCK, blocks, count_rows, pad
from masgrad.errors import InputError
from masgrad.types import Rows

LOOK_UPS = {"gather", "dynamic_slice"}
"""Operations that take entries at computed places; places known to be inside are slices."""

TRACED = 64
"""Functions whose shapes are remembered."""


def traced(what: str, fn: Callable[[Any, Any], Any], size: int, rows: Rows) -> Any:
    """Shape and type of `fn(theta, z)` for a row z; an error says why it has none.

    Args:
        what: the name of the function in messages.
        fn: the function.
        size: the number of parameters.
        rows: a block of rows.
    """
    arrays, form = jax.tree.flatten(rows)
    shapes = tuple(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in arrays)
    try:
        return _shape(fn, size, shapes, form)
    except KeyError as error:
        if isinstance(rows, dict) and error.args and error.args[0] not in rows:
            raise InputError(
                f"{what} asks for {error}, which is no key of a row or of the parameters; a row "
                f"has {', '.join(map(str, rows))}"
            ) from error
        raise _untraced(what, size, error) from error
    except Exception as error:
        raise _untraced(what, size, error) from error


@lru_cache(TRACED)
def _shape(fn: Callable[[Any, Any], Any], size: int, shapes: tuple, form: Any) -> Any:
    """Tracing takes as long as a fit of a few rows: it is done once for rows of a shape."""
    theta = jax.ShapeDtypeStruct((size,), np.float64)
    return jax.eval_shape(fn, theta, jax.tree.unflatten(form, shapes))


def check_indices(what: str, fn: Callable[[Any, Any], Any], size: int, rows: Rows) -> None:
    """Check that no index of a function is beyond its array, in any of these rows."""
    arrays, form = jax.tree.flatten(rows)
    shapes = tuple(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in arrays)
    if not _looks_up(fn, size, shapes, form):
        return
    for block in blocks(rows):
        length = min(BLOCK, 1 << (count_rows(block) - 1).bit_length())
        said = _with_checks(fn)(np.zeros(size), pad(block, length))[0].get()
        if said:
            raise InputError(
                f"{what} asks for an entry that is not there: {said.strip().splitlines()[0]} Give "
                "dim= or params= as many entries as there are, and codes from 0 on"
            )


@lru_cache(TRACED)
def _looks_up(fn: Callable[[Any, Any], Any], size: int, shapes: tuple, form: Any) -> bool:
    """Whether a function takes entries at places that are not known to be inside an array."""
    theta = jax.ShapeDtypeStruct((size,), np.float64)
    program = jax.make_jaxpr(fn)(theta, jax.tree.unflatten(form, shapes))
    return bool(LOOK_UPS & set(_operations(program.jaxpr)))


def _operations(program: Any) -> Iterator[str]:
    """Names of all operations of a traced function, those of the functions it calls included."""
    for equation in program.eqns:
        yield equation.primitive.name
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _operations(getattr(inner, "jaxpr", inner))


def _is_program(value: Any) -> bool:
    return hasattr(value, "jaxpr") or hasattr(value, "eqns")


@lru_cache(TRACED)
def _with_checks(fn: Callable[[Any, Any], Any]) -> Callable:
    of_rows = jax.vmap(fn, (None, 0))
    return jax.jit(checkify.checkify(of_rows, errors=checkify.index_checks))


def _untraced(what: str, size: int, error: Exception) -> InputError:
    if isinstance(error, AttributeError) and "'dict' object" in str(error) and error.name:
        advice = f"columns and parameters have the form z[{error.name!r}]"
        return InputError(f"{what} asks for .{error.name} of a dictionary; {advice}")
    return InputError(
        f"{what} cannot be traced by JAX at theta of shape ({size},): "
        f"{type(error).__name__}: {error}; write it with jax.numpy, for one row"
    )


def check_scalar(out: Any) -> None:
    """Check that a loss is one real number."""
    shape = getattr(out, "shape", None)
    if shape != () or not np.issubdtype(out.dtype, np.floating):
        given = f"{out.dtype} of shape {shape}" if shape is not None else type(out).__name__
        raise InputError(
            f"the custom loss returns {given}; a real scalar for one row is needed "
            "(sum or mean over its own axes inside the function)"
        )


def check_array(out: Any) -> None:
    """Check that a prediction is one real number, or an array of them."""
    if not np.issubdtype(getattr(out, "dtype", object), np.floating):
        given = f"{out.dtype}" if hasattr(out, "dtype") else type(out).__name__
        raise InputError(
            f"predict returns {given}; a real number for one row is needed, or an array of them"
        )

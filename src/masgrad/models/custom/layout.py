"""Parameters as a pytree: how its arrays are laid out in the vector theta.

The order is that of JAX: keys of a dictionary sorted, lists and tuples as they are, every array row
by row. `{"layer1": {"w": (2, 3), "b": (3,)}}` is theta = [layer1.b[0], ..., layer1.w[0,0], ...].
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.types import Array


@dataclass(frozen=True)
class Layout:
    """The blocks of theta.

    Args:
        structure: of the pytree.
        names: of its arrays: the keys that lead to each, joined by dots.
        shapes: of its arrays.
    """

    structure: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, params: Any) -> "Layout":
        """The layout of a pytree of numbers and arrays."""
        paths, structure = jax.tree.flatten_with_path(params)
        if not paths:
            raise InputError(f"params={params!r:.60} holds no array; give one for each parameter")
        keystr = jax.tree_util.keystr
        names = tuple(keystr(path, simple=True, separator=".") or "theta" for path, _ in paths)
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"two arrays of params are called {twice[0]!r}; rename one of them")
        shapes = tuple(np.shape(leaf) for _, leaf in paths)
        for name, shape in zip(names, shapes, strict=True):
            if not prod(shape):
                raise InputError(f"params: {name} has shape {shape}, which holds no number")
        return cls(structure, names, shapes)

    @property
    def size(self) -> int:
        """The number of parameters, p."""
        return sum(map(prod, self.shapes))

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every parameter: that of its array, with its place in it."""
        return tuple(
            f"{name}[{','.join(map(str, place))}]" if shape else name
            for name, shape in zip(self.names, self.shapes, strict=True)
            for place in np.ndindex(shape)
        )

    def tree(self, theta: Array) -> Any:
        """The pytree of a vector theta, which may be traced."""
        parts, start = [], 0
        for shape in self.shapes:
            end = start + prod(shape)
            parts.append(theta[start:end].reshape(shape))
            start = end
        return jax.tree.unflatten(self.structure, parts)

    def vector(self, params: Any) -> np.ndarray:
        """The vector theta of a pytree, (p,)."""
        leaves, structure = jax.tree.flatten(params)
        if structure != self.structure:
            raise InputError(
                f"the parameters have the structure {_written(structure)}; that of params is "
                f"needed, {_written(self.structure)}"
            )
        blocks = zip(self.names, self.shapes, leaves, strict=True)
        return np.concatenate([_numbers(*block) for block in blocks])


def shape_of(values: Any) -> tuple[int, ...]:
    """The shape of an array or of nested lists of numbers; () for anything else."""
    try:
        return np.shape(values)
    except ValueError:  # lists of different lengths
        return ()


def _numbers(name: str, shape: tuple[int, ...], leaf: Any) -> np.ndarray:
    """The numbers of an array of the pytree, row by row."""
    if np.shape(leaf) != shape:
        raise InputError(f"{name} has shape {np.shape(leaf)}; {shape} is needed")
    try:
        values = np.asarray(leaf, np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name} holds no numbers: {error}") from None
    if not np.isfinite(values).all():
        raise InputError(f"{name} holds {values[~np.isfinite(values)][0]}; start at a finite point")
    return values.ravel()


def _written(structure: Any) -> str:
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")

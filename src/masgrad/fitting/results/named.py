"""Numbers of every parameter by name: a pandas Series, in which an array of parameters is a block.

Parameters of a pytree are called "layer1.w[0,1]", the array's name and the place in it, so that
`params["layer1.w"]` is the array in its shape, whether the result was fitted or loaded from a file.
"""

import difflib
import re
from typing import Any

import numpy as np
import pandas as pd

PLACE = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")
"""The name of an array, and a place in it."""


def named(values: np.ndarray, names: tuple[str, ...]) -> pd.Series:
    """Values by name; with blocks if the names are those of arrays."""
    return (Blocks if shapes_of(names) else pd.Series)(values, names)


class Blocks(pd.Series):
    """A Series whose `[name]` is also a whole array; what is computed from it is a plain Series.

    Example:
        >>> params = Blocks([1.0, 2.0, 3.0], ["level", "w[0,0]", "w[0,1]"])
        >>> params["w"], float(params["level"]), float(params["w[0,1]"])
        (array([[2., 3.]]), 1.0, 3.0)
    """

    @property
    def _constructor(self) -> type[pd.Series]:
        return pd.Series

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str) or key in self.index:
            return super().__getitem__(key)
        shapes = shapes_of(tuple(self.index))
        if key in shapes:
            places = [match is not None and match[1] == key for match in map(_place, self.index)]
            return self.to_numpy()[places].reshape(shapes[key])
        names = [*shapes, *self.index]
        near = difflib.get_close_matches(key, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:20])}"
        raise KeyError(f"there is no parameter {key!r}; {hint}")


def shapes_of(names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """The shape of each array whose entries all have a name, in their order."""
    places: dict[str, list[tuple[int, ...]]] = {}
    for match in map(_place, names):
        if match is not None:
            places.setdefault(match[1], []).append(tuple(map(int, match[2].split(","))))
    shapes = {name: tuple(k + 1 for k in found[-1]) for name, found in places.items()}
    return {name: s for name, s in shapes.items() if places[name] == list(np.ndindex(s))}


def _place(name: str) -> re.Match[str] | None:
    return PLACE.fullmatch(name)

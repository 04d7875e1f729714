"""Names of Dask's collections, the same in every process that makes them of the same data.

Dask names a collection by what it is made of. A data frame that a cluster holds (`persist`) is made
of futures, each of which counts by its key: the object itself is another one in every process.
"""

from typing import Any

from dask.base import tokenize

from masgrad.types import is_from


def name_of(value: Any) -> str:
    """A text that stands for a collection."""
    expression = getattr(value, "expr", None)
    if expression is None:
        return tokenize(value)
    for part in list(expression.walk()):
        layer = part.operands[0] if type(part).__name__ == "FromGraph" else None
        if isinstance(layer, dict) and all(
            is_from("distributed", v, "Future") for v in layer.values()
        ):
            keys = {name: str(future.key) for name, future in layer.items()}
            expression = expression.substitute(part, type(part)(keys, *part.operands[1:]))
    return expression._name

"""Arrays as JSON: base64 of little-endian float64, what is read being what was written."""

import base64
from typing import Any

import numpy as np


def pack(a: np.ndarray) -> dict[str, Any]:
    """An array as JSON has it."""
    data = np.ascontiguousarray(a, "<f8").tobytes()
    return {"shape": list(a.shape), "float64": base64.b64encode(data).decode()}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """The array of what `pack` made."""
    data = np.frombuffer(base64.b64decode(packed["float64"]), "<f8")
    return data.astype(np.float64).reshape(packed["shape"])

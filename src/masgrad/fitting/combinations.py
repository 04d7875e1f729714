"""Which linear combinations of parameters are meant: a matrix, a vector or words, as a matrix."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.hypotheses import read_equations


class Combinations(NamedTuple):
    """R (k, p), the values q (k,) that it is compared with, and a name for each row."""

    R: np.ndarray
    q: np.ndarray
    labels: tuple[str, ...]


def combinations(R: Any, names: Sequence[str], q: Any = None) -> Combinations:
    """R as a matrix: from one, from a vector, from a text or from a list of texts."""
    texts = [R] if isinstance(R, str) else R
    if isinstance(texts, list | tuple) and texts and all(isinstance(t, str) for t in texts):
        found = [e for text in texts for e in read_equations(text, names)]
        rows = Combinations(
            np.array([e.coefficients for e in found]),
            np.array([e.value for e in found]),
            tuple(e.text for e in found),
        )
    else:
        rows = _matrix(R, names)
    return rows if q is None else rows._replace(q=_values(rows, q))


def _matrix(R: Any, names: Sequence[str]) -> Combinations:
    try:
        R = np.atleast_2d(np.asarray(R, np.float64))
    except (TypeError, ValueError):
        raise InputTypeError(
            f"R={R!r:.60}; a matrix is needed, or a text over {', '.join(names[:3])}"
        ) from None
    if R.ndim != 2 or R.shape[1] != len(names) or not len(R):
        raise InputError(f"R has shape {R.shape}; (k, {len(names)}) is needed")
    if not np.isfinite(R).all():
        raise InputError("R has an entry that is not finite")
    return Combinations(R, np.zeros(len(R)), tuple(_written(row, names) for row in R))


def _values(rows: Combinations, q: Any) -> np.ndarray:
    if rows.q.any():
        raise InputError(f"{', '.join(rows.labels)}: the values are in the text; leave q out")
    try:
        q = np.atleast_1d(np.asarray(q, np.float64))
    except (TypeError, ValueError):
        raise InputTypeError(f"q={q!r:.60}; numbers are needed, one a row of R") from None
    if q.shape != rows.q.shape:
        raise InputError(f"q has shape {q.shape}; {rows.q.shape} is needed, one value a row of R")
    if not np.isfinite(q).all():
        raise InputError(f"q={q}; finite numbers are needed")
    return q


def _written(row: np.ndarray, names: Sequence[str]) -> str:
    """A row of R in words, such as "a - 0.5*b"."""
    text = ""
    for j in np.flatnonzero(row)[:4]:
        size = "" if abs(row[j]) == 1 else f"{abs(row[j]):.4g}*"
        sign = ("-" if row[j] < 0 else "") if not text else (" - " if row[j] < 0 else " + ")
        text += f"{sign}{size}{names[int(j)]}"
    return (text or "0") + (" + ..." if np.count_nonzero(row) > 4 else "")

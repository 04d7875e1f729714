"""Separation: directions along which the likelihood rises for ever.

For 0s and 1s such a direction d has s_i x_i'd >= 0 for all rows, s = 2 y - 1, and > 0 for some: a
hyperplane separates the classes. It shows in two ways. A Newton path that diverges loses the
information about the linear predictor along d. And linear programming finds d over the rows that
matter: those with the smallest margins first, then those that the direction found gets wrong, until
there are none (or no direction is left). If s_i x_i'd > 0 for all rows (complete separation), d can
be turned a little every way, and nothing at all is identified.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

from masgrad.fitting.objective.local_model import LocalModel, is_empty
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

FIRST_ROWS = 2000
"""Rows of the first program, those with the smallest margins."""

MORE_ROWS = 500
"""Rows that are added to each later program."""

PROGRAMS = 30

SMALLEST_INFORMATION = 1e-3
"""Information about a direction of phi, in which columns have size 1, that is as good as none: its
standard error is beyond 30."""

Program = Callable[[np.ndarray], np.ndarray | None]
"""From rows s x to a direction, or None."""


def recession_directions(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    local: LocalModel,
    by_programming: bool = False,
) -> np.ndarray:
    """Directions of phi along which the loss falls for ever, (p, k); k = 0 if none is found.

    Args:
        objective: the loss.
        reader: for all rows.
        sample: pilot rows.
        local: the local model where the fit has come to.
        by_programming: look for them by linear programming over the rows, rather than in the
            information that a diverging path has left.
    """
    if not objective.separable:
        return np.empty((len(local.point), 0))
    if not by_programming:
        return _without_information(local)
    d = _search(objective, reader, sample, local.point, strict=False)
    return np.empty((len(local.point), 0)) if d is None else d[:, None] / np.linalg.norm(d)


def is_complete(objective: Objective, reader: Reader, sample: Sample, local: LocalModel) -> bool:
    """Whether some direction has every row strictly on its side."""
    return _search(objective, reader, sample, local.point, strict=True) is not None


def _without_information(local: LocalModel) -> np.ndarray:
    """Eigenvectors of H with next to no information; empty columns are not asked."""
    full = ~is_empty(local.hessian)
    values, vectors = np.linalg.eigh(local.hessian[np.ix_(full, full)])
    return np.eye(len(full))[:, full] @ vectors[:, values < SMALLEST_INFORMATION]


def _search(
    objective: Objective, reader: Reader, sample: Sample, phi: np.ndarray, strict: bool
) -> np.ndarray | None:
    """A separating direction; with `strict`, one that has no row on its border."""
    bernoulli = objective.family is not None and objective.family.name == "bernoulli"
    if not (bernoulli and _is_binary(sample.rows)):
        return None
    program = _interior_direction if strict else _direction
    chosen = _signed(objective, sample.rows)
    chosen = chosen[np.argsort(chosen @ phi)[:FIRST_ROWS]]
    with reader.interruptible():
        for _ in range(PROGRAMS):
            d = None if reader.monitor.interrupted else program(chosen)
            parts = reader.every_row(sample)
            if d is None or parts is None:
                return None
            wrong = _wrong(objective, parts, d, strict)
            if wrong is None:
                return None
            if not len(wrong):
                return d
            chosen = np.concatenate([chosen, wrong])
    return None


def _is_binary(rows: Rows) -> bool:
    return bool(((rows[1] == 0) | (rows[1] == 1)).all())


def _signed(objective: Objective, rows: Rows) -> np.ndarray:
    """s x, row by row."""
    return (2 * rows[1] - 1)[:, None] * objective.features(rows)


def _wrong(objective: Objective, parts, d: np.ndarray, strict: bool) -> np.ndarray | None:
    """s x of the rows furthest on the wrong side of d; None if responses are not binary.

    With `strict`, rows on the border of d are on the wrong side.
    """
    border, found = 1e-12 if strict else -1e-9, []
    for rows in parts:
        if not _is_binary(rows):
            return None
        signed = _signed(objective, rows)
        size = np.linalg.norm(signed, axis=1) * np.linalg.norm(d)
        found.append(signed[signed @ d < border * size])
    wrong = np.concatenate(found)
    return wrong[np.argsort(wrong @ d)[:MORE_ROWS]]


def _direction(signed: np.ndarray) -> np.ndarray | None:
    """d in the unit box with s x'd >= 0 for these rows and the largest sum, if that is not 0."""
    signed = _of_length_one(signed)
    zeros = np.zeros(len(signed))
    done = linprog(-signed.sum(0), A_ub=-signed, b_ub=zeros, bounds=(-1, 1), method="highs")
    if done.status != 0 or -done.fun <= 1e-7 * len(signed):
        return None
    return done.x


def _interior_direction(signed: np.ndarray) -> np.ndarray | None:
    """d in the unit box whose smallest s x'd over these rows is largest, if that is above 0."""
    signed = _of_length_one(signed)
    n, p = signed.shape
    A = np.column_stack([-signed, np.ones(n)])
    bounds = [(-1, 1)] * p + [(0, 1)]
    done = linprog(-np.eye(p + 1)[p], A_ub=A, b_ub=np.zeros(n), bounds=bounds, method="highs")
    return done.x[:p] if done.status == 0 and -done.fun > 1e-9 else None


def _of_length_one(signed: np.ndarray) -> np.ndarray:
    scale = np.linalg.norm(signed, axis=1, keepdims=True)
    return signed / np.where(scale > 0, scale, 1.0)

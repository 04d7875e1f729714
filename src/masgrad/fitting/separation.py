"""Are 0s and 1s separated by a hyperplane? Then the likelihood rises for ever along its normal.

A direction d with s_i x_i'd >= 0 for all rows, s = 2 y - 1, and > 0 for some, is found by linear
programming over the rows that matter: those with the smallest margins first, then those that the
direction found gets wrong, until there are none (or no direction is left). Where s_i x_i'd > 0 for
all rows, d may be turned a little every way, and nothing at all is identified.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

from masgrad.fitting.problem import Problem
from masgrad.types import Rows

FIRST = 2000
"""Rows of the first program, those with the smallest margins."""

MORE = 500
"""Rows that are added at a time."""

ROUNDS = 30

Program = Callable[[np.ndarray], np.ndarray | None]
"""From rows s x to a direction, or None."""


def separating(problem: Problem, phi: np.ndarray, kept: Rows) -> np.ndarray | None:
    """A direction of phi along which the likelihood rises for ever, or None.

    Args:
        problem: a Bernoulli family over rows that can be read again, or are all kept.
        phi: where the fit has come to; rows that it gets wrong matter most.
        kept: some of the rows.
    """
    return _search(problem, phi, kept, _direction, strict=False)


def complete(problem: Problem, phi: np.ndarray, kept: Rows) -> bool:
    """Whether some direction has every row strictly on its side, as `separating` looks for it."""
    return _search(problem, phi, kept, _middle, strict=True) is not None


def _search(
    problem: Problem, phi: np.ndarray, kept: Rows, program: Program, strict: bool
) -> np.ndarray | None:
    bernoulli = problem.family is not None and problem.family.name == "bernoulli"
    if not (bernoulli and _is_binary(kept)):
        return None
    chosen = _signed(problem, kept)
    chosen = chosen[np.argsort(chosen @ phi)[:FIRST]]
    for _ in range(ROUNDS):
        d = program(chosen)
        wrong = None if d is None else _wrong(problem, d, strict)
        if d is None or wrong is None:
            return None
        if not len(wrong):
            return d
        chosen = np.concatenate([chosen, wrong])
    return None


def _is_binary(rows: Rows) -> bool:
    return bool(((rows[1] == 0) | (rows[1] == 1)).all())


def _signed(problem: Problem, rows: Rows) -> np.ndarray:
    """s x, row by row."""
    return (2 * rows[1] - 1)[:, None] * problem.features(rows)


def _wrong(problem: Problem, d: np.ndarray, strict: bool) -> np.ndarray | None:
    """s x of rows on the wrong side of d, the worst of them; None where that cannot be told.

    A row on the border of d is on the wrong side if `strict`.
    """
    border, found, parts = 1e-12 if strict else -1e-9, [], problem.every_row()
    if parts is None:
        return None
    for rows in parts:
        if not _is_binary(rows):
            return None
        signed = _signed(problem, rows)
        size = np.linalg.norm(signed, axis=1) * np.linalg.norm(d)
        found.append(signed[signed @ d < border * size])
    wrong = np.concatenate(found)
    return wrong[np.argsort(wrong @ d)[:MORE]]


def _direction(signed: np.ndarray) -> np.ndarray | None:
    """d in the unit box with s x'd >= 0 for these rows and the largest sum, if that is not 0."""
    signed = _of_length_one(signed)
    zeros = np.zeros(len(signed))
    done = linprog(-signed.sum(0), A_ub=-signed, b_ub=zeros, bounds=(-1, 1), method="highs")
    if done.status != 0 or -done.fun <= 1e-7 * len(signed):
        return None
    return done.x


def _middle(signed: np.ndarray) -> np.ndarray | None:
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

"""What the data say nothing about: empty and collinear columns, separation, flat directions.

A direction of phi in which H vanishes is not identified. For a linear predictor the reason is in
X (a column of zeros, columns that determine one another) or in y: where a direction separates the
responses the loss falls for ever, steps along it never end (`Steady`), and the information on the
linear predictor goes to 0.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.errors import IdentificationError, IdentificationWarning, SeparationWarning, say
from masgrad.fitting.examine import outside
from masgrad.fitting.frame import Frame
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import EMPTY, Quadratic
from masgrad.fitting.ridge import Ridge
from masgrad.fitting.separation import complete
from masgrad.models.glm import GLM
from masgrad.types import Rows

LITTLE = 1e-3
"""Information on the linear predictor below which, its standard error beyond 30, there is none."""


def unidentified(
    problem: Problem, local: Quadratic, kept: Rows, flat: np.ndarray | None
) -> np.ndarray:
    """Directions of phi without an estimate, (p, k), each warned of; `flat` are separated ones.

    Collinear columns are an error: no number for either of them would mean anything.
    """
    if not problem.linear:
        return _flat(local)
    flat = np.empty((len(local.point), 0)) if flat is None else flat
    empty = np.array([], int)
    if local.null.shape[1]:
        empty = _empty_columns(problem, _design_moment(problem, local, kept))
    if local.null.shape[1] > len(empty) and not flat.size:  # X is sound, so it is y
        flat = separated(problem, local)
        if problem.bounded and not flat.size:
            raise outside(problem)
    axes = np.eye(len(local.point))
    if flat.size and complete(problem, local.point, kept):
        flat = np.delete(axes, empty, axis=1)
    if flat.size:
        _warn_separated(problem, flat)
    return np.hstack([axes[:, empty], flat])


def separated(problem: Problem, local: Quadratic) -> np.ndarray:
    """Directions of phi, in which columns are of size 1, with next to no information, (p, k).

    Columns of zeros are not asked: their directions are not separated but empty.
    """
    if not problem.separable:
        return np.empty((len(local.point), 0))
    diagonal = np.diag(local.hessian)
    alive = diagonal > EMPTY * diagonal.max()
    values, vectors = np.linalg.eigh(local.hessian[np.ix_(alive, alive)])
    return np.eye(len(alive))[:, alive] @ vectors[:, values < LITTLE]


def _design_moment(problem: Problem, local: Quadratic, kept: Rows) -> np.ndarray:
    """S = E[x x'] in phi, over all rows if they can be read again."""
    plain = replace(problem, model=GLM("gaussian"), span=[np.inf, -np.inf], ridge=Ridge())
    zero = np.zeros_like(local.point)
    total = plain.read(zero) if problem.source.rereadable else plain.quadratic(zero, kept)
    return total.hessian / total.count


def _empty_columns(problem: Problem, S: np.ndarray) -> np.ndarray:
    """Columns of zeros, warned of; other directions in which X is singular are an error."""
    frame, moment = problem.frame, Quadratic(1, S[0], S[0], S, S)
    empty = np.diag(S) <= EMPTY * np.diag(S).max()
    for j in np.flatnonzero(empty):
        if frame.constant is not None and frame.centre[j] != 0:
            raise IdentificationError(
                f"column {_label(problem, j)} is constant, as column "
                f"{_label(problem, frame.constant)} is; drop one of them"
            )
    null, full = moment.null, ~empty
    beyond = np.abs(null[full]).max(0, initial=0.0) > 1e-8 * np.abs(null).max(0, initial=0.0)
    for direction in null[:, beyond].T:
        together = touched(frame, direction[:, None])
        names = [_label(problem, j) for j in np.flatnonzero(together)]
        raise IdentificationError(
            f"columns {', '.join(names)} determine one another (collinear): their coefficients "
            "cannot be told apart; drop one of them"
        )
    if empty.any():
        _warn_empty(problem, np.flatnonzero(empty))
    return np.flatnonzero(empty)


def _warn_empty(problem: Problem, empty: np.ndarray) -> None:
    names = ", ".join(_label(problem, j) for j in empty)
    say(
        IdentificationWarning,
        f"column {names} is 0 in every row: its coefficient is not estimable (NaN); drop it",
    )


def touched(frame: Frame, directions: np.ndarray) -> np.ndarray:
    """Which entries of theta move along these directions of phi, beyond rounding."""
    loads = np.abs(frame.matrix @ directions) * frame.scale[:, None]
    return (loads > 1e-3 * loads.max(0)).any(1)


def _warn_separated(problem: Problem, flat: np.ndarray) -> None:
    names = [_label(problem, j) for j in np.flatnonzero(touched(problem.frame, flat))]
    say(
        SeparationWarning,
        f"the responses are separated along {', '.join(names)}: the likelihood rises for ever "
        "there, and that direction has no estimate and no interval; drop the column, join "
        "categories, or use a penalty",
    )


def _flat(local: Quadratic) -> np.ndarray:
    null = local.null
    if null.shape[1]:
        say(
            IdentificationWarning,
            f"the loss is flat in {null.shape[1]} of {len(null)} directions of theta: parameters "
            "that move along them are not identified (standard error inf); functions that do not "
            "depend on them are: result.law.push(function)",
        )
    return null / np.maximum(np.linalg.norm(null, axis=0), np.finfo(float).tiny)


def _label(problem: Problem, j: Any) -> str:
    return repr(problem.source.names[j]) if problem.source.names else f"{j}"

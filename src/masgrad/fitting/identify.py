"""What the data say nothing about: empty and collinear columns, separation, flat directions.

A direction of phi in which H vanishes is not identified. For a linear predictor the reason is in
X (a column of zeros, columns that determine one another) or in y: where a direction separates the
responses the loss falls for ever, and the information N d'Hd / d'Sd, S = E[x x'], goes to 0.
"""

import warnings
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from masgrad.data.source import Arrays
from masgrad.errors import IdentificationWarning, InputError, SeparationWarning
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import SINGULAR, Quadratic
from masgrad.models.families import Gaussian
from masgrad.models.glm import GLM
from masgrad.types import Rows

LITTLE = 0.05
"""Less information than this on the linear predictor, its standard error beyond 4, is none."""


def unidentified(problem: Problem, local: Quadratic, kept: Rows) -> np.ndarray:
    """Directions of phi without an estimate, (p, k); warned of, or refused where columns are to
    blame."""
    if not isinstance(problem.model, GLM):
        return _flat(local)
    empty = _empty_columns(problem, local)
    flat = separated(problem, local, kept)
    if flat.shape[1]:
        _warn_separated(problem, flat)
    return np.hstack([np.eye(len(local.point))[:, empty], flat])


def separated(problem: Problem, local: Quadratic, kept: Rows) -> np.ndarray:
    """Directions of phi in which the responses are separated, (p, k)."""
    p = len(local.point)
    none = np.empty((p, 0))
    if isinstance(problem.model.family, Gaussian):  # pyright: ignore
        return none
    alive = np.flatnonzero(np.diag(local.hessian) > 0)
    H = local.hessian[np.ix_(alive, alive)]
    if np.linalg.eigvalsh(H)[0] > LITTLE:
        return none
    S = _design_moment(problem, local, kept)[np.ix_(alive, alive)]
    size = np.sqrt(np.diag(S))
    S = S / np.outer(size, size) + SINGULAR * np.eye(len(alive))
    values, vectors = eigh(H / np.outer(size, size) * local.count, S * local.count)
    flat = values * local.count < LITTLE
    out = np.zeros((p, int(flat.sum())))
    out[alive] = vectors[:, flat] / size[:, None]
    return out / np.maximum(np.linalg.norm(out, axis=0), np.finfo(float).tiny)


def _design_moment(problem: Problem, local: Quadratic, kept: Rows) -> np.ndarray:
    """S = E[x x'] in phi, over all rows if they can be read again."""
    plain = replace(problem, model=GLM("gaussian"), span=[np.inf, -np.inf])
    if problem.source.again:
        total = plain.read(np.zeros_like(local.point))
    else:
        total = plain.read_blocks(np.zeros_like(local.point), Arrays(kept).blocks())
    return total.hessian / total.count


def _empty_columns(problem: Problem, local: Quadratic) -> np.ndarray:
    """Columns of zeros; other directions in which X is singular are an error."""
    size, values, Q = local.spectrum
    null = np.abs(values) <= SINGULAR
    if not null.any():
        return np.array([], int)
    J = problem.frame.matrix
    involved = np.abs(J @ (Q[:, null] / size[:, None])) * _raw_size(problem, local)[:, None]
    alone = np.diag(local.hessian) == 0
    blamed = [column for k, column in enumerate(involved.T) if not alone[np.argmax(np.abs(Q[:, null][:, k]))]]
    for column in blamed:
        names = [_label(problem, j) for j in np.flatnonzero(column > 1e-3 * column.max())]
        raise InputError(
            f"columns {', '.join(names)} determine one another (collinear): their coefficients "
            "cannot be told apart; drop one of them"
        )
    return _zeros(problem, np.flatnonzero(alone))


def _raw_size(problem: Problem, local: Quadratic) -> np.ndarray:
    return np.maximum(problem.frame.scale, np.finfo(float).tiny)


def _zeros(problem: Problem, silent: np.ndarray) -> np.ndarray:
    """Columns that never leave 0; one that is constant elsewhere is an error."""
    frame = problem.frame
    for j in silent:
        if frame.constant is not None and frame.centre[j] != 0:
            raise InputError(
                f"column {_label(problem, j)} is constant, as column "
                f"{_label(problem, frame.constant)} is; drop one of them"
            )
    names = ", ".join(_label(problem, j) for j in silent)
    warnings.warn(
        f"column {names} is 0 in every row: its coefficient is not estimable (NaN); drop it",
        IdentificationWarning,
        stacklevel=2,
    )
    return silent


def _warn_separated(problem: Problem, flat: np.ndarray) -> None:
    loads = np.abs(problem.frame.matrix @ flat).max(1) * problem.frame.scale
    names = [_label(problem, j) for j in np.flatnonzero(loads > 1e-3 * loads.max())]
    warnings.warn(
        f"the responses are separated along {', '.join(names)}: the likelihood rises for ever there, "
        "and there is no estimate nor interval in that direction; drop the column, join categories, "
        "or use a penalty",
        SeparationWarning,
        stacklevel=2,
    )


def _flat(local: Quadratic) -> np.ndarray:
    null = local.null
    if null.shape[1]:
        warnings.warn(
            f"the loss is flat in {null.shape[1]} of {len(null)} directions of theta: parameters that "
            "move along them are not identified (standard error inf); functionals that do not depend "
            "on them are: result.law.push(function)",
            IdentificationWarning,
            stacklevel=2,
        )
    return null / np.maximum(np.linalg.norm(null, axis=0), np.finfo(float).tiny)


def _label(problem: Problem, j: int) -> str:
    return repr(problem.source.names[j]) if problem.source.names else f"{j}"

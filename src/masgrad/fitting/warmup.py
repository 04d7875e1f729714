"""The warm-up: from a start to the optimum of a first sample of rows.

Deterministic MasGrad steps, with the step 1/gamma taken at the current point, to a neighbourhood;
there Newton's steps to the sample's optimum. Steps that would raise the risk are halved. Far from
an optimum V grows with the residuals, so that MasGrad's steps are of bounded length and safe where
Newton's are not; where the loss is not convex they are the only ones.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import NotConvex, Quadratic
from masgrad.fitting.scoring import scoring
from masgrad.models.canonical import Gaussian
from masgrad.types import Rows

PSEUDO = 0.02
"""Weight of a pseudo-observation."""

SETTLED = 1e-10
"""Newton decrement, in squared standard errors of the sample, at which a warm-up ends."""


def warm_up(
    problem: Problem, rows: Rows, phi: np.ndarray, steps: int = 8, most: int = 40
) -> Quadratic:
    """The local model of these rows at (or near) their optimum, from phi.

    Paper: deterministic MasGrad - theta' = theta - eta V^-1 b, here to a neighbourhood of the ERM

    Args:
        problem: the loss and the frame.
        rows: the sample.
        phi: where to start.
        steps: MasGrad steps before Newton's, more where H is not positive definite.
        most: steps in all.
    """
    weight, kept = _pseudo(problem, rows), problem
    problem = scoring(problem)
    local, risk = _local(problem, phi, rows, weight), _risk(problem, phi, rows, weight)
    for count in range(most):
        move = masgrad_step(local) if count < steps else None
        if move is None or _near(local):
            move = _newton(local)
        phi, risk, moved = _descend(problem, rows, local.point, move, risk, weight)
        if moved:
            local = _local(problem, phi, rows, weight)
        if not moved or decrement(local) < SETTLED:
            break
    return kept.quadratic(local.point, rows)


def _local(problem: Problem, phi: np.ndarray, rows: Rows, weight: np.ndarray) -> Quadratic:
    """The local model with a weak pseudo-observation of 0 for each parameter.

    It keeps a sample that happens to be separated from running to a plateau, from where no step
    leads back, and moves others by a few hundredths of their standard error.
    """
    local = problem.quadratic(phi, rows)
    H = local.hessian + np.diag(weight)
    return replace(local, gradient=local.gradient + weight * phi, hessian=H)


def _pseudo(problem: Problem, rows: Rows) -> np.ndarray:
    """The information of a fraction of the row that says most about each parameter."""
    if not (problem.separable or isinstance(problem.family, Gaussian)):
        return np.zeros(problem.model.dim(rows))
    largest = np.max([np.abs(problem.features(block)).max(0) for block in blocks(rows)], axis=0)
    return PSEUDO * np.maximum(np.square(largest), 1.0)


def _risk(problem: Problem, phi: np.ndarray, rows: Rows, weight: np.ndarray) -> float:
    return problem.losses(phi, rows).sum() + weight @ np.square(phi) / 2


def decrement(local: Quadratic) -> float:
    """G'H^-1 G: how far the optimum is, in squared standard errors of a well-specified model."""
    try:
        return float(-local.gradient @ local.newton())
    except NotConvex:
        return np.inf


def masgrad_step(local: Quadratic, step_size: float = 1.0) -> np.ndarray:
    """-V^-1 b / gamma with V and gamma at the current point."""
    adjust, gamma = adjustment(local)
    return -step_size / gamma * (adjust @ local.gradient) / local.count


def adjustment(local: Quadratic) -> tuple[np.ndarray, float]:
    """V^-1 of the rows' gradients, and gamma = the largest eigenvalue of V^-1 H.

    Where the rows' gradients vanish, as for a column that is empty so far, nothing is moved.
    """
    b = local.gradient / local.count
    values, Q = np.linalg.eigh(local.meat / local.count - np.outer(b, b))
    seen = values > 1e-12 * values[-1]
    if not seen.any():
        return np.zeros_like(local.hessian), 1.0
    half = Q[:, seen] * values[seen] ** -0.25
    inner = half.T @ (local.hessian / local.count) @ half
    gamma = np.abs(np.linalg.eigvalsh(inner)).max()
    return half @ half.T, max(float(gamma), np.finfo(float).tiny)


def _near(local: Quadratic) -> bool:
    return decrement(local) < len(local.point)


def _newton(local: Quadratic) -> np.ndarray:
    try:
        return local.newton()
    except NotConvex:
        return masgrad_step(local)


def _descend(
    problem: Problem, rows: Rows, phi: np.ndarray, move: np.ndarray, risk: float, weight: np.ndarray
) -> tuple[np.ndarray, float, bool]:
    """The longest of move, move / 2, ... that does not raise the risk."""
    for halving in range(40):
        there = phi + 0.5**halving * move
        new = _risk(problem, there, rows, weight)
        if new <= risk:
            return there, new, not np.array_equal(there, phi)
    return phi, risk, False

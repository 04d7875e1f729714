"""The warm-up: from a start to the optimum of a first sample of rows.

Deterministic MasGrad steps, with the step 1/gamma taken at the current point, to a neighbourhood;
there Newton's steps to the sample's optimum. Steps that would raise the risk are halved. Far from
an optimum V grows with the residuals, so that MasGrad's steps are of bounded length and safe where
Newton's are not; where the loss is not convex they are the only ones.
"""

import numpy as np

from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import NotConvex, Quadratic
from masgrad.types import Rows

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
    local = problem.quadratic(phi, rows)
    risk = problem.losses(phi, rows).mean()
    for count in range(most):
        move = masgrad_step(local) if count < steps else None
        if move is None or _near(local):
            move = _newton(local)
        phi, risk, moved = _descend(problem, rows, local.point, move, risk)
        if not moved:
            return local
        local = problem.quadratic(phi, rows)
        if decrement(local) < SETTLED:
            return local
    return local


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
    """V^-1 of the rows' gradients, and gamma = the largest eigenvalue of V^-1 H."""
    b = local.gradient / local.count
    values, Q = np.linalg.eigh(local.meat / local.count - np.outer(b, b))
    values = np.maximum(values, 1e-12 * values[-1] + np.finfo(float).tiny)
    half = Q * values**-0.25
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


def _descend(problem: Problem, rows: Rows, phi, move, risk) -> tuple[np.ndarray, float, bool]:
    """The longest of move, move / 2, ... that does not raise the risk."""
    for halving in range(40):
        there = phi + 0.5**halving * move
        new = problem.losses(there, rows).mean()
        if new <= risk:
            return there, new, not np.array_equal(there, phi)
    return phi, risk, False

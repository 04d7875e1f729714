"""The covariance of an estimate of theta*, from the local model at it.

    robust (HC0)   H^-1 M H^-1            M = sum of g g', uncentred; H observed
    HC1            times N / (N - p)
    HC3            residuals divided by 1 - leverage: an extra read
    nonrobust      expected H^-1, times Pearson's X^2 / (N - p) where the family has a dispersion

All as sums over rows, so that no factor 1/N is left over. Directions that are not identified are
held fixed.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.regression import weight_of
from masgrad.errors import InputError
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.models.glm import GLM, add_offset
from masgrad.models.mixture import GaussianMixture
from masgrad.types import Rows

KINDS = ("robust", "HC0", "HC1", "HC3", "nonrobust")


def check_kind(cov_type: str, problem: Problem) -> None:
    if cov_type not in KINDS:
        raise InputError(f"cov_type={cov_type!r} is not known; use one of {', '.join(KINDS)}")
    if cov_type == "nonrobust" and not isinstance(problem.model, GLM | GaussianMixture):
        raise InputError(
            "cov_type='nonrobust' trusts the loss to be a negative log-likelihood, which "
            f"{type(problem.model).__name__} need not be; use 'robust'"
        )
    if cov_type == "HC3" and not (isinstance(problem.model, GLM) and problem.source.rereadable):
        raise InputError(
            "cov_type='HC3' needs leverages: a linear predictor, and rows that can be read again; "
            "use 'HC1'"
        )


def covariance(local: Quadratic, cov_type: str, dispersed: bool, fixed: np.ndarray) -> np.ndarray:
    """Covariance of phi, (p, p); `fixed` are directions that are not identified."""
    part, B = restrict(local, fixed)
    free = B.shape[1]
    if not free:
        return np.zeros_like(local.hessian)
    if local.count <= free and (cov_type == "HC1" or (cov_type == "nonrobust" and dispersed)):
        raise InputError(
            f"cov_type={cov_type!r} divides by N - p, and N = {local.count:g} (weights are "
            f"frequencies), p = {free}; use 'robust'"
        )
    if cov_type == "nonrobust":
        scale = local.squares / (local.count - free) if dispersed else 1.0
        C = part.expected().inverse() * scale
    else:
        factor = local.count / (local.count - free) if cov_type == "HC1" else 1.0
        C = part.sandwich() * factor
    return B @ C @ B.T


def restrict(local: Quadratic, fixed: np.ndarray) -> tuple[Quadratic, np.ndarray]:
    """The quadratic on the complement of some directions, and a basis of that."""
    p = len(local.point)
    if not fixed.shape[1]:
        return local, np.eye(p)
    U, _, _ = np.linalg.svd(fixed, full_matrices=True)
    B = U[:, fixed.shape[1] :]
    return (
        replace(
            local,
            point=local.point @ B,
            gradient=local.gradient @ B,
            hessian=B.T @ local.hessian @ B,
            meat=B.T @ local.meat @ B,
            information=None if local.information is None else B.T @ local.information @ B,
        ),
        B,
    )


def leveraged_meat(problem: Problem, local: Quadratic, fixed: np.ndarray) -> np.ndarray:
    """Sum of g g' / (1 - h)^2 with h the leverage of a row: the meat of HC3."""
    part, B = restrict(local, fixed)
    half = B @ np.linalg.cholesky(part.inverse())
    model = problem.model
    assert isinstance(model, GLM)
    total = np.zeros_like(local.meat)
    for rows in problem.source.blocks():
        total += _block_meat(model, problem, local.point, half, rows)
    return total


def _block_meat(model: GLM, problem: Problem, phi, half, rows: Rows) -> np.ndarray:
    U = problem.features(rows)
    a = weight_of(rows)
    r, w = model.family.slope_and_curvature(add_offset(U @ phi, rows), rows[1])
    leverage = w * np.square(U @ half).sum(1)
    r = r if a is None else r * np.sqrt(a)
    Z = U * (r / np.maximum(1.0 - leverage, 1e-12))[:, None]
    return Z.T @ Z

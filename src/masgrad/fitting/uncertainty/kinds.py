"""The kinds of covariance, of sums over rows at the estimate.

    robust (HC0)   H^-1 M H^-1            M = sum of g g', uncentred; H observed
    HC1            times N / (N - p)
    nonrobust      expected H^-1, times Pearson's X^2 / (N - p) where the family has a dispersion

HC3 and errors of rows that depend on each other have other M (`meat.py`), and the formula of HC0.
"""

from dataclasses import replace

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.options import Options


def observations(weight: float, rows: int, options: Options) -> float:
    """N: the sum of frequencies, or the number of rows if weights are no frequencies."""
    return weight if options.weights_type == "frequency" else rows


def covariance(
    local: LocalModel,
    cov_type: str,
    dispersed: bool,
    null_basis: np.ndarray,
    count: float,
    absorbed: int = 0,
) -> np.ndarray:
    """Covariance of phi, (p, p), with the directions of `null_basis` (p, k) held fixed.

    `count` is the number of observations, and `absorbed` that of parameters that were estimated
    besides phi: fixed effects.
    """
    part, B = restrict(local, null_basis)
    if not B.shape[1]:
        return np.zeros_like(local.hessian)
    free = B.shape[1] + absorbed
    if count <= free and (cov_type == "HC1" or (cov_type == "nonrobust" and dispersed)):
        raise InputError(
            f"cov_type={cov_type!r} divides by N - p, and N = {count:g} (weights are "
            f"frequencies), p = {free}; use 'HC0'"
        )
    if cov_type == "nonrobust":
        scale = local.squares / (count - free) if dispersed else 1.0
        C = part.expected().inverse() * scale
    else:
        factor = count / (count - free) if cov_type == "HC1" else 1.0
        C = part.sandwich() * factor
    return B @ C @ B.T if null_basis.shape[1] else C


def restrict(local: LocalModel, null_basis: np.ndarray) -> tuple[LocalModel, np.ndarray]:
    """The local model on the complement of some directions, and a basis of the complement."""
    B = complement(null_basis)
    if not null_basis.shape[1]:
        return local, B
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


def complement(null_basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the complement of some directions (p, k), (p, p - k)."""
    p, k = null_basis.shape
    return np.linalg.svd(null_basis, full_matrices=True)[0][:, k:] if k else np.eye(p)

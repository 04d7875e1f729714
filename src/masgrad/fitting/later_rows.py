"""Third-order terms of rows that others may follow (`update`): dH / dphi and dM / dphi.

They are summed over pilot rows, up to `MOST_COLUMNS` parameters.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import blocks, count_rows, pick
from masgrad.data.regression import total_weight, weight_of
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.third_order import ThirdOrder
from masgrad.fitting.sources import Sample
from masgrad.models.families.canonical import Gaussian
from masgrad.models.glm import add_offset, squared_residuals
from masgrad.models.gram import ZERO_EIGENVALUE
from masgrad.types import Rows

DIFFERENCE = 1e-3
"""Step of the differences from which third and fourth derivatives are taken."""

MOST_COLUMNS, COLUMNS_OF_MEAT = 32, 12
"""Parameters up to which p^3 terms of third order are kept, and p^4 of M."""

TERM_ROWS, TERM_PRODUCTS, BLOCK_ROWS = 1 << 12, 1 << 22, 512
"""Rows of a complete sample over which a first fit sums these terms, at most, and half of those of
another one; products of four columns that are formed, about, and an eighth of those of three; and
rows of a block."""

CUBIC_SAFETY = 1.0
"""Factor from the expected size of what cubic models miss to a bound on it, for one coefficient."""

DIFFERENCE_ROWS = 1 << 10
"""Rows over which these terms of other losses are summed, 2 p times."""


def third_order_terms(
    objective: Objective, local: LocalModel, sample: Sample, random: bool
) -> LocalModel:
    """The local model with third-order terms; without them if there are too many columns.

    Args:
        objective: the loss; a prior brings terms of its own.
        local: at the estimate.
        sample: pilot rows, over which the terms are summed.
        random: whether they are a random part of the rows that were read.
    """
    prior, p = objective.prior, len(local.point)
    if p > MOST_COLUMNS or (prior is not None and prior.third is None):
        return local
    half = _directions(local, objective.linear)
    if half is None:
        return local
    limit = max(BLOCK_ROWS, 8 * TERM_PRODUCTS // p**3)
    most = TERM_ROWS if sample.complete else 2 * TERM_ROWS
    limit = min(limit, most) if prior is None else limit
    limit = limit if objective.linear else DIFFERENCE_ROWS
    rows = pick(lambda a: a[:limit], sample.rows)
    sums = _terms_of_family if objective.linear else _terms_by_differences
    new, count = sums(objective, local.point, half, rows), local.count
    count = count if prior is None else count - prior.count
    third = _scaled(new, count / total_weight(rows), count_rows(rows), random)
    if prior is not None and (before := prior.at(local.point).third) is not None:
        third = before.plus(third, count / local.count)
    if isinstance(objective.family, Gaussian):
        third = replace(third, squares=2 * local.gradient)
    sizes = third.noise, third.fourth, third.meat.sum(), third.hessian.sum()
    return replace(local, third=third) if np.isfinite(sizes).all() else local


def _directions(local: LocalModel, linear: bool) -> np.ndarray | None:
    """Directions of length 1 in the metric of H / N, (p, p).

    Where H is singular, as of a shard that lacks a level, there are fewer, (p, r), which serve
    linear predictors; None if those do not.
    """
    if local.factor or not linear:
        try:
            return np.linalg.cholesky(np.linalg.inv(local.hessian / local.count))
        except np.linalg.LinAlgError:
            return None
    size, values, Q = local.spectrum
    seen = values > ZERO_EIGENVALUE
    half = Q[:, seen] / np.sqrt(values[seen]) / size[:, None] * np.sqrt(local.count)
    return half if seen.any() else None


def _scaled(third: ThirdOrder, scale: float, rows: int, random: bool) -> ThirdOrder:
    """The terms of all rows, from those of a part; of one that is not random, nothing is known."""
    others = max(1 - 1 / scale, 0.0) * (1 if random else rows)
    return ThirdOrder(
        third.hessian * scale,
        third.meat * scale,
        third.meat_bend * scale,
        third.squares * scale,
        third.centre,
        noise=third.noise * scale**2 * others,
        fourth=third.fourth * scale,
    )


class RowDerivatives(NamedTuple):
    """Rows in phi, their weights, four derivatives of their losses, and the slope of X^2."""

    features: np.ndarray
    weight: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    third: np.ndarray
    fourth: np.ndarray
    squares: np.ndarray


def _row_derivatives(objective: Objective, phi: np.ndarray, rows: Rows) -> RowDerivatives:
    """Derivatives of each row's loss in its linear predictor, and the rows in phi."""
    assert objective.family is not None
    U, a, y, family = objective.features(rows), weight_of(rows), rows[1], objective.family
    t = add_offset(U @ phi, rows)
    anywhere = np.isinf(family.domain).all()
    h = DIFFERENCE * (np.ones_like(t) if anywhere else np.abs(t))
    with np.errstate(all="ignore"):
        (r, w), (r_up, up), (r_down, down) = (
            family.slope_and_curvature(at, y) for at in (t, t + h, t - h)
        )
        squares = squared_residuals(family, t + h, r_up)
        squares = squares - squared_residuals(family, t - h, r_down)
        each = np.ones_like(t) if a is None else a
        third, fourth = (up - down) / (2 * h), (up - 2 * w + down) / h**2
        return RowDerivatives(U, each, r, w, third, fourth, squares / (2 * h))


def _terms_of_family(
    objective: Objective, phi: np.ndarray, half: np.ndarray, rows: Rows
) -> ThirdOrder:
    """Sums over rows; `half` has the directions of length 1, over which sizes are averaged."""
    p, full = len(phi), len(phi) <= COLUMNS_OF_MEAT
    T, K = np.zeros((p, p * p)), np.zeros((p, p * p))
    F = np.zeros((p * p, p * p) if full else p * p)
    squares, noise, fourth, in_F = np.zeros(p), 0.0, 0.0, 0.0
    for k, block in enumerate(blocks(rows, BLOCK_ROWS)):
        d = _row_derivatives(objective, phi, block)
        U, a, size = d.features, d.weight, np.square(d.features @ half).sum(1)
        in_M = a * a if objective.squared else a
        pairs = (U[:, :, None] * U[:, None, :]).reshape(len(U), -1)
        T += (U * (a * d.third)[:, None]).T @ pairs
        K += (U * (in_M * 2 * d.slope * d.curvature)[:, None]).T @ pairs
        if k * BLOCK_ROWS * p**4 <= TERM_PRODUCTS:
            bend, in_F = in_M * (d.curvature**2 + d.slope * d.third), in_F + a.sum()
            F += (pairs * bend[:, None]).T @ pairs if full else (bend * size / p) @ pairs
        squares += (a * d.squares) @ U
        noise += float(np.square(a * d.third) @ size**3) * 3 / (p * (p + 2))
        fourth += float((a * np.abs(d.fourth)) @ size**2)
    F = (F * (total_weight(rows) / in_F)).reshape((p,) * (4 if full else 2))
    fourth *= float(np.sqrt(45 / (p * (p + 2) ** 2 * (p + 4))))
    terms = T.reshape(p, p, p), K.reshape(p, p, p)
    return ThirdOrder(*terms, F, squares, phi, noise=noise, fourth=fourth)


def _terms_by_differences(
    objective: Objective, phi: np.ndarray, half: np.ndarray, rows: Rows
) -> ThirdOrder:
    """The same for any loss: differences of H and M along the directions of `half`."""
    h = DIFFERENCE
    parts = list(blocks(rows, -(-count_rows(rows) // 2)))  # to see how far they are apart
    steps = h * half.T
    points = phi + np.concatenate([0 * phi[None], steps, -steps])
    middle, *sides = zip(*(objective.local_models(points, part) for part in parts), strict=True)
    T, K, F, apart, fourth = [], [], [], [], []
    for v, up, down in zip(half.T, sides[: len(phi)], sides[len(phi) :], strict=True):
        each = [(a.hessian - b.hessian) / (2 * h) for a, b in zip(up, down, strict=True)]
        T.append(sum(each))
        K.append(sum(a.meat - b.meat for a, b in zip(up, down, strict=True)) / (2 * h))
        F.append(sum(q.meat for q in (*up, *down)) - 2 * sum(q.meat for q in middle))
        apart.append(half.T @ (each[0] - each[-1]) @ v)
        bend = sum(q.hessian for q in (*up, *down)) - 2 * sum(q.hessian for q in middle)
        fourth.append(half.T @ bend @ v / h**2)
    back = np.linalg.inv(half)
    slopes = [np.tensordot(np.moveaxis(np.array(S), 0, 2), back, 1) for S in (T, K)]
    noise, size = (np.square(S).sum(1).mean() for S in (np.array(apart), np.array(fourth)))
    mean, zero = np.mean(F, 0) / (2 * h**2), np.zeros(len(phi))
    size = float(np.sqrt(size))
    return ThirdOrder(slopes[0], slopes[1], mean, zero, phi, noise=float(noise), fourth=size)


def missed_by_cubic(local: LocalModel) -> float:
    """Bound on the shift of the estimate by what cubic models of the rows miss, in standard errors.

    Their gradient's error has a size, and its direction is taken for random.
    """
    return 0.0 if local.third is None else in_errors(local, local.third.gradient_error())


def in_errors(local: LocalModel, missed: float) -> float:
    """Bound on the shift by a gradient of this size, in the metric of the inverse of H / N.

    Of a random direction: the largest of p normal numbers is about sqrt(2 log p).
    """
    p = len(local.point)
    noise = np.trace(np.linalg.lstsq(local.meat, local.hessian / local.count, rcond=None)[0])
    worst = CUBIC_SAFETY * (1 + np.sqrt(2 * np.log(p)))
    return float(worst * missed * np.sqrt(max(noise, 0.0)) / p)

"""Condition numbers of MasGrad and of gradient descent, as extrema over a region.

    alpha, gamma = smallest and largest eigenvalue of V(w)^-1/2 H(v) V(w)^-1/2 over pairs (v, w)

V(w) is factored once a point. Over all pairs of an array of points the search is exact but seldom
exhaustive: tr(V(w)^-1 H(v)) bounds the largest eigenvalue of a pair and 1 / tr(V(w) H(v)^-1) the
smallest, both for all pairs in one matrix product, and pairs are visited in the order of those
bounds until none can beat the best.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.chains.door import check_objects, sample_rows
from masgrad.chains.progress import Progress
from masgrad.covariance.choose import check_ridge
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.root import FLOOR
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.kernels.landscape import landscape
from masgrad.kernels.methods import sgd
from masgrad.models.model import Model
from masgrad.precision import float64
from masgrad.theory.regions import Segments, as_points
from masgrad.types import Array, Rows

CHUNK_NUMBERS = 2**18
"""Numbers in the matrices of the pairs whose eigenvalues are taken at a time."""


@dataclass(frozen=True)
class Extremum:
    """An extreme eigenvalue, with the point v of H and the point w of V (None for H alone)."""

    value: float
    v: np.ndarray
    w: np.ndarray | None = None


@dataclass(frozen=True)
class Conditioning:
    """Extreme eigenvalues over a region, where they are attained, and what follows from them.

    Args:
        lowest: of V(w)^-1/2 H(v) V(w)^-1/2; its value is alpha.
        highest: of the same; its value is gamma.
        flattest: smallest eigenvalue of H(v).
        steepest: largest eigenvalue of H(v).
        v_max: the largest norm ||V(w)||, which the plans need.
        pairs: number of pairs (v, w) that the extrema are taken over.
    """

    lowest: Extremum
    highest: Extremum
    flattest: Extremum
    steepest: Extremum
    v_max: float
    pairs: int

    @property
    def alpha(self) -> float:
        """Positive where the theorem's strong convexity holds on this region."""
        return self.lowest.value

    @property
    def gamma(self) -> float:
        return self.highest.value

    @property
    def kappa_masgrad(self) -> float:
        """gamma / alpha; infinite where alpha is not positive."""
        return self.gamma / self.alpha if self.alpha > 0 else np.inf

    @property
    def kappa_gd(self) -> float:
        """Condition number of gradient descent; infinite where some H is not positive definite."""
        low = self.flattest.value
        return self.steepest.value / low if low > 0 else np.inf

    @property
    def step_masgrad(self) -> float:
        """1 / gamma, the theorems' step."""
        return 1 / _positive(self.gamma)

    @property
    def step_gd(self) -> float:
        """1 / lambda_max(H), the step of gradient descent."""
        return 1 / _positive(self.steepest.value)

    def __repr__(self) -> str:
        return (
            f"Conditioning(alpha={self.alpha:.4g}, gamma={self.gamma:.4g}, "
            f"kappa_masgrad={self.kappa_masgrad:.4g}, kappa_gd={self.kappa_gd:.4g}, "
            f"v_max={self.v_max:.4g}; {self.pairs} pairs)"
        )


def _positive(gamma: float) -> float:
    if gamma <= 0:
        raise InputError(
            f"gamma={gamma:.3g}: the theorems assume gamma > 0, and this landscape is nowhere "
            "curved upwards on the region; take a region around a minimum"
        )
    return gamma


@float64
def conditioning(
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    region: Array | Segments,
    ridge: float = 0.0,
) -> Conditioning:
    """alpha, gamma and the condition numbers of MasGrad and gradient descent over a region.

    Paper: condition numbers - alpha, gamma, kappa_MasGrad and kappa_GD over a region's points

    For random design alpha falls to 0 far from the optimum, where V grows with the residuals: over
    all of R^p the convex theorems say nothing, and every number here is about the region. For
    well-specified least squares gamma is attained at the optimum: a region that leaves it out
    recommends a step that is too long near it.

    Args:
        model: the loss.
        data: rows, a `Simulator` or, for `Linear()`, `LeastSquaresMoments`.
        region: points (m, p), taken in all pairs, from `ball`, `path` or by hand; or `segments`,
            which pairs each point with its own way only (Poisson needs it).
        ridge: added to Sigma, as in `mg.masgrad(..., ridge=)`.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> x = np.repeat([[2.0, 0.0], [0.0, 1.0]], 2, axis=0)  # each row twice,
        >>> y = x @ [1.0, 1.0] + np.array([1.0, -1.0, 1.0, -1.0])  # with noise +1 and -1
        >>> c = mg.theory.conditioning(mg.Linear(), (x, y), [[1.0, 1.0]])
        >>> round(c.kappa_gd, 9), round(c.kappa_masgrad, 9)
        (4.0, 2.0)
    """
    check_objects(sgd(1.0), model)
    rows = sample_rows(model, data)
    at, along, partner = _pairing(region)
    for name, points in (("region", at), ("region", along)):
        if points.shape[1] != model.dim(rows):
            raise InputError(
                f"{name} has points of {points.shape[1]} parameters; this model and data need "
                f"{model.dim(rows)}"
            )
    covs, hessians = _moments(model, data, at, along)
    return from_matrices(covs, hessians, at, along, partner, check_ridge(ridge))


def _pairing(region: Array | Segments) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Points w, points v, and which w each v goes with (None: all)."""
    if not isinstance(region, Segments):
        points = as_points("region", region)
        return points, points, None
    m, k, p = region.along.shape
    return region.at, region.along.reshape(m * k, p), np.repeat(np.arange(m), k)


def _moments(model, data, at: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sigma at the points w and H at the points v; each point once, with a progress bar."""
    look, known = landscape(model, data), {}
    points = [*at, *([] if along is at else along)]
    with Progress(len(points), label="points") as bar:
        for i, theta in enumerate(points):
            if theta.tobytes() not in known:
                known[theta.tobytes()] = look(theta)
            bar.update(i + 1)
    covs = np.stack([known[w.tobytes()].cov for w in at])
    return covs, np.stack([known[v.tobytes()].hessian for v in along])


def from_matrices(
    covs: np.ndarray,
    hessians: np.ndarray,
    at: np.ndarray,
    along: np.ndarray,
    partner: np.ndarray | None = None,
    ridge: float = 0.0,
) -> Conditioning:
    """The same from Sigma (m, p, p) at the points w and H (k, p, p) at the points v."""
    values, vectors = np.linalg.eigh(covs)
    values = values + ridge
    _check_regular(values)
    powers = {s: (vectors * values[:, None] ** s) @ vectors.swapaxes(1, 2) for s in (-0.25, 0.5)}
    curvature, axes = np.linalg.eigh(hessians)
    highest, lowest = _extremes(powers, hessians, curvature, axes, partner)
    gamma = highest[0]
    alpha = lowest[0] if abs(lowest[0]) > FLOOR * abs(gamma) else 0.0
    low, high = int(curvature[:, 0].argmin()), int(curvature[:, -1].argmax())
    flat = curvature[low, 0] if abs(curvature[low, 0]) > FLOOR * curvature[high, -1] else 0.0
    return Conditioning(
        Extremum(float(alpha), along[lowest[2]], at[lowest[1]]),
        Extremum(float(gamma), along[highest[2]], at[highest[1]]),
        Extremum(float(flat), along[low]),
        Extremum(float(curvature[high, -1]), along[high]),
        float(np.sqrt(values[:, -1].max())),
        len(covs) * len(hessians) if partner is None else len(hessians),
    )


def _check_regular(values: np.ndarray) -> None:
    """V(w) is positive definite at every point, as all theorems assume."""
    floor = np.maximum(FLOOR * values[:, -1], 1e-16 * values.max())
    singular = values[:, 0] <= floor
    if singular.any():
        raise InputError(
            f"V(w) is singular at point {int(np.argmax(singular))} of the region, and the theorems "
            "assume it positive definite: the gradient has no noise in some direction there; drop "
            "redundant columns, leave that point out, or pass ridge="
        )


Found = tuple[float, int, int]
"""A value and the numbers of its w and v."""


def _extremes(powers, hessians, curvature, axes, partner) -> tuple[Found, Found]:
    """Largest and smallest eigenvalue over the pairs, and where."""
    half, root = powers[-0.25], powers[0.5]

    def ends(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        values = np.linalg.eigvalsh(half[i] @ hessians[j] @ half[i])
        return values[:, [0, -1]]

    if partner is not None:
        every = [(partner[c], c) for c in _chunks(np.arange(len(hessians)), len(half[0]))]
        values = np.concatenate([ends(i, j) for i, j in every])
        low, high = int(values[:, 0].argmin()), int(values[:, 1].argmax())
        return (values[high, 1], partner[high], high), (values[low, 0], partner[low], low)
    upwards = _spectral_part(curvature, axes, lambda c: np.maximum(c, 0.0))
    inverse = half @ half
    highest = _search(_traces(inverse, upwards), lambda i, j: ends(i, j)[:, 1], len(half[0]))
    if (curvature[:, 0] > FLOOR * curvature.max()).all():
        inverted = _spectral_part(curvature, axes, lambda c: 1.0 / c)
        bounds = _traces(root, inverted)
        value, i, j = _search(bounds, lambda i, j: 1.0 / ends(i, j)[:, 0], len(half[0]))
        return highest, (1.0 / value, i, j)
    downwards = _spectral_part(curvature, axes, lambda c: np.maximum(-c, 0.0))
    value, i, j = _search(_traces(inverse, downwards), lambda i, j: -ends(i, j)[:, 0], len(half[0]))
    return highest, (-value, i, j)


def _spectral_part(values: np.ndarray, vectors: np.ndarray, function) -> np.ndarray:
    return (vectors * function(values)[:, None]) @ vectors.swapaxes(1, 2)


def _traces(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """tr(A_i B_j) for all pairs of symmetric matrices, (m, k)."""
    return A.reshape(len(A), -1) @ B.reshape(len(B), -1).T


def _search(bounds: np.ndarray, evaluate: Callable, p: int) -> Found:
    """The largest value over all pairs, each of which its bound exceeds (to rounding)."""
    order = np.argsort(-bounds, axis=None)
    best = (-np.inf, 0, 0)
    for chunk in _chunks(order, p):
        if bounds.flat[chunk[0]] * (1 + 1e-9) <= best[0]:
            break
        i, j = np.unravel_index(chunk, bounds.shape)
        values = evaluate(i, j)
        top = int(values.argmax())
        if values[top] > best[0]:
            best = (float(values[top]), int(i[top]), int(j[top]))
    return best


def _chunks(numbers: np.ndarray, p: int) -> list[np.ndarray]:
    size = max(16, CHUNK_NUMBERS // p**2)
    return [numbers[s : s + size] for s in range(0, len(numbers), size)]

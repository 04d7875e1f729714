"""Condition numbers of MasGrad and of gradient descent, as extrema over a region.

    alpha, gamma = smallest and largest eigenvalue of V(w)^-1/2 H(v) V(w)^-1/2 over pairs (v, w)

V(w) is factored once a point; the search over all pairs is exact and seldom visits all of them
(`pairs`).
"""

from dataclasses import dataclass

import numpy as np

from masgrad.chains.door import sample_rows
from masgrad.covariance.choose import check_ridge
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.root import EIGENVALUE_FLOOR
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.kernels.moment_function import moment_function
from masgrad.models.model import Model, check_model
from masgrad.progress import Progress
from masgrad.theory.curvature.pairs import Found, largest, power, top
from masgrad.theory.curvature.regions import Segments, as_points
from masgrad.types import Array, Rows, float64

NOISELESS_SIGMA = 1e-26
"""Size of Sigma, relative to other points, below which it is rounding error."""


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
        """The smallest eigenvalue; positive if the theorem's strong convexity holds here."""
        return self.lowest.value

    @property
    def gamma(self) -> float:
        return self.highest.value

    @property
    def kappa_masgrad(self) -> float:
        """gamma / alpha; infinite if alpha is not positive."""
        return self.gamma / self.alpha if self.alpha > 0 else np.inf

    @property
    def kappa_gd(self) -> float:
        """Condition number of gradient descent; infinite if some H is not positive definite."""
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

    For random design alpha falls to 0 far from the optimum, where V grows with the residuals (least
    squares) or H vanishes (logistic regression, whose V is bounded): over all of R^p the convex
    theorems say nothing, and every number here is about the region. For well-specified least
    squares gamma is attained at the optimum: a region that leaves it out recommends a step that is
    too long near it.

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
    check_model(model)
    rows = sample_rows(model, data)
    at, along, partner = _pairing(region)
    if at.shape[1] != model.dim(rows):
        raise InputError(
            f"region has points of {at.shape[1]} parameters; this model and data need "
            f"{model.dim(rows)}"
        )
    covs, hessians = _moments(model, data, at, along)
    return from_matrices(covs, hessians, at, along, partner, check_ridge(ridge))


def _pairing(region: Array | Segments) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Points w, points v, and the index of the w paired with each v (None: all pairs)."""
    if not isinstance(region, Segments):
        points = as_points("region", region)
        return points, points, None
    m, k, p = region.along.shape
    return region.at, region.along.reshape(m * k, p), np.repeat(np.arange(m), k)


def _moments(model, data, at: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sigma at the points w and H at the points v, each computed once, with a progress bar."""
    look, known = moment_function(model, data), {}
    both = {w.tobytes() for w in at}
    points = {v.tobytes(): v for v in (*at, *along)}
    with Progress(len(points), label="points") as bar:
        for i, (name, theta) in enumerate(points.items()):
            known[name] = look(theta) if name in both else look(theta, ("hessian",))
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
    """Conditioning from Sigma (m, p, p) at the points w and H (k, p, p) at the points v."""
    covs = covs + ridge * np.eye(covs.shape[1])
    values, vectors = np.linalg.eigh(covs)
    check_regular(covs, values)
    V = np.sqrt(values), vectors
    curvature = np.linalg.eigvalsh(hessians)
    steep, flat = int(curvature[:, -1].argmax()), int(curvature[:, 0].argmin())
    definite = bool((curvature[:, 0] > EIGENVALUE_FLOOR * curvature[:, -1]).all())
    if partner is None:
        highest, lowest = _over_all_pairs(V, hessians, definite)
    else:
        highest, lowest = _over_partners(V, hessians, partner)
    return Conditioning(
        Extremum(float(lowest.value), along[lowest.v], at[lowest.w]),
        Extremum(float(highest.value), along[highest.v], at[highest.w]),
        Extremum(float(_unless_rounding(*curvature[flat, [0, -1]])), along[flat]),
        Extremum(float(curvature[steep, -1]), along[steep]),
        float(np.sqrt(values[:, -1].max())),
        len(covs) * len(hessians) if partner is None else len(hessians),
    )


def _unless_rounding(low: Array, high: Array) -> Array:
    """The value, or 0 if it is rounding error relative to the largest eigenvalue."""
    return np.where(np.abs(low) > EIGENVALUE_FLOOR * np.abs(high), low, 0.0)


def check_regular(covs: np.ndarray, values: np.ndarray) -> None:
    """Check that V(w) is positive definite at every point, as all theorems assume."""
    spread = np.sqrt(np.maximum(np.einsum("mii->mi", covs), np.finfo(float).tiny))
    correlations = covs / spread[:, :, None] / spread[:, None]
    singular = ~(np.linalg.eigvalsh(correlations)[:, 0] > EIGENVALUE_FLOOR)
    singular |= ~(values[:, -1] > NOISELESS_SIGMA * values.max())
    if singular.any():
        raise InputError(
            f"V(w) is singular at point {int(np.argmax(singular))} of the region, and the theorems "
            "assume it positive definite: the gradient has no noise in some direction there; drop "
            "redundant columns, leave that point out, or pass ridge="
        )
    uneven = ~(values[:, 0] > EIGENVALUE_FLOOR * values[:, -1])
    if uneven.any():
        raise InputError(
            f"V(w) at point {int(np.argmax(uneven))} of the region has standard deviations from "
            f"{spread[np.argmax(uneven)].min():.1e} to {spread[np.argmax(uneven)].max():.1e}: too "
            "far apart for its root; bring the columns to comparable units"
        )


def _over_all_pairs(
    V: tuple[np.ndarray, np.ndarray], hessians: np.ndarray, definite: bool
) -> tuple[Found, Found]:
    """The smallest eigenvalue is the largest of the inverses, or of -H where H is not definite."""
    inverse = 1.0 / V[0], V[1]
    highest = largest(inverse, hessians)
    if definite:
        found = largest(V, np.linalg.inv(hessians))
        return highest, Found(1.0 / found.value, found.w, found.v)
    found = largest(inverse, -hessians)
    return highest, Found(_unless_rounding(-found.value, highest.value), found.w, found.v)


def _over_partners(
    V: tuple[np.ndarray, np.ndarray], hessians: np.ndarray, partner: np.ndarray
) -> tuple[Found, Found]:
    half = power(*V, -0.5)[partner]
    high = top(half, hessians)
    low = _unless_rounding(-top(half, -hessians), high)
    i, j = int(high.argmax()), int(low.argmin())
    return Found(high[i], partner[i], i), Found(low[j], partner[j], j)

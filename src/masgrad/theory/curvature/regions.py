"""Regions: the points over which the theorems' extrema are taken.

An array (m, p) of points stands for a region, and extrema run over all pairs (v, w) of them. Over
all of R^p alpha is 0 for random design (V grows with the residuals, or H vanishes), so that
without a bounded region the convex theorems say nothing. The proofs need less than all pairs: at w
they use H on the way from w to the next iterate and to the optimum only. `segments` keeps to those,
which matters for Poisson regression, where H(v) at one end of a region and V(w) at the other differ
exponentially.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.chains.trace import Trace
from masgrad.checks import as_number, check_count, check_seed
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Array


@dataclass(frozen=True)
class Segments:
    """Points w (m, p), and for each the points v (m, k, p) that its steps pass through."""

    at: np.ndarray
    along: np.ndarray


def as_points(name: str, points: Array) -> np.ndarray:
    """Finite parameter points (m, p)."""
    try:
        array = np.atleast_2d(np.asarray(points, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputTypeError(f"{name}: an array of points (m, p) is needed") from None
    if array.ndim != 2 or not array.size:
        raise InputError(f"{name} has shape {np.shape(points)}; points (m, p) are needed")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(1)))
        raise InputError(f"{name}: point {row} is not finite; give a bounded region")
    return array


def as_point(name: str, point: Array) -> np.ndarray:
    """One finite parameter point (p,)."""
    if np.ndim(point) != 1:
        raise InputError(f"{name} has shape {np.shape(point)}; one point (p,) is needed")
    return as_points(name, point)[0]


def ball(
    centre: Array, radius: float, points: int = 100, seed: int = 0, metric: Array | None = None
) -> np.ndarray:
    """The centre, and points in and on the ball (v - c)' M (v - c) <= radius^2 around it: (m, p).

    Args:
        centre: an estimate, (p,).
        radius: positive.
        points: m, the number of points; every second one lies on the surface.
        seed: of the directions.
        metric: M, (p, p), by default the identity; H gives a ball in predictions.

    Example:
        >>> import masgrad as mg
        >>> mg.theory.ball([1.0, 2.0], 0.5, points=50).shape
        (50, 2)
    """
    centre = as_point("centre", centre)
    radius, points = as_number("radius", radius), check_count("points", points)
    if radius <= 0:
        raise InputError(f"radius={radius:g}; a positive number is needed")
    rng = np.random.default_rng(check_seed(seed))
    direction = rng.normal(size=(points, len(centre)))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = rng.random(points) ** (1 / len(centre))
    length[1::2], length[0] = 1.0, 0.0
    return centre + radius * _from_metric(length[:, None] * direction, metric)


def _from_metric(unit: np.ndarray, metric: Array | None) -> np.ndarray:
    """Points of the unit ball as points with d' M d <= 1."""
    if metric is None:
        return unit
    M, p = np.asarray(metric, float), unit.shape[1]
    if M.shape != (p, p) or not np.allclose(M, M.T):
        raise InputError(f"metric has shape {M.shape}; a symmetric matrix ({p}, {p}) is needed")
    try:
        return np.linalg.solve(np.linalg.cholesky(M).T, unit.T).T
    except np.linalg.LinAlgError:
        raise InputError("metric: a positive definite matrix is needed") from None


def path(trace: Trace, points: int = 200) -> np.ndarray:
    """Points that chains have visited, evenly thinned over chains and steps: (m, p).

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.random.default_rng(0).normal(size=(100, 2))
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 2)
        >>> mg.theory.path(mg.run(mg.masgrad(0.2), model, z, [3.0, 0.0]), points=50).shape
        (50, 2)
    """
    if not isinstance(trace, Trace):
        raise InputTypeError("path needs a Trace; run with keep='paths', which is the default")
    visited = trace.theta.reshape(-1, trace.theta.shape[-1])
    visited = visited[np.isfinite(visited).all(1)]
    chosen = np.linspace(0, len(visited) - 1, min(check_count("points", points), len(visited)))
    return visited[chosen.round().astype(int)]


def segments(path: Array, optimum: Array, points: int = 5) -> Segments:
    """The segments that the proofs need: from each point to the next one and to the optimum.

    Args:
        path: successive points, (m, p), such as `run(..., batch_size=None, chains=1).theta[0]`.
        optimum: where it leads, (p,).
        points: number of points on each of the two ways, their ends included.

    Example:
        >>> import masgrad as mg
        >>> mg.theory.segments([[0.0, 0.0], [1.0, 1.0]], [2.0, 2.0]).along.shape
        (2, 10, 2)
    """
    at, optimum = as_points("path", path), as_point("optimum", optimum)
    if at.shape[1] != len(optimum):
        raise InputError(f"a path in {at.shape[1]} dimensions and an optimum in {len(optimum)}")
    share = np.linspace(0.0, 1.0, check_count("points", points, 2))[:, None]
    following = np.vstack([at[1:], optimum])
    to_next = at[:, None] + share * (following - at)[:, None]
    to_optimum = at[:, None] + share * (optimum - at)[:, None]
    return Segments(at, np.concatenate([to_next, to_optimum], axis=1))

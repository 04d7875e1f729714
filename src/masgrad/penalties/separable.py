"""Penalties that are sums over coordinates: L1, elastic net, squares, bounds.

Their proximal maps have a closed form, one coordinate at a time, and so have those in the metric of
a diagonal V: t is then eta / V_jj. `pieces` says what h is near a point: on the coordinates that
are free to move a parabola, on the others a kink or a wall. A quadratic loss is then minimised by
solving for the free ones (`minimise.py`).
"""

import abc
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from masgrad.checks import as_number, as_size
from masgrad.errors import InputError, InputTypeError
from masgrad.penalties.penalty import (
    Penalty,
    Scaled,
    as_weights,
    check_length,
    columns,
    traced,
)
from masgrad.types import Array, namespace


class Pieces(NamedTuple):
    """The free coordinates, h's slope and curvature there, and the interval where these hold."""

    free: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Separable(Penalty):
    """A sum over coordinates."""

    separable = True

    def common(self, D: Array) -> Array:
        return D

    @abc.abstractmethod
    def pieces(self, theta: np.ndarray) -> Pieces:
        """The smooth pieces of h around theta, (p,)."""

    @abc.abstractmethod
    def only(self, index: np.ndarray) -> "Separable":
        """The penalty restricted to these coordinates."""


@traced
@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(Scaled, Separable):
    """lam sum_j w_j (ratio |theta_j| + (1 - ratio) theta_j^2 / 2).

    Args:
        lam: its size, a number >= 0; in `fit` also "cv", "bic" or "aic".
        l1_ratio: between 0 (squares alone) and 1 (L1), as in scikit-learn.
        weights: w, (p,), by default 1; 0 for a coefficient that is not penalised.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> h = mg.ElasticNet(1.0, l1_ratio=0.5)
        >>> float(h.value(np.array([2.0, -1.0]))), h.prox(np.array([2.0, -1.0]), 1.0)
        (2.75, array([ 1.        , -0.33333333]))
    """

    l1_ratio: Any = 0.5
    weights: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        ratio = as_number("l1_ratio", self.l1_ratio)
        if not 0 <= ratio <= 1:
            raise InputError(f"l1_ratio={ratio:g}; a number from 0 (squares) to 1 (L1) is needed")
        object.__setattr__(self, "l1_ratio", np.asarray(ratio))
        object.__setattr__(self, "weights", as_weights(self.weights))

    @property
    def name(self) -> str:
        return {0.0: "L2", 1.0: "L1"}.get(float(self.l1_ratio), "ElasticNet")

    @property
    def said(self) -> str:
        return f", l1_ratio={float(self.l1_ratio):.4g}" if self.name == "ElasticNet" else ""

    @property
    def smooth(self) -> bool:
        """Whether the penalty is purely quadratic and needs no proximal map."""
        return bool(self.l1_ratio == 0) and self.criterion is None

    def _parts(self, theta: Array) -> tuple[Array, Array]:
        """The factors of |theta_j| and of theta_j^2 / 2."""
        w = 1.0 if self.weights is None else columns(self.weights, theta)
        return self.lam * self.l1_ratio * w, self.lam * (1.0 - self.l1_ratio) * w

    def value(self, theta: Array) -> Array:
        a, q = self._parts(theta)
        return (a * abs(theta) + 0.5 * q * theta**2).sum(0)

    def prox(self, theta: Array, t: Array | float) -> Array:
        xp, t = namespace(theta), columns(t, theta)
        a, q = self._parts(theta)
        return xp.sign(theta) * xp.maximum(abs(theta) - t * a, 0.0) / (1.0 + t * q)

    def subgradient(self, theta: Array) -> Array:
        a, q = self._parts(theta)
        return a * namespace(theta).sign(theta) + q * theta

    def pieces(self, theta: np.ndarray) -> Pieces:
        a, q = (np.broadcast_to(part, theta.shape) for part in self._parts(theta))
        low = np.where((theta > 0) & (a > 0), 0.0, -np.inf)
        high = np.where((theta < 0) & (a > 0), 0.0, np.inf)
        return Pieces((theta != 0) | (a == 0), a * np.sign(theta), q, low, high)

    def ratios(self, gradient: np.ndarray) -> np.ndarray:
        w = np.ones(len(gradient)) if self.weights is None else self.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.abs(gradient) / (w * self.l1_ratio))[w > 0]

    def check(self, p: int, shape: tuple[int, int] | None = None) -> None:
        if self.weights is not None:
            check_length(f"weights of {self.name}", len(self.weights), p)

    def without(self, k: int, p: int) -> "ElasticNet":
        w = np.ones(p) if self.weights is None else self.weights.copy()
        w[k] = 0.0
        return replace(self, weights=w)

    def only(self, index: np.ndarray) -> "ElasticNet":
        return self if self.weights is None else replace(self, weights=self.weights[index])


def L1(lam: Any, weights: Any = None) -> ElasticNet:
    """lam sum_j w_j |theta_j|: sparse estimates (the lasso).

    Args:
        lam: its size, a number >= 0; in `fit` also "cv", "bic" or "aic".
        weights: w, (p,), by default 1; 0 for a coefficient that is not penalised.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> mg.L1(1.0).prox(np.array([3.0, -0.5]), 1.0)
        array([ 2., -0.])
    """
    return ElasticNet(lam, 1.0, weights)


def L2(lam: float) -> ElasticNet:
    """lam |theta|^2 / 2, in `fit` over all coefficients but that of a constant column.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X = np.eye(3).repeat(2, axis=0)
        >>> y = np.array([0.9, 1.1, 1.9, 2.1, 2.9, 3.1])
        >>> r = mg.fit(mg.Linear(), (X, y), penalty=mg.L2(1 / 3))
        >>> r.penalized_params.round(6), r.params.round(6)
        (array([0.5, 1. , 1.5]), array([1., 2., 3.]))
    """
    return ElasticNet(np.asarray(as_size("lam", lam)), 0.0)


@traced
@dataclass(frozen=True, eq=False, repr=False)
class Box(Separable):
    """0 where lower <= theta <= upper, infinity elsewhere: a constraint.

    Args:
        lower: a number, or one for each coefficient; -inf for none.
        upper: the same; inf for none.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> mg.Box(0.0, 1.0).prox(np.array([-2.0, 0.5, 3.0]), 1.0)
        array([0. , 0.5, 1. ])
    """

    lower: Any = -np.inf
    upper: Any = np.inf

    def __post_init__(self) -> None:
        ends = _bound("lower", self.lower), _bound("upper", self.upper)
        if ends[0].ndim and ends[1].ndim and len(ends[0]) != len(ends[1]):
            raise InputError(
                f"{len(ends[0])} lower and {len(ends[1])} upper bounds; as many of each are needed"
            )
        for name, end in zip(("lower", "upper"), np.broadcast_arrays(*ends), strict=True):
            object.__setattr__(self, name, end.copy())
        if (self.lower > self.upper).any():
            raise InputError("a lower bound is above its upper bound: no theta is between them")
        if (self.lower == np.inf).any() or (self.upper == -np.inf).any():
            raise InputError("a lower bound of inf or an upper one of -inf leaves no theta")

    def __repr__(self) -> str:
        if self.lower.ndim:
            return f"Box({len(self.lower)} bounds)"
        return (
            "NonNegative()"
            if (self.lower, self.upper) == (0, np.inf)
            else (f"Box({self.lower:g}, {self.upper:g})")
        )

    def value(self, theta: Array) -> Array:
        low, high = self._ends(theta)
        outside = ((theta < low) | (theta > high)).any(0)
        return namespace(theta).where(outside, np.inf, 0.0)

    def prox(self, theta: Array, t: Array | float) -> Array:
        del t
        return namespace(theta).clip(theta, *self._ends(theta))

    def subgradient(self, theta: Array) -> Array:
        return namespace(theta).zeros_like(theta)

    def pieces(self, theta: np.ndarray) -> Pieces:
        low, high = self._ends(theta)
        none = np.zeros_like(theta)
        ends = (np.broadcast_to(end, theta.shape) for end in (low, high))
        return Pieces((theta > low) & (theta < high), none, none, *ends)

    def _ends(self, theta: Array) -> tuple[Array, Array]:
        return columns(self.lower, theta), columns(self.upper, theta)

    def check(self, p: int, shape: tuple[int, int] | None = None) -> None:
        if self.lower.ndim:
            check_length("bounds of Box", len(self.lower), p)

    def without(self, k: int, p: int) -> "Box":
        low, high = np.full(p, self.lower), np.full(p, self.upper)
        low[k], high[k] = -np.inf, np.inf
        return Box(low, high)

    def only(self, index: np.ndarray) -> "Box":
        return Box(self.lower[index], self.upper[index]) if self.lower.ndim else self


def _bound(name: str, end: Any) -> np.ndarray:
    """A bound: one number, or one per coefficient."""
    try:
        array = np.asarray(end, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"{name}={end!r:.60}; bounds are numbers, or one for each coefficient, (p,)"
        ) from None
    if array.ndim > 1 or np.isnan(array).any():
        raise InputError("bounds are numbers, or one for each coefficient, (p,); not NaN")
    return array


def NonNegative() -> Box:
    """theta >= 0, coordinate by coordinate.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> mg.NonNegative().prox(np.array([-2.0, 0.5]), 1.0)
        array([0. , 0.5])
    """
    return Box(0.0, np.inf)

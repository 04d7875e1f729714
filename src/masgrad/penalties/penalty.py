"""What every penalty knows: h(theta), its proximal map, and a subgradient.

    value       h(theta)
    prox        argmin_u |u - theta|^2 / 2 + t h(u)        t a number; for separable penalties one
                                                           for each coordinate, if wanted
    subgradient an element of the subdifferential at theta (that of smallest size where it is easy)

theta is (p,) or, chains last, (p, K); NumPy in, NumPy out, and the same for JAX's traced values.
The proximal map in the metric of a matrix V is in `metric.py`: it needs these alone. Penalties are
plain records that JAX traces through (`traced`): the host asks them thousands of times a fit, and
would feel the cost of anything more. Fits with a penalty need no JAX; it learns of these records
when it is loaded already, or with the first kernel.
"""

import abc
import sys
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from masgrad.checks import as_size
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Array

CRITERIA = ("cv", "bic", "aic")
"""Criteria by which `fit` chooses lam."""


P = TypeVar("P", bound=type)

_UNREGISTERED: list[type] = []
"""Records that JAX does not know yet."""


def traced(cls: P) -> P:
    """Declare a record that JAX traces through."""
    _UNREGISTERED.append(cls)
    if "jax" in sys.modules:
        register_traced()
    return cls


def register_traced() -> None:
    """Make the declared records known to JAX."""
    while _UNREGISTERED:
        _register(_UNREGISTERED.pop())


def _register(cls: type) -> None:
    """Register a record's fields with JAX; it is validated when created, not when rebuilt."""
    import jax

    static = {f.name for f in fields(cls) if f.metadata.get("static")}
    names = [f.name for f in fields(cls) if f.name not in static]

    def flatten(record: Any) -> tuple[list, tuple]:
        held = tuple((name, getattr(record, name)) for name in sorted(static))
        return [getattr(record, name) for name in names], held

    def unflatten(held: tuple, leaves: Any) -> Any:
        record = object.__new__(cls)
        for name, value in (*zip(names, leaves, strict=True), *held):
            object.__setattr__(record, name, value)
        return record

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


class Penalty(abc.ABC):
    """A convex function h of theta; the penalised objective is mean loss + h.

    Paper: non-smooth decomposition - L = g + h, g the mean loss and h this
    """

    separable: ClassVar[bool] = False
    """Whether h is a sum over coordinates."""

    @abc.abstractmethod
    def value(self, theta: Array) -> Array:
        """h(theta), one number per chain."""

    @abc.abstractmethod
    def prox(self, theta: Array, t: Array | float) -> Array:
        """argmin_u |u - theta|^2 / 2 + t h(u)."""

    @abc.abstractmethod
    def subgradient(self, theta: Array) -> Array:
        """An element of the subdifferential of h at theta."""

    @abc.abstractmethod
    def common(self, D: Array) -> Array:
        """The smallest diagonal >= D, (p,) or (p, K), in whose metric `prox` is the proximal map.

        Coordinates that the penalty ties together share the largest of theirs.
        """

    def left(self, theta: np.ndarray) -> str:
        """A description of the penalised estimate, such as its number of nonzero coefficients."""
        return f"{np.count_nonzero(theta)} of {len(theta)} coefficients that are not 0"

    def check(self, p: int, shape: tuple[int, int] | None = None) -> None:
        """Check that the penalty fits a theta of p numbers, which may be a matrix of `shape`."""
        del p, shape

    def without(self, k: int, p: int) -> "Penalty":
        """The same penalty without coordinate k of p, such as the intercept."""
        raise NotImplementedError

    @property
    def criterion(self) -> str | None:
        """The criterion that chooses lam; None if lam is a number or absent."""
        return None

    @property
    def name(self) -> str:
        """The name of the penalty's class."""
        return type(self).__name__

    def solved(self) -> None:
        """Refuse a penalty whose lam is not a number yet: only `fit` can choose it."""
        if self.criterion is not None:
            raise InputError(
                f"lam={self.criterion!r} is chosen by mg.fit; give a number here, such as "
                f"{self.name}(0.1)"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Penalty):
    """lam times a fixed function; `lam` may be left to `fit`: "cv", "bic" or "aic"."""

    lam: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", as_lam(self.lam))

    def with_lam(self, lam: Any) -> Self:
        """The same penalty with another lam."""
        return replace(self, lam=lam)

    @property
    def criterion(self) -> str | None:
        return self.lam if isinstance(self.lam, str) else None

    def freedom(self, theta: np.ndarray) -> int:
        """The degrees of freedom of an optimum: its number of nonzero coefficients."""
        return int(np.count_nonzero(theta))

    @abc.abstractmethod
    def ratios(self, gradient: np.ndarray) -> np.ndarray:
        """For each penalised piece, the smallest lam at which it is 0, given this gradient."""

    def largest(self, gradient: np.ndarray) -> float:
        """The smallest lam at which 0 is optimal, given the mean loss's gradient at 0."""
        return float(self.ratios(gradient).max(initial=0.0))

    def noise(self, sizes: np.ndarray) -> float:
        """The median over pieces of the lam at which a gradient of these sizes gives 0."""
        felt = self.ratios(sizes)
        return float(np.median(felt)) if felt.size else 0.0

    def __repr__(self) -> str:
        lam = repr(self.lam) if isinstance(self.lam, str) else f"{float(self.lam):.4g}"
        return f"{self.name}({lam}{self.said})"

    @property
    def said(self) -> str:
        """The other arguments, for the representation."""
        return ""


def as_lam(lam: Any) -> Any:
    """A number >= 0 as an array, which jit traces; or the name of a criterion."""
    if isinstance(lam, str):
        if lam not in CRITERIA:
            raise InputError(
                f"lam={lam!r}; a number >= 0 is needed, or one of {', '.join(map(repr, CRITERIA))}"
            )
        return lam
    return np.asarray(as_size("lam", lam, zero=True))


def as_weights(weights: Any, name: str = "weights") -> np.ndarray | None:
    """Finite numbers >= 0, (p,), or None."""
    if weights is None:
        return None
    try:
        array = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"{name}={weights!r:.60}; numbers >= 0 are needed") from None
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{name} must be finite numbers >= 0, one for each coefficient: (p,)")
    return array


def check_length(what: str, length: int, p: int) -> None:
    if length != p:
        raise InputError(f"{what} has length {length}, and theta {p}; one number each is needed")


def columns(a: Array, theta: Array) -> Array:
    """Numbers (p,), reshaped to broadcast with theta (p,) or (p, K)."""
    return a[:, None] if np.ndim(a) == 1 and np.ndim(theta) == 2 else a

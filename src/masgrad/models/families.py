"""Exponential families by their cumulant: the loss -y t + c(t) of the linear predictor t.

    c(t) = t^2 / 2 (Gaussian),   log(1 + e^t) (Bernoulli),   e^t (Poisson)

Everything is written once for NumPy and JAX arrays. c' is the mean and c'' the variance function
at the canonical link; a family with another link overrides `loss`, `slope` and `curvature`.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.errors import InputError
from masgrad.types import Array, namespace


@dataclass(frozen=True)
class Family(abc.ABC):
    """A cumulant c with two derivatives, and the range of the response."""

    name = "family"
    lowest = -np.inf
    highest = np.inf

    @abc.abstractmethod
    def cumulant(self, t: Array) -> Array: ...

    @abc.abstractmethod
    def mean(self, t: Array) -> Array:
        """c'(t)."""

    @abc.abstractmethod
    def variance(self, t: Array) -> Array:
        """c''(t)."""

    def loss(self, t: Array, y: Array) -> Array:
        """Negative log-likelihood up to a term in y.

        Paper: GLM landscape - the loss -y x'w + c(x'w)
        """
        return self.cumulant(t) - y * t

    def slope(self, t: Array, y: Array) -> Array:
        """d loss / dt: the residual that multiplies x in the gradient."""
        return self.mean(t) - y

    def curvature(self, t: Array, y: Array) -> Array:
        """d^2 loss / dt^2: the weight of x x' in the Hessian."""
        del y
        return self.variance(t)

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        """Both derivatives of the loss in t, where they share work."""
        return self.slope(t, y), self.curvature(t, y)

    def check(self, y: np.ndarray, place: Callable[[int], str] = "row {}".format) -> None:
        """Reject a response outside the family's range, naming the row."""
        bad = (y < self.lowest) | (y > self.highest)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"y is {y[row]:g} at {place(row)}; the {self.name} family needs y in "
                f"[{self.lowest:g}, {self.highest:g}]; recode y or choose another family"
            )


class Gaussian(Family):
    name = "gaussian"

    def cumulant(self, t: Array) -> Array:
        return 0.5 * t * t

    def mean(self, t: Array) -> Array:
        return t

    def variance(self, t: Array) -> Array:
        return namespace(t).ones_like(t)


class Bernoulli(Family):
    """Mean and variance are written in exp(-|t|), which neither overflows nor cancels."""

    name = "bernoulli"
    lowest, highest = 0.0, 1.0

    def cumulant(self, t: Array) -> Array:
        return namespace(t).logaddexp(t, 0.0)

    def mean(self, t: Array) -> Array:
        xp = namespace(t)
        e = xp.exp(-xp.abs(t))
        larger = 1.0 / (1.0 + e)
        return xp.where(t >= 0, larger, e * larger)

    def variance(self, t: Array) -> Array:
        xp = namespace(t)
        e = xp.exp(-xp.abs(t))
        return e / (1.0 + e) ** 2

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(t)
        e = xp.exp(-xp.abs(t))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        return xp.where(t >= 0, larger, smaller) - y, smaller * larger


class Poisson(Family):
    name = "poisson"
    lowest = 0.0

    def cumulant(self, t: Array) -> Array:
        return namespace(t).exp(t)

    mean = cumulant
    variance = cumulant

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        mean = self.mean(t)
        return mean - y, mean


FAMILIES = {
    "gaussian": Gaussian(),
    "bernoulli": Bernoulli(),
    "binomial": Bernoulli(),
    "poisson": Poisson(),
}


def as_family(family: "Family | str") -> Family:
    """A family, or its name."""
    if isinstance(family, Family):
        return family
    if family not in FAMILIES:
        raise InputError(f"family={family!r} is not known; use one of {sorted(FAMILIES)}")
    return FAMILIES[family]

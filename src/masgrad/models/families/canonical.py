"""Canonical links, by the cumulant c: loss = c(t) - y t, so that c' is the mean, c'' the variance.

c(t) = t^2 / 2 (Gaussian),   log(1 + e^t) (Bernoulli),   e^t (Poisson)
"""

import abc
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from masgrad.models.families.family import Family, LikelihoodSums
from masgrad.types import Array, namespace


@dataclass(frozen=True)
class Cumulant(Family):
    """A canonical link: loss = c(t) - y t."""

    canonical = True

    @property
    def convex(self) -> bool:
        return True

    @abc.abstractmethod
    def cumulant(self, t: Array) -> Array: ...

    @abc.abstractmethod
    def variance(self, t: Array) -> Array:
        """c''(t)."""

    def loss(self, t: Array, y: Array) -> Array:
        """Negative log-likelihood up to a term in y.

        Paper: GLM landscape - the loss -y x'w + c(x'w)
        """
        return self.cumulant(t) - y * t

    def slope(self, t: Array, y: Array) -> Array:
        return self.mean(t) - y

    def observed(self, t: Array, y: Array) -> Array:
        del y
        return self.variance(t)

    def information(self, t: Array) -> Array:
        return self.variance(t)


@dataclass(frozen=True)
class Gaussian(Cumulant):
    link: str = "identity"
    name = "gaussian"
    dispersed = True

    def cumulant(self, t: Array) -> Array:
        return 0.5 * t * t

    def mean(self, t: Array) -> Array:
        return t

    def predictor(self, mean: Array) -> Array:
        return mean

    def variance(self, t: Array) -> Array:
        return namespace(t).ones_like(t)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return -0.5 * y * y

    def log_likelihood(self, sums: LikelihoodSums, dispersion: float) -> float:
        return gaussian_likelihood(sums)


def gaussian_likelihood(sums: LikelihoodSums) -> float:
    """The Gaussian log-likelihood at its maximum over the dispersion, RSS / N."""
    return -0.5 * sums.size * (np.log(2 * np.pi * sums.deviance / sums.size) + 1)


@dataclass(frozen=True)
class Bernoulli(Cumulant):
    """The logit link; exp(-|t|) gives mean and variance without overflow or cancellation."""

    link: str = "logit"
    name = "bernoulli"
    lowest, highest = 0.0, 1.0
    support = "y in [0, 1]"

    @property
    def separable(self) -> bool:
        return True

    def cumulant(self, t: Array) -> Array:
        if namespace(t) is np:  # a seventh of the time of its logaddexp
            return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))
        return namespace(t).logaddexp(t, 0.0)

    def mean(self, t: Array) -> Array:
        xp = namespace(t)
        e = xp.exp(-xp.abs(t))
        larger = 1.0 / (1.0 + e)
        return xp.where(t >= 0, larger, e * larger)

    def predictor(self, mean: Array) -> Array:
        xp = namespace(mean)
        return xp.log(mean) - xp.log1p(-mean)

    def variance(self, t: Array) -> Array:
        xp = namespace(t)
        e = xp.exp(-xp.abs(t))
        return e / (1.0 + e) ** 2

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        return self._parts(t, y)[1:]

    def local(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        e, r, w = self._parts(t, y)
        xp = namespace(t)
        return xp.maximum(t, 0.0) + xp.log1p(e) - y * t, r, w

    def _parts(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        xp = namespace(t)
        e = xp.exp(-xp.abs(t))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        return e, xp.where(t >= 0, larger, smaller) - y, smaller * larger

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return bernoulli_entropy(y)


def bernoulli_entropy(y: np.ndarray) -> np.ndarray:
    """-y log y - (1 - y) log(1 - y), which is 0 for 0 and 1."""
    return np.zeros_like(y) if ((y == 0) | (y == 1)).all() else -xlogy(y, y) - xlogy(1 - y, 1 - y)


@dataclass(frozen=True)
class Poisson(Cumulant):
    link: str = "log"
    name = "poisson"
    lowest = 0.0
    support = "y >= 0"

    @property
    def separable(self) -> bool:
        return True

    def cumulant(self, t: Array) -> Array:
        return namespace(t).exp(t)

    mean = cumulant
    variance = cumulant

    def predictor(self, mean: Array) -> Array:
        return namespace(mean).log(mean)

    def local(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        mean = self.mean(t)
        return mean - y * t, mean - y, mean

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        mean = self.mean(t)
        return mean - y, mean

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return y - xlogy(y, y)

    def base(self, y: np.ndarray) -> np.ndarray:
        return -gammaln(y + 1)

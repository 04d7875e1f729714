"""Families of means mu > 0, by s = log mu, with m = ds/dt for the link.

For the variance function mu^q, where a power 0 / 0 stands for s:

    loss = mu^(2-q) / (2-q) - y mu^(1-q) / (1-q),     d loss / ds = mu^(2-q) - y mu^(1-q)

and by the chain rule  d loss / dt = m d loss / ds.  Links: log, and powers mu = t^k.
"""

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, xlogy

from masgrad.errors import InputError
from masgrad.models.families.canonical import Bernoulli, Poisson, gaussian_likelihood
from masgrad.models.families.family import Family, LikelihoodSums
from masgrad.types import Array, namespace

SMALLEST_POSITIVE = 5e-324


@dataclass(frozen=True)
class PositiveMean(Family):
    """A family with means mu > 0, defined by its loss as a function of log mu.

    Links: log, and the powers mu = t^k: identity, inverse, inverse_squared, sqrt.
    """

    link: str = "log"
    POWERS: ClassVar[dict[str, float]] = {
        "identity": 1.0, "inverse": -1.0, "inverse_squared": -0.5, "sqrt": 2.0
    }  # fmt: skip

    @abc.abstractmethod
    def log_mean_local(self, s: Array, y: Array) -> tuple[Array, Array, Array]:
        """The loss and its two derivatives in s = log mu."""

    @abc.abstractmethod
    def log_mean_information(self, s: Array) -> Array:
        """mu^2 over the variance."""

    @property
    def domain(self) -> tuple[float, float]:
        return (-np.inf if self.link == "log" else 0.0), np.inf

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, np.inf

    @property
    def separable(self) -> bool:
        return self.link == "log" and self.lowest == 0

    def log_mean(self, t: Array) -> Array:
        """s = log mu; NaN if t has no mean."""
        if self.link == "log":
            return t
        xp = namespace(t)
        return self.POWERS[self.link] * xp.log(xp.where(t > 0, t, np.nan))

    def mean(self, t: Array) -> Array:
        return namespace(t).exp(self.log_mean(t))

    def predictor(self, mean: Array) -> Array:
        if self.link == "log":
            return namespace(mean).log(mean)
        return mean ** (1 / self.POWERS[self.link])

    def loss(self, t: Array, y: Array) -> Array:
        return self.local(t, y)[0]

    def slope(self, t: Array, y: Array) -> Array:
        return self.local(t, y)[1]

    def observed(self, t: Array, y: Array) -> Array:
        return self._observed(t, y)[2]

    def information(self, t: Array) -> Array:
        first, _ = self._rates(t)
        return self.log_mean_information(self.log_mean(t)) * first * first

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        return self.local(t, y)[1:]

    def local(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        loss, slope, curvature = self._observed(t, y)
        return loss, slope, self.curvature(t, y) if self.expected else curvature

    def _observed(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        loss, slope, bend = self.log_mean_local(self.log_mean(t), y)
        xp, (first, second) = namespace(t), self._rates(t)
        loss = xp.where(xp.isnan(loss), np.inf, loss)
        return loss, slope * first, bend * first * first + slope * second

    def _rates(self, t: Array) -> tuple[Array, Array]:
        """m and dm/dt."""
        if self.link == "log":
            return 1.0, 0.0
        k = self.POWERS[self.link]
        return k / t, -k / (t * t)


@dataclass(frozen=True)
class PowerVariance(PositiveMean):
    """Variance mu^power times the dispersion."""

    power: float = 1.0

    def log_mean_local(self, s: Array, y: Array) -> tuple[Array, Array, Array]:
        xp, q = namespace(s), self.power
        upper, lower = xp.exp((2 - q) * s), y * xp.exp((1 - q) * s)
        loss = (s if q == 2 else upper / (2 - q)) - (y * s if q == 1 else lower / (1 - q))
        return loss, upper - lower, (2 - q) * upper - (1 - q) * lower

    def log_mean_information(self, s: Array) -> Array:
        return namespace(s).exp((2 - self.power) * s)

    def saturated(self, y: np.ndarray) -> np.ndarray:
        q = self.power
        if q == 1:
            return y - xlogy(y, y)
        if q == 2:
            return 1 + np.log(y)
        return y ** (2 - q) * (1 / (2 - q) - 1 / (1 - q))


@dataclass(frozen=True)
class GaussianPositive(PowerVariance):
    """Gaussian responses with a positive mean: the log and inverse links."""

    name = "gaussian"
    power: float = 0.0
    dispersed = True

    def log_likelihood(self, sums: LikelihoodSums, dispersion: float) -> float:
        return gaussian_likelihood(sums)


@dataclass(frozen=True)
class PoissonPower(PowerVariance):
    """Counts with a link other than log: identity or sqrt."""

    link: str = "identity"
    name, support = Poisson.name, Poisson.support
    lowest = 0.0
    power: float = 1.0

    @property
    def convex(self) -> bool:
        return self.expected or self.link in ("identity", "sqrt")

    def base(self, y: np.ndarray) -> np.ndarray:
        return -gammaln(y + 1)


@dataclass(frozen=True)
class Gamma(PowerVariance):
    link: str = "log"
    name = "gamma"
    lowest, support = SMALLEST_POSITIVE, "y > 0"
    power: float = 2.0
    dispersed = True

    @property
    def convex(self) -> bool:
        return self.expected or self.link in ("log", "inverse")

    def base(self, y: np.ndarray) -> np.ndarray:
        return np.log(y)

    def log_likelihood(self, sums: LikelihoodSums, dispersion: float) -> float:
        shape = 1 / dispersion
        return (
            (shape - 1) * sums.base
            - shape * sums.loss
            + sums.size * (shape * np.log(shape) - gammaln(shape))
        )


@dataclass(frozen=True)
class InverseGaussian(PowerVariance):
    link: str = "log"
    name = "inverse_gaussian"
    lowest, support = SMALLEST_POSITIVE, "y > 0"
    power: float = 3.0
    dispersed = True

    @property
    def convex(self) -> bool:
        return self.expected or self.link == "inverse_squared"

    def base(self, y: np.ndarray) -> np.ndarray:
        return np.log(y)

    def log_likelihood(self, sums: LikelihoodSums, dispersion: float) -> float:
        scale = sums.size * np.log(2 * np.pi * dispersion) + sums.deviance / dispersion
        return -0.5 * (scale + 3 * sums.base)


@dataclass(frozen=True)
class Tweedie(PowerVariance):
    """Variance mu^power with 1 < power < 2: a point mass at 0 and a density above it."""

    power: float = 1.5
    name = "tweedie"
    lowest, support = 0.0, "y >= 0"
    dispersed = True

    def __post_init__(self):
        if not 1 < self.power < 2:
            raise InputError(f"power={self.power:g}; a power between 1 and 2 is needed")

    @property
    def parameter(self) -> float:
        return self.power

    @property
    def convex(self) -> bool:
        return self.expected or self.link == "log"

    def log_likelihood(self, sums: LikelihoodSums, dispersion: float) -> None:
        """None: the density is an infinite series."""


@dataclass(frozen=True)
class NegativeBinomial(PositiveMean):
    """Counts with the variance mu + alpha mu^2, alpha known."""

    alpha: float = 1.0
    name = "negative_binomial"
    lowest, support = 0.0, "y >= 0"

    def __post_init__(self):
        if not 0 < self.alpha < np.inf:
            raise InputError(f"alpha={self.alpha:g}; a positive number is needed")

    @property
    def parameter(self) -> float:
        return self.alpha

    @property
    def convex(self) -> bool:
        return self.expected or self.link == "log"

    def log_mean_local(self, s: Array, y: Array) -> tuple[Array, Array, Array]:
        xp, size = namespace(s), 1 / self.alpha
        t = s + np.log(self.alpha)
        share, rest = Bernoulli().mean(t), Bernoulli().mean(-t)  # 1 - share would cancel
        loss = (y + size) * xp.logaddexp(t, 0.0) - y * s
        return loss, size * share - y * rest, (y + size) * share * rest

    def log_mean_information(self, s: Array) -> Array:
        return Bernoulli().mean(s + np.log(self.alpha)) / self.alpha

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return (y + 1 / self.alpha) * np.log1p(self.alpha * y) - xlogy(y, y)

    def base(self, y: np.ndarray) -> np.ndarray:
        size = 1 / self.alpha
        return gammaln(y + size) - gammaln(size) - gammaln(y + 1) + y * np.log(self.alpha)

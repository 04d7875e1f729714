"""Bernoulli responses with any link, by log mu and log(1 - mu), which keep their digits in tails.

loss = -y log mu - (1 - y) log(1 - mu)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from masgrad.models.families.canonical import Bernoulli, bernoulli_entropy
from masgrad.models.families.family import Family
from masgrad.types import Array, log_ndtr, namespace


class Tails(NamedTuple):
    """log mu and log(1 - mu) with two derivatives each; those of the latter with their sign."""

    log: Array
    log_rate: Array
    log_bend: Array
    rest: Array
    rest_rate: Array
    rest_bend: Array


def probit(t: Array) -> Tails:
    xp = namespace(t)
    log, rest = log_ndtr(t), log_ndtr(-t)
    density = -0.5 * t * t - 0.5 * np.log(2 * np.pi)
    up, down = xp.exp(density - log), xp.exp(density - rest)
    return Tails(log, up, -up * (t + up), rest, -down, -down * (down - t))


def cloglog(t: Array) -> Tails:
    """mu = 1 - exp(-u), u = e^t."""
    xp = namespace(t)
    u = xp.exp(xp.minimum(t, 700.0))
    small, some = u < 1e-4, xp.minimum(u, 700.0)
    up = xp.where(small, 1 - u / 2, some / xp.expm1(xp.maximum(some, 1e-300)))
    bend = xp.where(small, -u / 2 + u * u / 6, up * (1 - some - up))
    log = xp.where(t < -30, t - u / 2, xp.log(-xp.expm1(-xp.maximum(u, 1e-300))))
    return Tails(log, up, bend, -u, -u, -u)


def log_probability(t: Array) -> Tails:
    """mu = e^t, t < 0."""
    xp = namespace(t)
    t = xp.where(t < 0, t, np.nan)
    odds = 1 / xp.expm1(-t)
    zero = xp.zeros_like(t)
    return Tails(t, zero + 1, zero, xp.log(-xp.expm1(t)), -odds, -odds * (1 + odds))


def identity_probability(t: Array) -> Tails:
    """mu = t, 0 < t < 1."""
    xp = namespace(t)
    t = xp.where((t > 0) & (t < 1), t, np.nan)
    rest = 1 - t
    return Tails(xp.log(t), 1 / t, -1 / (t * t), xp.log(rest), -1 / rest, -1 / (rest * rest))


TAILS: dict[str, Callable[[Array], Tails]] = {
    "probit": probit,
    "cloglog": cloglog,
    "log": log_probability,
    "identity": identity_probability,
}


@dataclass(frozen=True)
class Binary(Family):
    """Bernoulli responses with a link other than logit."""

    link: str = "probit"
    name, support = Bernoulli.name, Bernoulli.support
    lowest, highest = 0.0, 1.0

    @property
    def convex(self) -> bool:
        return True

    @property
    def domain(self) -> tuple[float, float]:
        return {"log": (-np.inf, 0.0), "identity": (0.0, 1.0)}.get(self.link, (-np.inf, np.inf))

    @property
    def separable(self) -> bool:
        return self.link in ("probit", "cloglog")

    def mean(self, t: Array) -> Array:
        return namespace(t).exp(TAILS[self.link](t).log)

    def predictor(self, mean: Array) -> Array:
        xp = namespace(mean)
        match self.link:
            case "probit":
                return ndtri(mean)
            case "cloglog":
                return xp.log(-xp.log1p(-mean))
            case "log":
                return xp.log(mean)
        return mean

    def loss(self, t: Array, y: Array) -> Array:
        return self.local(t, y)[0]

    def slope(self, t: Array, y: Array) -> Array:
        return self.local(t, y)[1]

    def observed(self, t: Array, y: Array) -> Array:
        f = TAILS[self.link](t)
        return -_mix(y, f.log_bend, f.rest_bend)

    def information(self, t: Array) -> Array:
        f = TAILS[self.link](t)
        return -f.log_rate * f.rest_rate

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        return self.local(t, y)[1:]

    def local(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        xp, f = namespace(t), TAILS[self.link](t)
        loss, slope = -_mix(y, f.log, f.rest), -_mix(y, f.log_rate, f.rest_rate)
        bend = self.curvature(t, y) if self.expected else -_mix(y, f.log_bend, f.rest_bend)
        return xp.where(xp.isnan(loss), np.inf, loss), slope, bend

    def saturated(self, y: np.ndarray) -> np.ndarray:
        return bernoulli_entropy(y)


def _mix(y: Array, one: Array, zero: Array) -> Array:
    """y one + (1 - y) zero, where a term of weight 0 is 0 even if its value is infinite."""
    xp = namespace(one)
    return xp.where(y > 0, y * one, 0.0) + xp.where(y < 1, (1 - y) * zero, 0.0)

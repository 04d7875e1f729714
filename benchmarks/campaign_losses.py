"""Losses of the campaign's oracle in plain NumPy, with two derivatives in the linear predictor t.

With l the negative log-likelihood of a row at dispersion 1, mu the mean, V the variance function:

    dl/dt = -(y - mu) mu' / V,      E l'' = mu'^2 / V,
    l''   = mu'^2 / V - (y - mu) (mu'' / V - V' mu'^2 / V^2)

with expressions of their own for binary responses, whose tails would cancel, and for the log link
with V = mu^q, whose powers would underflow. Nothing here is taken from masgrad.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr, ndtri

Rows = np.ndarray

SEVERAL_OPTIMA = {
    ("gaussian", "log"), ("gaussian", "inverse"), ("gamma", "identity"), ("poisson", "sqrt"),
    ("inverse_gaussian", "log"), ("inverse_gaussian", "inverse"), ("inverse_gaussian", "identity"),
    ("negative_binomial", "identity"), ("negative_binomial", "inverse"),
    ("tweedie", "identity"), ("tweedie", "inverse"),
}  # fmt: skip
"""Pairs whose loss need not be convex, and Poisson sqrt: the best of several starts is taken."""


@dataclass(frozen=True)
class Local:
    """Loss, slope, observed and expected curvature of rows in their linear predictors."""

    loss: Rows
    slope: Rows
    observed: Rows
    expected: Rows


@dataclass(frozen=True)
class Loss:
    """The loss of a family with a link, and the domain of its linear predictors."""

    family: str
    link: str
    parameter: float | None = None

    @property
    def domain(self) -> tuple[float, float]:
        if self.family == "bernoulli":
            return {"log": (-np.inf, 0.0), "identity": (0.0, 1.0)}.get(self.link, (-np.inf, np.inf))
        free = self.link == "log" or (self.family, self.link) == ("gaussian", "identity")
        return (-np.inf, np.inf) if free else (0.0, np.inf)

    @property
    def several_optima(self) -> bool:
        return (self.family, self.link) in SEVERAL_OPTIMA

    @property
    def dispersed(self) -> bool:
        return self.family in ("gaussian", "gamma", "inverse_gaussian", "tweedie")

    @property
    def variance_power(self) -> float | None:
        """q, for the log link with the variance mu^q."""
        powers = {**VARIANCE_POWERS, "tweedie": self.parameter}
        return powers.get(self.family) if self.link == "log" else None

    def inside(self, t: Rows) -> bool:
        low, high = self.domain
        return bool(np.isfinite(t).all() and t.min() > low and t.max() < high)

    def at(self, t: Rows, y: Rows) -> Local:
        with np.errstate(all="ignore"):
            if self.family == "bernoulli":
                return BINARY[self.link](t, y)
            q = self.variance_power
            return self._by_mean(t, y) if q is None else _log_power(t, y, q)

    def _by_mean(self, t: Rows, y: Rows) -> Local:
        m, m1, m2 = MEANS[self.link](t)
        loss, v, v1 = variance(self.family, self.parameter, m, y)
        rest, expected = y - m, m1 * m1 / v
        observed = expected - rest * (m2 / v - v1 * m1 * m1 / (v * v))
        return Local(loss, -rest * m1 / v, observed, expected)

    def predictor(self, mean: Rows) -> Rows:
        """The link function."""
        match self.link:
            case "logit":
                return np.log(mean / (1 - mean))
            case "probit":
                return ndtri(mean)
            case "cloglog":
                return np.log(-np.log1p(-mean))
            case "log":
                return np.log(mean)
        return mean ** (1 / POWERS[self.link])

    def dispersion(self, t: Rows, y: Rows, w: Rows, free: float) -> float:
        """Pearson's X^2 over the degrees of freedom, for families with a dispersion; else 1."""
        if not self.dispersed:
            return 1.0
        with np.errstate(all="ignore"):
            m = MEANS[self.link](t)[0]
            _, v, _ = variance(self.family, self.parameter, m, y)
            return max(float(w @ ((y - m) ** 2 / v)) / max(free, 1.0), 1e-300)


VARIANCE_POWERS = {"gaussian": 0.0, "poisson": 1.0, "gamma": 2.0, "inverse_gaussian": 3.0}


def _log_power(t: Rows, y: Rows, q: float) -> Local:
    """The log link with the variance mu^q: l' = mu^(2-q) - y mu^(1-q)."""
    up, down = np.exp((2 - q) * t), y * np.exp((1 - q) * t)
    loss = (t if q == 2 else up / (2 - q)) - (y * t if q == 1 else down / (1 - q))
    return Local(loss, up - down, (2 - q) * up - (1 - q) * down, up)


POWERS = {"identity": 1.0, "inverse": -1.0, "inverse_squared": -0.5, "sqrt": 2.0}


def _power(k: float) -> Callable[[Rows], tuple[Rows, Rows, Rows]]:
    return lambda t: (t**k, k * t ** (k - 1), k * (k - 1) * t ** (k - 2))


def _exponential(t: Rows) -> tuple[Rows, Rows, Rows]:
    m = np.exp(t)
    return m, m, m


MEANS = {"log": _exponential} | {name: _power(k) for name, k in POWERS.items()}
"""The mean as a function of t, with two derivatives."""


def variance(family: str, a: float | None, m: Rows, y: Rows) -> tuple[Rows, Rows, Rows]:
    """The loss of rows with means m, the variance function and its derivative."""
    match family:
        case "gaussian":
            return (y - m) ** 2 / 2, np.ones_like(m), np.zeros_like(m)
        case "poisson":
            return m - y * np.log(m), m, np.ones_like(m)
        case "gamma":
            return y / m + np.log(m), m**2, 2 * m
        case "inverse_gaussian":
            return y / (2 * m * m) - 1 / m, m**3, 3 * m**2
        case "tweedie":
            assert a is not None
            loss = m ** (2 - a) / (2 - a) - y * m ** (1 - a) / (1 - a)
            return loss, m**a, a * m ** (a - 1)
        case "negative_binomial":
            assert a is not None
            loss = (y + 1 / a) * np.log1p(a * m) - y * np.log(m)
            return loss, m + a * m * m, 1 + 2 * a * m
    raise ValueError(family)


def _logit(t: Rows, y: Rows) -> Local:
    p, q = expit(t), expit(-t)
    return Local(np.logaddexp(0, np.where(y > 0, -t, t)), np.where(y > 0, -q, p), p * q, p * q)


def _probit(t: Rows, y: Rows) -> Local:
    sign = np.where(y > 0, 1.0, -1.0)
    log_density = -t * t / 2 - np.log(2 * np.pi) / 2
    own, other = log_ndtr(sign * t), log_ndtr(-sign * t)
    ratio = np.exp(log_density - own)
    expected = np.exp(2 * log_density - own - other)
    return Local(-own, -sign * ratio, ratio * (ratio + sign * t), expected)


def _cloglog(t: Rows, y: Rows) -> Local:
    u = np.exp(t)
    a = np.where(u > 0, u / np.expm1(u), 1.0)
    a = np.where(u > 700, 0.0, a)
    one = Local(-np.log(-np.expm1(-u)), -a, a * (u + a - 1), u * a)
    zero = Local(u, u, u, u * a)
    return _chosen(y, one, zero)


def _binary_log(t: Rows, y: Rows) -> Local:
    odds = 1 / np.expm1(-t)
    one = Local(-t, -np.ones_like(t), np.zeros_like(t), odds)
    return _chosen(y, one, Local(-np.log(-np.expm1(t)), odds, odds * (1 + odds), odds))


def _binary_identity(t: Rows, y: Rows) -> Local:
    rest = 1 - t
    info = 1 / (t * rest)
    one = Local(-np.log(t), -1 / t, 1 / t**2, info)
    return _chosen(y, one, Local(-np.log(rest), 1 / rest, 1 / rest**2, info))


def _chosen(y: Rows, one: Local, zero: Local) -> Local:
    parts = ("loss", "slope", "observed", "expected")
    return Local(*(np.where(y > 0, getattr(one, k), getattr(zero, k)) for k in parts))


BINARY = {
    "logit": _logit, "probit": _probit, "cloglog": _cloglog, "log": _binary_log,
    "identity": _binary_identity,
}  # fmt: skip
"""The loss of y = 0 or 1 in t."""

"""What a fit should return: formulas in plain NumPy, and statsmodels.

With mu the mean, V its variance function and eta = g(mu), one row has the score s x and the
observed information h x x', up to the dispersion, where

    s = (y - mu) mu' / V,    h = mu'^2 / V - (y - mu) (mu'' / V - V' mu'^2 / V^2).

Frequency weights w count rows. HC0 is H^-1 (sum w s^2 x x') H^-1 with H = sum w h x x', in which
the dispersion cancels; "nonrobust" is phi (sum w mu'^2 / V x x')^-1, the expected information.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from formulaic import model_matrix
from scipy import special, stats

from real_data import BY_NAME, Record

sm = pytest.importorskip("statsmodels.api")

Values = Any
DEFAULT_LINKS = {
    "gaussian": "identity",
    "binomial": "logit",
    "poisson": "log",
    "gamma": "inverse",
    "inverse_gaussian": "inverse_squared",
    "negative_binomial": "log",
    "tweedie": "log",
}
DISPERSED = ("gaussian", "gamma", "inverse_gaussian", "tweedie")


def density(eta: Values) -> Values:
    """Of the standard normal law."""
    return np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)


LINKS: dict[str, tuple[Callable, Callable, Callable]] = {
    "identity": (lambda t: t, np.ones_like, np.zeros_like),
    "log": (np.exp, np.exp, np.exp),
    "inverse": (lambda t: 1 / t, lambda t: -1 / t**2, lambda t: 2 / t**3),
    "inverse_squared": (lambda t: t**-0.5, lambda t: -(t**-1.5) / 2, lambda t: 0.75 * t**-2.5),
    "logit": (
        lambda t: 1 / (1 + np.exp(-t)),
        lambda t: 1 / (2 + np.exp(t) + np.exp(-t)),
        lambda t: -np.tanh(t / 2) / (2 + np.exp(t) + np.exp(-t)),
    ),
    "probit": (special.ndtr, density, lambda t: -t * density(t)),
    "cloglog": (
        lambda t: -np.expm1(-np.exp(t)),
        lambda t: np.exp(t - np.exp(t)),
        lambda t: np.exp(t - np.exp(t)) * -np.expm1(t),
    ),
}
"""The mean as a function of eta, with its first two derivatives."""


def variance(family: str, a: float | None) -> tuple[Callable, Callable]:
    """V and V' of a family with parameter a."""
    match family, a:
        case "gaussian", _:
            return np.ones_like, np.zeros_like
        case "binomial", _:
            return lambda m: m * (1 - m), lambda m: 1 - 2 * m
        case "poisson", _:
            return lambda m: m, np.ones_like
        case "gamma", _:
            return lambda m: m**2, lambda m: 2 * m
        case "inverse_gaussian", _:
            return lambda m: m**3, lambda m: 3 * m**2
        case "negative_binomial", float(a):
            return lambda m: m + a * m**2, lambda m: 1 + 2 * a * m
        case "tweedie", float(a):
            return lambda m: m**a, lambda m: a * m ** (a - 1)
    raise ValueError(f"{family} with parameter {a}")


def likelihood(family: str, a: float | None, y: Values, m: Values) -> Values:
    """Log-likelihood of rows at dispersion 1, without terms that are free of the mean."""
    match family, a:
        case "gaussian", _:
            return -((y - m) ** 2) / 2
        case "binomial", _:
            return y * np.log(m) + (1 - y) * np.log(1 - m)
        case "poisson", _:
            return y * np.log(m) - m
        case "gamma", _:
            return -y / m - np.log(m)
        case "inverse_gaussian", _:
            return 1 / m - y / (2 * m**2)
        case "negative_binomial", float(a):
            return y * np.log(m) - (y + 1 / a) * np.log(1 + a * m)
        case "tweedie", float(a):
            return y * m ** (1 - a) / (1 - a) - m ** (2 - a) / (2 - a)
    raise ValueError(f"{family} with parameter {a}")


@dataclass(frozen=True)
class Design:
    """A record as matrices; `scale` is the root mean square of the columns of X."""

    record: Record
    names: list[str]
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    offset: np.ndarray

    @cached_property
    def scale(self) -> np.ndarray:
        return np.sqrt(np.mean(self.X**2, 0))

    @property
    def link(self) -> str:
        return self.record.link or DEFAULT_LINKS[self.record.family]

    def predictor(self, theta: np.ndarray) -> np.ndarray:
        return self.X @ theta + self.offset

    def total(self, eta: Values) -> Values:
        """Log-likelihood of all rows, as `likelihood`."""
        family, a = self.record.family, self.record.parameter
        return np.sum(self.w * likelihood(family, a, self.y, LINKS[self.link][0](eta)))


@dataclass(frozen=True)
class Parts:
    """Sums over the rows at theta, in units in which the columns of X have size 1."""

    scale: np.ndarray
    gradient: np.ndarray
    observed: np.ndarray
    expected: np.ndarray
    meat: np.ndarray
    dispersion: float

    def _unscaled(self, cov: np.ndarray) -> np.ndarray:
        return cov / np.outer(self.scale, self.scale)

    @property
    def robust(self) -> np.ndarray:
        """HC0: observed information around the uncentred meat."""
        half = np.linalg.solve(self.observed, self.meat)
        return self._unscaled(np.linalg.solve(self.observed, half.T))

    @property
    def nonrobust(self) -> np.ndarray:
        """Inverse of the expected information, times the dispersion."""
        return self._unscaled(self.dispersion * np.linalg.inv(self.expected))

    @property
    def decrement(self) -> float:
        """Distance from the optimum in standard errors, the model's."""
        step = np.linalg.solve(self.observed, self.gradient)
        return float(np.sqrt(abs(step @ self.gradient) / self.dispersion))

    @property
    def condition(self) -> float:
        """Of the expected information, with its diagonal scaled to 1."""
        d = np.sqrt(np.diag(self.expected))
        return float(np.linalg.cond(self.expected / np.outer(d, d)))


def parts(design: Design, theta: np.ndarray) -> Parts:
    """The sums that covariances are made of."""
    V, dV = variance(design.record.family, design.record.parameter)
    eta, X = design.predictor(theta), design.X / design.scale
    m, d1, d2 = (f(eta) for f in LINKS[design.link])
    v, away, w = V(m), design.y - m, design.w
    s = away * d1 / v
    h = d1**2 / v - away * (d2 / v - dV(m) * d1**2 / v**2)
    free = w.sum() - X.shape[1]  # the weights count rows
    known = design.record.family not in DISPERSED
    return Parts(
        design.scale,
        X.T @ (w * s),
        (X.T * (w * h)) @ X,
        (X.T * (w * d1**2 / v)) @ X,
        (X.T * (w * s**2)) @ X,
        1.0 if known else float(np.sum(w * away**2 / v) / free),
    )


def numerical_information(design: Design, theta: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """Minus the Hessian of the log-likelihood, in units of the columns' sizes.

    A complex step for one derivative, central differences for the other.
    """
    here, eta, tiny = parts(design, theta), design.predictor(theta), 1e-30
    size = np.sqrt(here.dispersion / np.diag(here.expected))
    Z = (design.X / design.scale * size).T
    H = np.empty((len(theta), len(theta)))
    for i, j in zip(*np.tril_indices_from(H), strict=True):
        up, down = (design.total(eta + sign * h * Z[i] + 1j * tiny * Z[j]).imag for sign in (1, -1))
        H[i, j] = H[j, i] = (down - up) / (2 * h * tiny)
    return H / np.outer(size, size)


def log_density(record: Record, y: np.ndarray, m: np.ndarray, phi: float) -> np.ndarray:
    """Log-density of rows with means m and dispersion phi, by scipy."""
    match record.family, record.parameter:
        case "gaussian", _:
            return stats.norm.logpdf(y, m, np.sqrt(phi))
        case "binomial", _:
            return stats.bernoulli.logpmf(y, m)
        case "poisson", _:
            return stats.poisson.logpmf(y, m)
        case "gamma", _:
            return stats.gamma.logpdf(y, 1 / phi, scale=m * phi)
        case "inverse_gaussian", _:
            return stats.invgauss.logpdf(y, m * phi, scale=1 / phi)
        case "negative_binomial", float(a):
            return stats.nbinom.logpmf(y, 1 / a, 1 / (1 + a * m))
        case "tweedie", float(a):
            return _compound(y, m, a, phi)
    raise ValueError(f"{record.family} with parameter {record.parameter}")


def _compound(y: np.ndarray, m: np.ndarray, a: float, phi: float) -> np.ndarray:
    """Tweedie's law of power 1 < a < 2, as a sum of a Poisson number of gamma variables."""
    rate, shape = m ** (2 - a) / (phi * (2 - a)), (2 - a) / (a - 1)
    k = np.arange(1, int(rate.max() + 20 * np.sqrt(rate.max()) + 60))[:, None]
    some = y > 0
    size = phi * (a - 1) * m[some] ** (a - 1)
    terms = stats.poisson.logpmf(k, rate[some]) + stats.gamma.logpdf(y[some], k * shape, scale=size)
    result = -rate
    result[some] = special.logsumexp(terms, axis=0)
    return result


def likelihood_scale(reference: "Reference") -> float:
    """The dispersion in statsmodels' llf.

    RSS / N for gaussian with identity link, which maximises it; X2 / (N - p), as everywhere else,
    for gaussian with other links, gamma, inverse gaussian and Tweedie; 1 for the others. N is the
    sum of the weights. aic is 2 p - 2 llf: the dispersion is not counted, as R does for gaussian,
    gamma and inverse gaussian.
    """
    design, phi = reference.design, reference.parts.dispersion
    if design.record.family == "gaussian" and design.link == "identity":
        return phi * (1 - len(design.names) / design.w.sum())
    return phi


# --- statsmodels


def sm_family(record: Record) -> Any:
    """The family and the link of a record, in statsmodels."""
    links, families = sm.families.links, sm.families
    kinds = {
        "identity": links.Identity,
        "log": links.Log,
        "inverse": links.InversePower,
        "inverse_squared": links.InverseSquared,
        "logit": links.Logit,
        "probit": links.Probit,
        "cloglog": links.CLogLog,
    }
    link = kinds[record.link or DEFAULT_LINKS[record.family]]()
    match record.family:
        case "negative_binomial":
            return families.NegativeBinomial(link, alpha=record.parameter)
        case "tweedie":
            return families.Tweedie(link, var_power=record.parameter)  # eql=False: the likelihood
    names = {"gaussian": "Gaussian", "binomial": "Binomial", "poisson": "Poisson"}
    names |= {"gamma": "Gamma", "inverse_gaussian": "InverseGaussian"}
    return getattr(families, names[record.family])(link)


@cache
def design_of(name: str) -> Design:
    """The matrices of a record, made by formulaic."""
    record = BY_NAME[name]
    table = record.table
    sides = model_matrix(record.formula, table)
    offset = np.zeros(len(table))
    if record.offset:
        offset = offset + table[record.offset].to_numpy(float)
    if record.exposure:
        offset = offset + np.log(table[record.exposure].to_numpy(float))
    w = table[record.weights].to_numpy(float) if record.weights else np.ones(len(table))
    X = sides.rhs.to_numpy(float)
    return Design(record, list(sides.rhs.columns), X, sides.lhs.to_numpy(float)[:, 0], w, offset)


@dataclass(frozen=True)
class Reference:
    """statsmodels' fit, in the units of the design, with the sums at its optimum."""

    design: Design
    fit: Any
    theta: np.ndarray
    parts: Parts

    def covariance(self, fit: Any) -> np.ndarray:
        """statsmodels' covariance, in the units of the design."""
        return np.asarray(fit.cov_params()) / np.outer(self.design.scale, self.design.scale)


def sm_fit(design: Design, cov_type: str = "nonrobust") -> Any:
    """statsmodels on columns of size 1, iterated until the coefficients stay.

    Its default criterion is a difference of deviances in absolute units: tol=1e-14 is below the
    rounding of most, and would run to maxiter.
    """
    record = design.record
    weights = {"freq_weights": design.w} if record.weights else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sm.tools.sm_exceptions.DomainWarning)
        model = sm.GLM(
            design.y, design.X / design.scale, sm_family(record), offset=design.offset, **weights
        )
        return model.fit(
            cov_type=cov_type, maxiter=200, tol_criterion="params", atol=0.0, rtol=1e-10
        )


@cache
def reference(name: str) -> Reference:
    """The fit of a record by statsmodels."""
    design = design_of(name)
    fit = sm_fit(design)
    theta = np.asarray(fit.params) / design.scale
    return Reference(design, fit, theta, parts(design, theta))

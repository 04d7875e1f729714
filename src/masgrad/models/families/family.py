"""What a family of responses is: a loss of the linear predictor t and y, with its derivatives.

`curvature` is the observed one; `information` is its expectation given x, which is never negative.
Everything is written once for NumPy and JAX arrays.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from masgrad.errors import InputError
from masgrad.types import Array

SHOWN_NAMES = {"bernoulli": "binomial"}
"""Family names shown to users, by the names stored in saved results."""


@dataclass(frozen=True)
class Family(abc.ABC):
    """A loss of (t, y) with two derivatives in t, and the range of the response.

    Args:
        link: maps the mean to the linear predictor.
        expected: whether `curvature` is replaced by its expectation (Fisher scoring).
    """

    link: str
    expected: bool = False

    name: ClassVar[str] = "family"
    lowest: ClassVar[float] = -np.inf
    highest: ClassVar[float] = np.inf
    support: ClassVar[str] = "any number"
    canonical: ClassVar[bool] = False
    dispersed: ClassVar[bool] = False

    @property
    def shown(self) -> str:
        """The name used in summaries, messages and the documentation."""
        return SHOWN_NAMES.get(self.name, self.name)

    @property
    def parameter(self) -> float | None:
        """The family's parameter, such as the power of Tweedie, or None."""
        return None

    @property
    def convex(self) -> bool:
        """Whether the curvature is never negative."""
        return self.expected

    @property
    def domain(self) -> tuple[float, float]:
        """The interval of linear predictors t that have a mean."""
        return -np.inf, np.inf

    @property
    def range(self) -> tuple[float, float]:
        """The interval of means, limits included."""
        return self.lowest, self.highest

    @property
    def separable(self) -> bool:
        """Whether the likelihood can increase without bound along a line (separation)."""
        return False

    def scoring(self) -> "Family":
        """The same family with the expected curvature (Fisher scoring)."""
        return self if self.canonical else replace(self, expected=True)

    @abc.abstractmethod
    def mean(self, t: Array) -> Array:
        """The mean response."""

    @abc.abstractmethod
    def predictor(self, mean: Array) -> Array:
        """The link function: the linear predictor t of a mean."""

    @abc.abstractmethod
    def loss(self, t: Array, y: Array) -> Array:
        """Negative log-likelihood at dispersion 1, up to a term in y."""

    @abc.abstractmethod
    def slope(self, t: Array, y: Array) -> Array:
        """d loss / dt: the residual that multiplies x in the gradient."""

    @abc.abstractmethod
    def observed(self, t: Array, y: Array) -> Array:
        """d^2 loss / dt^2."""

    @abc.abstractmethod
    def information(self, t: Array) -> Array:
        """Expectation of the curvature: (d mean / dt)^2 / variance."""

    @abc.abstractmethod
    def saturated(self, y: np.ndarray) -> np.ndarray:
        """The saturated loss, at mean y, from which deviances are measured."""

    def curvature(self, t: Array, y: Array) -> Array:
        """The weight of x x' in the Hessian."""
        return self.information(t) + 0.0 * y if self.expected else self.observed(t, y)

    def slope_and_curvature(self, t: Array, y: Array) -> tuple[Array, Array]:
        """Both derivatives of the loss in t, which may share computations."""
        return self.slope(t, y), self.curvature(t, y)

    def local(self, t: Array, y: Array) -> tuple[Array, Array, Array]:
        """The loss and both derivatives, which may share computations."""
        return self.loss(t, y), *self.slope_and_curvature(t, y)

    def base(self, y: np.ndarray) -> np.ndarray:
        """The terms of the log-likelihood that depend on y alone."""
        return np.zeros_like(y)

    def log_likelihood(self, sums: "LikelihoodSums", dispersion: float) -> float | None:
        """The log-likelihood from sums over rows; None if the density has no closed form."""
        del dispersion
        return sums.base - sums.loss

    def check(self, y: np.ndarray, place: Callable[[int], str] = "row {}".format) -> None:
        """Reject a response outside the family's range, naming the row."""
        bad = ~((y >= self.lowest) & (y <= self.highest))
        if bad.any():
            row = int(np.argmax(bad))
            signs = self.highest == 1 and set(np.unique(y)) == {-1.0, 1.0}
            recode = "recode y, (y + 1) / 2," if signs else "recode y"
            raise InputError(
                f"y is {y[row]:g} at {place(row)}; the {self.shown} family needs {self.support}; "
                f"{recode} or choose another family"
            )


class LikelihoodSums(NamedTuple):
    """Sums over rows of the loss, the saturated loss, the terms in y alone, and the weights."""

    loss: float
    saturated: float
    base: float
    size: float

    @property
    def deviance(self) -> float:
        return 2 * (self.loss - self.saturated)

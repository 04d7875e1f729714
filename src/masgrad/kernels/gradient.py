"""The gradient slot: a sample of rows, or the Gaussian that the central limit theorem puts there.

    Sampled    mean of n rows' gradients                  the data chain
    Gaussian   b(theta) + V(theta) z / sqrt(n), z ~ N(0, I)     its diffusion

The two agree in mean and covariance, and with eta / sqrt(n) = sqrt(2 eta / beta), beta = 2n / eta.
"""

import abc
from functools import cached_property
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from masgrad.covariance.choose import make_root
from masgrad.covariance.eigen import spectrum
from masgrad.covariance.root import Root, SymmetricRoot
from masgrad.kernels.field import Estimate, Field
from masgrad.types import Array, RootKind, Vectors


class Point:
    """The theta of one step and its field; population moments are computed once, on demand.

    It lives during the tracing of one step and is never carried.
    """

    def __init__(self, field: Field, theta: Vectors, cov: bool):
        self.field, self.theta, self._cov = field, theta, cov

    @cached_property
    def population(self) -> Estimate:
        return self.field.moments(self.theta, self._cov)

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and vectors of the population's covariance."""
        return spectrum(self.population.cov)

    def root(self, kind: RootKind = "symmetric", ridge: Array | float = 0.0) -> Root:
        """V from the population; "auto" reuses a spectrum that is already computed."""
        if kind in ("symmetric", "low_rank") or (kind == "auto" and "spectrum" in vars(self)):
            return SymmetricRoot.of_spectrum(*self.spectrum, ridge)
        return make_root(kind, self.population.cov, ridge)


class Gradient(eqx.Module):
    """The rule by which a step obtains its gradient."""

    needs_population: ClassVar[bool]

    @abc.abstractmethod
    def __call__(self, key: Array, point: Point, cov: bool, factor: bool) -> Estimate:
        """A gradient for each chain and, on request, its batch's covariance or factor."""


class Sampled(Gradient):
    """The mean gradient of a batch, or of all rows without a batch size."""

    needs_population = False

    def __call__(self, key: Array, point: Point, cov: bool, factor: bool) -> Estimate:
        if point.field.batch_size is None:
            return point.population
        return point.field.draw(key, point.theta, cov, factor)


class Gaussian(Gradient):
    """b + V z / sqrt(n); the batch covariance is replaced by its expectation Sigma.

    Paper: discretised diffusion - the Gaussian that stands for the sampled gradient
    """

    needs_population = True

    def __call__(self, key: Array, point: Point, cov: bool, factor: bool) -> Estimate:
        del cov, factor
        b = point.population.mean
        z = jax.random.normal(key, b.shape)
        g = b + jnp.sqrt(point.field.noise) * point.root().mv(z)
        return Estimate(g, point.population.cov)

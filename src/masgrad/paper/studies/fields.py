"""Problems with b and Sigma in closed form, on which the theory's rates can be seen.

Each is a model and a `Simulator` of fresh rows: (A.1) holds, and h = V^-1 b is known exactly.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from masgrad.data.simulate import Simulator
from masgrad.models.custom import CustomLoss
from masgrad.models.glm import Linear
from masgrad.models.model import Model
from masgrad.types import Array


class Problem(NamedTuple):
    """A model and the simulator of its rows."""

    model: Model
    data: Simulator


def gaussian_design(theta_star: Array, sigma: float = 1.0) -> Problem:
    """Linear regression with x ~ N(0, I).

    With d = theta - theta*: b = d and Sigma = (|d|^2 + sigma^2) I + d d', so that V^-1 b is
    d / sqrt(2 |d|^2 + sigma^2): bounded by 1/sqrt(2), 1/sigma-Lipschitz, a convex gradient.
    """
    theta_star = np.asarray(theta_star, float)
    p = len(theta_star)

    def sample(key, n):
        kx, ke = jax.random.split(key)
        X = jax.random.normal(kx, (n, p))
        return X, X @ theta_star + sigma * jax.random.normal(ke, (n,))

    def moments(theta):
        d = theta - theta_star
        return d, (d @ d + sigma**2) * jnp.eye(p) + jnp.outer(d, d)

    return Problem(Linear(), Simulator(sample, moments))


def spherical_design(theta_star: Array, sigma: float = 1.0, kurtosis: float = 1.0) -> Problem:
    """Linear regression with rows sqrt(w) z, z ~ N(0, I), w a gamma variable of mean 1.

    They are spherically symmetric with E x x' = I and E|x|^4 / (p (p + 2)) = E w^2 = `kurtosis`:
    1 is `gaussian_design`, 2 the Laplace law. With d = theta - theta* and c = kurtosis: b = d and
    Sigma = (c |d|^2 + sigma^2) I + (2 c - 1) d d'.
    """
    theta_star = np.asarray(theta_star, float)
    p, c = len(theta_star), kurtosis
    if c == 1:
        return gaussian_design(theta_star, sigma)

    def sample(key, n):
        kx, kw, ke = jax.random.split(key, 3)
        w = (c - 1) * jax.random.gamma(kw, 1 / (c - 1), (n, 1))
        X = jnp.sqrt(w) * jax.random.normal(kx, (n, p))
        return X, X @ theta_star + sigma * jax.random.normal(ke, (n,))

    def moments(theta):
        d = theta - theta_star
        return d, (c * d @ d + sigma**2) * jnp.eye(p) + (2 * c - 1) * jnp.outer(d, d)

    return Problem(Linear(), Simulator(sample, moments))


def tilted(potential: Callable[[Array], Array], p: int, root: Array | None = None) -> Problem:
    """The landscape U itself with a constant V: loss U(theta) - theta'V z for z ~ N(0, I)."""
    V = np.eye(p) if root is None else np.asarray(root, float)

    def moments(theta):
        return jax.grad(potential)(theta), jnp.asarray(V @ V.T)

    return Problem(
        CustomLoss(lambda theta, z: potential(theta) - theta @ (V @ z), p),
        Simulator(lambda key, n: jax.random.normal(key, (n, p)), moments),
    )


def waves(p: int) -> Problem:
    """U = -sum cos(theta): h = sin(theta) is bounded by sqrt(p), 1-Lipschitz, and not convex."""
    return tilted(lambda theta: -jnp.cos(theta).sum(), p)


def double_well(depth: float) -> Problem:
    """U = depth (theta^2 - 1)^2: minima at -1 and 1, a saddle at 0, in one dimension."""
    return tilted(lambda theta: depth * ((theta**2 - 1) ** 2).sum(), 1)


def bowl(curvature: Array, root: Array | None = None) -> Problem:
    """U = theta' C theta / 2 with a constant V: SGD's diffusion is Ornstein-Uhlenbeck."""
    C = np.asarray(curvature, float)
    return tilted(lambda theta: theta @ C @ theta / 2, len(C), root)

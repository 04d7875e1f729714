"""Ten losses that are not convex, with starts, fixed before any optimiser was tuned to them.

Each problem is a loss of one row, rows drawn with the problem's own seed, and random starts. They
are those on which `mg.fit` gave up where BFGS did not: tanh networks with a small ridge, matrix
factorisation, phase retrieval, a Student-t response with its scale, a mixture, a saturating curve,
a sum of exponentials, and a robust loss that redescends.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from masgrad.types import Array, Rows

RIDGE = 1e-3


@dataclass(frozen=True)
class NonConvex:
    """A loss of one row, its rows, and how starts are drawn.

    Args:
        name: of the problem.
        loss: of the parameters and one row.
        dim: number of parameters.
        rows: the rows.
        spread: standard deviation of a start's coordinates.
        centre: their mean.
    """

    name: str
    loss: Callable[[Array, Rows], Array]
    dim: int
    rows: Rows
    spread: float = 1.0
    centre: float = 0.0

    def starts(self, count: int, seed: int) -> np.ndarray:
        """Random starts, (count, dim)."""
        rng = np.random.default_rng(seed)
        return self.centre + self.spread * rng.normal(size=(count, self.dim))


def network(hidden: int, inputs: int, rows: int, seed: int) -> NonConvex:
    """A tanh network of one hidden layer with a bias, and a ridge."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs))
    w = rng.normal(size=(hidden, inputs))
    y = np.tanh(x @ w.T) @ rng.normal(size=hidden) + 0.3 * rng.normal(size=rows)
    ends = hidden * inputs, hidden * inputs + hidden

    def loss(t: Array, z: Rows) -> Array:
        mean = t[ends[1]] + jnp.tanh(t[: ends[0]].reshape(hidden, inputs) @ z[0]) @ t[ends[0] : -1]
        return 0.5 * (z[1] - mean) ** 2 + 0.5 * RIDGE * jnp.sum(t**2)

    dim = ends[1] + 1
    return NonConvex(f"tanh network, {dim} parameters", loss, dim, (x, y))


def factorisation(seed: int) -> NonConvex:
    """A symmetric matrix of rank 2 from random products: y = <A, U U'> + noise."""
    rng, (p, r, rows) = np.random.default_rng(seed), (4, 2, 1000)
    U, a, b = rng.normal(size=(p, r)), rng.normal(size=(rows, p)), rng.normal(size=(rows, p))
    y = ((a @ U) * (b @ U)).sum(1) + 0.5 * rng.normal(size=rows)

    def loss(t: Array, z: Rows) -> Array:
        u = t.reshape(p, r)
        return 0.5 * (z[2] - (z[0] @ u) @ (z[1] @ u)) ** 2 + 0.5 * RIDGE * jnp.sum(t**2)

    return NonConvex("matrix factorisation", loss, p * r, (a, b, y))


def phase_retrieval(seed: int) -> NonConvex:
    """Squares of linear forms with noise."""
    rng, (p, rows) = np.random.default_rng(seed), (6, 1500)
    x, beta = rng.normal(size=(rows, p)), rng.normal(size=p)
    y = (x @ beta) ** 2 + 0.5 * rng.normal(size=rows)

    def loss(t: Array, z: Rows) -> Array:
        return 0.25 * (z[1] - (z[0] @ t) ** 2) ** 2

    return NonConvex("phase retrieval", loss, p, (x, y))


def student(seed: int) -> NonConvex:
    """Student-t errors with 3 degrees of freedom; the last parameter is the logarithmic scale."""
    rng, (p, rows) = np.random.default_rng(seed), (4, 1000)
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, p - 1))])
    y = x @ rng.normal(size=p) + 0.5 * rng.standard_t(3, rows)

    def loss(t: Array, z: Rows) -> Array:
        e = (z[1] - z[0] @ t[:-1]) * jnp.exp(-t[-1])
        return t[-1] + 2 * jnp.log1p(e**2 / 3)

    return NonConvex("Student-t with scale", loss, p + 1, (x, y))


def mixture(seed: int) -> NonConvex:
    """Two normal components with means, scales and a share."""
    rng, rows = np.random.default_rng(seed), 2000
    z = np.where(rng.random(rows) < 0.35, rng.normal(-1.5, 0.7, rows), rng.normal(1.0, 1.0, rows))

    def loss(t: Array, y: Rows) -> Array:
        def log_density(m: Array, s: Array) -> Array:
            return -s - 0.5 * ((y - m) * jnp.exp(-s)) ** 2

        first = log_density(t[0], t[2]) + jax.nn.log_sigmoid(t[4])
        second = log_density(t[1], t[3]) + jax.nn.log_sigmoid(-t[4])
        return -jnp.logaddexp(first, second) + 0.5 * RIDGE * jnp.sum(t**2)

    return NonConvex("mixture with scales and share", loss, 5, z, spread=0.7)


def saturating(seed: int) -> NonConvex:
    """A curve of four parameters: a logistic growth from one level to another."""
    rng, rows = np.random.default_rng(seed), 800
    x = rng.uniform(-3, 3, rows)
    y = 0.5 + 2 / (1 + np.exp(-1.8 * (x - 0.6))) + 0.2 * rng.normal(size=rows)

    def loss(t: Array, z: Rows) -> Array:
        mean = t[0] + t[1] * jax.nn.sigmoid(t[2] * (z[0] - t[3]))
        return 0.5 * (z[1] - mean) ** 2 + 0.5 * RIDGE * jnp.sum(t**2)

    return NonConvex("saturating curve", loss, 4, (x, y))


def exponentials(seed: int) -> NonConvex:
    """A sum of two exponential decays with logarithmic rates."""
    rng, rows = np.random.default_rng(seed), 1000
    x = rng.uniform(0, 4, rows)
    y = 1.5 * np.exp(-3 * x) + 1.0 * np.exp(-0.4 * x) + 0.05 * rng.normal(size=rows)

    def loss(t: Array, z: Rows) -> Array:
        mean = t[0] * jnp.exp(-jnp.exp(t[2]) * z[0]) + t[1] * jnp.exp(-jnp.exp(t[3]) * z[0])
        return 0.5 * (z[1] - mean) ** 2 + 1e-4 * jnp.sum(t**2)

    return NonConvex("sum of exponentials", loss, 4, (x, y), spread=0.7)


def redescending(seed: int) -> NonConvex:
    """Welsch's robust loss of a line with a fifth of the rows elsewhere."""
    rng, (p, rows) = np.random.default_rng(seed), (3, 1200)
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, p - 1))])
    y = x @ np.array([0.5, 1.0, -1.0]) + 0.4 * rng.normal(size=rows)
    y = np.where(rng.random(rows) < 0.2, 6 + rng.normal(size=rows), y)

    def loss(t: Array, z: Rows) -> Array:
        return 1 - jnp.exp(-0.5 * ((z[1] - z[0] @ t) / 1.5) ** 2)

    return NonConvex("Welsch's loss", loss, p, (x, y))


def problems(seed: int = 0) -> list[NonConvex]:
    """The ten problems, with the rows of a seed."""
    return [
        network(2, 3, 800, seed),
        network(3, 3, 800, seed + 1),
        network(4, 3, 800, seed + 2),
        factorisation(seed + 3),
        phase_retrieval(seed + 4),
        student(seed + 5),
        mixture(seed + 6),
        saturating(seed + 7),
        exponentials(seed + 8),
        redescending(seed + 9),
    ]

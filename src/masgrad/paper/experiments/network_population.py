"""The network study's population: a true network, its rows, fresh ones, and the starts."""

from dataclasses import dataclass
from itertools import permutations

import equinox as eqx
import jax
import numpy as np
from scipy.optimize import minimize

from masgrad.covariance.moments import moments
from masgrad.models.network import ReluNetwork
from masgrad.types import Array, Rows, float64

N, NOISE, FRESH, EXPERIMENTS = 300, 0.1, 10_000, 50


@dataclass(frozen=True)
class Population:
    """A network, its rows, fresh rows, and the starts."""

    model: ReluNetwork
    truth: np.ndarray
    rows: Rows
    fresh: Rows
    starts: np.ndarray

    @property
    def live(self) -> np.ndarray:
        """Whether some row has a gradient at each start; without one neither chain ever moves."""
        return np.array([self.model.gradients(theta, self.rows).any() for theta in self.starts])

    @property
    def key(self) -> str:
        return f"{self.model.inputs}x{self.model.hidden}"


def network_rows(inputs: int, hidden: int, seed: int = 0) -> Population:
    """A true network, 300 rows of it, 10,000 fresh ones, and fifty starts."""
    rng = np.random.default_rng([seed, inputs, hidden])
    model = ReluNetwork(inputs, hidden)
    p = hidden * (inputs + 1)
    truth, X = rng.normal(size=p), rng.normal(size=(N + FRESH, inputs))
    y = predict(model, truth[None], X)[0] + NOISE * rng.normal(size=len(X))
    starts = rng.normal(size=(EXPERIMENTS, p))
    return Population(model, truth, (X[:N], y[:N]), (X[N:], y[N:]), starts)


@float64
def predict(model: ReluNetwork, theta: np.ndarray, X: np.ndarray) -> np.ndarray:
    """f(x) of rows (N, inputs) for several parameters (K, p): (K, N)."""
    return np.asarray(_predict(model, theta, X))


@eqx.filter_jit
def _predict(model: ReluNetwork, theta: Array, X: Array) -> Array:
    return jax.lax.map(lambda t: jax.vmap(model.predict, (None, 0))(t, X), theta)


@float64
def population_loss(population: Population, theta: np.ndarray, chains: int) -> np.ndarray:
    """Mean loss over fresh rows of every chain, (experiments, chains); inf if it diverged."""
    loss = np.asarray(_risks(population.model, theta, population.fresh))
    return np.where(np.isfinite(loss), loss, np.inf).reshape(-1, chains)


@eqx.filter_jit
def _risks(model: ReluNetwork, theta: Array, rows: Rows) -> Array:
    return jax.lax.map(lambda t: jax.vmap(model.loss, (None, 0))(t, rows).mean(), theta)


def fit(population: Population) -> np.ndarray:
    """The optimum of the rows next to the truth."""
    model, rows = population.model, population.rows
    found = minimize(
        lambda theta: model.risk(theta, rows),
        population.truth,
        jac=lambda theta: moments(model, theta, rows).mean,
    )
    return found.x


def relabelled(model: ReluNetwork, theta: np.ndarray) -> list[np.ndarray]:
    """The same network with its hidden units in every order."""
    cut = model.hidden * model.inputs
    W1, W2 = theta[:cut].reshape(model.hidden, model.inputs), theta[cut:]
    orders = [list(o) for o in permutations(range(model.hidden))]
    return [np.concatenate([W1[o].ravel(), W2[o]]) for o in orders]

"""Which optima of the network MasGrad and SGD lead to: run on, and polished to the minimum.

A chain that stopped early tells little about its basin. Polished means that the mean loss over the
rows is minimised from where a chain stands (SciPy's BFGS), so that only the basin is compared; one
loss is clearly below another if the other is more than half as large again.
"""

import equinox as eqx
import jax
import numpy as np
from scipy.optimize import minimize

from masgrad.chains.trace import Trace
from masgrad.models.network import ReluNetwork
from masgrad.paper.experiments.network_population import Population, population_loss
from masgrad.types import Array, Rows, float64

CLEARLY = 1.5


def basins(population: Population, masgrad: Trace, sgd: Trace) -> dict[str, int]:
    """At how many starts one method is clearly below the other; traces of one chain a start.

    Records of the traces are a start, an early one, and others up to the end.
    """
    pairs = {
        "polished_early": [polished(population, trace.theta[:, 1]) for trace in (masgrad, sgd)],
        "late": [masgrad.final, sgd.final],
        "polished_late": [polished(population, trace.final) for trace in (masgrad, sgd)],
    }
    out = {}
    for name, ends in pairs.items():
        own, other = (population_loss(population, theta, 1)[:, 0] for theta in ends)
        out[f"{name}_masgrad_better"] = int((CLEARLY * own < other).sum())
        out[f"{name}_sgd_better"] = int((CLEARLY * other < own).sum())
    return out


@float64
def polished(population: Population, theta: np.ndarray) -> np.ndarray:
    """The minimum of the mean loss that each of these points leads to, (K, p)."""

    def risk(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _risk(population.model, point, population.rows)
        return float(value), np.asarray(slope, np.float64)

    return np.array([minimize(risk, start, jac=True).x for start in theta])


@eqx.filter_jit
def _risk(model: ReluNetwork, theta: Array, rows: Rows) -> tuple[Array, Array]:
    def mean(t: Array) -> Array:
        return jax.vmap(model.loss, (None, 0))(t, rows).mean()

    return jax.value_and_grad(mean)(theta)

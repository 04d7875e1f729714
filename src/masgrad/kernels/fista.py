"""FISTA: the proximal gradient method with Nesterov's momentum, a baseline without noise.

    theta' = prox_eta(y - eta b(y)),        y' = theta' + (s - 1) / s' (theta' - theta)

s' = (1 + sqrt(1 + 4 s^2)) / 2 (Beck & Teboulle). It is a kernel of its own, for its state holds y.
"""

import equinox as eqx
import jax.numpy as jnp

from masgrad.errors import InputError
from masgrad.kernels.field import Field
from masgrad.kernels.methods import as_penalty, as_step_size
from masgrad.kernels.prox import Implicit
from masgrad.penalties.penalty import Penalty
from masgrad.types import Array, StepSize, Vectors


class FistaState(eqx.Module):
    """Step number t, theta and y (p, K), and the momentum s."""

    t: Array
    theta: Vectors
    y: Vectors
    s: Array


class Fista(eqx.Module):
    """The kernel, which uses all rows at every step."""

    step_size: StepSize
    prox: Implicit

    def init(self, theta: Vectors) -> FistaState:
        return FistaState(jnp.asarray(0), theta, theta, jnp.asarray(1.0))

    def step(self, key: Array, state: FistaState, field: Field) -> FistaState:
        """The next state of every chain."""
        del key
        if field.batch_size is not None:
            raise InputError(
                "fista's momentum is for gradients without noise; give batch_size=None"
            )
        eta = self.step_size(state.t) if callable(self.step_size) else self.step_size
        b = field.moments(state.y, cov=False).mean
        theta, _ = self.prox(state.y - eta * b, eta, None, state.theta)
        s = (1 + jnp.sqrt(1 + 4 * state.s**2)) / 2
        y = theta + (state.s - 1) / s * (theta - state.theta)
        return FistaState(state.t + 1, theta, y, s)


def fista(step_size: StepSize, penalty: Penalty) -> Fista:
    """The accelerated proximal gradient method, to compare with; run it with batch_size=None.

    Args:
        step_size: 1 / lambda_max(H) or less.
        penalty: `L1`, `Nuclear`, ...

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.fista(0.5, mg.L1(0.1))
    """
    return Fista(as_step_size(step_size), Implicit(as_penalty(penalty)))

"""Nesterov's momentum: accelerated methods without noise, to compare MasGrad with.

    theta' = prox_eta(y - eta b(y)),        y' = theta' + m (theta' - theta)

    fista      m = (s - 1) / s',  s' = (1 + sqrt(1 + 4 s^2)) / 2: a convex loss (Beck & Teboulle)
    nesterov   m = (sqrt(kappa) - 1) / (sqrt(kappa) + 1): a smooth and strongly convex loss

They are kernels of their own, for their state holds y.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from masgrad.checks import as_number
from masgrad.errors import InputError
from masgrad.kernels.field import Field
from masgrad.kernels.methods import as_penalty, as_step_size
from masgrad.kernels.prox import Implicit, Prox
from masgrad.penalties.penalty import Penalty
from masgrad.types import Array, StepSize, Vectors


class AcceleratedState(eqx.Module):
    """Step number t, theta and y (p, K), and FISTA's s."""

    t: Array
    theta: Vectors
    y: Vectors
    s: Array


class Accelerated(eqx.Module):
    """The kernel, which uses all rows at every step; `momentum` is None for FISTA's own."""

    step_size: StepSize
    prox: Prox
    momentum: Array | None = None

    def init(self, theta: Vectors) -> AcceleratedState:
        return AcceleratedState(jnp.asarray(0), theta, theta, jnp.asarray(1.0))

    def step(self, key: Array, state: AcceleratedState, field: Field) -> AcceleratedState:
        """The next state of every chain."""
        del key
        if field.batch_size is not None:
            raise InputError("momentum is for gradients without noise; give batch_size=None")
        eta = self.step_size(state.t) if callable(self.step_size) else self.step_size
        b = field.moments(state.y, cov=False).mean
        theta, _ = self.prox(state.y - eta * b, eta, None, state.theta)
        s = (1 + jnp.sqrt(1 + 4 * state.s**2)) / 2
        m = (state.s - 1) / s if self.momentum is None else self.momentum
        return AcceleratedState(state.t + 1, theta, theta + m * (theta - state.theta), s)


def fista(step_size: StepSize, penalty: Penalty) -> Accelerated:
    """The accelerated proximal gradient method, to compare with; run it with batch_size=None.

    Args:
        step_size: 1 / lambda_max(H) or less.
        penalty: `L1`, `Nuclear`, ...

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.fista(0.5, mg.L1(0.1))
    """
    return Accelerated(as_step_size(step_size), Implicit(as_penalty(penalty)))


def nesterov(step_size: StepSize, condition_number: float) -> Accelerated:
    """Nesterov's method for smooth strongly convex losses; run it with batch_size=None.

    Paper: Nesterov's acceleration - sqrt(kappa) steps without V, but told kappa

    Args:
        step_size: 1 / lambda_max(H).
        condition_number: lambda_max(H) / lambda_min(H), `conditioning(...).kappa_gd`; at 1 the
            momentum is 0, which is gradient descent.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X = np.diag([2.0, 0.2])  # H = X'X / 2 has eigenvalues 2 and 0.02
        >>> kernel = mg.nesterov(0.5, condition_number=100.0)
        >>> trace = mg.run(kernel, mg.Linear(), (X, X @ [1.0, 1.0]), np.zeros(2), 200, None, 1)
        >>> bool(abs(trace.final - 1).max() < 1e-7)  # gradient descent is at 0.13 by then
        True
    """
    kappa = as_number("condition_number", condition_number)
    if kappa < 1:
        raise InputError(
            f"condition_number={kappa:g}; a number >= 1 is needed, lambda_max(H) / lambda_min(H)"
        )
    root = math.sqrt(kappa)
    return Accelerated(as_step_size(step_size), Prox(), np.asarray((root - 1) / (root + 1)))

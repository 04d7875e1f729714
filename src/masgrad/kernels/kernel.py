"""A kernel is one update with its slots filled: theta' = prox(theta - eta A(theta) g + noise).

`init(theta)` makes the state, `step(key, state, field)` advances all chains by one step. Both are
traced, and the state is all that is carried: another object with these two methods, whose state has
`t` and `theta`, runs as well.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from masgrad.kernels.adjustment import Adjustment
from masgrad.kernels.field import Field
from masgrad.kernels.gradient import Gradient, Point, Sampled
from masgrad.kernels.noise import Noise
from masgrad.kernels.prox import Prox
from masgrad.types import Array, StepSize, Vectors


class State(eqx.Module):
    """Step number t, theta (p, K), the adjustment's memory, and counts of steps (K,).

    `floored` are steps whose V met the floor, `inexact` those whose proximal map was not solved.
    """

    t: Array
    theta: Vectors
    memory: Any
    floored: Array
    inexact: Array


class Kernel(eqx.Module):
    """One update with four slots, gradient, adjustment, prox and noise, and a step size.

    Paper: MasGrad - one body of code for every process, chosen by its slots
    """

    step_size: StepSize
    adjustment: Adjustment
    gradient: Gradient = Sampled()
    prox: Prox = Prox()
    noise: Noise = Noise()

    def __repr__(self) -> str:
        eta = "schedule" if callable(self.step_size) else f"{float(self.step_size):g}"
        slots = f"{type(self.adjustment).__name__}, {type(self.gradient).__name__}"
        added = f", {self.noise.note}" if self.noise.note else ""
        return f"Kernel(step_size={eta}, {slots}{self.prox.said}{added})"

    def note(self, n: int | None, p: int) -> str:
        """A remark on what the law of the iterates depends on besides the rows: ridge, penalty."""
        parts = self.adjustment.note(n, p), self.prox.note, self.noise.note
        return "; ".join(part for part in parts if part)

    @property
    def spectral(self) -> bool:
        """Whether a step computes eigenvalues; the Gaussian gradient does, for V."""
        return self.adjustment.spectral or self.gradient.needs_population

    def init(self, theta: Vectors) -> State:
        """State at t = 0 for theta (p, K)."""
        none = jnp.zeros(theta.shape[1], int)
        return State(jnp.asarray(0), theta, self.adjustment.init(theta), none, none)

    def step(self, key: Array, state: State, field: Field) -> State:
        """The next state of every chain."""
        cov = self.adjustment.needs_population or self.gradient.needs_population
        part = self.adjustment.batch_part(field.batch_size or 0, len(state.theta))
        point = Point(field, state.theta, cov or (part is not None and field.batch_size is None))
        drawn = self.gradient(key, point, part == "cov", part == "factor")
        adjusted = self.adjustment.update(state.memory, point, drawn)
        eta = self.step_at(state.t)
        moved = self.noise(key, state.theta - eta * adjusted.direction, eta)
        theta, failed = self.prox(moved, eta, adjusted.root, state.theta)
        floored, inexact = state.floored + (adjusted.floored > 0), state.inexact + failed
        return State(state.t + 1, theta, adjusted.memory, floored, inexact)

    def step_at(self, t: Array) -> Array:
        """eta at step t."""
        return self.step_size(t) if callable(self.step_size) else self.step_size

"""The derivative of one update, by its state and by its noise.

    state' = F(state, z)    with the gradient g = b(theta) + V(theta) z,  and z = 0 here

The state is theta and what the adjustment remembers, so that any smooth update has a derivative,
and it includes dV: the derivative of V^-1 b is V^-1 H only where b = 0. It is taken by central
differences, each perturbed state a chain of its own, so that one step of the kernel itself gives
all of them; automatic differentiation of eigenvectors would fail where eigenvalues coincide.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.covariance.eigen import spectrum
from masgrad.kernels.field import Estimate, Field
from masgrad.kernels.gradient import Gradient, Point
from masgrad.kernels.kernel import Kernel, State
from masgrad.kernels.noise import Noise
from masgrad.types import Array, Matrices, Vectors

RELATIVE_STEP = 1e-5
"""Step of a finite difference, relative to the scale of the quantity."""


class Pushed(Gradient):
    """The Gaussian gradient b + V push with given noise `push`, (p, K)."""

    push: Vectors

    needs_population = True

    def __call__(self, key: Array, point: Point, cov: bool, factor: bool) -> Estimate:
        del key, cov, factor
        population = point.population
        return Estimate(population.mean + point.root().mv(self.push), population.cov)


def pushed_step(kernel: Kernel, state: State, field: Field, push: Vectors) -> State:
    """One step whose gradient is b + V push, without the noise that SGLD adds."""
    pushed = dataclasses.replace(kernel, gradient=Pushed(push), noise=Noise())
    return pushed.step(jnp.asarray(0), state, field)


class Derivative(eqx.Module):
    """A step from each of K states, and its derivatives there.

    Args:
        state: after the step.
        by_state: (d, d, K), of (theta, memory) as one vector.
        by_noise: (d, p, K), by z in g = b + V z.
    """

    state: State
    by_state: Matrices
    by_noise: Array


def derivative(kernel: Kernel, state: State, field: Field) -> Derivative:
    """Differentiate a step at K states at once."""
    p, K = state.theta.shape
    flat = flatten(state)
    d = len(flat)
    sizes = RELATIVE_STEP * jnp.concatenate(
        [_theta_scale(field, state.theta), _memory_scale(state)]
    )
    moves = _directions(state)[:, :, None] * sizes[None]
    pushes = RELATIVE_STEP * jnp.broadcast_to(jnp.eye(p)[:, :, None], (p, p, K))
    no_move, no_push = jnp.zeros((d, p, K)), jnp.zeros((p, d, K))
    moves = jnp.concatenate([jnp.zeros((d, 1, K)), moves, -moves, no_move, no_move], 1)
    pushes = jnp.concatenate([jnp.zeros((p, 1, K)), no_push, no_push, pushes, -pushes], 1)
    wide = _widened(state, flat[:, None] + moves)
    after = pushed_step(kernel, wide, field, pushes.reshape(p, -1))
    ends = flatten(after).reshape(d, -1, K)
    plus, minus, up, down = jnp.split(ends[:, 1:], [d, 2 * d, 2 * d + p], axis=1)
    first = jax.tree.map(lambda a: a[..., :K] if jnp.ndim(a) else a, after)
    first = eqx.tree_at(lambda s: s.floored, first, state.floored + first.floored)
    return Derivative(first, (plus - minus) / (2 * sizes), (up - down) / (2 * RELATIVE_STEP))


@eqx.filter_jit
def advance_law(
    kernel: Kernel, field: Field, state: State, S: Array, count: Array, noise: Array
) -> tuple[State, Array]:
    """The deterministic path and the covariance S (d, d) around it, `count` steps later.

    S' = J S J' + noise B B' with J and B the derivatives by the state and by z; noise is 1/n.
    """

    def step(_, carry):
        state, S = carry
        at = derivative(kernel, state, field)
        J, B = at.by_state[:, :, 0], at.by_noise[:, :, 0]
        own = kernel.noise.variance(kernel.step_at(state.t))  # of theta alone
        added = jnp.zeros(len(S)).at[: len(state.theta)].set(own)
        return at.state, J @ S @ J.T + noise * B @ B.T + jnp.diag(added)

    return jax.lax.fori_loop(0, count, step, (state, S))


def flatten(state: State) -> Array:
    """theta and memory of each chain as one vector, (d, K)."""
    K = state.theta.shape[1]
    return jnp.concatenate([state.theta, *(a.reshape(-1, K) for a in _memory(state))])


def state_size(kernel: Kernel, p: int) -> int:
    """d, the number of rows of `flatten`."""
    memory = jax.eval_shape(kernel.adjustment.init, np.zeros((p, 1)))
    return p + sum(int(np.prod(a.shape)) for a in jax.tree.leaves(memory) if _varies(a))


def _memory(state: State) -> list[Array]:
    """The arrays that an adjustment stores for each chain, counts excluded."""
    return [a for a in jax.tree.leaves(state.memory) if _varies(a)]


def _varies(a: Array) -> bool:
    return a.ndim > 0 and jnp.issubdtype(a.dtype, jnp.floating)


def _widened(state: State, flat: Array) -> State:
    """A state with one chain for each column of flat (d, W, K)."""
    flat = flat.reshape(len(flat), -1)
    theta, rest = flat[: len(state.theta)], flat[len(state.theta) :]

    def filled(a: Array) -> Array:
        nonlocal rest
        if not _varies(a):
            return jnp.tile(a, flat.shape[1] // a.shape[-1]) if a.ndim else a
        size = int(np.prod(a.shape[:-1]))
        own, rest = rest[:size], rest[size:]
        return own.reshape(*a.shape[:-1], -1)

    memory = jax.tree.map(filled, state.memory)
    none = jnp.zeros(flat.shape[1], int)
    return State(state.t, theta, memory, none, none)


def _directions(state: State) -> Array:
    """Unit directions as columns, (d, d); those of a matrix in the memory are symmetric."""
    blocks = [np.eye(len(state.theta))]
    for a in _memory(state):
        size = int(np.prod(a.shape[:-1]))
        unit = np.eye(size).reshape(*a.shape[:-1], size)
        if unit.ndim == 3:
            unit = (unit + unit.swapaxes(0, 1)) / 2
        blocks.append(unit.reshape(size, size))
    return jax.scipy.linalg.block_diag(*(jnp.asarray(b) for b in blocks))


def _theta_scale(field: Field, theta: Vectors) -> Vectors:
    """The change of theta_j that changes the mean gradient by one standard deviation of rows."""
    variance = jnp.einsum("iik->ik", field.moments(theta).cov)
    mean = lambda x: field.moments(x, cov=False).mean  # noqa: E731
    unit = jnp.eye(len(theta))[:, :, None] * jnp.ones(theta.shape[1])
    slope = jax.vmap(lambda e: (jax.jvp(mean, (theta,), (e,))[1] * e).sum(0))(unit)
    far = 1.0 + jnp.abs(theta)
    return jnp.minimum(far, jnp.sqrt(variance) / jnp.maximum(jnp.abs(slope), 1e-300) + 1e-6 * far)


def _memory_scale(state: State) -> Array:
    """The memory's scale: a vector's entries; for a covariance, moves that keep it definite."""
    scales = [jnp.zeros((0, state.theta.shape[1]))]
    for a in _memory(state):
        size = jnp.abs(a) if a.ndim == 2 else _definite_scale(a)
        scales.append(jnp.where(size > 0, size, 1.0).reshape(-1, a.shape[-1]))
    return jnp.concatenate(scales)


def _definite_scale(S: Matrices) -> Matrices:
    """Products of standard deviations times the smallest eigenvalue of the correlations."""
    deviation = jnp.sqrt(jnp.abs(jnp.einsum("iik->ik", S)))
    products = deviation[:, None] * deviation[None]
    correlation = S / jnp.where(products > 0, products, 1.0)
    return products * jnp.clip(spectrum(correlation)[0].min(0), 1e-8, 1.0)

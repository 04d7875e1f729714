"""One compiled program that advances any group of chains, in whatever process it is.

    state, paths = program.advance(i, state, count)

The number of records is *traced*, so that neither another number of steps nor another N of the same
capacity compiles again. Group i draws its step t with the key fold_in(fold_in(seed, i), t): its
path depends on the run and on i, not on where or in how many pieces it is computed.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.covariance.eigen import JACOBI_DIM
from masgrad.data.simulate import Simulator
from masgrad.kernels.field import Field
from masgrad.kernels.kernel import Kernel, State
from masgrad.models.custom import CustomLoss
from masgrad.penalties.structured import Nuclear
from masgrad.types import Array, Vectors, float64


class Schedule(NamedTuple):
    """The number of records to make and the steps per record, both traced."""

    count: Array
    thin: Array


@dataclass(frozen=True)
class Program:
    """What decides the steps of every group, but for its state.

    Args:
        kernel: the update.
        field: model and data as the kernel sees them.
        thin: steps per record.
        seed: of the run.
        buffer: records that one call of the compiled function has room for.
    """

    kernel: Kernel
    field: Field
    thin: int
    seed: int
    buffer: int

    @float64  # the flag is thread-local
    def advance(self, i: int, state: State, count: int) -> tuple[State, np.ndarray]:
        """Group i after `count` records, and these, (count, p, K); `count` 0 only compiles."""
        pieces = []
        for done in range(0, max(count, 1), self.buffer):
            wanted = min(self.buffer, count - done)
            state, paths = _advance(*self._arguments(i, state, wanted))
            pieces.append(np.asarray(paths)[:wanted])
        return state, pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _arguments(self, i: int, state: State, count: int) -> tuple:
        key = jax.random.fold_in(jax.random.key(self.seed), i)
        schedule = Schedule(np.asarray(count), np.asarray(self.thin))
        return (self.kernel, self.field, state, key, schedule, self.buffer)

    @float64
    def runs_alone(self, state: State) -> bool:
        """Whether a process may advance one group at a time only, because steps call LAPACK.

        XLA runs LAPACK on its own thread pool, where two programs can deadlock (jaxlib 0.10: p = 10
        and 100 chains on 2 cores). What a user's loss or sampler calls, the compiled program tells.
        """
        if calls_lapack(self.kernel, len(state.theta)):
            return True
        model, source = self.field.model, self.field.source
        own = type(model).__module__.startswith("masgrad.") and not isinstance(model, CustomLoss)
        if own and not isinstance(source, Simulator):
            return False
        program = _advance.lower(*self._arguments(0, state, 0)).as_text()  # pyright: ignore
        return "lapack" in program or "fft" in program


def calls_lapack(kernel: Any, p: int) -> bool:
    """Whether a kernel's own steps call LAPACK; one of somebody else's making may."""
    if not isinstance(kernel, Kernel):
        return True
    singular_values = isinstance(kernel.prox.penalty, Nuclear)
    return (p > JACOBI_DIM and kernel.spectral) or singular_values


@eqx.filter_jit
def first_state(kernel: Kernel, theta: Vectors) -> State:
    """The first state, with types that a state kept as NumPy arrays has too: none of them weak."""
    return jax.tree.map(lambda a: jax.lax.convert_element_type(a, a.dtype), kernel.init(theta))


@eqx.filter_jit
def _advance(
    kernel: Kernel,
    field: Field,
    state: State,
    key: Array,
    schedule: Schedule,
    most_records: int,
) -> tuple[State, Array]:
    """The scheduled records of a group, in an array (most_records, p, K)."""

    def step(_, state):
        return kernel.step(jax.random.fold_in(key, state.t), state, field)

    def record(i, carry):
        state, out = carry
        state = jax.lax.fori_loop(0, schedule.thin, step, state)
        return state, out.at[i].set(state.theta)

    empty = jnp.zeros((most_records, *state.theta.shape))
    return jax.lax.fori_loop(0, schedule.count, record, (state, empty))

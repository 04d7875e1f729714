"""All chains of a run, in groups that the machine's cores share.

One compiled function advances a group by a *traced* number of records, so that neither another
number of steps nor another N of the same capacity compiles again. XLA keeps one core busy with the
small arrays of a chain's step; two groups in two threads keep two busy, except where LAPACK has
threads of its own. The groups depend on the number of chains alone, never on the machine: group i
draws its step t with the key fold_in(fold_in(seed, i), t).
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.cores import cores
from masgrad.covariance.eigen import JACOBI_DIM
from masgrad.data.simulate import Simulator
from masgrad.kernels.field import Field
from masgrad.kernels.kernel import Kernel, State
from masgrad.models.custom import CustomLoss
from masgrad.penalties.structured import Nuclear
from masgrad.types import Array, Vectors, float64

GROUP_CHAINS, MOST_GROUPS, VECTOR_LANES = 64, 16, 4
BUFFER_NUMBERS, BUFFER_RECORDS = 2**21, 256


class Schedule(NamedTuple):
    """The number of records to make and the steps per record, both traced."""

    count: Array
    thin: Array


class Groups:
    """The states of all chains; `advance` runs them on and returns the records."""

    def __init__(
        self,
        kernel: Kernel,
        field: Field,
        theta: np.ndarray,
        thin: int,
        seed: int,
        states: list[State] | None = None,
    ):
        """Chains that begin at theta (p, K), or go on from the states of an earlier run."""
        self.kernel, self.field, self.thin = kernel, field, np.asarray(thin)
        self.chains = theta.shape[1]
        self.size = group_size(self.chains)
        starts = [theta[:, i : i + self.size] for i in range(0, self.chains, self.size)]
        if states is None:
            states = [_init(kernel, _fill(start, self.size)) for start in starts]
        self.states = [jax.tree.map(jnp.asarray, state) for state in states]
        key = jax.random.key(seed)
        self.keys = [jax.random.fold_in(key, i) for i in range(len(starts))]
        self.most_records = int(
            np.clip(BUFFER_NUMBERS // (len(theta) * self.size), 1, BUFFER_RECORDS)
        )
        wanted = min(len(starts), threads(kernel, len(theta)))
        if wanted > 1 and self._calls_lapack():
            wanted = 1
        self.pool = ThreadPoolExecutor(wanted)
        self._group(0, 0)  # compile once, before the threads all ask for it

    def advance(self, count: int) -> np.ndarray:
        """`count` <= `most_records` records of `thin` steps each, (count, p, K)."""
        done = list(self.pool.map(self._group, range(len(self.states)), repeat(count)))
        self.states = [state for state, _ in done]
        return np.concatenate([paths for _, paths in done], axis=-1)[..., : self.chains]

    @float64  # the flag is thread-local
    def _group(self, i: int, count: int) -> tuple[State, np.ndarray]:
        state, paths = _advance(*self._arguments(i, count))
        return state, np.asarray(paths)[:count]

    def _arguments(self, i: int, count: int) -> tuple:
        schedule = Schedule(np.asarray(count), self.thin)
        group = (self.states[i], self.keys[i])
        return (self.kernel, self.field, *group, schedule, self.most_records)

    def _calls_lapack(self) -> bool:
        """Whether a user's loss or sampler calls LAPACK, judged by the compiled program."""
        model, source = self.field.model, self.field.source
        own = type(model).__module__.startswith("masgrad.") and not isinstance(model, CustomLoss)
        if own and not isinstance(source, Simulator):
            return False
        program = _advance.lower(*self._arguments(0, 0)).as_text()  # pyright: ignore
        return "lapack" in program or "fft" in program

    def close(self) -> None:
        """Shut down the threads."""
        self.pool.shutdown(wait=False)

    def floored(self) -> np.ndarray:
        """For each chain, the steps at which V met the floor; 0 for kernels that do not count."""
        return self._counted("floored")

    def inexact(self) -> np.ndarray:
        """For each chain, the steps whose proximal map was not solved to its accuracy."""
        return self._counted("inexact")

    def _counted(self, name: str) -> np.ndarray:
        counts = [getattr(s, name, np.zeros(self.size, int)) for s in self.states]
        return np.concatenate([np.asarray(c) for c in counts])[: self.chains]


def threads(kernel: Kernel, p: int) -> int:
    """The number of groups that may run at once: one if a step calls LAPACK.

    XLA runs LAPACK on its own thread pool, where two programs can deadlock (jaxlib 0.10: p = 10 and
    100 chains on 2 cores).
    """
    if not isinstance(kernel, Kernel):
        return 1
    singular_values = isinstance(kernel.prox.penalty, Nuclear)
    lapack = (p > JACOBI_DIM and kernel.spectral) or singular_values
    return 1 if lapack else cores()


def group_size(chains: int) -> int:
    """Chains per group: a multiple of the vector lanes, for at most MOST_GROUPS groups."""
    groups = min(MOST_GROUPS, -(-chains // GROUP_CHAINS))
    each = -(-chains // groups)
    return each if groups == 1 else -(-each // VECTOR_LANES) * VECTOR_LANES


def _fill(start: np.ndarray, size: int) -> np.ndarray:
    """Fill the last group with copies of its last chain, which are not recorded."""
    missing = size - start.shape[1]
    return np.concatenate([start, np.repeat(start[:, -1:], missing, axis=1)], axis=1)


@eqx.filter_jit
def _init(kernel: Kernel, theta: Vectors) -> State:
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

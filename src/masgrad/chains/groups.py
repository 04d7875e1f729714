"""All chains of a run, in groups that cores share, or the workers of a cluster.

The groups depend on the number of chains alone, never on the machine, and a group's path on nothing
but the run and the group's number: who advances it, and in how many chunks, changes no digit.
"""

import jax
import jax.numpy as jnp
import numpy as np

from masgrad.chains.engine.crew import Hire, Threads
from masgrad.chains.engine.program import Program, first_state
from masgrad.kernels.field import Field
from masgrad.kernels.kernel import Kernel, State

GROUP_CHAINS, MOST_GROUPS, VECTOR_LANES = 64, 16, 4
BUFFER_NUMBERS, BUFFER_RECORDS = 2**21, 256


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
        *,
        hire: Hire = Threads,
    ):
        """Chains that begin at theta (p, K), or go on from the states of an earlier run."""
        self.chains, self.size = theta.shape[1], group_size(theta.shape[1])
        starts = [theta[:, i : i + self.size] for i in range(0, self.chains, self.size)]
        if states is None:
            states = [first_state(kernel, _fill(start, self.size)) for start in starts]
        self.states = [jax.tree.map(jnp.asarray, state) for state in states]
        buffer = np.clip(BUFFER_NUMBERS // (len(theta) * self.size), 1, BUFFER_RECORDS)
        self.thin = thin
        self.crew = hire(Program(kernel, field, thin, seed, int(buffer)), self.states)

    @property
    def most_records(self) -> int:
        return self.crew.most_records

    def advance(self, count: int) -> np.ndarray:
        """`count` <= `most_records` records of `thin` steps each, (count, p, K)."""
        done = self.crew.advance(self.states, count)
        self.states = [state for state, _ in done]
        return np.concatenate([paths for _, paths in done], axis=-1)[..., : self.chains]

    def close(self) -> None:
        """Let the crew go."""
        self.crew.close()

    def floored(self) -> np.ndarray:
        """For each chain, the steps at which V met the floor; 0 for kernels that do not count."""
        return self._counted("floored")

    def inexact(self) -> np.ndarray:
        """For each chain, the steps whose proximal map was not solved to its accuracy."""
        return self._counted("inexact")

    def _counted(self, name: str) -> np.ndarray:
        counts = [getattr(s, name, np.zeros(self.size, int)) for s in self.states]
        return np.concatenate([np.asarray(c) for c in counts])[: self.chains]


def group_size(chains: int) -> int:
    """Chains per group: a multiple of the vector lanes, for at most MOST_GROUPS groups."""
    groups = min(MOST_GROUPS, -(-chains // GROUP_CHAINS))
    each = -(-chains // groups)
    return each if groups == 1 else -(-each // VECTOR_LANES) * VECTOR_LANES


def _fill(start: np.ndarray, size: int) -> np.ndarray:
    """Fill the last group with copies of its last chain, which are not recorded."""
    missing = size - start.shape[1]
    return np.concatenate([start, np.repeat(start[:, -1:], missing, axis=1)], axis=1)

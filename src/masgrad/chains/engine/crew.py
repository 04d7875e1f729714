"""A crew advances the groups of a run: threads of this process, or the workers of a cluster.

XLA keeps one core busy with the small arrays of a chain's step; two groups in two threads keep two
busy, except where LAPACK has threads of its own.
"""

import abc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from masgrad.chains.engine.program import Program, calls_lapack
from masgrad.cores import cores
from masgrad.kernels.kernel import State

CHUNK_SECONDS = 0.1
"""How long threads work between two looks at Ctrl-C, the bar and the checkpoint."""


class Crew(abc.ABC):
    """Advances all groups by equally many records.

    Args:
        most_records: of one call of `advance`.
        chunk_seconds: how long such a call should take.
    """

    most_records: int
    chunk_seconds: float

    @abc.abstractmethod
    def advance(self, states: Sequence[State], count: int) -> list[tuple[State, np.ndarray]]:
        """Every group's next state, and its records (count, p, K)."""

    @abc.abstractmethod
    def close(self) -> None: ...


Hire: TypeAlias = Callable[[Program, Sequence[State]], Crew]
"""Makes the crew of a run from its program and the states of the groups."""


class Threads(Crew):
    """Threads of this process, as many as cores and groups allow."""

    def __init__(self, program: Program, states: Sequence[State]):
        self.program, self.chunk_seconds = program, CHUNK_SECONDS
        self.most_records = program.buffer
        wanted = min(len(states), cores())
        if wanted > 1 and program.runs_alone(states[0]):
            wanted = 1
        self.pool = ThreadPoolExecutor(wanted)
        program.advance(0, states[0], 0)  # compile once, before the threads all ask for it

    def advance(self, states: Sequence[State], count: int) -> list[tuple[State, np.ndarray]]:
        groups = range(len(states))
        return list(self.pool.map(self.program.advance, groups, states, repeat(count)))

    def close(self) -> None:
        self.pool.shutdown(wait=False)


def threads(kernel: Any, p: int) -> int:
    """The number of groups that a process may advance at once: one if a step calls LAPACK."""
    return 1 if calls_lapack(kernel, p) else cores()

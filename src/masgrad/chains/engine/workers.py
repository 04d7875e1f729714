"""The workers of a Dask cluster advance the groups, each in a task of about a second.

A task is told a group's state and gives back the next one with the records in between, so that it
may run again wherever its worker has died. The kernel, the loss and the rows are sent once to each
worker: a loss of a notebook is one function there, and is compiled once.
"""

import contextlib
import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.chains.engine.crew import Crew
from masgrad.chains.engine.program import Program
from masgrad.distributed.held import unpicklable
from masgrad.distributed.payload import Packer, digest_of, unpack
from masgrad.distributed.tasks import Tasks
from masgrad.kernels.kernel import State
from masgrad.types import jax_float64

TASK_SECONDS = 1.0
"""How long a task should take: a round of tasks costs some 20 milliseconds besides."""

TASK_NUMBERS = 2**21
"""Largest size of the records of a task, in numbers: 16 megabytes."""


class Workers(Crew):
    """The workers of a cluster: each task is one group's, wherever there is a free worker."""

    def __init__(self, client: Any, program: Program, states: Sequence[State]):
        rows, form = _apart(program.field)
        sent = (_Form(program.kernel, form), _Arrays(rows))
        settings = (program.thin, program.seed, program.buffer)
        packer = Packer(lambda value: isinstance(value, _Form | _Arrays))
        self.payload, self.parts = packer.pack((*sent, settings))
        names = [f"group {i} of the chains" for i in range(len(states))]
        self.tasks = Tasks(client, names, [None] * len(states), "advanced")
        self.rows = packer.part(sent[1]).digest
        self.tasks.send(self.parts)
        self.chunk_seconds = TASK_SECONDS
        self.most_records = max(1, TASK_NUMBERS // states[0].theta.size)

    def advance(self, states: Sequence[State], count: int) -> list[tuple[State, np.ndarray]]:
        told = [_bytes((i, state, count)) for i, state in enumerate(states)]
        return list(self.tasks.each(_advance_group, self.payload, self.parts, told))

    def close(self) -> None:
        """Take the rows back; the kernel and the loss may come again, and stay compiled."""
        self.tasks.drop([self.rows])


# What is sent.


@dataclass(frozen=True, eq=False)
class _Form:
    """Kernel and field, with places where the field's arrays belong."""

    kernel: Any
    field: Any


class _Arrays:
    """The arrays of a field, which are JAX's on both sides and NumPy's on the way."""

    def __init__(self, arrays: list[Any]):
        self.arrays = arrays

    def __reduce__(self) -> tuple:
        return _arrays, ([np.asarray(a) for a in self.arrays],)


def _arrays(arrays: list[np.ndarray]) -> _Arrays:
    return _Arrays([jnp.asarray(a) for a in arrays])


@dataclass(frozen=True)
class _Place:
    """Stands for the array of this number."""

    number: int


def _apart(field: Any) -> tuple[list[Any], Any]:
    """The arrays of a field, each once, and the field with their places."""
    leaves, structure = jax.tree.flatten(field)
    arrays = {id(leaf): leaf for leaf in leaves if eqx.is_array(leaf)}
    place = {key: _Place(number) for number, key in enumerate(arrays)}
    marked = [place.get(id(leaf), leaf) for leaf in leaves]
    return list(arrays.values()), jax.tree.unflatten(structure, marked)


def _together(arrays: list[Any], form: Any) -> Any:
    """The field of these arrays and places."""
    return jax.tree.map(lambda x: arrays[x.number] if isinstance(x, _Place) else x, form)


def _bytes(told: Any) -> bytes:
    """What one task is told; a kernel of the user's may have states of a class of `__main__`."""
    import cloudpickle

    told = jax.tree.map(lambda x: np.asarray(x) if eqx.is_array(x) else x, told)
    try:
        return cloudpickle.dumps(told)
    except Exception as error:
        raise unpicklable(told, error) from error


# On a worker.


@jax_float64
def _advance_group(payload: bytes, parts: Any, told: bytes, data: None) -> tuple[State, np.ndarray]:
    """The task: one group, advanced by some records."""
    form, rows, settings = unpack(payload, parts)
    program = Program(form.kernel, _together(rows.arrays, form.field), *settings)
    i, state, count = pickle.loads(told)
    state = jax.tree.map(jnp.asarray, state)
    with _turn(digest_of(payload), program, state):
        state, paths = program.advance(i, state, count)
    return jax.tree.map(np.asarray, state), paths


class _Turns:
    """Programs that this process has compiled and may run in several threads at once."""

    lock = threading.Lock()
    together: ClassVar[set[str]] = set()


@contextlib.contextmanager
def _turn(name: str, program: Program, state: State) -> Iterator[None]:
    """Wait for the other threads of this worker while a program compiles, or if it calls LAPACK."""
    if name in _Turns.together:
        yield
        return
    with _Turns.lock:
        yield
        if _threads() > 1 and not program.runs_alone(state):
            _Turns.together.add(name)


def _threads() -> int:
    from distributed import get_worker

    return get_worker().state.nthreads

"""Checkpoints of runs: what a file holds of chains and records, and how they go on from it.

Of the states only the arrays are saved, in the order of the pytree: its form comes from the kernel.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masgrad.chains.groups import Groups
from masgrad.chains.record import Recorder
from masgrad.checkpoints.fingerprint import fingerprint
from masgrad.checkpoints.saver import Saver


def run_saver(path: Path | None, every: float, call: dict[str, Any]) -> Saver | None:
    """The checkpoint of a run; `call` is all that decides its numbers."""
    return None if path is None else Saver(path, "run", fingerprint(**call), every)


def place(step: int, last: int) -> str:
    """How far a run has come, in words."""
    return f"step {step:,} of {last:,}"


def snapshot(groups: Groups, recorder: Recorder) -> dict[str, Any]:
    """Chains and records as arrays."""
    states = [[np.asarray(leaf) for leaf in jax.tree.leaves(s)] for s in groups.states]
    return {"states": states, "records": recorder.snapshot()}


def restore(groups: Groups, recorder: Recorder, saved: dict[str, Any]) -> None:
    """Put chains and recorder where they were when they were saved."""
    recorder.restore(saved["records"])
    groups.states = [
        jax.tree.unflatten(jax.tree.structure(state), map(jnp.asarray, leaves))
        for state, leaves in zip(groups.states, saved["states"], strict=True)
    ]

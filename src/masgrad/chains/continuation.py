"""More steps of a run that has ended, as if it had not.

A trace keeps the state of its chains (step number, theta, the adjustment's memory) and the seed;
step t draws with a key of t, so that the batches go on as well.
"""

from typing import Any

import jax
import numpy as np

from masgrad.chains import door
from masgrad.chains.engine.crew import Hire, Threads
from masgrad.chains.groups import Groups, group_size
from masgrad.chains.preparation import Beginning, check_thin, new_recorder, note_of, prepare
from masgrad.chains.record import Recorder, Summaries
from masgrad.chains.trace import Ending, Summary, Trace
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.kernel import Kernel
from masgrad.models.model import Model
from masgrad.types import Rows


def continued(
    trace: Trace | Summary,
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    steps: int,
    hire: Hire = Threads,
) -> Beginning:
    """The chains of a trace, about to run `steps` further steps."""
    ending, first = _ending(trace), int(trace.steps[-1])
    check_thin(ending.thin, steps)
    door.check_schedule(kernel, steps, first)
    rows = door.sample_rows(model, data)
    theta = _finite(trace, model.dim(rows))
    _check_memory(kernel, trace, ending)
    field = prepare(kernel, model, data, rows, theta, ending.batch_size, replace=ending.replace)
    recorder = _recorder(trace, steps // ending.thin, note_of(kernel, field, theta))
    groups = Groups(
        kernel, field, trace.final.T, ending.thin, ending.seed, ending.states, hire=hire
    )
    return Beginning(groups, recorder, ending, first + steps)


def check_settings(trace: Any, given: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Refuse settings beside a trace that are not its own; a default stands for those."""
    ending = _ending(trace)
    own = {
        "theta0": None,
        "batch_size": ending.batch_size,
        "chains": len(trace.final),
        "seed": ending.seed,
        "replace": ending.replace,
        "thin": ending.thin,
        "keep": "paths" if isinstance(trace, Trace) else "summary",
    }
    for name, value in given.items():
        if value is not defaults[name] and (name == "theta0" or value != own[name]):
            raise InputError(
                f"{name}={value!r:.40} beside start_from=, whose run had {own[name]!r}; leave "
                f"{name} out: a run that goes on keeps its settings"
            )


def _ending(trace: Trace | Summary) -> Ending:
    if not isinstance(trace, Trace | Summary):
        raise InputTypeError(f"trace={trace!r:.60}; what mg.run returned is needed")
    if trace.ending is None:
        raise InputError(
            "this trace was not made by mg.run and has no state to go on from; run from its "
            "trace.final with another seed"
        )
    return trace.ending


def _finite(trace: Trace | Summary, p: int) -> np.ndarray:
    """The last points of the chains that are finite, (p, K)."""
    last = trace.final
    if last.shape[1] != p:
        raise InputError(
            f"the trace has {last.shape[1]} parameters, and this model and data {p}; continue with "
            "those of the run"
        )
    finite = np.isfinite(last).all(1)
    if not finite.any():
        raise InputError("every chain left the finite numbers; run again with a smaller step_size")
    return np.ascontiguousarray(last[finite].T)


def _check_memory(kernel: Kernel, trace: Trace | Summary, ending: Ending) -> None:
    """Check that the kernel's state has the form of the one that was kept."""
    chains, p = trace.final.shape
    fresh = jax.eval_shape(kernel.init, jax.ShapeDtypeStruct((p, group_size(chains)), np.float64))
    if _form(fresh) != _form(ending.states[0]):
        raise InputError(
            f"kernel={kernel!r} remembers other things than the kernel of this run; continue with "
            "that one, or start anew from trace.final with another seed"
        )


def _form(state: Any) -> tuple:
    """The structure of a state and the shapes of its arrays."""
    leaves, structure = jax.tree.flatten(state)
    return structure, [np.shape(a) for a in leaves]


def _recorder(trace: Trace | Summary, records: int, note: str) -> Recorder:
    """A recorder that holds what the run has recorded, with room for more."""
    chains, p = trace.final.shape
    if isinstance(trace, Trace):
        recorder = new_recorder("paths", chains, len(trace.steps) + records, p, note)
        recorder.add(trace.steps, np.moveaxis(trace.theta, 0, -1))
        return recorder
    recorder = Summaries(chains, note)
    recorder.begin(trace)
    return recorder

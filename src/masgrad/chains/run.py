"""`run`: many chains of one kernel side by side, checked at the door, recorded in chunks."""

import inspect
import os
from typing import Any, Literal

import numpy as np

from masgrad.chains import door
from masgrad.chains.checkpoint import restore, run_saver
from masgrad.chains.continuation import check_settings, continued
from masgrad.chains.drive import finish
from masgrad.chains.engine.crew import Hire
from masgrad.chains.engine.place import check_engine, crews
from masgrad.chains.groups import Groups
from masgrad.chains.preparation import Beginning, check_thin, new_recorder, note_of, prepare
from masgrad.chains.trace import Ending, Summary, Trace
from masgrad.checkpoints import SECONDS
from masgrad.checkpoints.saver import check_checkpoint
from masgrad.checks import check_count, check_seed
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputTypeError
from masgrad.kernels.kernel import Kernel
from masgrad.models.model import Model
from masgrad.types import Array, Rows, float64


@float64
def run(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    theta0: Array = None,
    steps: int = 100,
    batch_size: int | None = 25,
    chains: int = 100,
    seed: int = 0,
    *,
    replace: bool = True,
    thin: int = 1,
    keep: Literal["paths", "summary"] = "paths",
    start_from: Trace | Summary | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = SECONDS,
    resume: bool = False,
    engine: Literal["local", "dask"] | None = None,
    client: Any = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Trace | Summary:
    """Run many chains of a kernel and record their paths.

    Paper: numerical experiments - independent chains of one process from the same start
    Paper: Lemma B.1 Convergence: noiseless - batch_size=None is its deterministic update

    Args:
        kernel: `mg.sgd`, `mg.masgrad`, ..., or the `mg.diffusion` of one.
        model: the loss.
        data: (X, y) for regressions, else an array or pytree; or a `mg.Simulator`; or, for
            `mg.Linear()` without drawn rows, `mg.LeastSquaresMoments`: a step's cost is then
            independent of the number of rows.
        theta0: one start (p,), or one for each chain (chains, p). With `trace.final` and the same
            seed the run would draw the batches of the first one again: `start_from` continues it.
        steps: number of updates.
        batch_size: rows drawn for each update; None takes all rows, the deterministic update.
        chains: number of chains.
        seed: the same seed and number of chains give the same paths.
        replace: draw the rows of a batch with replacement (the paper's bootstrap).
        thin: record every `thin`-th step; it divides `steps`.
        keep: "paths", or "summary" for mean, covariance and quantiles over chains only.
        start_from: what an earlier run returned: it goes on by `steps`, with its settings, and the
            result is the path of one long run.
        checkpoint: a file in which the run is saved, and marked as finished at its end.
        every: seconds between saves.
        resume: go on from the checkpoint, if there is one, to the last digit; another call's is
            refused. Without it an unfinished run's checkpoint is not overwritten, but refused.
        engine: "local", which is the default, runs in threads of this process; "dask" splits the
            groups of chains over the workers of a cluster, and gives the same paths.
        client: a `distributed.Client`, with engine="dask".
        scheduler: the address of a Dask scheduler instead, such as "tcp://10.0.0.1:8786". With
            neither, the client is used that is connected already, or processes on this machine are
            started, and closed in the end.
        progress: a bar after two seconds; None shows it on a terminal.

    A program is compiled once for each kernel, model and shape: define a custom loss or a schedule
    once, not in a loop. Ctrl-C ends a run early: it saves the checkpoint, if there is one, and
    returns what has been run, with a warning.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 2))
        >>> y = rng.binomial(1, 1 / (1 + np.exp(-X.sum(1))))
        >>> tr = mg.run(mg.masgrad(0.2), mg.Logistic(), (X, y), np.zeros(2), steps=50)
        >>> tr.theta.shape
        (100, 51, 2)
    """
    check_engine(engine, client, scheduler)
    path = check_checkpoint(checkpoint, every, resume)
    door.check_objects(kernel, model)
    steps = check_count("steps", steps)
    settings = {"batch_size": batch_size, "chains": chains, "seed": seed, "replace": replace}
    settings |= {"thin": thin, "keep": keep}
    call = {"kernel": kernel, "model": model, "data": data, "theta0": theta0, "steps": steps}
    saver = run_saver(path, every, call | settings | {"start_from": start_from})
    saved = None if saver is None else saver.begin(resume)
    with crews(engine, client, scheduler) as hire:
        if start_from is None:
            begun = _anew(kernel, model, data, theta0, steps, **settings, hire=hire)
        else:
            check_settings(start_from, {"theta0": theta0} | settings, DEFAULTS)
            begun = continued(start_from, kernel, model, data, steps, hire)
        if saved is not None:
            restore(begun.groups, begun.recorder, saved[1])
        return finish(begun, progress, saver)


DEFAULTS = {name: p.default for name, p in inspect.signature(run).parameters.items()}


def _anew(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    theta0: Array,
    steps: int,
    *,
    batch_size: int | None,
    chains: int,
    seed: int,
    replace: bool,
    thin: int,
    keep: str,
    hire: Hire,
) -> Beginning:
    """Chains at theta0."""
    if theta0 is None:
        raise InputTypeError("theta0=None; a start (p,) is needed, or start_from= an earlier run")
    chains, thin, seed = check_count("chains", chains), check_count("thin", thin), check_seed(seed)
    check_thin(thin, steps)
    door.check_schedule(kernel, steps)
    rows = door.sample_rows(model, data)
    theta = door.starts(model, theta0, rows, chains)
    field = prepare(kernel, model, data, rows, theta, batch_size, replace=replace)
    note = note_of(kernel, field, theta)
    recorder = new_recorder(keep, chains, steps // thin + 1, len(theta), note)
    recorder.add(np.array([0]), theta[None])
    groups = Groups(kernel, field, theta, thin, seed, hire=hire)
    return Beginning(groups, recorder, Ending([], seed, field.batch_size, replace, thin), steps)

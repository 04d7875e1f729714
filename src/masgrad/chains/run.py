"""`run`: many chains of one kernel side by side, checked at the door, recorded in chunks.

The host asks for chunks of about a tenth of a second: often enough for a progress bar and for
Ctrl-C, which returns what has been run. Chunks do not change a path.
"""

import dataclasses
import time
import warnings
from typing import Literal

import jax
import numpy as np

from masgrad.chains import door
from masgrad.chains.footprint import check_footprint
from masgrad.chains.groups import Groups
from masgrad.chains.penalised import check_metric, check_penalty
from masgrad.chains.record import Paths, Recorder, Summaries
from masgrad.chains.trace import Ending, Summary, Trace
from masgrad.checks import check_count, check_seed
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import (
    AccuracyWarning,
    DivergenceWarning,
    InputError,
    InterruptedWarning,
    SingularWarning,
)
from masgrad.kernels.field import Field, make_field
from masgrad.kernels.kernel import Kernel, State
from masgrad.models.model import Model
from masgrad.progress import Progress
from masgrad.types import Array, Rows, float64

CHUNK_SECONDS = 0.1
PATH_BYTES = 8 * 2**30


@float64
def run(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    theta0: Array,
    steps: int = 100,
    batch_size: int | None = 25,
    chains: int = 100,
    seed: int = 0,
    *,
    replace: bool = True,
    thin: int = 1,
    keep: Literal["paths", "summary"] = "paths",
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
            seed the run would draw the batches of the first one again: `mg.resume` continues it.
        steps: number of updates.
        batch_size: rows drawn for each update; None takes all rows, the deterministic update.
        chains: number of chains.
        seed: the same seed and number of chains give the same paths.
        replace: draw the rows of a batch with replacement (the paper's bootstrap).
        thin: record every `thin`-th step; it divides `steps`.
        keep: "paths", or "summary" for mean, covariance and quantiles over chains only.
        progress: a bar after two seconds; None shows it on a terminal.

    A program is compiled once for each kernel, model and shape: define a custom loss or a schedule
    once, not in a loop. Ctrl-C ends a run early: it returns what has been run, with a warning, and
    `mg.resume` goes on.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 2))
        >>> y = rng.binomial(1, 1 / (1 + np.exp(-X.sum(1))))
        >>> tr = mg.run(mg.masgrad(0.2), mg.Logistic(), (X, y), np.zeros(2), steps=50)
        >>> tr.theta.shape
        (100, 51, 2)
    """
    door.check_objects(kernel, model)
    steps, chains = check_count("steps", steps), check_count("chains", chains)
    thin, seed = check_count("thin", thin), check_seed(seed)
    check_thin(thin, steps)
    door.check_schedule(kernel, steps)
    rows = door.sample_rows(model, data)
    theta = door.starts(model, theta0, rows, chains)
    field = prepare(kernel, model, data, rows, theta, batch_size, replace=replace)
    recorder = new_recorder(
        keep, chains, steps // thin + 1, len(theta), note_of(kernel, field, theta)
    )
    recorder.add(np.array([0]), theta[None])
    groups = Groups(kernel, field, theta, thin, seed)
    ending = Ending([], seed, field.batch_size, replace, thin)
    return finish(groups, recorder, steps, ending, progress)


def check_thin(thin: int, steps: int) -> None:
    if steps % thin:
        raise InputError(f"thin={thin} does not divide steps={steps}; the last step would be lost")


def prepare(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    rows: Rows,
    theta: np.ndarray,
    batch_size: int | None,
    *,
    replace: bool,
) -> Field:
    """The field of a run, once kernel, model and data have been found to fit together."""
    has_rows = not isinstance(data, Simulator | LeastSquaresMoments)
    known = door.known_rows(data, rows)
    check_penalty(kernel, model, len(theta))
    batch_size = door.check_batch(kernel, batch_size, len(theta), known, replace)
    door.check_drawable(kernel, data, batch_size)
    door.check_loss(model, theta, rows)
    population = door.needs_population(kernel, batch_size, known)
    if population:
        door.check_simulated_covariance(data, theta)
    check_footprint(kernel, batch_size, len(theta), theta.shape[1])
    check_metric(kernel, model, theta, rows if has_rows else data)
    if known is not None:
        door.warn_unstable(kernel, model, rows if has_rows else data)
    return make_field(model, rows if has_rows else data, batch_size, replace, population)


def finish(
    groups: Groups, recorder: Recorder, steps: int, ending: Ending, progress: bool | None
) -> Trace | Summary:
    """Run the chains for so many steps, and return what was recorded with its ending."""
    try:
        states = _drive(groups, recorder, steps // ending.thin, progress)
    finally:
        groups.close()
    _report(recorder, groups.floored(), groups.inexact(), recorder.steps[-1])
    states = [jax.tree.map(np.asarray, state) for state in states]
    return recorder.result(groups.floored(), dataclasses.replace(ending, states=states))


def note_of(kernel: Kernel, field: Field, theta: np.ndarray) -> str:
    return kernel.note(field.batch_size, len(theta)) if isinstance(kernel, Kernel) else ""


def new_recorder(keep: str, chains: int, records: int, p: int, note: str) -> Recorder:
    if keep == "summary":
        check_count("chains (for a summary over chains)", chains, 2)
        return Summaries(chains, note)
    if keep != "paths":
        raise InputError(f"keep={keep!r}; use 'paths' or 'summary'")
    size = chains * records * p * 8
    if size > PATH_BYTES:
        raise InputError(
            f"the paths would take {size / 2**30:.0f} GiB; use thin= to record fewer steps, or "
            "keep='summary'"
        )
    return Paths(chains, records, p, note)


def _drive(groups: Groups, recorder: Recorder, records: int, progress: bool | None) -> list[State]:
    """Advance the chains in chunks of records; the states at the last record."""
    thin, first = int(groups.thin), recorder.steps[-1]
    done, chunk, before = 0, max(1, 32 // thin), groups.states
    with Progress(records * thin, progress) as bar:
        try:
            while done < records:
                before = groups.states
                count = min(chunk, groups.most_records, records - done)
                start = time.perf_counter()
                paths = groups.advance(count)
                chunk = _next_chunk(count, time.perf_counter() - start)
                recorder.add(first + (done + 1 + np.arange(count)) * thin, paths)
                done += count
                bar.update(done * thin)
        except KeyboardInterrupt:
            warnings.warn(
                f"stopped at step {first + done * thin} of {first + records * thin}; the result "
                "holds what was run, and mg.resume goes on from there",
                InterruptedWarning,
                stacklevel=6,
            )
    # an interrupt may have come after the chains were advanced and before that was recorded
    recorded = int(groups.states[0].t) == recorder.steps[-1]
    return groups.states if recorded else before


def _next_chunk(count: int, seconds: float) -> int:
    """The number of records that takes CHUNK_SECONDS, at most four times the last chunk."""
    return max(1, min(4 * count, int(count * CHUNK_SECONDS / max(seconds, 1e-9))))


def _report(recorder: Recorder, floored: np.ndarray, inexact: np.ndarray, steps: int) -> None:
    """Warn of divergence, singular covariances and inexact proximal maps."""
    if recorder.diverged:
        chain, step = min(recorder.diverged.items(), key=lambda item: item[1])
        warnings.warn(
            f"{len(recorder.diverged)} of {recorder.chains} chains left the finite numbers (chain "
            f"{chain} first, by step {step}); they are not averaged in: see .diverged; use a "
            "smaller step_size",
            DivergenceWarning,
            stacklevel=6,
        )
    if floored.any():
        warnings.warn(
            f"the covariance was singular at up to {floored.max()} of {steps} steps of a chain and "
            "met a floor: see .floored; drop redundant columns, bring all to one scale, or use "
            "mg.masgrad(..., ridge=)",
            SingularWarning,
            stacklevel=6,
        )
    if inexact.any():
        warnings.warn(
            f"the proximal map was not solved to its accuracy at up to {inexact.max()} of {steps} "
            "steps of a chain: V is too ill-conditioned; use a ridge, root='diagonal', or a larger "
            "accuracy=",
            AccuracyWarning,
            stacklevel=6,
        )

"""The loop of a run: chains advance in chunks, which are recorded and, now and then, saved.

The host asks for chunks of about a tenth of a second, or a second where they travel: often enough
for a progress bar, for checkpoints, and for Ctrl-C, which returns what has been run. Chunks do not
change a path.
"""

import dataclasses
import time

import jax
import numpy as np

from masgrad.chains.checkpoint import place, snapshot
from masgrad.chains.groups import Groups
from masgrad.chains.preparation import Beginning
from masgrad.chains.record import Recorder
from masgrad.chains.trace import Summary, Trace
from masgrad.checkpoints.saver import Saver
from masgrad.errors import (
    AccuracyWarning,
    DivergenceWarning,
    InterruptedWarning,
    SingularWarning,
    say,
)
from masgrad.progress import Progress


def finish(begun: Beginning, progress: bool | None, saver: Saver | None) -> Trace | Summary:
    """Run the chains to the last step, and return what was recorded with its ending."""
    groups, recorder, ending, last = begun
    try:
        _drive(groups, recorder, last, progress, saver)
    finally:
        groups.close()
    if saver is not None:
        step = recorder.steps[-1]
        saver.save(snapshot(groups, recorder), place(step, last), finished=step == last)
    if recorder.steps[-1] < last:
        _say_interrupted(recorder.steps[-1], last, saver)
    _report(recorder, groups.floored(), groups.inexact(), recorder.steps[-1])
    states = [jax.tree.map(np.asarray, state) for state in groups.states]
    return recorder.result(groups.floored(), dataclasses.replace(ending, states=states))


def _drive(
    groups: Groups, recorder: Recorder, last: int, progress: bool | None, saver: Saver | None
) -> None:
    """Advance the chains in chunks of records, until the last step or Ctrl-C."""
    thin, first = groups.thin, recorder.steps[-1]
    chunk, before = max(1, 32 // thin), groups.states
    with Progress(last - first, progress) as bar:
        try:
            while recorder.steps[-1] < last:
                before, done = groups.states, recorder.steps[-1]
                count = min(chunk, groups.most_records, (last - done) // thin)
                start = time.perf_counter()
                paths = groups.advance(count)
                took = time.perf_counter() - start
                chunk = _next_chunk(count, took, groups.crew.chunk_seconds)
                recorder.add(done + (1 + np.arange(count)) * thin, paths)
                bar.update(recorder.steps[-1] - first)
                if saver is not None and saver.due():
                    saver.save(snapshot(groups, recorder), place(recorder.steps[-1], last))
        except KeyboardInterrupt:
            # it may have come after the chains were advanced and before that was recorded
            if int(groups.states[0].t) != recorder.steps[-1]:
                groups.states = before


def _say_interrupted(step: int, last: int, saver: Saver | None) -> None:
    again = "mg.resume goes on from there"
    if saver is not None:
        again = f"the same call with resume=True goes on from {saver.path}"
    say(
        InterruptedWarning,
        f"stopped at step {step} of {last}; the result holds what was run, and {again}",
    )


def _next_chunk(count: int, took: float, wanted: float) -> int:
    """The number of records that takes the wanted seconds, at most four times the last chunk."""
    return max(1, min(4 * count, int(count * wanted / max(took, 1e-9))))


def _report(recorder: Recorder, floored: np.ndarray, inexact: np.ndarray, steps: int) -> None:
    """Warn of divergence, singular covariances and inexact proximal maps."""
    if recorder.diverged:
        chain, step = min(recorder.diverged.items(), key=lambda item: item[1])
        say(
            DivergenceWarning,
            f"{len(recorder.diverged)} of {recorder.chains} chains left the finite numbers (chain "
            f"{chain} first, by step {step}); they are not averaged in: see .diverged; use a "
            "smaller step_size",
        )
    if floored.any():
        say(
            SingularWarning,
            f"the covariance was singular at up to {floored.max()} of {steps} steps of a chain and "
            "met a floor: see .floored; drop redundant columns, bring all to one scale, or use "
            "mg.masgrad(..., ridge=)",
        )
    if inexact.any():
        say(
            AccuracyWarning,
            f"the proximal map was not solved to its accuracy at up to {inexact.max()} of {steps} "
            "steps of a chain: V is too ill-conditioned; use a ridge, root='diagonal', or a larger "
            "accuracy=",
        )

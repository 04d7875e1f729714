"""The length of a step: shortened before it is made, and after it has gone too far.

A Newton step minimises a quadratic, and the loss is close to one only nearby. `damping` shortens a
step by the change of the linear predictors. On rows in memory `descend` backtracks until the
objective falls. Over reads a step is on trial (`Trial`): if the loss of all rows did not fall at
its end, one read compares several shares of the step. `diverges` recognises steps without an end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.fitting.objective.local_model import LocalModel, NotConvex, error_change
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import (
    NEGLIGIBLE_STEP,
    SUFFICIENT_DECREASE,
    Estimate,
    NewtonStep,
    Trial,
)
from masgrad.fitting.sources import Sample

HALVINGS = 60
FALLS_STILL = 1e-6
"""Mean gradient, in columns of size 1, along a direction without curvature that is not rounding."""

SHARES = np.array([1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 1e-3, 1e-5])
"""Shares of a step that one read compares, if the whole step went too far."""

HARDLY_SHORTENED = 0.9
"""Share of a step beyond which steps that look alike may be those of separated responses."""

SETTLED_ERRORS = 0.01
"""Relative change of a standard error over the last step that is expected at most."""

MOST_ROWS_SHARE = 0.95
"""Share of the rows whose linear predictors decide over the damping of a step."""


# Before a step.


def damping(objective: Objective, step: np.ndarray, sample: Sample) -> float:
    """log(1 + d) / d for a step that changes most linear predictors by up to d > 1, else 1.

    The curvature of a logistic or Poisson loss changes by at most a factor e^d over such a step
    (generalised self-concordance; Bach 2010). A few outlying predictors may change more; the next
    read shows what that did.
    """
    if not objective.exponential:
        return 1.0
    parts = [np.abs(objective.predictors(step, rows)) for rows in blocks(sample.rows)]
    moved = np.concatenate(parts)
    if not moved.max() > 1:
        return 1.0
    most = int(MOST_ROWS_SHARE * (len(moved) - 1))
    d = max(float(np.partition(moved, most)[most]), _change_of_rare(objective, moved, sample))
    return float(np.log1p(d) / d) if d > 1 else 1.0


def _change_of_rare(objective: Objective, moved: np.ndarray, sample: Sample) -> float:
    """Mean change of the predictors of rows that carry a rare but even column, as a dummy is."""
    columns = objective.column_sizes(sample.rows) if sample.columns is None else sample.columns
    if columns is None or not (even := columns.even).any():
        return 0.0
    total, begin = np.zeros(int(even.sum())), 0
    for rows in blocks(sample.rows):
        end = begin + count_rows(rows)
        total += objective.weighted_squares(moved[begin:end], even, rows)
        begin = end
    return float((total / columns.squares[even]).max())


# On rows in memory.


class Proposal(NamedTuple):
    """A step to `point`, the fall of the objective that it predicts, and whether it is the last."""

    point: np.ndarray
    fall: float = 0.0
    last: bool = False


def descend(
    value: Callable[[np.ndarray], float],
    propose: Callable[[np.ndarray, int], Proposal],
    start: np.ndarray,
    most: int,
) -> tuple[np.ndarray, float]:
    """Proposed steps, each shortened until the value falls, to the last or `most` of them.

    Returns:
        The point, and the fall that the last proposal predicted.
    """
    here, height, fall = start, value(start), 0.0
    for count in range(most):
        proposal = propose(here, count)
        fall = proposal.fall
        if proposal.last:
            return proposal.point, fall
        found = backtrack(value, here, height, proposal)
        if found is None or np.array_equal(found[0], here):
            break
        here, height = found
    return here, fall


def backtrack(
    value: Callable[[np.ndarray], float], here: np.ndarray, height: float, proposal: Proposal
) -> tuple[np.ndarray, float] | None:
    """The longest of the step, its half, ... that falls enough, and the value there, or None."""
    for halving in range(HALVINGS):
        share = 0.5**halving
        there = here + share * (proposal.point - here) if halving else proposal.point
        new = value(there)
        decrease = SUFFICIENT_DECREASE * share * min(proposal.fall, 1e300)
        if new <= height - decrease:
            return there, new
    return None


def descent_step(total: LocalModel) -> np.ndarray:
    """Newton's step, or Fisher scoring's where H has a negative eigenvalue, or one downhill."""
    for model in (total, total.expected()):
        try:
            return model.newton() + _along_null(model)
        except NotConvex:
            continue
    return -total.gradient / np.maximum(np.abs(np.diag(total.hessian)), 1e-300)


def _along_null(model: LocalModel) -> np.ndarray | float:
    """A step of length 1 where H vanishes and the loss still falls: counts with means near 0."""
    if not model.null_directions.size:
        return 0.0
    basis = np.linalg.qr(model.null_directions)[0]
    down = -basis @ (basis.T @ model.gradient)
    length = float(np.linalg.norm(down))
    return down / length if length > FALLS_STILL * model.count else 0.0


# Over reads.


def best_share(falls: np.ndarray) -> float:
    """The share of a step, among `SHARES`, with the largest fall of the loss; 0 if none falls."""
    best = int(np.argmax(falls))
    return float(SHARES[best]) if falls[best] > 0 else 0.0


class Path:
    """The points of one minimisation over reads, and the step that is on trial.

    Args:
        starts: where to begin; later ones serve if an earlier one is no good.
        most: largest number of reads.
        reader: says whether Ctrl-C has ended the reads.
        first: a step to the first of the starts, which is on trial there.
    """

    def __init__(
        self,
        starts: list[np.ndarray],
        most: int,
        reader: Reader,
        first: NewtonStep | None = None,
    ):
        self.starts, self.most, self.reader = starts, most, reader
        self.next, self.reads, self.done = self.next_start(), 0, set()
        self.gradient_reads, self.gradient_next = 0, False
        self.points: list[np.ndarray] = []
        self.steps: list[np.ndarray] = []
        self.step = first  # the last step
        self.earlier: NewtonStep | None = None  # the one before
        self.constants: np.ndarray | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        while self.next is not None:
            phi, self.next = self.next, None
            self.count_read()
            self.points.append(phi)
            yield phi

    def go_to(self, phi: np.ndarray, gradient: bool = False) -> None:
        """Read there next, H and M as well unless it is said that the gradient is enough."""
        self.next, self.gradient_next = phi, gradient
        self.gradient_reads += gradient

    def next_start(self) -> np.ndarray | None:
        return self.starts.pop(0) if self.starts else None

    def count_read(self) -> None:
        self.reads += 1

    @property
    def is_over(self) -> bool:
        """Whether no other read may follow."""
        return self.reads >= self.most or self.reader.monitor.interrupted

    @property
    def last_step(self) -> NewtonStep:
        assert self.step is not None
        return self.step

    @property
    def trial(self) -> Trial:
        return Trial(self.last_step.total, self.last_step.step)

    def accepts(self, end: LocalModel) -> bool:
        """Whether a point may be kept: the first, or one to which the loss fell."""
        return self.step is None or self.trial.is_accepted(end)

    def take(self, step: NewtonStep) -> None:
        """Keep the point that was read, and put the step from there on trial."""
        self.constants = step.parts[0].constants  # without those of a prior
        self.steps.append(step.full_step)
        self.earlier = self.step
        self.put_on_trial(step)

    def put_on_trial(self, step: NewtonStep | None) -> None:
        self.step = step

    @property
    def errors_settle(self) -> bool:
        """Whether this step would change standard errors by little, as the way here did.

        Pilot rows do not show it if the rows on which an error hangs are not among them.
        """
        if self.step is None or self.earlier is None or not self.earlier.total.has_meat:
            return True
        here, before = self.step.total, self.earlier.total
        way = here.moments_point - before.moments_point
        length, before_it = here.wald_norm(self.step.step), here.wald_norm(way)
        share = min(length / max(before_it, NEGLIGIBLE_STEP), 1.0)
        return share * error_change(here, before) < SETTLED_ERRORS

    def first_time(self, what: str) -> bool:
        """Whether this is asked for the first time."""
        first = what not in self.done
        self.done.add(what)
        return first

    def ended(self, end: Estimate) -> Estimate:
        """The estimate, with the reads and points that led to it."""
        return replace(
            end, reads=self.reads, gradient_reads=self.gradient_reads, points=tuple(self.points)
        )


def diverges(steps: Sequence[np.ndarray], share: float = 1.0) -> bool:
    """Whether the last three Newton steps, of the last a share, have one direction and one length.

    Towards an optimum steps shrink. If responses are separated the loss is an exponential, and each
    step adds 1 to the linear predictor. Steps that are shortened are still far from either.
    """
    return (
        len(steps) >= 3
        and share > HARDLY_SHORTENED
        and all(_alike(a, b) for a, b in zip(steps[-3:], steps[-2:], strict=False))
    )


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    lengths = np.linalg.norm(a), np.linalg.norm(b)
    same = b @ a > 0.99 * lengths[0] * lengths[1] and 0.7 < lengths[1] / lengths[0] < 1.4
    return bool(same)

"""The penalised optimum: proximal Newton steps, on kept rows and then over reads of all rows.

    w' = prox_{1,H}(w - H^-1 b(w))

MadProx with H in the place of V, as a correcting read's step is MasGrad's: near the optimum the
square root of the condition number is no longer needed, and each read brings H with it. For least
squares one read is all there is to know. Other losses begin at the optimum of the kept rows, where
steps are shortened until the objective falls.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import total_weight
from masgrad.fitting.begin import begin, level
from masgrad.fitting.estimate import Plan, Sample
from masgrad.fitting.lengths import check_length
from masgrad.fitting.lens import Lens
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.scoring import scoring
from masgrad.fitting.watch import Watch
from masgrad.models.canonical import Gaussian
from masgrad.penalties.minimise import minimise
from masgrad.types import Rows

SETTLED = 1e-12
"""Fall of N times the objective at which rows in memory are done: about half a squared s.e."""

NEAR = 25.0
"""The same for reads, in squares of the tolerance; the step that is still made leaves less."""

STEPS = 100


@dataclass(frozen=True)
class Optimum:
    """A penalised optimum, and the local model of the loss there.

    Args:
        psi: the optimum, as a lens sees it.
        local: G and H there; M is NaN.
        reads: of all rows.
        fall: N times the fall of the objective that the last step promised.
    """

    psi: np.ndarray
    local: Quadratic
    reads: int
    fall: float


def is_quadratic(problem: Problem) -> bool:
    """Whether one local model is the whole loss."""
    return isinstance(problem.family, Gaussian)


def optimum(
    problem: Problem,
    lens: Lens,
    sample: Sample,
    plan: Plan,
    watch: Watch,
    start: np.ndarray | None = None,
    known: Quadratic | None = None,
) -> Optimum:
    """The penalised optimum of all rows.

    Paper: MadProx - theta' = prox(theta - A b) in the metric of A^-1, with A = H^-1

    Args:
        problem: the loss.
        lens: the penalty, and the coordinates it acts in.
        sample: the kept rows.
        plan: how many reads may be made, and how near is near.
        watch: sees the reads.
        start: psi to begin at; for least squares it does not matter.
        known: the sums of least squares, where a path has read them.
    """
    if is_quadratic(problem):
        return _least_squares(problem, lens, sample, watch, known)
    psi = lens.psi(begin(problem, sample.rows)) if start is None else start
    psi, fall = descend(problem, lens, sample.rows, psi)
    if sample.whole:
        return Optimum(psi, _kept(problem, lens.phi(psi), sample, watch), 1, fall)
    return over_reads(problem, lens, psi, plan, watch)


def _least_squares(
    problem: Problem, lens: Lens, sample: Sample, watch: Watch, known: Quadratic | None
) -> Optimum:
    """One read is the whole loss."""
    phi = origin(problem, sample.rows)
    if known is not None:
        local = known
    elif sample.whole:
        local = _kept(problem, phi, sample, watch)
    else:
        local = problem.read(phi, watch, meat=False)
        check_length(problem, local.rows)
    problem.tally = False
    psi, _ = newton(lens, local, lens.psi(phi))
    return Optimum(psi, local.at(lens.phi(psi)), 1, 0.0)


def origin(problem: Problem, rows: Rows) -> np.ndarray:
    """phi at the mean response, where squares are small; 0 without a constant column."""
    start = level(problem, rows)
    return np.zeros(problem.model.dim(rows)) if start is None else start


def _kept(problem: Problem, phi: np.ndarray, sample: Sample, watch: Watch) -> Quadratic:
    """The local model of rows that are all kept."""
    return problem.read_blocks(phi, blocks(sample.rows), watch, parts=(True, False))


def descend(
    problem: Problem, lens: Lens, rows: Rows, psi: np.ndarray, settled: float = SETTLED
) -> tuple[np.ndarray, float]:
    """The penalised optimum of rows in memory, and N times the last step's fall."""
    work, count = scoring(problem), total_weight(rows)

    def objective(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            return _finite(problem.losses(lens.phi(at), rows).sum() / count) + lens.value(at)

    fall = 0.0
    for _ in range(STEPS):
        new, fall = newton(lens, work.quadratic(lens.phi(psi), rows, meat=False), psi)
        if count * fall <= settled:
            return new, count * fall
        there = _shortened(objective, psi, new, fall)
        if there is None:
            break
        psi = there
    return psi, count * fall


def newton(lens: Lens, local: Quadratic, psi: np.ndarray) -> tuple[np.ndarray, float]:
    """The minimum of the local model with the penalty, and how far the objective falls to it."""
    model, level = lens.quadratic(local), lens.level(lens.psi(local.point))
    new = minimise(lens.penalty, model, psi - level)
    fall = model.value(psi - level) + lens.value(psi) - model.value(new) - lens.value(new)
    return new + level, max(fall, 0.0) if np.isfinite(fall) else np.inf


def _shortened(
    objective: Callable[[np.ndarray], float], psi: np.ndarray, new: np.ndarray, fall: float
) -> np.ndarray | None:
    """The longest of the step, its half, ... that brings a share of the fall it promised."""
    value = objective(psi)
    for halving in range(40):
        share = 0.5**halving
        there = psi + share * (new - psi) if halving else new
        if objective(there) <= value - 0.1 * share * min(fall, 1e300) or np.isinf(value):
            return there
    return None


def over_reads(problem: Problem, lens: Lens, psi: np.ndarray, plan: Plan, watch: Watch) -> Optimum:
    """Proximal Newton steps, one for each read of all rows; a step that went too far is halved.

    A read that Ctrl-C cuts short is given up for the one before it.
    """
    work, before, last, known = scoring(problem), psi, np.inf, np.zeros(2)
    most, near, done = plan.most, NEAR * plan.tolerance**2, None
    for reads in range(1, most + 1):
        watch.restart()
        local = work.read(lens.phi(psi), watch, meat=False)
        if done is not None and problem.stop.is_set():
            return done
        check_length(problem, local.rows)
        known = local.constants if work.tally else known
        local, work.tally, problem.tally = replace(local, constants=known), False, False
        value = local.loss / local.count + lens.value(psi)
        if value > last + 1e-12 * abs(last) and reads < most and problem.linear:
            psi = (before + psi) / 2
            continue
        new, fall = newton(lens, local, psi)
        done = Optimum(new, local.at(lens.phi(new)), reads, local.count * fall)
        if done.fall <= near or reads == most or problem.stop.is_set():
            return done
        before, last, psi = psi, value, new
    raise AssertionError("the last read returns")


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else np.inf

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
from masgrad.data.regression import mass
from masgrad.fitting.begin import begin
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

NEAR = 1e-4
"""The same for reads: the step that is still made squares what is left."""

RELATIVE = 1e-7
"""Fall of the objective, as a share of it, that a read may leave."""

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


def optimum(problem: Problem, lens: Lens, sample: Sample, plan: Plan, watch: Watch) -> Optimum:
    """The penalised optimum of all rows.

    Paper: MadProx - theta' = prox(theta - A b) in the metric of A^-1, with A = H^-1
    """
    psi = beginning(problem, lens, sample.rows)
    if sample.whole:
        psi, fall = descend(problem, lens, sample.rows, psi)
        pieces = blocks(sample.rows)
        local = problem.read_blocks(lens.phi(psi), pieces, watch, parts=(True, False))
        return Optimum(psi, local, 1, fall)
    if not is_quadratic(problem):
        psi, _ = descend(problem, lens, sample.rows, psi)
    return over_reads(problem, lens, psi, plan.most, watch)


def beginning(problem: Problem, lens: Lens, rows: Rows) -> np.ndarray:
    """Zero, or where every row has a mean; for least squares it does not matter."""
    if is_quadratic(problem):
        return np.zeros(len(lens.unit))
    return lens.psi(begin(problem, rows))


def descend(problem: Problem, lens: Lens, rows: Rows, psi: np.ndarray) -> tuple[np.ndarray, float]:
    """The penalised optimum of rows in memory, and N times the last step's fall."""
    work, count = scoring(problem), mass(rows)

    def objective(at: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            return _finite(problem.losses(lens.phi(at), rows).sum() / count) + lens.value(at)

    fall = 0.0
    for _ in range(STEPS):
        new, fall = newton(lens, work.quadratic(lens.phi(psi), rows, meat=False), psi)
        if is_quadratic(problem) or count * fall <= SETTLED:
            return new, 0.0 if is_quadratic(problem) else count * fall
        there = _shortened(objective, psi, new, fall)
        if there is None:
            break
        psi = there
    return psi, count * fall


def newton(lens: Lens, local: Quadratic, psi: np.ndarray) -> tuple[np.ndarray, float]:
    """The minimum of the local model with the penalty, and how far the objective falls to it."""
    model = lens.quadratic(local)
    new = minimise(lens.penalty, model, psi)
    fall = model.value(psi) + lens.value(psi) - model.value(new) - lens.value(new)
    return new, max(fall, 0.0) if np.isfinite(fall) else np.inf


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


def over_reads(problem: Problem, lens: Lens, psi: np.ndarray, most: int, watch: Watch) -> Optimum:
    """Proximal Newton steps, one for each read of all rows; a step that went too far is halved."""
    work, before, last, known = scoring(problem), psi, np.inf, np.zeros(2)
    for reads in range(1, most + 1):
        watch.restart()
        local = work.read(lens.phi(psi), watch, meat=False)
        check_length(problem, local.rows)
        known = local.constants if work.tally else known
        local, work.tally, problem.tally = replace(local, constants=known), False, False
        value = local.loss / local.count + lens.value(psi)
        if value > last + 1e-12 * abs(last) and reads < most and problem.linear:
            psi = (before + psi) / 2
            continue
        new, fall = newton(lens, local, psi)
        small = local.count * fall <= NEAR and fall <= RELATIVE * abs(value)
        if is_quadratic(problem) or small or reads == most or problem.stop.is_set():
            exact = 0.0 if is_quadratic(problem) else local.count * fall
            return Optimum(new, local.at(lens.phi(new)), reads, exact)
        before, last, psi = psi, value, new
    raise AssertionError("the last read returns")


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else np.inf

"""One step without the penalty: estimates that it does not bias, with the sandwich.

    theta = w - H(w)^-1 b(w),        cov = H^-1 M H^-1 N / (N - p)

For least squares the step ends at the least-squares estimate, whatever the penalty, and M is taken
there: these are its intervals with HC1. For other losses H and M are those at w, the optimum with a
light penalty (`light.py`). What the step leaves is measured on the kept rows: the gradient that
their quadratic misses.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import total_weight
from masgrad.errors import IdentificationError
from masgrad.fitting.closing import close
from masgrad.fitting.correcting import Corrected
from masgrad.fitting.estimate import Sample
from masgrad.fitting.problem import Problem
from masgrad.fitting.proximal import Optimum, is_quadratic
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.scoring import scoring
from masgrad.fitting.watch import Watch


def debias(
    problem: Problem, found: Optimum, sample: Sample, watch: Watch, flat: np.ndarray | None
) -> Corrected:
    """The step from a penalised optimum, and the local model at its end.

    `flat` are directions of phi along which the loss alone would fall for ever, if any.
    """
    local, squared = found.local, is_quadratic(problem)
    if local.count <= len(local.point):
        raise IdentificationError(f"{local.count:g} rows for {len(local.point)} coefficients")
    if not squared:
        local = _with_meat(problem, local, sample, watch)
    step = local.newton()
    there = local.at(local.point + step)
    if squared:
        there = _with_meat(problem, there, sample, watch)
    elif problem.linear:
        there = _closed(problem, there, watch)
    reads = found.reads + (0 if sample.whole else 1 + (not squared))
    left = 0.0 if squared else _left(problem, local, step, sample)
    return Corrected(there, reads, there.errors(step), left, flat=flat)


def _left(problem: Problem, local: Quadratic, step: np.ndarray, sample: Sample) -> float:
    """What another step would move, in standard errors, root mean square over contrasts."""
    missed = (
        problem.missed(local.point, step, sample.rows) * local.count / total_weight(sample.rows)
    )
    return local.typical(local.solve(missed))


def _with_meat(problem: Problem, local: Quadratic, sample: Sample, watch: Watch) -> Quadratic:
    """The local model with M at its point: one more read, or after Ctrl-C what kept rows say.

    Where steps were made by the expected curvature the observed one is read with it.
    """
    observed = scoring(problem) is not problem
    if problem.stop.is_set():
        seen = problem.quadratic(local.point, sample.rows)
    else:
        watch.restart()  # its gradients are to be those of one point
        problem.tally = False
        parts = observed or problem.informed, True
        if sample.whole:
            seen = problem.read_blocks(local.point, blocks(sample.rows), watch, parts=parts)
        else:
            seen = problem.read(local.point, watch, *parts)
    share = local.count / seen.count
    local = local.with_same_hessian(
        meat=seen.meat * share,
        information=seen.information if problem.informed else None,
        squares=seen.squares * share if is_quadratic(problem) else local.squares,
    )
    return replace(local, hessian=seen.hessian * share) if observed else local


def _closed(problem: Problem, local: Quadratic, watch: Watch) -> Quadratic:
    """The loss at the estimate itself; not after Ctrl-C, nor where it comes meanwhile."""
    if problem.stop.is_set():
        return local
    try:
        return close(problem, local, watch)
    except KeyboardInterrupt:
        problem.stop.set()
        return local

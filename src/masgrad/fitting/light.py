"""Where the step without the penalty starts: at a penalty that is light enough for one step.

One step corrects what the penalty did to first order. What it leaves is of second order in
w - theta, and counts in standard errors: from a heavy penalty nothing is left of the level of an
interval (logistic, N = 20,000, p = 50, lam = 0.4 lam_max: none of 30 coefficients covered).
From no penalty at all the estimate is that of maximum likelihood, which is biased by order p / N.
So the step starts from the penalised optimum at lam or, if that is smaller, at

    lam_0 = min(1, sqrt(10 p / N)) x one standard deviation of the gradient's noise

where both are small. The rule was chosen after seeing coverage: of 0.5, 1 and 1.5 standard
deviations 1 had the least bias at p / N = 0.1, on three logistic designs; the root was then put in
for smaller p / N, and checked on designs that it was not chosen on (the coverage page). Estimates
and intervals do not depend on a lam above lam_0, nor on how it was chosen.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.fitting.estimate import Plan, Sample
from masgrad.fitting.lens import Lens
from masgrad.fitting.problem import Problem
from masgrad.fitting.proximal import Optimum, is_quadratic, optimum
from masgrad.fitting.watch import Watch
from masgrad.penalties.penalty import Scaled
from masgrad.penalties.separable import L1

SHARE = 10.0
"""Parameters for each row, times this, at which lam_0 is one standard deviation."""


def light_start(
    problem: Problem, lens: Lens, found: Optimum, sample: Sample, plan: Plan, watch: Watch
) -> Optimum:
    """The optimum from which one step is made; of least squares any will do."""
    if is_quadratic(problem) or problem.stop.is_set():
        return found
    light = _lighter(problem, lens, found, sample)
    if light is None:
        return found
    again = optimum(problem, light, sample, plan, watch, found.psi)
    more = 0 if sample.whole else found.reads
    constants = again.local.constants + found.local.constants  # of which one is 0
    return replace(again, reads=again.reads + more, local=replace(again.local, constants=constants))


def _lighter(problem: Problem, lens: Lens, found: Optimum, sample: Sample) -> Lens | None:
    """The lens with lam_0; None where lam is no larger. Bounds have no lam, and are dropped."""
    if not isinstance(lens.penalty, Scaled):
        return replace(lens, penalty=L1(0.0))
    lam = lightest(problem, lens, found, sample)
    return None if lens.penalty.lam <= lam else lens.with_lam(lam)


def lightest(problem: Problem, lens: Lens, found: Optimum, sample: Sample) -> float:
    """lam_0, with the gradient's noise as the kept rows tell it."""
    assert isinstance(lens.penalty, Scaled)
    kept, N = problem.quadratic(found.local.point, sample.rows), found.local.count
    n = total_weight(sample.rows)
    variance = np.maximum(np.diag(kept.meat) / n - np.square(kept.gradient / n), 0.0)
    share = min(1.0, np.sqrt(SHARE * len(variance) / N))
    return share * lens.penalty.noise(lens.unit * np.sqrt(variance / N))

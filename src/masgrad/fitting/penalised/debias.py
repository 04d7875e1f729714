"""One step without the penalty: estimates that it does not bias, with the sandwich.

    theta = w - H(w)^-1 b(w),        cov = H^-1 M H^-1 N / (N - p)

For least squares the step ends at the least-squares estimate, whatever the penalty, and M is taken
there: these are its intervals with HC1. For other losses H and M are those at w, the optimum with a
light penalty. What the step leaves is measured on the pilot rows.

One step corrects what the penalty did to first order. What it leaves is of second order in
w - theta, and counts in standard errors: from a heavy penalty an interval keeps nothing of its
level (logistic, N = 20,000, p = 50, lam = 0.4 lam_max: none of 30 coefficients covered). From no
penalty at all the estimate is that of maximum likelihood, which is biased by order p / N. So the
step starts from the penalised optimum at lam or, if that is smaller, at

    lam_0 = min(1, sqrt(10 p / N)) x one standard deviation of the gradient's noise

where both are small. The rule was chosen after seeing coverage: of 0.5, 1 and 1.5 standard
deviations 1 had the least bias at p / N = 0.1, on three logistic designs; the root was then put in
for smaller p / N, and checked on designs that it was not chosen on (the coverage page). Estimates
and intervals do not depend on a lam above lam_0, nor on how it was chosen.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.regression import total_weight
from masgrad.errors import IdentificationError
from masgrad.fitting.identification.rank import Separation
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.proximal_newton import Optimum, is_quadratic, penalised_optimum
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.likelihood import deviance_pass
from masgrad.penalties.penalty import Scaled
from masgrad.penalties.separable import L1

PARAMETERS_PER_ROW = 10.0
"""lam_0 is one standard deviation at p / N = 1 / 10, and above."""


# Where the step starts.


def debias_start(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    space: PenaltyCoordinates,
    found: Optimum,
    options: Options,
) -> Optimum:
    """The optimum with a penalty that is light enough for one step; any will do for squares."""
    if is_quadratic(objective) or reader.monitor.interrupted:
        return found
    light = _lighter(objective, sample, space, found)
    if light is None:
        return found
    constants = found.local_model.constants
    again = penalised_optimum(
        objective, reader, sample, light, options, start=found.psi, constants=constants
    )
    return replace(again, reads=again.reads + (0 if sample.complete else found.reads))


def _lighter(
    objective: Objective, sample: Sample, space: PenaltyCoordinates, found: Optimum
) -> PenaltyCoordinates | None:
    """The penalty with lam_0; None if lam is no larger. Bounds have no lam, and are dropped."""
    if not isinstance(space.penalty, Scaled):
        return replace(space, penalty=L1(0.0))
    lam = lightest_lam(objective, sample, space, found)
    return None if space.penalty.lam <= lam else space.with_lam(lam)


def lightest_lam(
    objective: Objective, sample: Sample, space: PenaltyCoordinates, found: Optimum
) -> float:
    """lam_0, with the noise of the gradient over the pilot rows."""
    assert isinstance(space.penalty, Scaled)
    pilot = objective.local_model(found.local_model.point, sample.rows)
    N, n = found.local_model.count, total_weight(sample.rows)
    variance = np.maximum(np.diag(pilot.meat) / n - np.square(pilot.gradient / n), 0.0)
    share = min(1.0, np.sqrt(PARAMETERS_PER_ROW * len(variance) / N))
    return share * space.penalty.noise(space.unit * np.sqrt(variance / N))


# The step.


def one_step(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    found: Optimum,
    separation: Separation | None,
) -> Estimate:
    """The step from a penalised optimum, and the local model at its end.

    `separation` says along which directions of phi the loss alone would fall for ever, if any.
    """
    local, squared = found.local_model, is_quadratic(objective)
    check_more_rows_than_columns(local)
    if not squared:
        local = _with_meat(objective, reader, sample, local)
    step = local.newton()
    there = local.at(local.point + step)
    if squared:
        there = _with_meat(objective, reader, sample, there)
    elif objective.linear:
        there = _with_deviance(objective, reader, sample, there)
    return Estimate(
        there,
        reads=found.reads + (0 if sample.complete else 1 + (not squared)),
        correction=there.wald_norm(step),
        remainder=0.0 if squared else _remainder(objective, sample, local, step),
        separation=separation,
        one_step=True,
    )


def check_more_rows_than_columns(local: LocalModel) -> None:
    if local.count <= len(local.point):
        raise IdentificationError(f"{local.count:g} rows for {len(local.point)} coefficients")


def _remainder(objective: Objective, sample: Sample, local: LocalModel, step: np.ndarray) -> float:
    """Length of another step, in standard errors, root mean square over contrasts."""
    missed = objective.missed_gradient(local.point, step, sample.rows)
    return local.rms_wald_norm(local.solve(missed * local.count / total_weight(sample.rows)))


def _with_meat(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> LocalModel:
    """The local model with M at its point: from one more read or, after Ctrl-C, the pilot rows.

    If steps were made with the expected curvature, the observed one is read as well.
    """
    observed = objective.scoring() is not objective
    if reader.monitor.interrupted:
        seen = objective.local_model(local.point, sample.rows)
    else:
        reader.restart()  # its gradients are to be those of one point
        parts = Parts(hessian=observed or objective.with_information, meat=True)
        if sample.complete:
            seen = reader.read_sample(objective, local.point, sample, parts)
        else:
            seen = reader.read(objective, local.point, parts)
    share = local.count / seen.count
    local = local.with_same_hessian(
        meat=seen.meat * share,
        information=seen.information if objective.with_information else None,
        squares=seen.squares * share if is_quadratic(objective) else local.squares,
    )
    return replace(local, hessian=seen.hessian * share) if observed else local


def _with_deviance(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> LocalModel:
    """The loss at the estimate itself; not after Ctrl-C."""
    if not reader.monitor.interrupted:
        with reader.interruptible():
            return deviance_pass(objective, reader, sample, local)
    return local

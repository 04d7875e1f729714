"""One step without the penalty: estimates that it does not bias, with the sandwich.

    theta = w - H(w)^-1 b(w),        cov = H^-1 M H^-1 N / (N - p)

For least squares the step ends at the least-squares estimate, whatever the penalty, and M is taken
there, in single precision where that serves (`narrow_meat.py`): these are its intervals with HC1.
For other losses H and M are those at w, the optimum with a light penalty. What the step leaves is
measured on the pilot rows.

The step forgives a w that is near that optimum: if w is off by delta, the estimate changes by the
product of delta and of the step, which is measured on the pilot rows as well. So w is predicted
from the optimum that is known, without a read, and one read there, with H and M, is mostly enough;
what delta changes of these is taken from pilot rows.

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
from masgrad.fitting.optimise.third_order import update_moments
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.optimum.over_reads import Optimum, Reads
from masgrad.fitting.penalised.optimum.proximal_newton import (
    is_quadratic,
    penalised_optimum,
    pilot_optimum,
)
from masgrad.fitting.penalised.optimum.steps import Step, newton_step, predicted_step
from masgrad.fitting.sources import Sample, random_rows
from masgrad.fitting.uncertainty.likelihood import deviance_pass
from masgrad.fitting.uncertainty.narrow_meat import narrow_meat_serves, with_narrow_meat
from masgrad.penalties.penalty import Scaled
from masgrad.penalties.separable import L1
from masgrad.types import Rows

PARAMETERS_PER_ROW = 10.0
"""lam_0 is one standard deviation at p / N = 1 / 10, and above."""

MOMENT_ROWS, MOMENT_ROWS_PER_COLUMN = 4096, 50
"""Pilot rows from which the change of H and M is taken."""

GRADIENT_AND_MEAT = Parts(hessian=False, meat=True)


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
    if sample.complete:
        constants = found.local_model.constants
        return penalised_optimum(
            objective, reader, sample, light, options, start=found.psi, constants=constants
        )
    again = _light_optimum(objective, reader, sample, light, found, options)
    return replace(again, reads=again.reads + found.reads)


def _light_optimum(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    light: PenaltyCoordinates,
    found: Optimum,
    options: Options,
) -> Optimum:
    """The optimum with a light penalty, from one with another; mostly with M there."""
    rows, local = sample.rows, found.local_model
    start = _predicted_start(objective, light, found, rows)
    before = None if start is None else found
    psi = pilot_optimum(objective, light, rows, found.psi) if start is None else start
    if objective.scoring() is not objective:  # H of the steps is not that of the estimate
        return Reads(objective, reader, options, rows, local.constants).optimum(light, psi, before)

    def is_enough(read: LocalModel, step: Step) -> bool:
        """Whether the estimate hardly depends on what is left to the optimum."""
        newton, delta = read.newton(), light.phi(step.psi) - read.point
        missed = (objective.missed_gradient(read.point, s, rows) for s in (newton, newton - delta))
        change = read.solve(np.subtract(*missed) * read.count / total_weight(rows))
        return read.rms_wald_norm(change) <= options.tolerance

    reads = Reads(objective, reader, options, rows, local.constants, meat=True)
    return _with_moments(objective, rows, reads.optimum(light, psi, before, is_enough))


def _predicted_start(
    objective: Objective, light: PenaltyCoordinates, found: Optimum, rows: Rows
) -> np.ndarray | None:
    """The light optimum as the local model of another one and the pilot rows predict it."""
    if not objective.linear:
        return None
    local, scored = found.local_model, objective.scoring()
    step = predicted_step(scored, light, local, newton_step(light, local, found.psi), rows)
    return None if step is None else step.psi


def _with_moments(objective: Objective, rows: Rows, light: Optimum) -> Optimum:
    """The optimum with H and M moved to it from the last read, as a few pilot rows show."""
    local, read = light.local_model, light.last_read
    assert read is not None
    size = max(MOMENT_ROWS, MOMENT_ROWS_PER_COLUMN * len(local.point))
    few = random_rows(rows, size, np.random.default_rng(0))
    moved = update_moments(objective, read, [read], local.point, few)
    return replace(light, local_model=replace(moved, gradient=local.gradient))


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
    pilot = objective.local_model(found.local_model.point, sample.rows, GRADIENT_AND_MEAT)
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
    options: Options,
) -> Estimate:
    """The step from a penalised optimum, and the local model at its end.

    `separation` says along which directions of phi the loss alone would fall for ever, if any.
    """
    local, squared, reads = found.local_model, is_quadratic(objective), 0
    check_more_rows_than_columns(local)
    if not squared and not np.isfinite(local.meat).all():
        local, reads = _with_meat(objective, reader, sample, local), 1
    step = local.newton()
    there = local.at(local.point + step)
    if squared:
        there, reads = _with_meat_of_squares(objective, reader, sample, there, options)
    elif objective.linear:
        there, reads = _with_deviance(objective, reader, sample, there), reads + 1
    return Estimate(
        there,
        reads=found.reads + (0 if sample.complete else reads),
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


def _with_meat_of_squares(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel, options: Options
) -> tuple[LocalModel, int]:
    """The same for least squares, in single precision if that serves; and the reads it took."""
    narrow = with_narrow_meat(objective, local, sample, options)
    if narrow is not None:
        found = _with_meat(narrow, reader, sample, local)
        if reader.monitor.interrupted or narrow_meat_serves(objective, found):
            return found, 1
    return _with_meat(objective, reader, sample, local), 1 + (narrow is not None)


def _with_deviance(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> LocalModel:
    """The loss at the estimate itself; not after Ctrl-C."""
    if not reader.monitor.interrupted:
        with reader.interruptible():
            return deviance_pass(objective, reader, sample, local)
    return local

"""Third-order terms: what a local quadratic model misses a step away, before rows are read there.

Pilot rows show it. The gradient that the model misses on them,

    missed = g(phi + step) - g(phi) - H step,

is missed on the other rows as well, up to the sampling error of the pilot rows. So a step is
followed by -H^-1 missed, and the sampling error of that bounds what remains. In the same way M and
H are moved from where the last step began to the estimate: on pilot rows both are known at either
end, and the difference is added in proportion (a control variate).

Pilot rows represent the others if they have information where the others have, and new rows
represent old ones if their gradients agree as well.

The rows of a prior are gone. It brings terms of third order of its own (`ThirdOrder`); if it has
too many columns for that, new rows show what it misses, as long as they represent its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtri, stdtrit

from masgrad.data.arrays import blocks, count_rows, every_few, is_structured, pick
from masgrad.data.regression import total_weight
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Objective, Parts
from masgrad.fitting.sources import Sample
from masgrad.models.families.canonical import Gaussian
from masgrad.models.gram import ZERO_EIGENVALUE, is_definite, is_semidefinite
from masgrad.types import Rows

GROUPS = 16
"""Groups of pilot rows whose spread gives the sampling error."""

REPRESENTATIVE_SHARE = 0.25
"""Share of the others' information, row by row, that representative rows have in any direction."""

CONFIDENCE = 0.8
"""Confidence of a bound on a remainder: 99 % are below it, since most are of fourth order."""

USUAL_LARGEST = 3.0
"""The largest of 16 squared deviations, over their mean, if tails are not heavy."""

MOMENT_ROWS, FEW_OBSERVATIONS = 1 << 14, 1 << 18
"""Pilot rows on which the change of M and H is measured, unless there are few rows in all."""

MOVING_ROWS = 200
"""New rows, for each parameter, that may move M and H of old ones: residuals of new rows fall along
a step that these rows caused, and a share 2 p / n of M would be lost."""


@dataclass(frozen=True)
class Prediction:
    """What pilot rows predict at the end of a step.

    Args:
        trusted: whether the pilot rows represent the others.
        extra_step: the step that is left there.
        remainder: twice the sampling error of `extra_step`, in standard errors.
        bound: an upper bound on the distance to the optimum, with what the prior may miss.
        parts: local models whose M and H can be moved to the estimate.
    """

    trusted: bool
    extra_step: np.ndarray
    remainder: float
    bound: float
    parts: list[LocalModel]

    def at_end(self, local: LocalModel) -> LocalModel:
        """The model at the end of the extra step, with the gradient that is predicted there."""
        turned = local.hessian @ self.extra_step
        return local.with_same_hessian(gradient=local.gradient - turned)


def predict_remainder(
    objective: Objective,
    parts: list[LocalModel],
    total: LocalModel,
    phi: np.ndarray,
    sample: Sample,
    unlike: bool = False,
) -> Prediction:
    """What the models of these parts (the prior's last, if there is one) miss at phi."""
    read, zero = parts if objective.prior is None else parts[:-1], np.zeros_like(phi)
    same = sample.complete and total is parts[0] and bool(total.hessian.any())  # rows are all rows
    covered = same or _covered(objective, total, sample.rows)
    if unlike or sample.has_rare_columns or not covered:
        size = total.rms_wald_norm(phi - total.point)
        missed = _missed_by_prior(objective, total, phi, sample.rows)
        bound = distance(objective, total, phi - total.point) + missed
        return Prediction(False, zero, size, bound, [])
    groups = 1 if sample.complete else GROUPS  # all rows have no sampling error
    extra, deviations = third_order_step(objective, total, read, phi, sample.rows, groups)
    later = _next_in_series(total, read, phi, extra)
    error = max(2 * sampling_error(total, deviations), later)
    if not np.isfinite(error):  # an exponential overflows there
        return Prediction(False, zero, np.inf, np.inf, [])
    bound = error_bound(objective, total, [deviations]) + later
    if objective.prior is None:
        return Prediction(True, extra, error, bound, read)
    if objective.prior.third is not None:
        more = -total.solve(_missed_by_cubic(objective.prior, total.point, phi))
        return Prediction(True, extra + more, error, bound, parts)
    old, old_deviations = third_order_step(objective, total, [objective.prior], phi, sample.rows)
    bound = error_bound(objective, total, [deviations, old_deviations]) + later
    bound += distance(objective, total, old)  # H of the prior is off as well
    if is_homogeneous(parts[0], objective.prior, sample.design_effect):
        return Prediction(True, extra + old, error, bound, parts)
    return Prediction(True, extra, error, bound, read)


def _covered(objective: Objective, total: LocalModel, rows: Rows) -> bool:
    """Whether pilot rows have information in every direction; some of them may suffice."""
    parts = (_some(rows), rows) if objective.convex else (rows,)
    models = (objective.local_model(total.point, part, Parts(meat=False)) for part in parts)
    return any(information_covers(model, total) for model in models)


def _some(rows: Rows) -> Rows:
    """Some pilot rows; all of them if they are coded or sparse."""
    return rows if is_structured(rows) else pick(lambda a: every_few(a, MOMENT_ROWS), rows)


def _next_in_series(
    total: LocalModel, parts: list[LocalModel], phi: np.ndarray, extra: np.ndarray
) -> float:
    """The term after a step and its extra step, if they continue as a geometric series."""
    step = max((total.rms_wald_norm(phi - part.point) for part in parts), default=0.0)
    more = total.rms_wald_norm(extra)
    return more * more / step if step > 0 else more


def _missed_by_prior(objective: Objective, total: LocalModel, phi: np.ndarray, rows: Rows) -> float:
    """Length of what the prior misses at phi, as far as unrepresentative rows can tell it."""
    if objective.prior is None or objective.prior.third is not None:
        return 0.0
    extra, deviations = third_order_step(objective, total, [objective.prior], phi, rows)
    return distance(objective, total, extra) + error_bound(objective, total, [deviations])


def _missed_by_cubic(prior: LocalModel, begin: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """The gradient of a prior at phi that its quadratic model at `begin` misses."""
    here = prior.at(begin)
    return prior.at(phi).gradient - here.gradient - here.hessian @ (phi - begin)


def third_order_step(
    objective: Objective,
    total: LocalModel,
    parts: list[LocalModel],
    phi: np.ndarray,
    rows: Rows,
    groups: int = GROUPS,
) -> tuple[np.ndarray, np.ndarray]:
    """The step that is left at phi, and its deviations over groups of rows (`error_bound`).

    Args:
        objective: the loss.
        total: the local model of all rows.
        parts: local models of parts of the rows, each at its own point.
        phi: where the gradient is predicted.
        rows: rows that represent the others.
        groups: number of groups; deviations of one group are 0.
    """
    size = max(1, -(-count_rows(rows) // groups))
    missed = np.array([_missed(objective, parts, phi, group) for group in blocks(rows, size)])
    steps = -total.solve(missed.T).T
    mean = steps.mean(0)
    away = steps if len(steps) == 1 < groups else steps - mean
    return mean, away / np.sqrt(len(steps))


def sampling_error(total: LocalModel, deviations: np.ndarray) -> float:
    """Length of a sampling error, in standard errors, root mean square over contrasts."""
    dof = max(len(deviations) - 1, 1)
    return float(np.sqrt(sum(total.rms_wald_norm(d) ** 2 for d in deviations) / dof))


def error_bound(
    objective: Objective,
    total: LocalModel,
    deviations: Sequence[np.ndarray],
    confidence: float = CONFIDENCE,
) -> float:
    """A bound on the length of a sampling error, in standard errors.

    It bounds the root mean square over contrasts, and the largest error of a coefficient. If one
    group of rows has most of the variance, tails are heavy, and the bound is wider.

    Args:
        objective: for theta = J phi.
        total: the local model that gives the standard errors.
        deviations: of independent parts of the error, each (groups, p): their sum of squares over
            groups - 1 is the variance of that part.
        confidence: with which it holds for tails that are not heavy.
    """
    if not any(D.any() for D in deviations):
        return 0.0
    p, dof = len(total.point), sum(max(len(D) - 1, 1) for D in deviations)
    D = np.concatenate([D / np.sqrt(max(len(D) - 1, 1)) for D in deviations])
    squares = np.array([total.rms_wald_norm(d) ** 2 for d in D])
    heavy = squares.max() / (USUAL_LARGEST * squares.mean()) if squares.any() else 1.0
    J, errors = objective.coordinates.matrix, _standard_errors(objective, total)
    shares = np.sqrt(np.square(D @ J.T).sum(0)) / np.where(errors > 0, errors, np.inf)
    each = stdtrit(dof, 1 - (1 - confidence) / (2 * p)) * shares.max()
    over_contrasts = np.sqrt(fdtri(p, dof * p, confidence) * squares.sum())
    return float(max(over_contrasts, each) * np.sqrt(max(heavy, 1.0)))


def distance(objective: Objective, total: LocalModel, step: np.ndarray) -> float:
    """Length of a step in standard errors: of the worst coefficient, or over contrasts."""
    errors = _standard_errors(objective, total)
    each = np.abs(objective.coordinates.theta(step)) / np.where(errors > 0, errors, np.inf)
    return max(float(each.max()), total.rms_wald_norm(step))


def _standard_errors(objective: Objective, total: LocalModel) -> np.ndarray:
    return np.sqrt(np.maximum(np.diag(objective.coordinates.cov(total.sandwich())), 0.0))


def _missed(
    objective: Objective, parts: list[LocalModel], phi: np.ndarray, rows: Rows
) -> np.ndarray:
    """The gradient that the parts' models miss at phi, if all rows are like these."""
    n, total = total_weight(rows), np.zeros_like(phi)
    for part in parts:
        begin = part.moments_point
        missed = objective.missed_gradient(begin, phi - begin, rows)
        if part.moments_at is not None:  # of which the gradient at `point` knows the first part
            missed = missed - objective.missed_gradient(begin, part.point - begin, rows)
        total += missed * (part.count / n)
    return total


def update_moments(
    objective: Objective,
    total: LocalModel,
    parts: list[LocalModel],
    phi: np.ndarray,
    rows: Rows,
) -> LocalModel:
    """The total expanded at phi, with M and H moved there from where its parts were taken."""
    few = rows if total.rows < FEW_OBSERVATIONS else _some(rows)  # steps move many less far
    at, n = total.at(phi), total_weight(few)
    try:
        there = objective.local_model(phi, few)
    except BadBlock:  # an exponential overflows there
        return at
    whole = [part.count for part in parts] == [n] and objective.prior is None  # all rows
    begin, parts = (there, []) if whole else (replace(at, squares=total.squares), parts)
    H, M, squares, loss = begin.hessian.copy(), begin.meat.copy(), begin.squares, begin.loss
    expected = None if begin.information is None else begin.information.copy()
    for part in parts:
        if part is objective.prior and (part.third is not None or n < MOVING_ROWS * len(phi)):
            end, old = part.at(phi), part.at(total.point)
            H, M = H + end.hessian - old.hessian, M + end.meat - old.meat
            squares += end.squares - old.squares
            continue
        here, share = objective.local_model(part.moments_point, few), part.count / n
        H += (there.hessian - here.hessian) * share
        M += (there.meat - here.meat) * share
        squares += part.squares - part.at(total.point).squares  # moved as if it were a loss
        if part.moments_at is not None:
            here = here.with_gradient(objective.local_model(part.point, few, GRADIENT))
        squares += (there.squares - here.squares) * share
        loss += (there.loss - here.at(phi).loss) * share
        if expected is not None and there.information is not None:
            expected += (there.information - here.information) * share
    squares = at.squares if isinstance(objective.family, Gaussian) else squares  # exact there
    moments = {"hessian": H, "meat": M, "information": expected}
    moved = replace(at, squares=squares, loss=loss, moments_at=None, **moments)
    positive = squares >= 0 or not objective.dispersed  # else X^2 is 0, up to rounding
    sound = positive and is_semidefinite(M) and is_semidefinite(H)
    return moved if sound else at


def information_covers(some: LocalModel, all_rows: LocalModel) -> bool:
    """Whether H of some rows is not small in any direction in which H of all rows is not."""
    scale = all_rows.count / some.count
    if all_rows.factor:
        return is_definite(some.hessian * scale - REPRESENTATIVE_SHARE * all_rows.hessian)
    size, values, Q = all_rows.spectrum
    seen = values > ZERO_EIGENVALUE
    whiten = Q[:, seen] / np.sqrt(values[seen]) / size[:, None]
    share = whiten.T @ some.hessian @ whiten * scale
    return bool(seen.any() and np.linalg.eigvalsh(share)[0] > REPRESENTATIVE_SHARE)


def score_statistic(some: LocalModel, design_effect: float = 1.0) -> float:
    """The score test of these rows at their point: excess over p, in standard deviations.

    It is large if rows are ordered or classes are separable.
    """
    p = len(some.point)
    score = some.wald_norm(some.solve(some.gradient)) ** 2 / design_effect
    return float((score - p) / np.sqrt(2.0 * p))


def is_homogeneous(new: LocalModel, prior: LocalModel, design_effect: float = 1.0) -> bool:
    """Whether new rows agree with those of a prior, at the prior's optimum."""
    if not (information_covers(new, prior) and information_covers(prior, new)):
        return False
    here = new.at(prior.point)
    grown = np.sqrt(1 + new.count / prior.count)  # the prior's optimum has an error of its own
    scaled = LocalModel(new.count, here.point, here.gradient / grown, new.hessian, new.meat)
    return score_statistic(scaled, design_effect) < DRIFT_LIMIT

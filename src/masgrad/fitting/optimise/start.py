"""Where a fit begins: the coordinates, and the optimum of a first sample.

A linear predictor with a canonical link and no offset begins at zero, where the loss is convex and
finite. Other links may have no mean at 0, and from an offset of 100 on the scale of a logarithm
Newton's steps lead back by 1 each; so three starts are tried, and the one of lowest risk is taken:
zero; the intercept that gives every row the mean response; and least squares of the link of
responses that are pulled halfway to their mean (the first step of Fisher scoring). A user's own
start is a fourth.

Of a loss that need not be convex a minimum is found from the user's start, from 0, or the lowest of
those from several starts (`nonconvex`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.data.arrays import blocks, count_rows, is_finite, is_structured
from masgrad.data.regression import offset_of, total_weight, weight_of
from masgrad.errors import InputError
from masgrad.fitting.identification.checks import domain_in_words
from masgrad.fitting.identification.rank import FEWEST_ASKED_PER_COLUMN
from masgrad.fitting.objective.coordinates import Coordinates, of_design, of_scale
from masgrad.fitting.objective.local_model import LocalModel, NotConvex
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.optimise.line_search import SHARES, best_share
from masgrad.fitting.optimise.masgrad import SMALL_DECREMENT, optimum_of, pseudo_weights
from masgrad.fitting.optimise.nonconvex.start import lowest_minimum, single_start
from masgrad.fitting.optimise.scoring import scoring_start
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample, first_rows, random_rows
from masgrad.models.families.family import Family
from masgrad.models.glm import GLM
from masgrad.models.gram import is_definite
from masgrad.models.model import Model
from masgrad.types import Rows

START_ROWS = 1024
"""Rows from which coordinates and curvatures are known roughly."""

WARM_UP_ROWS = 8192
"""Rows of the first descent; its end is a good start for more of them."""

FEW_ROWS, ROWS_PER_COLUMN = 1 << 11, 32
"""Rows of a descent before that, if they are so many for each column and the end may be rough."""

WIDE_COLUMNS = 256
"""Columns beyond which a warm-up begins at the mean response with Newton steps, since MasGrad's
take eigenvectors; coded and sparse rows, whose sums cost little beside these, do in any case."""

ROWS_FOR_START = 16
"""Rows for each column from which a first descent on a part of all rows in memory pays."""

ROUGH_DECREMENT = {False: 1e-4, True: 1e-2}
"""Newton decrement, for each column, at which a warm-up ends if rows are read more than once: the
optimum of all rows is some standard errors of the sample away. Of coded and sparse rows (True) all
pilot rows take part, and the first read begins with another Newton step over them."""

SURPRISE = 10.0
"""Standard errors by which the mean loss of all rows exceeds that of the pilot rows if these are
unlike the others."""

OPTIMISM = 1.5
"""The same, in units of what is expected because the point is the optimum of the pilot rows."""


@dataclass(frozen=True)
class Start:
    """The local model at the optimum of a first sample.

    Args:
        local_model: of the sample.
        initial_curvature: largest entry of H where the descent began.
        notes: for the result.
    """

    local_model: LocalModel
    initial_curvature: float = 0.0
    notes: tuple[str, ...] = ()


def coordinates_of(model: Model, rows: Rows, start: Any) -> Coordinates:
    """Coordinates in the units of X for a linear predictor, else of the gradient at the start."""
    if isinstance(model, GLM):
        return of_design(rows[0])
    theta = model.initial_theta(rows) if start is None else model.theta(start, rows)
    few = first_rows(rows, START_ROWS)
    size = np.sqrt(np.square(model.row_gradients(theta, few)).mean(0))
    return of_scale(np.where(np.isfinite(size) & (size > 0), size, 1.0))


def find_start(
    objective: Objective, sample: Sample, most_rows: int, options: Options, rng: np.random.Generator
) -> Start:
    """The optimum of the first rows of a sample, from the user's start or from ours."""
    rows = first_rows(sample.rows, most_rows)
    if objective.prior is not None:
        return Start(objective.local_model(objective.prior.point, rows))
    if not objective.linear:
        return _minimum(objective, sample, rows, options, rng)
    phi = _first_point(objective, rows, options.start)
    p, again = len(phi), objective.linear and sample.remaining is None
    wide, thin = again and p > WIDE_COLUMNS, again and is_structured(rows)
    free = (wide or thin) and options.start is None and not objective.bounded
    level = intercept_start(objective, rows) if free else None
    phi = phi if level is None else level
    if wide and _is_narrow(objective, sample, p):
        return Start(_few_rows_at(objective, rows, phi, rng))
    steps = (0 if level is not None else 8, 40)
    weight = pseudo_weights(objective, sample.rows, sample.columns)
    rough = wide or (objective.convex and sample.remaining is None)
    enough = ROUGH_DECREMENT[thin] * p if rough else SMALL_DECREMENT
    most = count_rows(rows) if thin and level is not None else WARM_UP_ROWS
    first = random_rows(rows, most, rng)
    few, *more = _growing(first, rough and not thin and ROWS_PER_COLUMN * p < FEW_ROWS, rng)
    end, newton = optimum_of(objective, few, phi, weight, enough, steps=steps), (0, steps[1])
    for stage in more:
        end = _on_the_way(objective, stage, phi, end)
        end = optimum_of(objective, stage, end, weight, enough, steps=newton)
    in_memory = sample.complete and objective.convex  # then Newton's reads go on from there
    if first is not rows and (sample.has_rare_columns or objective.bounded or not in_memory):
        end = _on_the_way(objective, rows, phi, end)
    if in_memory:
        return Start(_few_rows_at(objective, rows, end, rng))
    if first is not rows:
        end = optimum_of(objective, rows, end, weight, enough, steps=newton)
    return Start(objective.local_model(end, rows))


def _minimum(
    objective: Objective, sample: Sample, rows: Rows, options: Options, rng: np.random.Generator
) -> Start:
    """A minimum of these rows; the start itself if they have none but others may be read."""
    try:
        return Start(*lowest_minimum(objective, rows, options, rng))
    except NotConvex:
        if sample.complete or sample.remaining is not None or not options.open_ended:
            raise
    return Start(objective.local_model(single_start(objective, rows, options), rows))


def _growing(rows: Rows, few_suffice: bool, rng: np.random.Generator) -> list[Rows]:
    """The rows, after a few of them if those suffice to begin with."""
    few = few_suffice and count_rows(rows) > FEW_ROWS
    return [random_rows(rows, FEW_ROWS, rng), rows] if few else [rows]


def _few_rows_at(
    objective: Objective, rows: Rows, phi: np.ndarray, rng: np.random.Generator
) -> LocalModel:
    return objective.local_model(phi, random_rows(rows, START_ROWS, rng))


def _is_narrow(objective: Objective, sample: Sample, p: int) -> bool:
    """Whether rows are so few for each column that the optimum of some is no start for all rows."""
    rows = count_rows(sample.rows)
    if sample.complete:
        return objective.convex and min(rows, WARM_UP_ROWS) < ROWS_FOR_START * p
    return rows < FEWEST_ASKED_PER_COLUMN * p


def _on_the_way(objective: Objective, rows: Rows, phi: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The lowest point for these rows on the way to the optimum of some of them.

    It is beyond the middle if a convex loss is lower at the end than there.
    """
    step = end - phi
    if objective.convex:
        halfway, whole = objective.falls(phi, np.array([phi + step / 2, end]), rows)
        if whole > halfway:
            return end
    return phi + step * best_share(objective.falls(phi, phi + SHARES[:, None] * step, rows))


def _first_point(objective: Objective, rows: Rows, start: Any) -> np.ndarray:
    """A valid start of a linear predictor; `start` is the user's."""
    model, coordinates = objective.model, objective.coordinates
    own = None if start is None else coordinates.phi(model.theta(start, rows))
    return valid_start(objective, rows, own)


def is_doubtful(objective: Objective, sample: Sample, total: LocalModel, safe: np.ndarray) -> bool:
    """Whether a first point may be a poor one: the losses of all rows exceed those of pilot rows.

    A linear predictor's loss that is not convex may be low on the sample alone, and on a plateau
    steps are of no use.

    Args:
        objective: the loss.
        sample: pilot rows.
        total: the local model of all rows at that point.
        safe: another point, at which the loss is moderate.
    """
    if (objective.linear and not objective.convex) or on_plateau(objective, total):
        return True
    here, there = (_usual_loss(objective, phi, sample.rows) for phi in (total.point, safe))
    mean = total.loss / total.count
    if mean <= min(here, there):
        return False
    return not mean <= min(here + OPTIMISM * _optimism(total, sample.rows), there)  # NaN included


def _optimism(total: LocalModel, rows: Rows) -> float:
    """By how much the rows' mean loss at their own optimum is too low: tr(H^-1 M) / n."""
    if total.factor is None or not np.isfinite(total.meat).all():
        return 0.0
    return float(np.trace(total.solve(total.meat))) / total_weight(rows)


def on_plateau(objective: Objective, total: LocalModel) -> bool:
    """Whether some direction of phi, in which columns have size 1, has next to no information."""
    if not objective.separable:
        return False
    return total.null_directions.shape[1] > 0 or not is_definite(
        total.hessian - np.eye(len(total.point))
    )


def _usual_loss(objective: Objective, phi: np.ndarray, rows: Rows) -> float:
    """The mean loss of the pilot rows, and several times its sampling error."""
    losses, n = objective.losses(phi, rows), total_weight(rows)
    with np.errstate(all="ignore"):
        return (losses.sum() + SURPRISE * losses.std() * np.sqrt(len(losses))) / n


# Linear predictors.


def valid_start(objective: Objective, rows: Rows, own: np.ndarray | None = None) -> np.ndarray:
    """A start at which all fitted means are valid; `own` is the user's."""
    family, p = objective.family, objective.model.dim(rows)
    if family is None:
        return objective.initial_point(rows) if own is None else own
    if family.canonical and own is None and offset_of(rows) is None:
        return np.zeros(p)
    if not (is_finite(rows[0]) and is_finite(rows[1])):
        raise BadBlock(rows)
    with np.errstate(all="ignore"):
        tried = [np.zeros(p), own, intercept_start(objective, rows)]
        mean = mean_response(family, rows)
        tried.append(scoring_start(objective, ((b, 1.0) for b in blocks(rows)), mean))
        tried = [phi for phi in tried if phi is not None and np.isfinite(phi).all()]
        risks = [objective.losses(phi, rows).sum() for phi in tried]
    if np.isfinite(np.min(risks)):
        return tried[int(np.nanargmin(risks))]
    if not objective.bounded:
        raise BadBlock(rows)
    raise InputError(
        f"no start was found at which every row has a mean: the {family.link} link of the "
        f"{family.shown} family needs {domain_in_words(family)}; give start=, use another link, or "
        "add an intercept"
    )


def intercept_start(objective: Objective, rows: Rows) -> np.ndarray | None:
    """The intercept that gives every row the mean response; None without a constant column."""
    family, k = objective.family, objective.coordinates.constant
    if family is None or k is None:
        return None
    offset, phi = offset_of(rows), np.zeros(objective.model.dim(rows))
    middle = 0.0 if offset is None else float(np.median(offset))
    phi[k] = family.predictor(np.float64(mean_response(family, rows))) - middle
    return phi


def mean_response(family: Family, rows: Rows) -> float:
    """The mean response, moved a little inside the range of the mean."""
    y, a = rows[1], weight_of(rows)
    mean = float(np.average(y, weights=a))
    if np.isfinite(family.highest):
        return (mean * len(y) + 0.5) / (len(y) + 1)
    return max(mean, 0.1 / len(y)) if family.lowest == 0 else mean

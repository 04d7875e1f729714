"""Checks of rows, responses and Hessians, made once sums have shown that something is wrong.

Losses with kinks: automatic differentiation of a pinball, hinge or ReLU loss differentiates each
smooth piece and misses what happens as rows cross from one to another (the Hessian of a pinball
loss is 0 to it). So H is compared with differences of the mean gradient one standard error of the
pilot rows either way,

    [b(phi + s) - b(phi - s)] / 2   against   H s,    s along the axes of the covariance,

and an estimate whose bread would be wrong is refused. A smooth loss disagrees by the third order of
its gradient, and so does that of every row: over a quarter of the step a second difference of a
row's gradient is a sixteenth. A row that crosses a kink jumps by as much over any step; over a
quarter of it there are a quarter as many such rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.data.left_out import advice
from masgrad.data.regression import offset_of, total_weight
from masgrad.data.source import Source
from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, BadBlock, Objective, Parts
from masgrad.fitting.objective.row_gradients import row_gradients
from masgrad.fitting.sources import Numbered, Sample
from masgrad.models.families.family import Family
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.types import Rows

LARGEST_RESPONSE = 1e70
"""A response up to this cannot overflow: its fourth power is finite."""

DIFFERENCE_GROUPS = 8
"""Groups of pilot rows whose spread gives the sampling error of a disagreement."""

LEAST_STEP = 1e-9
"""Step, relative to the estimate, over which differences of gradients are rounding errors."""

NEARBY, NEARBY_FALL = (1 / 4, 1 / 16), 4.0
"""Shares of a step at which rows are looked at again, and factor by which the largest second
difference of a row of a smooth loss has fallen at one of them."""

FEWEST_CROSSING = 3.0
"""Rows that would cross a kink over the second share, below which nothing is learned from it."""

ALLOWED_DISAGREEMENT, LARGEST_DISAGREEMENT = 0.05, 0.25
"""Share of a standard error by which H and differences may disagree, besides sampling error; and
that of a loss that is not smooth which is too large whatever the sampling error."""


def explain(model: Model, source: Source, sample: Sample, failed: BadBlock) -> InputError:
    """The error for a block that failed: which value, which column, which row.

    Args:
        model: the loss.
        source: the rows, which are read again from the start if they can be.
        sample: the pilot rows.
        failed: the block that failed.
    """
    bad = failed.rows
    if failed.shard is not None:  # the others need not be read
        source = source.spread.part(source, failed.shard)
    if not source.rereadable:
        found = _first_wrong(model, source, sample.rows, 0)
        if found is None and _first_wrong(model, source, bad, 0) is not None:
            assert isinstance(sample.remaining, Numbered)
            found = _first_wrong(model, source, bad, sample.remaining.begin_of(bad))
        return found or _overflow(model, source, bad)
    row = 0
    for block in source.blocks():
        found = _first_wrong(model, source, block, row)
        if found is not None:
            return found
        row += count_rows(block)
    return _overflow(model, source, bad)


def _first_wrong(model: Model, source: Source, rows: Rows, begin: int) -> InputError | None:
    """The error for the first value that is not finite or not admitted, if there is one."""
    if not isinstance(model, GLM):
        return None
    X, y = rows[0], rows[1]
    wrong = ~np.isfinite(X)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        name = _name(source, column)
        made = "(" in name  # a transform may have no value there
        look = f"look at what {name} is made of there, or " if made else ""
        others = advice(X[row, column], " where a column of the table has none" * made)
        return InputError(
            f"column {name} holds {X[row, column]} at {source.place(begin + row)}; {look}{others}"
        )
    wrong = ~np.isfinite(y)
    if wrong.any():
        row = int(np.argmax(wrong))
        return InputError(
            f"the response holds {y[row]} at {source.place(begin + row)}; {advice(y[row])}"
        )
    try:
        model.family.check(y, lambda row: source.place(begin + row))
    except InputError as error:
        return error
    return None


class OptimumOnBorder(InputError):
    """An optimum that would lie on the border of the link's domain."""


def no_positive_response(name: str | None, family: Family) -> InputError:
    """The error for responses that no mean can approach, since all means are positive."""
    response = "response" if name is None else f"value of the response {name!r}"
    return InputError(
        f"no {response} is above 0, and every mean of the {family.shown} family with the "
        f"{family.link} link is: the fit improves for ever as means fall to 0, and has no optimum; "
        "use link='identity', or change the sign of the response"
    )


def without_minimum(model: Model, error: InputError, advice: str) -> InputError:
    """The error for a fit that ended where H has a negative eigenvalue."""
    if not isinstance(model, GLM) or not np.isfinite(model.family.domain).any():
        return InputError(f"{error}: {advice}")
    return InputError(
        f"{error}, and no minimum was found inside the domain of the link: {_domain(model.family)}"
    )


def optimum_on_border(objective: Objective) -> InputError:
    """The error for an optimum that would lie on the border of the link's domain."""
    assert objective.family is not None
    return _on_border(objective.family)


def _on_border(family: Family) -> InputError:
    return OptimumOnBorder(f"some row has no mean on the way to the optimum: {_domain(family)}")


def _domain(family: Family) -> str:
    return (
        f"the {family.link} link of the {family.shown} family needs {domain_in_words(family)}, and "
        "the optimum may lie on that border (a cell without events?); use another link, or join "
        "categories"
    )


def domain_in_words(family: Family) -> str:
    """The domain of the link, as conditions on x'theta."""
    low, high = family.domain
    ends = ((">", low), ("<", high))
    return " and ".join(f"x'theta {sign} {end:g}" for sign, end in ends if np.isfinite(end))


def _name(source: Source, column: int) -> str:
    return repr(source.names[column]) if source.names else f"{column} of X"


def _overflow(model: Model, source: Source, rows: Rows) -> InputError:
    if isinstance(model, GLM) and np.isfinite(model.family.domain).any():
        return _on_border(model.family)
    said = _largest(source, rows) if isinstance(model, GLM) else ""
    return InputError(
        f"the gradient's moments are not finite, though every value is{said}; rescale the data, or "
        "start nearer to the optimum"
    )


def _largest(source: Source, rows: Rows) -> str:
    """Which column, offset or response is largest, in words."""
    X, y, offset = np.abs(rows[0]).max(0), float(np.abs(rows[1]).max()), offset_of(rows)
    column, known = int(np.argmax(X)), 0.0 if offset is None else float(np.abs(offset).max())
    if y > max(LARGEST_RESPONSE, known, X[column]):
        return f"; the response reaches {y:.3g}"
    if known > X[column]:
        return f"; the offset reaches {known:.3g}"
    return f"; column {_name(source, column)} reaches {X[column]:.3g}"


def check_curvature(local: LocalModel) -> None:
    """Refuse a Hessian of zeros if gradients are not 0: no step could be chosen."""
    size = np.sqrt(np.abs(np.diag(local.meat)) * local.count)
    if (np.abs(local.hessian) <= 1e-14 * np.outer(size, size) / local.count).all():
        raise InputError(
            "the Hessian of the loss by automatic differentiation vanishes everywhere, though its "
            "gradient does not: the loss is linear, or has kinks that autodiff does not see; "
            "smooth it (softplus for relu, Huber, a smoothed pinball)"
        )


def check_kinks(objective: Objective, local: LocalModel, sample: Sample) -> str:
    """Refuse a Hessian that differences of the gradient contradict.

    Returns:
        A note, if the loss is smooth but far from a quadratic within one standard error.
    """
    values, Q = np.linalg.eigh(local.sandwich())
    scale, furthest = np.sqrt(local.count / total_weight(sample.rows)), 0.0
    whole, size = _Difference(objective, local, sample.rows), np.abs(local.point).max()
    for value, axis in zip(values, Q.T, strict=True):
        step = scale * np.sqrt(max(value, 0.0)) * axis
        if value <= 1e-12 * values[-1] or np.abs(step).max() <= LEAST_STEP * (1 + size):
            continue
        share = whole.share(step)
        if share <= ALLOWED_DISAGREEMENT:
            continue
        furthest = max(furthest, share)
        if whole.is_smooth(step):
            continue
        if share > min(ALLOWED_DISAGREEMENT + 4 * _error(whole, step), LARGEST_DISAGREEMENT):
            raise kinked(
                f"differs by {share:.0%} from differences of the gradient one standard error apart"
            )
    if not furthest:
        return ""
    return (
        "The loss is not near a quadratic within one standard error: the change of its gradient "
        f"differs by {'100 % or more' if furthest >= 1 else f'{furthest:.0%}'} from what the "
        "Hessian says, and intervals are rough; use more rows or fewer parameters."
    )


@dataclass(frozen=True)
class _Difference:
    """Differences of the gradient of some rows, against their Hessian at the estimate."""

    objective: Objective
    local: LocalModel
    rows: Rows

    @cached_property
    def hessian(self) -> np.ndarray:
        return self.objective.local_model(self.local.point, self.rows, Parts(meat=False)).hessian

    def missed(self, step: np.ndarray) -> np.ndarray:
        """What H misses of a step, if all rows are like these; infinite where sums overflow."""
        point = self.local.point
        try:
            ends = [
                self.objective.local_model(point + s, self.rows, GRADIENT) for s in (step, -step)
            ]
        except BadBlock:
            return np.full_like(step, np.inf)
        half = (ends[0].gradient - ends[1].gradient) / 2 - self.hessian @ step
        return self.local.solve(half * (self.local.count / ends[0].count))

    def share(self, step: np.ndarray) -> float:
        """The length of what is missed, as a share of the step's."""
        missed = self.missed(step)
        return self.length(missed) / self.length(step) if np.isfinite(missed).all() else np.inf

    def is_smooth(self, step: np.ndarray) -> bool:
        """Whether no row's gradient jumps along the step."""
        sizes = self._second_differences(step, 1.0)
        largest = max(float(sizes.max()), np.finfo(float).tiny)
        for share in NEARBY:
            crossing = share * sizes.sum() / largest
            if share < NEARBY[0] and crossing < FEWEST_CROSSING:
                break
            if self._second_differences(step, share).max() <= largest / NEARBY_FALL:
                return True
        return False

    def _second_differences(self, step: np.ndarray, share: float) -> np.ndarray:
        """|s'[g(phi + h s) - 2 g(phi) + g(phi - h s)]| of every row, h the share."""
        point = self.local.point
        at = (point, point + share * step, point - share * step)
        here, up, down = (row_gradients(self.objective, phi, self.rows) @ step for phi in at)
        return np.abs(up - 2 * here + down)

    def length(self, step: np.ndarray) -> float:
        """(s'Hs)^1/2: gradients may vary in fewer directions than H has."""
        return float(np.sqrt(max(step @ self.local.hessian @ step, 0.0)))


def _error(whole: _Difference, step: np.ndarray) -> float:
    """The sampling error of a disagreement, from groups of the rows."""
    size = max(1, -(-count_rows(whole.rows) // DIFFERENCE_GROUPS))
    groups = [replace(whole, rows=rows) for rows in blocks(whole.rows, size)]
    missed, many = np.array([group.missed(step) for group in groups]), len(groups)
    if many < 2 or not np.isfinite(missed).all():
        return 0.0 if many > 1 else np.inf
    spread = sum(whole.length(m) ** 2 for m in missed - missed.mean(0))
    return float(np.sqrt(spread / many / (many - 1)) / whole.length(step))


def kinked(what: str) -> InputError:
    return InputError(
        f"the loss has kinks: its Hessian by automatic differentiation {what}, and intervals "
        "from it would be wrong; smooth the loss (softplus for relu, Huber, a smoothed pinball)"
    )

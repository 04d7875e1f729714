"""Losses with kinks: is the Hessian by automatic differentiation that of the mean loss?

Autodiff of a pinball, hinge or ReLU loss differentiates each smooth piece and misses what happens
as rows cross from one to another: the Hessian of a pinball loss is 0 to it. So H is compared with
differences of the mean gradient one standard error (of the kept rows) either way,

    [b(phi + s) - b(phi - s)] / 2   against   H s,    s along the axes of the covariance,

and an estimate whose bread would be wrong is refused.
"""

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.errors import InputError
from masgrad.fitting.ahead import GROUPS
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.types import Rows

SHARE = 0.05
"""A disagreement of this share of a standard error is let pass, and four times its own error."""


def check_curvature(local: Quadratic) -> None:
    """Refuse a Hessian of zeros where gradients are none: no step could be chosen."""
    size = np.sqrt(np.abs(np.diag(local.meat)) * local.count)
    if (np.abs(local.hessian) <= 1e-14 * np.outer(size, size) / local.count).all():
        raise InputError(
            "the Hessian of the loss by automatic differentiation vanishes everywhere, though its "
            "gradient does not: the loss is linear, or has kinks that autodiff does not see; "
            "smooth it (softplus for relu, Huber, a smoothed pinball)"
        )


def check_kinks(problem: Problem, local: Quadratic, kept: Rows) -> None:
    """Refuse a Hessian that differences of the gradient contradict."""
    if problem.linear:
        return
    values, Q = np.linalg.eigh(local.sandwich())
    scale = np.sqrt(local.count / count_rows(kept))
    for value, axis in zip(values, Q.T, strict=True):
        if value <= 1e-12 * values[-1]:
            continue
        step = scale * np.sqrt(value) * axis
        share, error = _disagreement(problem, local, step, kept)
        if share > SHARE + 4 * error:
            raise kinked(
                f"differs by {share:.0%} from differences of the gradient one standard error apart"
            )


def _disagreement(
    problem: Problem, local: Quadratic, step: np.ndarray, kept: Rows
) -> tuple[float, float]:
    """What H misses of a step, as a share of it, and the sampling error of that."""
    size = max(1, -(-count_rows(kept) // GROUPS))
    missed = []
    for rows in blocks(kept, size):
        there = problem.missed(local.point, step, rows) - problem.missed(local.point, -step, rows)
        missed.append(local.solve(there / 2 * local.count / count_rows(rows)))
    mean = np.mean(missed, 0)
    whole = local.errors(step)
    spread = sum(local.errors(m - mean) ** 2 for m in missed)
    many = len(missed)
    error = np.sqrt(spread / many / max(many - 1, 1)) / whole if many > 1 else np.inf
    return local.errors(mean) / whole, float(error)


def kinked(what: str) -> InputError:
    return InputError(
        f"the loss has kinks: its Hessian by automatic differentiation {what}, and intervals "
        "from it would be wrong; smooth the loss (softplus for relu, Huber, a smoothed pinball)"
    )

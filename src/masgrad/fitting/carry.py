"""M and H at the estimate, though they were summed where the last step began.

Both change by the step's length, two standard errors say, times the loss's third derivative: 1 % of
the standard errors at N = 70,000 in a trial. On rows that were kept both can be had at either end,
and the difference is added in proportion (a control variate: its own sampling error is a small
share of a small change).
"""

from dataclasses import replace

import numpy as np

from masgrad.data.arrays import pick
from masgrad.data.regression import total_weight
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.models.canonical import Gaussian
from masgrad.types import Rows

ENOUGH = 1 << 14
"""Kept rows on which the change is measured."""


def carry(
    problem: Problem, total: Quadratic, parts: list[Quadratic], phi: np.ndarray, kept: Rows
) -> Quadratic:
    """The total expanded at phi, its M and H moved there from where its parts were taken."""
    few = pick(lambda a: a[:ENOUGH], kept)
    there, n = problem.quadratic(phi, few), total_weight(few)
    at = total.at(phi)
    H, M, squares, loss = total.hessian.copy(), total.meat.copy(), total.squares, at.loss
    expected = None if total.information is None else total.information.copy()
    for part in parts:
        here = problem.quadratic(part.point, few)
        H += (there.hessian - here.hessian) * (part.count / n)
        M += (there.meat - here.meat) * (part.count / n)
        squares += part.squares - part.at(total.point).squares  # moved as if it were a loss
        squares += (there.squares - here.squares) * (part.count / n)
        loss += (there.loss - here.at(phi).loss) * (part.count / n)
        if expected is not None and there.information is not None:
            expected += (there.information - here.information) * (part.count / n)
    squares = at.squares if isinstance(problem.family, Gaussian) else squares  # exact there
    moved = replace(at, hessian=H, meat=M, squares=squares, loss=loss, information=expected)
    sound = min(np.linalg.eigvalsh(M)[0], moved.spectrum[1][0], squares) >= 0
    return moved if sound else at

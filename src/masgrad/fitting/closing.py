"""A last, cheap read: the loss and Pearson's X^2 at the estimate itself.

Both are otherwise moved there with the local model. The likelihoods of families with a dispersion
would suffer: an error of 1e-4 in the dispersion of 200,000 rows is an error of 10 in them.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.regression import weight_of
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.watch import Watch
from masgrad.models.glm import add_offset, squared_residuals


def wanted(problem: Problem, whole: bool, passes: int | str) -> bool:
    """Where the dispersion is not that of least squares, and rows may be read once more."""
    family = problem.family
    if family is None or not family.dispersed or family.canonical or whole:
        return False
    return problem.source.rereadable and problem.prior is None and passes in ("auto", "converge")


def close(problem: Problem, local: Quadratic, watch: Watch) -> Quadratic:
    """The local model with the loss and X^2 of all rows at its point."""
    family = problem.family
    assert family is not None
    loss = squares = 0.0
    parts = problem.every_row()
    assert parts is not None
    for rows in parts:
        a = weight_of(rows)
        t = add_offset(problem.predictors(local.point, rows), rows)
        with np.errstate(all="ignore"):
            value, r = family.local(t, rows[1])[:2]
            pearson = squared_residuals(family, t, r)
        loss += float(value.sum() if a is None else a @ value)
        squares += float(pearson.sum() if a is None else a @ pearson)
        watch.tick(len(t))
    return replace(local, loss=loss, squares=squares)

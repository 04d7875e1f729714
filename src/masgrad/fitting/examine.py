"""Looking for what is wrong with rows, once their sums have shown that something is."""

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.regression import offset_of
from masgrad.data.source import Source
from masgrad.errors import InputError
from masgrad.fitting.problem import Problem
from masgrad.models.glm import GLM
from masgrad.types import Rows

LARGE = 1e70
"""A response up to this is not to blame: its fourth power is a number."""


def explain(problem: Problem, rows: Rows, read: int) -> InputError:
    """The error for a block that failed: which value, which column, which row.

    Args:
        problem: the model and the source, which is read again from the start if it can be.
        rows: the block that failed.
        read: rows read before it, besides the kept ones, where the source is read once.
    """
    if not problem.source.rereadable:
        begin = read + count_rows(problem.kept)
        found = _first_wrong(problem, problem.kept, 0) or _first_wrong(problem, rows, begin)
        return found or _overflow(problem, rows)
    row = 0
    for block in problem.source.blocks():
        found = _first_wrong(problem, block, row)
        if found is not None:
            return found
        row += count_rows(block)
    return _overflow(problem, rows)


def _first_wrong(problem: Problem, rows: Rows, begin: int) -> InputError | None:
    if not isinstance(problem.model, GLM):
        return None
    X, y = rows[0], rows[1]
    source = problem.source
    wrong = ~np.isfinite(X)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        name = _name(source, column)
        made = "(" in name  # by a transform, which may have no value there
        advice = f"look at what {name} is made of there, or " if made else ""
        return InputError(
            f"column {name} holds {X[row, column]} at {source.place(begin + row)}; {advice}"
            "drop or impute missing rows first"
        )
    wrong = ~np.isfinite(y)
    if wrong.any():
        row = int(np.argmax(wrong))
        return InputError(
            f"the response holds {y[row]} at {source.place(begin + row)}; drop or impute "
            "missing rows first"
        )
    try:
        problem.model.family.check(y, lambda row: source.place(begin + row))
    except InputError as error:
        return error
    return None


def outside(problem: Problem) -> InputError:
    """The error for an estimate that would lie on the border of the link's domain."""
    assert problem.family is not None
    family, (low, high) = problem.family, problem.family.domain
    needs = " and ".join(
        f"x'theta {sign} {end:g}" for sign, end in ((">", low), ("<", high)) if np.isfinite(end)
    )
    return InputError(
        f"some row has no mean on the way to the optimum: the {family.link} link of the "
        f"{family.shown} family needs {needs}, and the optimum may lie on that border (a cell "
        "without events?); use another link, or join categories"
    )


def _name(source: Source, column: int) -> str:
    return repr(source.names[column]) if source.names else f"{column} of X"


def _overflow(problem: Problem, rows: Rows) -> InputError:
    if problem.bounded:
        return outside(problem)
    said = _largest(problem.source, rows) if isinstance(problem.model, GLM) else ""
    return InputError(
        f"the gradient's moments are not finite, though every value is{said}; rescale the data, or "
        "start nearer to the optimum"
    )


def _largest(source: Source, rows: Rows) -> str:
    """The column, the offset or the response with the largest value."""
    X, y, offset = np.abs(rows[0]).max(0), float(np.abs(rows[1]).max()), offset_of(rows)
    column, known = int(np.argmax(X)), 0.0 if offset is None else float(np.abs(offset).max())
    if y > max(LARGE, known, X[column]):
        return f"; the response reaches {y:.3g}"
    if known > X[column]:
        return f"; the offset reaches {known:.3g}"
    return f"; column {_name(source, column)} reaches {X[column]:.3g}"

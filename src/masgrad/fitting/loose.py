"""Directions that only a penalty keeps from running away: those of separated responses.

A fit of the same rows without the penalty finds them. Rows of which a part is not separated are not
separated either: a few are asked first, then those that are kept, and all only if these say yes.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.source import Arrays, Source
from masgrad.errors import IdentificationError, InputError, muted
from masgrad.fitting.estimate import Sample
from masgrad.fitting.options import Options
from masgrad.fitting.pipeline import fit_source
from masgrad.fitting.problem import Problem
from masgrad.fitting.result import Result
from masgrad.fitting.start import head

FEW = 4096
"""Rows that are asked first, more where there are many columns."""


def separated_directions(
    problem: Problem, options: Options, sample: Sample, theta: np.ndarray
) -> np.ndarray | None:
    """Directions of phi along which the loss alone falls for ever, (p, k), or None."""
    if not problem.separable:
        return None
    for source, last in _growing(problem, sample, len(theta)):
        plain = _plain(problem, source, options, theta, last)
        if plain is not None and not plain.loose.any():
            return None
        if last:
            assert plain is not None
            return _directions(problem, plain)
    raise AssertionError("the last source returns")


def _growing(problem: Problem, sample: Sample, p: int) -> Iterator[tuple[Source, bool]]:
    """Ever more of the rows, and whether these are all."""
    few, kept = max(FEW, 20 * p), count_rows(sample.rows)
    if 2 * few < kept:
        yield Arrays(head(sample.rows, few)), False
    yield Arrays(sample.rows), sample.whole
    if not sample.whole:
        yield problem.source, True


def _plain(
    problem: Problem, source: Source, options: Options, theta: np.ndarray, last: bool
) -> Result | None:
    """The fit without the penalty, of which nothing is said; None where a part has none."""
    plain = replace(options, penalty=None, start=theta, cov_type="HC0", progress=False)
    try:
        with muted():
            return fit_source(problem.model, source, None, plain)
    except InputError:
        if last:
            raise
        return None


def _directions(problem: Problem, plain: Result) -> np.ndarray | None:
    """Those that are not merely an empty column's."""
    if plain.loose.all():
        raise IdentificationError(
            "the responses are separated, and without the penalty there is no estimate"
        )
    empty, size = np.isnan(plain.theta), np.abs(plain.free).max(0, initial=0.0)
    mixed = np.abs(plain.free[~empty]).max(0, initial=0.0) > 1e-8 * size
    return problem.frame.phi(plain.free[:, mixed]) if mixed.any() else None

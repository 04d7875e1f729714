"""Directions that only a penalty keeps from running away: those of separated responses.

A fit of the same rows without the penalty finds them. The kept rows are asked first; what they say
of a rare column all rows must confirm.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.source import Arrays, Source
from masgrad.errors import IdentificationError, muted
from masgrad.fitting.estimate import Sample
from masgrad.fitting.options import Options
from masgrad.fitting.pipeline import fit_source
from masgrad.fitting.problem import Problem
from masgrad.fitting.result import Result


def separated_directions(
    problem: Problem, options: Options, sample: Sample, theta: np.ndarray
) -> np.ndarray | None:
    """Directions of phi along which the loss alone falls for ever, (p, k), or None."""
    if not problem.separable:
        return None
    plain = _plain(problem, Arrays(sample.rows), options, theta)
    if plain.loose.any() and not sample.whole:
        plain = _plain(problem, problem.source, options, theta)
    empty = np.isnan(plain.theta)
    if plain.loose.all():
        raise IdentificationError(
            "the responses are separated, and without the penalty there is no estimate"
        )
    size = np.abs(plain.free).max(0, initial=0.0)
    mixed = np.abs(plain.free[~empty]).max(0, initial=0.0) > 1e-8 * size
    return problem.frame.phi(plain.free[:, mixed]) if mixed.any() else None


def _plain(problem: Problem, source: Source, options: Options, theta: np.ndarray) -> Result:
    """The fit without the penalty, of which nothing is said."""
    plain = replace(options, penalty=None, start=theta, cov_type="HC0", progress=False)
    with muted():
        return fit_source(problem.model, source, None, plain)

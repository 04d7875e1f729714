"""A fit with a quadratic penalty, and intervals that the penalty does not bias.

The penalised optimum is one estimate, `penalized_params`; it is drawn towards 0, and an interval
around it would be about another target than theta*. So the rows are fitted again without the
penalty, from there: for a quadratic loss that is one step of the full H^-1, whatever lam. Where the
data alone do not identify theta (separated responses, collinear columns, fewer rows than columns)
there is nothing to return to: the intervals are then about the penalised target, and say so.
"""

from dataclasses import replace

import numpy as np

from masgrad.data.formula.terms import Terms
from masgrad.data.source import Source
from masgrad.errors import IdentificationError, InputError, muted
from masgrad.fitting.diagnose import Diagnostic, Diagnostics
from masgrad.fitting.options import Options
from masgrad.fitting.pipeline import fit_source
from masgrad.fitting.result import Result
from masgrad.models.glm import GLM
from masgrad.models.model import Model

PENALISED = "the penalised optimum"


def fit_penalised(model: Model, source: Source, terms: Terms | None, options: Options) -> Result:
    """The penalised estimate, and intervals without it where the data allow them."""
    _check(model, source, options)
    assert options.penalty is not None
    shrunk = fit_source(model, source, terms, options)
    plain = _without(model, source, terms, options, shrunk.theta)
    if plain is None:
        note = (
            "The data alone do not identify theta: estimates and intervals are about the penalised "
            "optimum,\nthe minimiser of mean loss + lam |theta|^2 / 2 over the population."
        )
        notes = (*shrunk.notes, note)
        return replace(
            shrunk,
            penalized=shrunk.theta,
            target=PENALISED,
            notes=notes,
            diagnostics=_not_identified(shrunk.diagnostics),
        )
    how = replace(plain.how, reads=plain.how.reads + shrunk.how.reads)
    note = "Estimates and intervals are without the penalty; with it: result.penalized_params."
    return replace(plain, penalized=shrunk.theta, how=how, notes=(*plain.notes, note))


def _not_identified(found: Diagnostics) -> Diagnostics:
    said = (
        "the data alone do not bound every coefficient, the penalty does: intervals are about the "
        "penalised optimum."
    )
    return Diagnostics(
        Diagnostic(d.name, False, said) if d.name == "separation" else d for d in found
    )


def _without(
    model: Model, source: Source, terms: Terms | None, options: Options, start: np.ndarray
) -> Result | None:
    """The fit without the penalty, or None where theta is not identified by the data alone."""
    try:
        with muted():
            plain = fit_source(model, source, terms, replace(options, penalty=None, start=start))
    except IdentificationError:
        return None
    return None if plain.loose.any() else plain


def _check(model: Model, source: Source, options: Options) -> None:
    if not isinstance(model, GLM):
        raise InputError(
            f"penalty={options.penalty} is for linear predictors, and {type(model).__name__} has "
            "none; add the penalty to the loss"
        )
    check_again(source)
    check_covariance(options)


def check_again(source: Source) -> None:
    if not source.rereadable:
        raise InputError(
            "a penalised fit reads the rows more than once, and an iterator can be read once; give "
            "mg.Stream(function) with a function that starts it anew"
        )


def check_covariance(options: Options) -> None:
    if options.method == "chains":
        raise InputError("method='chains' is not for penalised fits; leave it out")
    if options.cov_type == "HC3":
        raise InputError(
            "a penalised fit has the cov_type 'robust', 'HC0', 'HC1' or 'nonrobust', not 'HC3'"
        )

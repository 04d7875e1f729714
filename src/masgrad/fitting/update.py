"""New rows after old ones: the old rows enter as their local quadratic model.

    minimise   Q_old(phi) + sum over new rows of their loss

Q_old was taken at the old estimate; what it misses at the new one is of third order, and is
measured on the new rows as for any other part.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.regression import with_design
from masgrad.data.source import Arrays, Source
from masgrad.data.table_source import table_source
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.options import options_of
from masgrad.fitting.penalised import PENALISED
from masgrad.fitting.pipeline import fit_source
from masgrad.fitting.prediction import check_offset
from masgrad.fitting.result import Result
from masgrad.fitting.sources import as_source
from masgrad.models.canonical import Gaussian
from masgrad.models.glm import GLM
from masgrad.precision import float64

NOT_PENALISED = (
    "The penalty was not updated: its optimum would move with these rows, and penalized_params are "
    "none; fit all rows together for them."
)

FROM_PENALISED = (
    "H and M of the old rows are those at a penalised estimate, from which theirs was one step: "
    "errors may be several per cent off."
)


@float64
def update(
    result: Result,
    data: Any,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    **options: Any,
) -> Result:
    """The estimate and intervals for old and new rows together."""
    model = result.model
    if model is None:
        raise InputTypeError(
            "this result was loaded without its loss; give mg.load(path, model=...)"
        )
    if result.target == PENALISED:
        raise InputError(
            "this estimate is about the penalised optimum, which other rows would move; fit all "
            "rows together"
        )
    if result.loose.any():
        raise InputError(
            f"{result.labels[int(np.argmax(result.loose))]} has no estimate, so that the old rows "
            "cannot stand as a local model; fit all rows together"
        )
    same = result.cov_type if result.cov_type in ("HC1", "nonrobust") else "robust"
    options.setdefault("cov_type", same)
    try:
        chosen = options_of(**options)
    except TypeError as error:
        raise InputTypeError(str(error).replace("options_of()", "update()")) from None
    other_link = isinstance(model, GLM) and not model.family.canonical
    if chosen.cov_type == "nonrobust" and other_link and result.local.information is None:
        raise InputError(
            "the old rows were fitted without the expected information that cov_type='nonrobust' "
            "needs; fit them again"
        )
    if chosen.cov_type == "HC3" or chosen.method == "chains":
        raise InputError(
            "update keeps no old rows, which HC3 and chains need; use 'robust' or 'HC1'"
        )
    roles = {"weights": weights, "offset": offset, "exposure": exposure}
    if result.terms is not None:
        source = table_source(data, result.terms, chosen.memory, chosen.block, **roles)
    else:
        source, _ = as_source(model, data, None, chosen.memory, chosen.block, **roles)
    check_offset(result, offset, exposure)
    _check_columns(result, source)
    new = fit_source(model, source, result.terms, chosen, result.frame, result.local)
    old = result.how.remainder * np.sqrt(result.nobs / new.nobs)
    notes = new.notes
    if result.cov_type not in (new.cov_type, "HC0"):
        notes = (f"{result.cov_type} needs the old rows: these errors are {new.cov_type}.", *notes)
    if result.penalized is not None:
        notes = (NOT_PENALISED, *notes)
        if isinstance(model, GLM) and not isinstance(model.family, Gaussian):
            notes = (FROM_PENALISED, *notes)
    how = replace(new.how, remainder=new.how.remainder + old)
    return replace(new, how=how, notes=notes)


def _check_columns(result: Result, source: Source) -> None:
    """New rows have the columns of the old ones, in their order."""
    if not isinstance(source, Arrays) or not isinstance(result.model, GLM) or result.terms:
        return
    X = source.rows[0]
    if X.shape[1] != len(result.theta):
        raise InputError(f"X has shape {X.shape}; the old rows had {len(result.theta)} columns")
    if result.names and source.names:
        missing = [name for name in result.names if name not in source.names]
        if missing:
            raise InputError(f"X has no column {missing[0]!r}, which the old rows had")
        X = X[:, [source.names.index(name) for name in result.names]]
        source.rows = with_design(source.rows, X)
        source.names = result.names

"""New rows after old ones: the old rows enter as their local quadratic model.

    minimise   Q_old(phi) + sum over new rows of their loss

Q_old was taken at the old estimate; what it misses at the new one is of third order, and is
measured on the new rows as for any other part.
"""

from typing import Any

from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.door import fit_source, options_of
from masgrad.fitting.result import Result
from masgrad.fitting.sources import as_source, table_source
from masgrad.precision import float64


@float64
def update(result: Result, data: Any, **options: Any) -> Result:
    """The estimate and intervals for old and new rows together."""
    model = result.model
    if model is None:
        raise InputTypeError(
            "this result was loaded without its loss; give mg.load(path, model=...)"
        )
    options.setdefault("cov_type", "robust" if result.df else result.cov_type)
    chosen = options_of(**options)
    if chosen.cov_type == "HC3" or chosen.method == "chains":
        raise InputError(
            "update keeps no old rows, which HC3 and chains need; use 'robust' or 'HC1'"
        )
    if result.terms is not None:
        source = table_source(data, result.terms, chosen.memory, chosen.block)
    else:
        source, _ = as_source(model, data, None, chosen.memory, chosen.block)
    return fit_source(model, source, result.terms, chosen, result.frame, result.local)

"""Single precision where it cannot matter: H and M of the correcting reads.

Their products are the cost of a fit, and take half the time in single precision. Gradients, losses
and with them the estimate stay in double precision; H and M decide over the next step and over the
standard errors. An entry of either has an error of 1e-7 of its scale at most, whatever the rows
(`SinglePrecision`), and a standard error is off by that times the condition numbers of the scaled H
and M. Pilot rows are summed both ways, and their standard errors compared; single precision serves
if these differ by less than `LARGEST_ERROR`, and if H and M of all rows then turn out not to be
much worse conditioned than those of the pilot rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.data.arrays import every_few, is_structured, pick
from masgrad.fitting.objective.local_model import LocalModel, error_change
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.models.gram import SinglePrecision

FEWEST_ROWS = 100_000
"""Rows from which the comparison costs less than it saves."""

COMPARED_ROWS = 1 << 12
"""Pilot rows that are summed both ways."""

LARGEST_ERROR = 1e-5
"""Largest relative difference of pilot rows' standard errors; over more blocks it is smaller."""

WORSE_CONDITION = 3.0
"""Condition number of H or M of all rows, over that of pilot rows, beyond which they are unlike."""

SCALES, LARGEST_SHIFT = (1e-12, 1e12), 32.0
"""Scales of columns, and shifts in units of these, that leave float32 its digits."""

SMALL_SHIFT = 1.0
"""Shifts up to this are left in: they cost no digit."""


@dataclass(frozen=True)
class Narrow:
    """An objective with H and M in single precision, and the pilot rows' condition numbers."""

    objective: Objective
    conditions: tuple[float, float]

    def serves(self, total: LocalModel) -> bool:
        """Whether H and M of all rows are conditioned about as those of the pilot rows are."""
        found = _conditions(total)
        pairs = zip(found or (), self.conditions, strict=False)
        return found is not None and all(a <= WORSE_CONDITION * b for a, b in pairs)


def narrow(
    objective: Objective, sample: Sample, phi: np.ndarray, options: Options
) -> Narrow | None:
    """The objective in single precision; None if that does not serve."""
    if sample.has_rare_columns or is_structured(sample.rows) or not _is_allowed(objective, options):
        return None
    c = objective.coordinates
    size, shift = np.abs(c.scale), np.abs(c.centre / c.scale)  # that of a constant column is 0
    if not ((size > SCALES[0]) & (size < SCALES[1]) & (shift < LARGEST_SHIFT)).all():
        return None
    value = 1.0 if c.constant is None else float(sample.rows[0][0, c.constant])
    constant = c.constant if (shift > SMALL_SHIFT).any() else None
    single = SinglePrecision(c.centre.astype(np.float32), constant, value)
    other, rows = (
        replace(objective, single=single),
        pick(lambda a: every_few(a, COMPARED_ROWS), sample.rows),
    )
    try:
        wide, small = (o.local_model(phi, rows) for o in (objective, other))
    except BadBlock:
        return None
    conditions = _conditions(wide)
    if conditions is None or small.factor is None or not error_change(small, wide) < LARGEST_ERROR:
        return None
    return Narrow(other, conditions)


def _is_allowed(objective: Objective, options: Options) -> bool:
    """Whether nothing asks for double precision: leverages, exact fits, losses without a GLM."""
    asked = options.precision == "double" or options.passes in ("converge", "newton")
    plain = objective.prior is None and not objective.with_information
    within = objective.linear and objective.convex and not objective.coordinates.transforms_rows
    return plain and within and not asked and options.cov_type != "HC3"


def _conditions(local: LocalModel) -> tuple[float, float] | None:
    """Condition numbers of the scaled H and M; None if either is nearly singular."""
    H, M = local.factor, local.meat_factor
    return None if H is None or M is None else (H.condition, M.condition)

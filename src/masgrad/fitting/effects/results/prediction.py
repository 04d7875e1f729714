"""Predictions of a fit with effects, in bounded memory.

A row has the predictor x'beta plus the effects of its levels. Levels that the fit has not kept, and
levels that no chain of rows connects (a firm and a year of different components), have no sum of
effects that the data determine: such rows have NaN, and a warning counts them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masgrad.data.table_source import predictors
from masgrad.errors import InputError
from masgrad.fitting.effects.results.fitted import Effects, EffectsFitted
from masgrad.fitting.results.missing import Missing
from masgrad.fitting.results.prediction import (
    check_offset,
    check_which,
    response_of,
)


def predicted(
    fitted: EffectsFitted, data: Any, which: str, offset: Any, exposure: Any
) -> Iterator[dict[str, np.ndarray]]:
    """Predictions block by block, in a column named `which`."""
    check_which(which)
    check_offset(fitted, offset, exposure)
    assert fitted.terms is not None
    effects, response = fitted.effects, response_of(fitted.model, which)
    source = predictors(fitted.terms, data, offset, exposure, effects.groupings)
    missing = Missing(fitted.names, fitted.terms)
    for X, known, codes in source.blocks():
        t = X @ fitted.finite_theta + sum_of_effects(effects, codes)
        t = t if known is None else t + known
        for direction in reversed(effects.recessions):
            side = direction.sides(X, codes)
            t = np.where(side == 0, t, np.copysign(np.inf, side))
        with np.errstate(invalid="ignore", over="ignore"):
            mean = np.asarray(response.mean(t))

        def reason(row: int, X: Any = X, t: np.ndarray = t, codes: np.ndarray = codes) -> str:
            return _reason(effects, codes[row]) or missing.reason(X[row : row + 1], float(t[row]))

        limit = np.isinf(t) if effects.recessions and which == "linear" else False
        none = missing.seen(~(np.isfinite(mean) | limit), reason)
        yield {which: np.where(none, np.nan, mean)}
    missing.warn(source.place)


def sum_of_effects(effects: Effects, codes: np.ndarray) -> np.ndarray:
    """The sum of the effects of each row's levels, (n,); NaN where the data determine none."""
    total = np.zeros(len(codes))
    for k, values in enumerate(effects.values):
        total += np.append(values, np.nan)[codes[:, k]]
    for k, labels in enumerate(effects.components, 1):
        first, own = (
            np.append(part, -1)[codes[:, j]] for part, j in zip(labels, (0, k), strict=True)
        )
        total[first != own] = np.nan
    return total


def _reason(effects: Effects, codes: np.ndarray) -> str:
    """Why a row with these levels has no sum of effects; "" if it has one."""
    for grouping, values, code in zip(effects.groupings, effects.values, codes, strict=True):
        if code < 0:
            return f"its {grouping.name} is not among the levels of the fit"
        if np.isnan(values[code]):
            return f"its {grouping.name} was left out of the fit, which has no effect of it"
    if np.isnan(sum_of_effects(effects, codes[None])[0]):
        names = " and ".join(grouping.name for grouping in effects.groupings)
        return f"no rows connect its {names}, so that the sum of their effects is not determined"
    return ""


def refuse_interval(interval: float | None) -> None:
    """Refuse an interval: effects have no standard errors."""
    if interval is not None:
        raise InputError(
            "predictions with fixed effects have no interval, for effects have no standard errors; "
            "leave interval= out"
        )

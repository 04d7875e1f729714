"""Predictions of a fit with very many levels, in bounded memory.

A row with the columns z and a level g has the predictor z'b + g, whose variance takes the level's
entries of the sandwich alone. A row of a separated level has the limit of its mean, 0, 1 or
infinity, with the whole range as its interval.
"""

import numpy as np

from masgrad.data.designs.coded import CodedDesign
from masgrad.fitting.levels.fitted import LevelsFitted
from masgrad.fitting.results.laws import quantile
from masgrad.fitting.results.prediction import Response, with_interval


def predicted_columns(
    fitted: LevelsFitted,
    response: Response,
    interval: float | None,
    X: CodedDesign,
    known: np.ndarray | None,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The columns of a block, and its predictors t."""
    t = X.times(fitted.finite_theta)  # NaN where a category is missing
    t = t if known is None else t + known
    Z, codes = fitted.design.split(X)
    sides = fitted.sides.take(codes)
    limit = np.asarray(response.mean(np.where(sides == 0, t, sides * np.inf)))
    if interval is None:
        return (limit,), t
    variances = fitted.sandwich.variances(Z.dense(), codes)
    se = np.where(sides == 0, np.sqrt(np.maximum(variances, 0.0)), np.inf)
    c = quantile((1 + interval) / 2, fitted.df)
    mean, *others = with_interval(response, t, se, c)
    return (np.where(sides == 0, mean, limit), *others), t

"""The mean response at new rows, with intervals by the delta method, in bounded memory.

The linear predictor t = x'theta has the variance x'C x. Its interval t -+ c s is mapped through the
mean, whichever way the link runs, so that limits stay within the mean's range:

    se of the mean = |mean'(t)| s        limits = mean(t - c s), mean(t + c s), in order

Where t -+ c s leaves the link's domain (1/t beyond 0), and where x depends on a direction of theta
that is not identified, the limit is the end of the mean's range: 0, 1 or infinity, never NaN.
A row without a finite t or without a mean has NaN in every column, and a warning. If responses are
separated, a row off the border of the recession directions has the limit of its mean: 0, 1 or
infinity, with the whole range as its interval.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from masgrad.checks import as_number
from masgrad.data.arrays import BLOCK
from masgrad.data.matrices import matrices
from masgrad.data.regression import as_vector, weigh
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.identification.rank import BORDER
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.results.estimates import coefficients
from masgrad.fitting.results.laws import quantile
from masgrad.fitting.results.missing import Missing
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.types import Array, jax_float64

INTERVAL = ("se", "lower", "upper")
"""Columns beside the mean, or the linear predictor, where an interval is asked for."""
WHICH = ("mean", "linear")
"""What is predicted."""

Blocks = Iterator[tuple[np.ndarray, np.ndarray | None]]
"""(X, offset or None) of every block."""


class Response(NamedTuple):
    """A mean as a function of the predictor, and the range that it has."""

    mean: Callable[[Array], Array]
    lowest: float = -np.inf
    highest: float = np.inf


def predict(
    result: Fitted, data: Any, interval: float | None, which: str, offset: Any, exposure: Any
) -> Any:
    """Means (N,), or a data frame with intervals."""
    parts = predicted_blocks(result, data, interval, which, offset, exposure)
    return joined_columns(parts, data, interval, which)


def joined_columns(
    blocks: Iterable[dict[str, np.ndarray]], data: Any, interval: float | None, which: str
) -> Any:
    """The predictions of all blocks: an array, or with an interval a data frame."""
    parts = list(blocks)
    names = (which,) if interval is None else (which, *INTERVAL)
    none = np.empty(0)  # of a table without rows
    columns = {n: np.concatenate([none, *(part[n] for part in parts)]) for n in names}
    if interval is None:
        return columns[which]
    import pandas as pd

    return pd.DataFrame(columns, data.index if isinstance(data, pd.DataFrame) else None)


def predicted_blocks(
    result: Fitted,
    data: Any,
    interval: float | None = None,
    which: str = "mean",
    offset: Any = None,
    exposure: Any = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Predictions block by block: a column named `which`, and with an interval the others."""
    check_asked(data, interval, which)
    response = response_of(result.model, which)
    blocks, place = _rows(result, data, offset, exposure)
    missing = Missing(result.names, result.terms)
    columns = partial(_columns, result, response, interval)
    return each_prediction(blocks, columns, which, missing, place)


def each_prediction(
    blocks: Blocks,
    columns_of: Callable[[Any, np.ndarray | None], tuple[tuple[np.ndarray, ...], np.ndarray]],
    which: str,
    missing: Missing,
    place: Callable[[int], str],
) -> Iterator[dict[str, np.ndarray]]:
    """The columns of every block, with NaN where there is no prediction, of which it warns."""
    for X, known in blocks:
        with np.errstate(invalid="ignore", over="ignore"):
            columns, t = columns_of(X, known)
        none = missing.see(X, t, columns[0])
        names = (which, *INTERVAL)[: len(columns)]
        yield {n: np.where(none, np.nan, a) for n, a in zip(names, columns, strict=True)}
    missing.warn(place)


def check_asked(data: Any, interval: float | None, which: str) -> None:
    """Refuse an interval, a kind of prediction or rows that there are not."""
    check_interval(interval)
    check_which(which)
    if isinstance(data, tuple):
        raise InputTypeError("predict takes X alone, not (X, y)")


def check_interval(interval: float | None) -> None:
    """Refuse a level that is none."""
    if interval is not None and not 0 < as_number("interval", interval) < 1:
        raise InputError(f"interval={interval}; a level between 0 and 1 is needed, such as 0.95")


def check_which(which: str) -> None:
    """Refuse what cannot be predicted."""
    if which not in WHICH:
        raise InputError(f"which={which!r} is not known; use one of {', '.join(WHICH)}")


def _columns(
    result: Fitted,
    response: Response,
    interval: float | None,
    X: np.ndarray,
    known: np.ndarray | None,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The columns of a block, and its predictors t."""
    t, J = _predictor(result, X, interval is not None)
    t = t if known is None else t + known
    sides = _sides(result, X)
    limit = np.asarray(response.mean(np.where(sides == 0, t, sides * np.inf)))
    if J is None or interval is None:
        return (limit,), t
    c = critical_values(result, J, interval)
    mean, *others = with_interval(response, t, standard_errors(result, J), c)
    return (np.where(sides == 0, mean, limit), *others), t


def _rows(
    result: Fitted, data: Any, offset: Any, exposure: Any
) -> tuple[Blocks, Callable[[int], str]]:
    """Blocks of the rows to predict, and how to name a row."""
    check_offset(result, offset, exposure)
    if isinstance(result.model, GLM) and result.terms is not None:
        from masgrad.data.table_source import predictors

        source = predictors(result.terms, data, offset, exposure)
        return source.blocks(), source.place
    known = _known(offset, exposure, data)
    return _beside(_matrices(result, data), known), "row {}".format


def check_offset(result: Any, offset: Any, exposure: Any) -> None:
    """New rows of a fit that had an offset have one too: a column of the table, or an array."""
    terms = result.terms
    columns = terms is not None and (terms.offset is not None or terms.exposure is not None)
    if result.has_offset and not columns and offset is None and exposure is None:
        raise InputError(
            "the fit had an offset or an exposure that was no column of a table: give that of "
            "these rows too, offset=..."
        )


def _matrices(result: Fitted, data: Any) -> Iterator[np.ndarray]:
    if not isinstance(result.model, GLM):
        X = np.asarray(data, np.float64)
        return (X[s : s + BLOCK] for s in range(0, max(len(X), 1), BLOCK))
    return (_checked(result, X) for X in matrices(data, result.names))


def _checked(result: Fitted, X: np.ndarray) -> np.ndarray:
    if X.ndim != 2 or X.shape[1] != len(result.theta):
        raise InputError(f"X has shape {X.shape}; (N, {len(result.theta)}) is needed")
    return X


def _known(offset: Any, exposure: Any, data: Any) -> np.ndarray | None:
    """Offsets of rows in memory, with log(exposure)."""
    rows = data.shape[0] if hasattr(data, "shape") else len(data)
    parts = {"offset": offset, "exposure": exposure}
    given = [None if v is None else as_vector(k, v, rows) for k, v in parts.items()]
    return weigh([None, *given], missing=True).offset


def _beside(blocks: Iterator[np.ndarray], known: np.ndarray | None) -> Blocks:
    row = 0
    for X in blocks:
        yield X, None if known is None else known[row : row + len(X)]
        row += len(X)


def _predictor(result: Fitted, X: np.ndarray, slopes: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """t at every row and, if asked for, its gradient in theta."""
    theta = result.finite_theta
    if isinstance(result.model, GLM):
        return X @ theta, X if slopes else None
    return _nonlinear(result.model.predict, theta, X, slopes)  # pyright: ignore


@jax_float64
def _nonlinear(at: Callable[..., Array], theta: np.ndarray, X: np.ndarray, slopes: bool) -> Any:
    """The same for a model that predicts by `at(theta, x)`."""
    import jax

    t = np.asarray(jax.vmap(at, (None, 0))(theta, X))
    t = np.where(np.isfinite(X).all(1), t, np.nan)  # a unit of -inf is 0, as if it were known
    return t, np.asarray(jax.vmap(jax.grad(at), (None, 0))(theta, X)) if slopes else None


def _sides(result: Fitted, X: np.ndarray) -> np.ndarray:
    """-1, 1 for rows whose predictor goes to that infinity; 0 if it is finite, NaN if unknown.

    The first recession direction that a row is not on the border of decides.
    """
    if not result.recession.size:
        return np.zeros(len(X))
    assert result.model is not None
    U = Objective(result.model, result.coordinates).features((X, X))
    D = result.coordinates.phi(result.recession)
    along = U @ D
    size = np.linalg.norm(U, axis=1, keepdims=True) * np.linalg.norm(D, axis=0)
    off = np.abs(along) > BORDER * size
    first = np.take_along_axis(np.sign(along), off.argmax(1)[:, None], 1)[:, 0]
    unknown = np.where(coefficients(result).depends(X), np.nan, 0.0)
    return np.where(off.any(1), first, unknown)


def standard_errors(result: Fitted, J: np.ndarray) -> np.ndarray:
    """Standard errors of predictors with the derivatives J (n, p), (n,)."""
    found = coefficients(result)
    A, C = found.combine(J)
    unknown = np.isnan(np.diag(C))
    K, known = A[:, ~unknown], C[np.ix_(~unknown, ~unknown)]
    variance = np.einsum("ij,ij->i", K @ known, K)
    variance = np.where((A[:, unknown] != 0).any(1), np.nan, variance)
    return np.where(found.depends(J), np.inf, np.sqrt(np.maximum(variance, 0.0)))


def critical_values(result: Fitted, J: np.ndarray, interval: float) -> Any:
    """Quantiles for predictors with the derivatives J (n, p): one, or (n,) if their df differ."""
    return quantile((1 + interval) / 2, coefficients(result).df_of(J))


def response_of(model: Model | None, which: str) -> Response:
    """What is predicted, as a function of the linear predictor."""
    if which == "linear":
        return Response(lambda t: t)
    match model:
        case GLM(family=family):
            return Response(family.mean, *family.range)
        case other if hasattr(other, "predict"):
            return Response(lambda t: t)
        case None:
            raise InputTypeError(
                "this result was loaded without its loss; give mg.load(path, model=...)"
            )
    raise InputTypeError(
        f"{type(model).__name__} has no mean response to predict; use result.law.push"
    )


def with_interval(
    response: Response, t: np.ndarray, se: np.ndarray, c: Any
) -> tuple[np.ndarray, ...]:
    """Mean, its standard error, and the limits in order."""
    at = np.stack([t, t - c * se, t + c * se])
    (mean, low, high), slopes = _mean_and_slope(response.mean, at)
    rises = slopes[0] >= 0
    lower, upper = np.where(rises, low, high), np.where(rises, high, low)
    # Beyond the edge of a link's domain the mean turns, jumps, or is no number.
    onward = slopes[0] * slopes[1:] >= 0
    sound = np.where(rises, onward, onward[::-1])
    sound[0] &= (response.lowest <= lower) & (lower <= mean)
    sound[1] &= (mean <= upper) & (upper <= response.highest)
    lower = np.where(sound[0], lower, response.lowest)
    upper = np.where(sound[1], upper, response.highest)
    with np.errstate(invalid="ignore"):
        delta = np.where(np.isinf(se), np.inf, np.abs(slopes[0]) * se)
    return mean, delta, lower, upper


@jax_float64
def _mean_and_slope(mean: Callable[[Array], Array], t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and its derivative at every t."""
    import jax
    import jax.numpy as jnp

    # At 0 autodiff takes |t| for flat, which stable forms of a mean are written in.
    near = jnp.asarray(np.where(t == 0, np.finfo(float).tiny, t))
    with np.errstate(all="ignore"):
        return np.asarray(mean(t)), np.asarray(jax.jvp(mean, (near,), (jnp.ones_like(near),))[1])

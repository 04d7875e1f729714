"""center(a) and scale(a): means and standard deviations are learned in one read, then fixed.

What is learned becomes a number of the expression: scale(a) is (a - mean) / deviation from then on,
so that later tables are moved and scaled as the first one was.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from masgrad.data.arrays import BLOCK
from masgrad.data.columns import length_of
from masgrad.data.expressions import LEARNED, Expression, columns_of, evaluate
from masgrad.data.medium import Medium
from masgrad.errors import InputError

Spread = tuple[float, float]
"""Mean and standard deviation."""


def settle(
    expressions: Sequence[Expression], medium: Medium, weight: str | None
) -> list[Expression]:
    """The expressions with numbers where they had center and scale; innermost ones first."""
    settled = list(expressions)
    while pending := list(dict.fromkeys(e for whole in settled for e in _innermost(whole))):
        spreads = dict(zip(pending, _spreads(pending, medium, weight), strict=True))
        settled = [_settle(whole, spreads) for whole in settled]
    return settled


def _innermost(whole: Expression) -> Iterator[Expression]:
    """Arguments of center and scale in which there is neither."""
    if whole[0] in ("column", "number"):
        return
    inner = [e for argument in whole[1:] for e in _innermost(argument)]
    yield from inner
    if whole[0] in LEARNED and not inner:
        yield whole[1]


def _settle(whole: Expression, spreads: dict[Expression, Spread]) -> Expression:
    if whole[0] in ("column", "number"):
        return whole
    if whole[0] not in LEARNED or whole[1] not in spreads:
        return (whole[0], *(_settle(argument, spreads) for argument in whole[1:]))
    mean, deviation = spreads[whole[1]]
    centred = ("-", whole[1], ("number", mean))
    return centred if whole[0] == "center" else ("/", centred, ("number", deviation))


def _spreads(pending: list[Expression], medium: Medium, weight: str | None) -> list[Spread]:
    """Mean and deviation of each, by merging those of blocks."""
    if not medium.again:
        raise InputError("center() and scale() need a read of their own; an iterator has only one")
    columns = tuple(dict.fromkeys(c for e in pending for c in columns_of(e)))
    needed = columns if weight is None else tuple(dict.fromkeys((*columns, weight)))
    total, mean, squares = 0.0, np.zeros(len(pending)), np.zeros(len(pending))
    row = 0
    for block in medium.blocks(None, BLOCK, needed, {}):
        w = np.ones(length_of(block)) if weight is None else np.asarray(block[weight], float)
        values = np.stack([np.broadcast_to(evaluate(e, block), len(w)) for e in pending])
        _check(np.isfinite(values).all(0) | (w == 0), columns, medium, row)
        row += len(w)
        w, values = w[w > 0], values[:, w > 0].astype(np.float64)
        if not len(w):
            continue
        here = values @ w / w.sum()
        step, merged = here - mean, total + w.sum()
        squares += ((values - here[:, None]) ** 2) @ w + step**2 * total * w.sum() / merged
        mean, total = mean + step * w.sum() / merged, merged
    if not squares.all():
        name = next(columns_of(pending[int(np.argmin(squares))]))
        raise InputError(f"scale() or center() of column {name!r}: it is constant; leave it out")
    deviations = np.sqrt(squares / (total - 1))
    return list(zip(mean.tolist(), deviations.tolist(), strict=True))


def _check(good: np.ndarray, columns: Sequence[str], medium: Medium, row: int) -> None:
    if not good.all():
        place = medium.place(row + int(np.argmin(good)))
        said = ", ".join(map(repr, columns))
        raise InputError(
            f"center() or scale() of {said} has no value at {place}; drop or impute missing rows "
            "first"
        )

"""Rows of a regression that carry more than (X, y): a frequency, a known part of the predictor,
and the codes of the groups that they belong to.

A row of weight 2 counts as two rows, a row of weight 0 as none: `weigh` leaves it out before
anything else looks at it. The linear predictor is x'theta + offset, where log(exposure) is a part
of the offset. Rows of other losses carry frequencies alone (`Weighted`).
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.arrays import count_rows, powers
from masgrad.data.designs.structured import Structured
from masgrad.data.left_out import with_nan
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows, is_from

ROLES: tuple[str, ...] = ("weights", "offset", "exposure")

Place = Callable[[int], str]
"""Maps a row's number to its name in messages."""


MOST_COUNTED = 1 << 10
"""Whole numbers below which responses are counted."""

FOLDED_ROWS = 64
"""Rows laid side by side when the largest entries of columns are found."""

MANY_ROWS = 50
"""Effective number of rows that must carry a column for a sample to represent it."""

RARE_COLUMN_ROWS = 8
"""Effective number of rows that must carry a rare column for it to shorten steps."""

EVEN = 1.5
"""Largest entry of an even column, over the mean of its entries with weights u^2."""


class Regression(NamedTuple):
    """X (n, p), y (n,), frequencies and offsets, each (n,) or None, and codes (n, k) or None."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    groups: np.ndarray | None = None


class Weighted(NamedTuple):
    """Rows of any pytree, their frequencies, (n,) or None, and codes of groups, (n, k) or None."""

    rows: Rows
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None


def weight_of(rows: Rows) -> np.ndarray | None:
    """The frequency weights of the rows, or None."""
    return rows.weight if isinstance(rows, Regression | Weighted) else None


def observations(rows: Rows) -> Rows:
    """The rows as a loss sees them, without what they carry."""
    if isinstance(rows, Regression):
        return rows.X, rows.y
    return rows.rows if isinstance(rows, Weighted) else rows


def groups_of(rows: Rows) -> np.ndarray | None:
    """The codes of the groups that the rows belong to, (n, k), a column a grouping; or None."""
    return rows.groups if isinstance(rows, Regression | Weighted) else None


def offset_of(rows: Rows) -> np.ndarray | None:
    """The offsets of the rows' linear predictors, or None."""
    return rows.offset if isinstance(rows, Regression) else None


def with_design(rows: Rows, X: np.ndarray) -> Rows:
    """The same rows with another X."""
    return rows._replace(X=X) if isinstance(rows, Regression) else (X, rows[1])


def design_effect(rows: Rows) -> float:
    """The design effect: the variance of a weighted sum over that of unweighted rows."""
    weight = weight_of(rows)
    return 1.0 if weight is None else float(weight @ weight / weight.sum())


def total_weight(rows: Rows) -> float:
    """The sum of the frequencies: the number of observations that the rows represent."""
    weight = weight_of(rows)
    return count_rows(rows) if weight is None else float(weight.sum())


def distinct(rows: Rows) -> tuple[np.ndarray, np.ndarray | None]:
    """Responses and their weights; of small whole numbers each once, with the weight of its rows.

    A logarithm of the gamma function for every row would take as long as its gradient.
    """
    y, weight = rows[1], weight_of(rows)
    if not (float(y[0]).is_integer() and 0 <= y.min() <= y.max() < MOST_COUNTED):
        return y, weight
    whole = y.astype(np.intp)
    if not np.array_equal(whole, y):
        return y, weight
    counts = np.bincount(whole, weight).astype(np.float64)
    seen = np.flatnonzero(counts)
    return seen.astype(np.float64), counts[seen]


def as_vector(
    role: str, given: Any, rows: int, index: Any = None, missing: bool = False
) -> np.ndarray:
    """Weights, offset or exposure as one number per row; a Series must have the data's index.

    With `missing` a number may be missing in whatever way: it is NaN then.
    """
    if isinstance(given, str):
        raise InputTypeError(
            f"{role}={given!r} names a column, and the data have no names; give an array, or a "
            "formula and a table"
        )
    series = is_from("pandas", given, "Series")
    if series and index is not None and not given.index.equals(index):
        raise InputError(
            f"{role} and the data have different indexes; align them: .loc[data.index]"
        )
    try:
        values = np.asarray(with_nan(given) if missing else given, np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{role} are not numbers: {error}") from None
    if values.shape != (rows,):
        raise InputError(f"{role} has shape {values.shape}; ({rows},) is needed, one for each row")
    return values


class Weighed(NamedTuple):
    """The rows' weights and offsets, and the index of rows with positive weight, None if all."""

    kept: np.ndarray | None
    weight: np.ndarray | None
    offset: np.ndarray | None


def weigh(
    carried: Iterable[np.ndarray | None],
    place: Place = lambda row: f"row {row}",
    labels: tuple[str, ...] = ROLES,
    missing: bool = False,
) -> Weighed:
    """Check and combine weights and offset + log(exposure), dropping rows of weight 0.

    Args:
        carried: weights, offset, exposure.
        place: the name of a row in messages.
        labels: the names of the three in messages.
        missing: whether an offset or an exposure may be missing or infinite; it is NaN then.
    """
    weight, offset, exposure = carried
    kept = None
    if weight is not None:
        need = "a weight is 0 or more, and 0 leaves a row out"
        good = (weight >= 0) & np.isfinite(weight)
        weight = _check(labels[0], weight, good, place, need)
        if not weight.all():
            kept = np.flatnonzero(weight)
            weight, offset, exposure = (only(a, kept) for a in (weight, offset, exposure))
    at = place if kept is None else lambda row: place(int(kept[row]))
    if offset is not None:
        offset = _known(offset, missing)
        good = np.isfinite(offset) | missing
        offset = _check(labels[1], offset, good, at, "a number is needed")
    if exposure is not None:
        exposure = _known(exposure, missing)
        good = ((exposure > 0) & np.isfinite(exposure)) | (missing & np.isnan(exposure))
        exposure = _check(labels[2], exposure, good, at, "an exposure is more than 0")
        offset = np.log(exposure) + (0.0 if offset is None else offset)
    return Weighed(kept, weight, offset)


def _known(values: np.ndarray, missing: bool) -> np.ndarray:
    """The values, with NaN for the infinite ones if values may be missing."""
    return np.where(np.isinf(values), np.nan, values) if missing else values


def only(a: Any, kept: np.ndarray | None) -> Any:
    """The kept rows of an array; all of them if `kept` is None."""
    return a if a is None or kept is None else a[kept]


def _check(label: str, values: np.ndarray, good: np.ndarray, place: Place, need: str) -> np.ndarray:
    if not good.all():
        row = int(np.argmin(good))
        drop = "; drop such rows, or missing='drop'" if np.isnan(values[row]) else ""
        raise InputError(f"{label} holds {values[row]:g} at {place(row)}; {need}{drop}")
    return np.array(values, np.float64)


def beside(
    X: Any,
    y: np.ndarray,
    weight: np.ndarray | None,
    offset: np.ndarray | None,
    groups: np.ndarray | None = None,
) -> Rows:
    """(X, y) if rows carry nothing else, otherwise a `Regression`."""
    bare = weight is None and offset is None and groups is None
    return (X, y) if bare else Regression(X, y, weight, offset, groups)


def with_groups(rows: Rows, weight: np.ndarray | None, groups: np.ndarray | None) -> Rows:
    """Rows of any loss with what they carry."""
    return rows if weight is None and groups is None else Weighted(rows, weight, groups)


def given(role: str) -> str:
    """The column name of weights, offset or exposure given as an array."""
    return f"\0{role} given"


def shown(name: str) -> str:
    """The name of a column in messages and summaries; that of an array is its keyword."""
    return name[1:].removesuffix(" given") if name.startswith("\0") else name


def label(name: str | None) -> str:
    """The name of a column of weights, offset or exposure in messages."""
    if name is None:
        return ""
    return shown(name) if name.startswith("\0") else f"column {name!r}"


# Columns that a few rows carry.


class ColumnSizes(NamedTuple):
    """Sums of powers of a design's entries u over rows, (p,) each: do a few rows carry a column?

    The effective number of rows that carry it is (sum of u^2)^2 / sum of u^4, for a dummy the
    number of its ones.

    Args:
        rows: their number.
        largest: largest |u|; of coded and sparse rows an upper bound.
        squares: sum of u^2.
        cubes: sum of |u|^3.
        fourths: sum of u^4.
    """

    rows: int
    largest: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray
    fourths: np.ndarray

    @property
    def are_represented(self) -> bool:
        """Whether many of these rows, rather than a few, carry each column."""
        carried = self.squares**2 / np.maximum(self.fourths, 1e-300)
        return bool(carried.min() >= min(MANY_ROWS, 0.1 * self.rows))

    @property
    def even(self) -> np.ndarray:
        """Mask of the even columns, as dummies are, that are not one outlier."""
        even = self.largest * self.squares < EVEN * self.cubes
        return even & (self.squares**2 > RARE_COLUMN_ROWS * self.fourths)


def column_sizes(parts: Iterable[Any]) -> ColumnSizes:
    """The sizes of columns that come block by block, each (n, p) or `Structured`."""
    sizes = [_of_block(U) for U in parts]
    rows, largest, *sums = zip(*sizes, strict=True)
    return ColumnSizes(sum(rows), np.max(largest, axis=0), *(np.sum(s, axis=0) for s in sums))


def _of_block(U: Any) -> ColumnSizes:
    if isinstance(U, Structured):
        sums = (powers(U, k).sum(0) for k in (2, 3, 4))
        return ColumnSizes(len(U), U.largest(np.ones(len(U))), *sums)
    low, high = column_range(U)
    squares = U * U
    cubes, fourths = (np.einsum("ij,ij->j", squares, a) for a in (np.abs(U), squares))
    return ColumnSizes(len(U), np.maximum(high, -low), np.ones(len(U)) @ squares, cubes, fourths)


def column_range(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entry of each column, (p,) each.

    Rows are folded side by side first: NumPy is three times as fast along long rows.
    """
    Z = np.asarray(Z)
    n, p = Z.shape
    whole = n // FOLDED_ROWS * FOLDED_ROWS if Z.flags.c_contiguous else 0
    tall = Z[whole:]
    if not whole:
        return tall.min(0), tall.max(0)
    wide = Z[:whole].reshape(FOLDED_ROWS, -1)
    low, high = wide.min(0).reshape(-1, p).min(0), wide.max(0).reshape(-1, p).max(0)
    if not len(tall):
        return low, high
    return np.minimum(low, tall.min(0)), np.maximum(high, tall.max(0))

"""Rows without a prediction: how many there are, and why the first has none."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.arrays import leaves
from masgrad.errors import MissingWarning, say
from masgrad.types import Rows

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms


class Missing:
    """The number of rows without a prediction, counted block by block, and the first reason.

    Args:
        names: of the columns of X, or ().
        terms: of the formula, if there was one.
    """

    def __init__(self, names: Sequence[str], terms: "Terms | None"):
        self.names, self.terms = names, terms
        self.rows = self.count = self.first = 0
        self.why = ""

    def see(self, X: Any, t: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Count a block: its rows, predictors and means; a mask of rows without a prediction."""
        none = ~np.isfinite(t) | np.isnan(means)
        return self.seen(none, lambda row: self.reason(X[row : row + 1], float(t[row])))

    def see_rows(self, rows: Rows, none: np.ndarray) -> np.ndarray:
        """The same for rows of any pytree, of which some (`none`) have no prediction."""
        named = rows.items() if isinstance(rows, dict) else [(None, rows)]
        wrong = [(name, _not_finite(a)) for name, part in named for a in leaves(part)]
        none = np.logical_or.reduce([none, *(mask for _, mask in wrong)])

        def reason(row: int) -> str:
            names = [name for name, mask in wrong if mask[row]]
            if not names:
                return "its prediction is not finite"
            return "a value of it is not finite" if names[0] is None else f"{names[0]!r} is missing"

        return self.seen(none, reason)

    def seen(self, none: np.ndarray, reason: Callable[[int], str]) -> np.ndarray:
        """Count a block of which some rows have no prediction, for a reason by row."""
        if none.any():
            row = int(np.argmax(none))
            if not self.count:
                self.first, self.why = self.rows + row, reason(row)
            self.count += int(none.sum())
        self.rows += len(none)
        return none

    def reason(self, X: Any, t: float) -> str:
        """Why a row, (1, p), with the predictor t has no prediction."""
        x = np.asarray(X)[0]
        wrong = np.flatnonzero(~np.isfinite(x))
        if not len(wrong) and np.isnan(t):
            return "its offset or exposure has no finite value"
        if not len(wrong):
            return f"its linear predictor {t:g} has no mean"
        j = int(wrong[0])
        if columns := self.terms and self.terms.behind(j):
            return f"its column {' or '.join(map(repr, columns))} has no value"
        name = f"column {self.names[j]!r}" if self.names else f"column {j} of X"
        return f"its {name} is {x[j]:g}"

    def warn(self, place: Callable[[int], str]) -> None:
        """Warn if there were any; `place` names a row."""
        if self.count:
            have = "has" if self.count == 1 else "have"
            say(
                MissingWarning,
                f"{self.count:,} of {self.rows:,} rows {have} no prediction (NaN), the first "
                f"{place(self.first)}: {self.why}; drop or impute such rows to be rid of them",
            )


def _not_finite(a: np.ndarray) -> np.ndarray:
    """Mask of the rows of an array with a value that is not finite."""
    return np.asarray(~np.isfinite(a.reshape(len(a), -1)).all(1))

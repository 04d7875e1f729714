"""Rows for which there is no prediction: counted while blocks go by, and said once."""

from collections.abc import Callable, Sequence

import numpy as np

from masgrad.errors import MissingWarning, say


class Missing:
    """How many rows have no prediction, and why the first of them has none.

    Args:
        names: of the columns of X, or ().
    """

    def __init__(self, names: Sequence[str] = ()):
        self.names = names
        self.rows = self.count = self.first = 0
        self.why = ""

    def see(self, X: np.ndarray, t: np.ndarray, none: np.ndarray) -> None:
        """A block's rows, their predictors, and which of them have no prediction."""
        if none.any():
            row = int(np.argmax(none))
            if not self.count:
                self.first, self.why = self.rows + row, self._reason(X[row], float(t[row]))
            self.count += int(none.sum())
        self.rows += len(none)

    def _reason(self, x: np.ndarray, t: float) -> str:
        wrong = np.flatnonzero(~np.isfinite(x))
        if not len(wrong):
            return f"its linear predictor {t:g} has no mean"
        j = int(wrong[0])
        name = f"column {self.names[j]!r}" if self.names else f"column {j} of X"
        return f"its {name} is {x[j]:g}"

    def warn(self, place: Callable[[int], str]) -> None:
        """Say so, if there were any; `place` names a row."""
        if self.count:
            have = "has" if self.count == 1 else "have"
            say(
                MissingWarning,
                f"{self.count:,} of {self.rows:,} rows {have} no prediction (NaN), the first "
                f"{place(self.first)}: {self.why}; drop or impute such rows to be rid of them",
            )

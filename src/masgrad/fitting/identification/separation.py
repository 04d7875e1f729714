"""Separated rows: found when a path seems to have no end, and left out of the fit.

The search and its certificates are in `recession.py`. Of a separated fit

- a coefficient is finite exactly if its unit vector lies in the row space of the rows that are not
  separated, and is that of the fit without the others;
- its limit is infinite, of the sign that all recession directions give it, exactly if that unit
  vector, with the sign, is a sum of s_i x_i with weights >= 0 (Farkas), up to that row space.
  Otherwise its limit has no sign, and it is NaN.
"""

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.source import Source
from masgrad.data.views import View
from masgrad.fitting.identification.rank import (
    SMALL_NULL_LOADING,
    Separation,
    moved_along,
    sides,
)
from masgrad.fitting.identification.recession import Search, undecided
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.fitting.sources import Sample
from masgrad.types import Rows

SIGN_ROWS = 2000
"""Separated rows nearest to the border, from which the signs of limits are derived."""

LARGEST_SIGNED = 50
"""Dimension of the null space up to which signs are derived: the time grows with its cube."""

SAME_DIGITS = 12
"""Decimals to which rows of length 1 agree that count once."""

LARGEST_RESIDUAL = 1e-9
"""Share of a unit vector that a sum with weights >= 0 may miss."""


def find_separation(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel
) -> Separation:
    """Whether the rows are separated, an optimum exists, or neither is known.

    Args:
        objective: the loss.
        reader: for all rows; a few extra reads of them are made.
        sample: pilot rows.
        local: the local model of all rows at some point, such as the last of a Newton path.
    """
    if reader.every_row(sample) is None or reader.monitor.interrupted:
        return undecided(local)
    with reader.interruptible():
        return Search(objective, reader, sample, local).decide()
    return undecided(local)


class NotSeparated(View):
    """The rows of a source that are on the border of recession directions.

    Args:
        source: all rows.
        objective: for the design in phi.
        separation: the directions.
    """

    def __init__(self, source: Source, objective: Objective, separation: Separation):
        super().__init__(source)
        self.objective, self.separation, self.count = objective, separation, separation.rows

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return self._of_each(self.source.blocks(rng))

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        return self._of_each(self.source.first_blocks(rng))

    def _of_each(self, blocks: Generator[Rows]) -> Generator[Rows]:
        for rows in blocks:
            kept = self.of(rows)
            if count_rows(kept):
                yield kept

    def of(self, rows: Rows) -> Rows:
        """Those of these rows that are on the border."""
        mask = self.separation.on_border(self.objective.features(rows))
        return pick(lambda a: a[mask], rows)


def with_signs(
    objective: Objective, reader: Reader, sample: Sample, separation: Separation
) -> Separation:
    """The separation with the signs of the coefficients' limits."""
    J, null = objective.coordinates.matrix, separation.null
    infinite = moved_along(objective.coordinates, null, SMALL_NULL_LOADING)
    likely = _first_sign(J * np.abs(objective.coordinates.scale[:, None]) @ separation.recession)
    signs = np.where(infinite, np.nan, 0.0)
    if null.shape[1] > LARGEST_SIGNED:
        return replace(separation, signs=signs)
    from scipy.optimize import nnls  # heavy, and seldom needed

    Z = _nearest(objective, reader, sample, separation)
    for j in np.flatnonzero(infinite & (likely != 0)):
        wanted = likely[j] * (J[j] @ null)
        try:
            _, missed = nnls(Z.T, wanted / np.linalg.norm(wanted))
        except RuntimeError:  # too many steps
            continue
        signs[j] = likely[j] if missed <= LARGEST_RESIDUAL else np.nan
    return replace(separation, signs=signs)


def _first_sign(loads: np.ndarray) -> np.ndarray:
    """The sign of the first load of each row that is not 0."""
    clear = np.abs(loads) > SMALL_NULL_LOADING * np.abs(loads).max(0)
    first = np.take_along_axis(np.sign(loads), clear.argmax(1)[:, None], 1)[:, 0]
    return np.where(clear.any(1), first, 0.0)


def _nearest(
    objective: Objective, reader: Reader, sample: Sample, separation: Separation
) -> np.ndarray:
    """s x of separated rows on the null space, scaled to length 1: the nearest to the border."""
    inside, cut = separation.null.T @ separation.recession, reader.every_row(sample)
    assert cut is not None

    def nearest(Z: np.ndarray) -> np.ndarray:
        Z = np.unique(Z.round(SAME_DIGITS), axis=0)
        return Z[np.argsort(np.abs(Z @ inside).max(1), kind="stable")[:SIGN_ROWS]]

    def work(rows: Rows) -> np.ndarray:
        U = objective.features(rows)
        signed = (sides(objective, rows)[:, None] * U)[~separation.on_border(U)] @ separation.null
        return nearest(signed / np.linalg.norm(signed, axis=1, keepdims=True))

    with reader.unobserved() as quiet:
        both = Addition(lambda Z, later: nearest(np.concatenate([Z, later])))
        return quiet.total(work, both, cut=cut)

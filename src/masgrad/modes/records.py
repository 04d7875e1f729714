"""What `landscape` returns: stationary points, lowest first, and how they were found."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masgrad.fitting.results.result import Result
from masgrad.modes.curvature import Signature
from masgrad.modes.morse import Partner
from masgrad.modes.summary import line_of, table

if TYPE_CHECKING:  # for the annotation alone
    from matplotlib.figure import Figure

CLEAR_MARGIN = 3.0
"""Standard errors from 0 from which an eigenvalue of H is not 0 in the population."""


@dataclass(frozen=True, repr=False, eq=False)
class StationaryPoint:
    """A point at which the gradient of the mean loss is 0.

    Args:
        theta: the point, (p,); of several that are equal up to a symmetry, their representative.
        risk: the mean loss of the rows that were searched.
        signature: numbers of positive, negative and flat eigenvalues of H.
        eigenvalues: of H, scaled to rows of size 1, (p,), smallest first.
        share: of the starts whose descents end here.
        margin: distance of the eigenvalues from 0, of the nearest in its standard errors.
        halves: the partners of the point in both halves of the rows, None where there is none;
            empty if halves were not searched.
        result: the fit from here, with local intervals, if H is positive definite.
        note: why there is no result where one could be.
    """

    theta: np.ndarray
    risk: float
    signature: Signature
    eigenvalues: np.ndarray
    share: float
    margin: float
    halves: tuple[Partner | None, ...] = ()
    result: Result | None = None
    note: str = ""

    @property
    def kind(self) -> str:
        """ "minimum", "saddle", "maximum", or "flat" if H has an eigenvalue 0."""
        return self.signature.kind

    @property
    def is_matched(self) -> bool:
        """Whether both halves of the rows have the point, with the same signature."""
        same = [half is not None and half.signature == self.signature for half in self.halves]
        return bool(same) and all(same)

    @property
    def is_morse(self) -> bool:
        """Whether H is away from singular, and both halves of the rows agree with that."""
        return not self.signature.flat and self.margin >= CLEAR_MARGIN and self.is_matched

    def __repr__(self) -> str:
        return f"StationaryPoint({line_of(self)})"


@dataclass(frozen=True, repr=False, eq=False)
class Landscape:
    """The stationary points that were found, lowest first.

    `landscape[0]` is the lowest, and iteration goes upwards. That a search has found all of them
    is never known; more starts find more.

    Args:
        modes: the stationary points.
        model: in words.
        names: of the parameters.
        rows: number of rows that were searched; results are about all `nobs` rows.
        nobs: number of all rows; None if there is no result and it is not known.
        starts: number of starts whose descent has ended.
        lost: number of these that ended at no stationary point.
        near_misses: places at which the gradient is not 0, but within its sampling error.
        unmatched: minima of one half of the rows that are none of all rows.
        interrupted: whether Ctrl-C ended the search.
    """

    modes: tuple[StationaryPoint, ...]
    model: str
    names: tuple[str, ...]
    rows: int
    nobs: int | None
    starts: int
    lost: int
    near_misses: int
    unmatched: int
    interrupted: bool

    def __iter__(self) -> Iterator[StationaryPoint]:
        return iter(self.modes)

    def __len__(self) -> int:
        return len(self.modes)

    def __getitem__(self, k: int) -> StationaryPoint:
        return self.modes[k]

    @property
    def minima(self) -> tuple[StationaryPoint, ...]:
        """The points at which H is positive definite."""
        return tuple(point for point in self.modes if point.kind == "minimum")

    @property
    def saddles(self) -> tuple[StationaryPoint, ...]:
        """The points at which H has eigenvalues of both signs, and none that is 0."""
        return tuple(point for point in self.modes if point.kind == "saddle")

    @property
    def is_morse(self) -> bool:
        """Whether nothing that was found speaks against the strongly Morse condition."""
        alone = not (self.unmatched or self.near_misses or self.interrupted)
        return bool(self.modes) and alone and all(point.is_morse for point in self.modes)

    def summary(self) -> str:
        """A table of the points, and what the halves of the rows say."""
        return table(self)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return (
            f"Landscape({self.model}, {self.rows:,} rows, {self.starts} starts: "
            f"{len(self.minima)} minima, {len(self.saddles)} saddles, "
            f"{len(self) - len(self.minima) - len(self.saddles)} others; see .summary())"
        )

    def plot(self, path: str | Path | None = None, alpha: float = 0.05) -> "Figure":
        """Risks of the points by their signature, and the minima with their intervals.

        Args:
            path: where to save the figure: .png, .pdf, .svg.
            alpha: one minus the level of the intervals.
        """
        from masgrad.modes.plot import plot  # matplotlib is heavy

        return plot(self, path, alpha)

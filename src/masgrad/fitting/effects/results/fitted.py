"""What a fit with effects returns, as a record: that of the slopes, and the effects."""

from dataclasses import dataclass, field

import numpy as np

from masgrad.data.groupings.grouping import Grouping
from masgrad.fitting.effects.rows.recession import Recession
from masgrad.fitting.fitted import Fitted


@dataclass(frozen=True)
class Effects:
    """The estimated effects; none of them has a standard error.

    Args:
        groupings: with the keys of their levels.
        values: by level, (L_k,) for each grouping; NaN of levels that were left out.
        components: of the levels of each grouping after the first: the connected component with
            the first grouping that each belongs to, as labels of the first grouping's levels and of
            its own; -1 for levels that were left out.
        parameters: effects that are not redundant.
        residual: of the regressions of columns and responses on the effects, over what is left.
        recessions: directions along which rows are separated, each of the rows that those before it
            leave.
        small: how many levels of each grouping have few rows; () in files of earlier versions.
    """

    groupings: tuple[Grouping, ...]
    values: tuple[np.ndarray, ...]
    components: tuple[tuple[np.ndarray, np.ndarray], ...]
    parameters: int
    residual: float = 0.0
    recessions: tuple[Recession, ...] = ()
    small: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels of each grouping that have an effect."""
        return tuple(int(np.isfinite(values).sum()) for values in self.values)

    @property
    def redundant(self) -> int:
        """Effects that the others determine."""
        return sum(self.sizes) - self.parameters

    @property
    def in_words(self) -> str:
        """Such as "firm (1,000), year (20)"."""
        pairs = zip(self.groupings, self.sizes, strict=True)
        return ", ".join(f"{grouping.name} ({size:,})" for grouping, size in pairs)


@dataclass(frozen=True, repr=False, eq=False)
class EffectsFitted(Fitted):
    """An estimate of the slopes beside fixed effects.

    Args:
        effects: their estimates.
        squares_within: of least squares, the sum of squares of the responses less their effects;
            None for other losses.
    """

    effects: Effects = field(default_factory=lambda: Effects((), (), (), 0))
    squares_within: float | None = None

"""Newton steps over reads of rows with effects: weighted least squares on the columns less theirs.

Each step solves for slopes and effects together, from the sums of one read. The regression on the
effects begins with that of the step before, whose weights are nearly the same. Effects are solved
for, and not their changes: sums of scores vanish at the optimum, and with them their digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from masgrad.errors import IdentificationError
from masgrad.fitting.effects.eliminate import Eliminated, eliminate
from masgrad.fitting.effects.fits.counts import Counted
from masgrad.fitting.effects.rows.design import EffectDesign
from masgrad.fitting.effects.rows.reads import EffectRead
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.identification.rank import listed
from masgrad.fitting.levels.arrow import Vector
from masgrad.fitting.levels.descent import Descent, Step


class Elimination:
    """Eliminates effects, and remembers the last time: it is where the next begins.

    Args:
        threads: that share products.
        memory: bytes that a factor may take.

    Attributes:
        last: the columns and the responses without the effects.
        reads: of the rows, for products with pairs of levels that do not fit memory.
    """

    def __init__(self, threads: int, memory: int):
        self.threads, self.memory = threads, memory
        self.last: Eliminated | None = None
        self.reads = 0

    def of(self, sums: EffectSums) -> Eliminated:
        last = self.last
        if last is not None and last.sums is sums:
            return last
        start = last if last is not None and _alike(last.sums, sums) else None
        self.last = eliminate(sums, start, threads=self.threads, memory=self.memory)
        self.reads += self.last.reads
        return self.last

    def curvature(self, sums: EffectSums, b: np.ndarray, levels: Sequence[np.ndarray]) -> float:
        """d'H d along a step d: b of the columns, (p,), and by level of each grouping."""
        self.reads += sums.unpaired is not None
        total = b @ sums.A @ b
        for table, a in zip(sums.levels, levels, strict=True):
            total += 2 * (a @ (table.border @ b))
        return float(total) + sums.curvature_of(levels)


def _alike(a: EffectSums, b: EffectSums) -> bool:
    return a.sizes == b.sizes and a.products.shape == b.products.shape


def solution(done: Eliminated) -> Vector:
    """Slopes and effects of the responses."""
    beta, effects = done.solution()
    return Vector(beta, np.concatenate(effects))


@dataclass(frozen=True)
class EffectNewton(Descent):
    """Newton steps for the mean loss of rows with effects.

    Args:
        design: the columns, for messages.
        names: of all columns of X.
        elimination: solves for effects.
        counted: the connected components, within which effects of a step are balanced.
    """

    design: EffectDesign
    names: tuple[str, ...]
    elimination: Elimination = field(compare=False)
    counted: Counted

    doubtful: ClassVar[float] = 1e-2

    def step_from(self, sums: EffectRead, first: bool, point: Vector) -> Step:
        del first
        if not sums.is_finite:
            raise self.no_descent()
        done = self.elimination.of(sums.sums)
        if done.constant.any():
            raise self._vanished(done.constant)
        step = solution(done).plus(point, -1.0)
        if not np.isfinite(step.columns).all():
            raise self.no_descent()
        levels = self.counted.balanced(self.design.split(step.levels))
        slope = -self.elimination.curvature(sums.sums, step.columns, levels)
        length = self.length_of(sums, slope)
        return Step(Vector(step.columns, np.concatenate(levels)), length, slope)

    def _vanished(self, lost: np.ndarray) -> IdentificationError:
        """The error for columns along which the curvature has vanished on the way."""
        chosen = np.zeros(len(self.names), bool)
        chosen[self.design.columns[lost]] = True
        return IdentificationError(
            f"no information is left along {listed(chosen, self.names)}: responses are all but "
            "separated along it, with means at a limit of their range to rounding; drop it, or "
            "leave out the rows that it separates"
        )

    def farthest(self, step: Vector) -> float:
        levels = sum(np.abs(part).max(initial=0.0) for part in self.design.split(step.levels))
        return float(levels + self.largest @ np.abs(step.columns))

    def separated(self, step: Vector) -> IdentificationError:
        loads = np.abs(self.largest * step.columns)
        chosen = np.zeros(len(self.names), bool)
        chosen[self.design.columns[loads > 0.1 * loads.max(initial=0.0)]] = True
        along = listed(chosen, self.names) if chosen.any() else "combinations of levels"
        by = " and ".join(grouping.name for grouping in self.design.groupings)
        return IdentificationError(
            f"the responses are separated along {along}, beyond levels of {by} whose responses are "
            "all at one end: the likelihood rises for ever in some direction, which has no "
            "optimum; drop the column, or leave out the rows that it separates"
        )

"""Rows that are separated beside effects: recession directions, found by the iterative rectifier.

A row is at its boundary if its response is at an end of the range that no mean reaches: y = 0
(s = -1), and y = 1 of a binomial response (s = 1). The likelihood has no maximum exactly if some
slopes and effects give rows predictors u with

    s_i u_i >= 0 at the boundary,  > 0 for some of these rows,  u_i = 0 for all others

(Correia, Guimaraes & Zylkin 2019). Rows with s_i u_i > 0 are separated: their likelihood is 1 in
the limit, and the others are fitted without them. The rectifier begins with u = s for the rows that
a Newton step carries to their boundary, and 0 for the others. It fits u by least squares on the
directions that move no interior row (`interior.py`) and the effects, in which rows that are not at
the boundary weigh `INTERIOR`, and goes on with s times the positive part of
s times the fit at the boundary, until the fit has the signs that are needed. It nears them slowly
where some rows at the boundary have to have u = 0, so that after some fits those of the wrong sign
are held at 0 as well: what is found is a direction still, if not the one of most rows.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masgrad.data.designs.structured import Structured
from masgrad.fitting.effects.eliminate import Eliminated
from masgrad.fitting.effects.tables import EffectSums
from masgrad.fitting.levels.arrow import Vector
from masgrad.models.families.family import Family

INTERIOR = 1e9
"""Weight of rows that are not at the boundary: their fit has to be 0."""

BORDER = 1e-4
"""Size of a fit that is 0, where the largest is 1."""

CLEARLY = 0.05
"""Fit beyond which a row is separated, where the largest is 1."""

VANISHED = 1e-2
"""Largest fit of a target of 1 that is no direction."""

CARRIED = 0.5
"""Share of a row's own Newton step beyond which a step carries it to its boundary."""

FREE_FITS, HOLDING_FITS = (5, 15, 40), 25
"""Fits of a trial before rows of the wrong sign are held at 0, and fits after that."""


@dataclass(frozen=True)
class Recession:
    """A direction along which the likelihood rises for ever.

    Args:
        slopes: of all columns, (p,).
        effects: by level, (L_k,) for each grouping.
        lowest: the response at the lower boundary.
        highest: that at the upper one.
    """

    slopes: np.ndarray
    effects: tuple[np.ndarray, ...]
    lowest: float
    highest: float

    def predictors(self, X: np.ndarray | Structured, codes: np.ndarray) -> np.ndarray:
        """u of rows with these levels; NaN where a level is unknown, or was left out."""
        u = np.asarray(X @ self.slopes, np.float64)
        for k, values in enumerate(self.effects):
            u = u + np.append(values, np.nan)[codes[:, k]]
        return u

    def sides(self, X: np.ndarray | Structured, codes: np.ndarray) -> np.ndarray:
        """-1 and 1 for rows whose predictors go to that infinity, 0 for others and if unknown."""
        u = np.nan_to_num(self.predictors(X, codes))
        return np.where(np.abs(u) > CLEARLY, np.sign(u), 0.0)

    def separated(self, X: np.ndarray | Structured, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The mask of separated rows."""
        side = self.sides(X, codes)
        return ((side < 0) & (y == self.lowest)) | ((side > 0) & (y == self.highest))


def boundary(family: Family, y: np.ndarray) -> np.ndarray:
    """s: -1 and 1 for rows at the lower and the upper boundary, 0 for others."""
    return np.where(y == family.lowest, -1.0, np.where(y == family.highest, 1.0, 0.0))


class Target(NamedTuple):
    """What rows are to be fitted by, as a part of a read sees them.

    Args:
        free: the rows whose fit need not be 0, (n,).
        u: the fit's target, (n,).
        top: the largest s u of the fit before at the boundary.
        wrong: the largest |u| of that fit elsewhere, and the largest -s u at the boundary.
    """

    free: np.ndarray
    u: np.ndarray
    top: float
    wrong: float

    @property
    def weights(self) -> np.ndarray:
        return np.where(self.free, 1.0, INTERIOR)


def carried(s: np.ndarray, step: np.ndarray, own: np.ndarray) -> Target:
    """The first target: rows that a step carries by their own Newton step, `own`."""
    u = np.where((s != 0) & (s * step > CARRIED * own), s, 0.0)
    return Target(s != 0, u, float(np.abs(u).max(initial=0.0)), np.inf)


def rectified(s: np.ndarray, fit: np.ndarray, holding: Iterable[np.ndarray]) -> Target:
    """The next target, of a fit; rows are held at 0 whose sign one of other fits has wrong."""
    along = s * fit
    wrong = np.where(s == 0, np.abs(fit), -along)
    free = s != 0
    for other in holding:
        free &= s * other >= -BORDER
    u = np.where(free, s * np.maximum(along, 0.0), 0.0)
    return Target(free, u, float(along.max(initial=0.0)), float(wrong.max(initial=0.0)))


class Look(NamedTuple):
    """Sums of least squares of a target over all rows, and what it says of the fit before."""

    sums: EffectSums
    top: float
    wrong: float


Read = Callable[[Vector | None, Sequence[Vector]], Look]
"""A read of the next target of a fit (of the first one for None), given the fits that hold rows."""


Eliminates = Callable[[EffectSums, Eliminated | None], Eliminated]
"""Takes the effects out of sums, beginning with those of other weights."""


def rectify(read: Read, eliminated: Eliminates) -> Vector | None:
    """Slopes along the directions and effects of a recession direction; None if none was found.

    Args:
        read: the next target over all rows.
        eliminated: takes the effects out.
    """
    first = read(None, ())
    if not first.top:
        return None
    begun = eliminated(first.sums, None)
    for free in FREE_FITS:
        found = _trial(read, begun, eliminated, free)
        if found is not None:
            return found
    return None


def _trial(read: Read, done: Eliminated, eliminated: Eliminates, free: int) -> Vector | None:
    """The rectifier, from its first fit, with so many fits before rows are held at 0."""
    holding: list[Vector] = []
    for k in range(free + HOLDING_FITS):
        beta, effects = done.solution()
        fit = Vector(beta, np.concatenate(effects))
        seen = read(fit, holding)
        if seen.top < VANISHED:
            return None
        if seen.wrong <= BORDER * seen.top:
            return Vector(fit.columns / seen.top, fit.levels / seen.top)
        if k >= free:
            holding.append(fit)
            seen = read(fit, holding)
        done = eliminated(seen.sums, done)
    return None

"""Which rows a fit with effects keeps: those that its slopes can learn from.

A level with a single row fits it exactly. A level whose responses are all at one end of their range
(all 0 of counts, all 0 or all 1 of a binomial family) has an infinite effect, and fits its rows in
the limit. Rows of either kind say nothing of the slopes, and are left out; that may leave other
levels with a single row, so that the search goes on until it finds no more. What is left does not
depend on its order. A row that stands for several (a frequency above 1) is not single.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masgrad.fitting.effects.rows.peeling import single_rows
from masgrad.fitting.levels.start import lowest_mean
from masgrad.models.families.family import Family

ABOVE, BELOW = 1, 2
"""Bits: a response above the lowest one that there may be, or below the highest."""


FEW_LOOKS = 4
"""Looks at all rows, after which chains of single rows are followed link by link."""


class RowFacts(NamedTuple):
    """What decides whether rows are kept.

    Args:
        codes: of their levels, (n, K).
        ends: `ABOVE` and `BELOW`, (n,) uint8; None if no end of the range is special.
        weight: their weights, (n,), or None.
    """

    codes: np.ndarray
    ends: np.ndarray | None
    weight: np.ndarray | None

    @classmethod
    def of(
        cls, codes: np.ndarray, y: np.ndarray, weight: np.ndarray | None, family: Family
    ) -> "RowFacts":
        if not has_ends(family):
            return cls(codes, None, weight)
        ends = ABOVE * (y > lowest_mean(family)) + BELOW * (y < family.highest)
        return cls(codes, ends.astype(np.uint8), weight)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self if a is not None)


def has_ends(family: Family) -> bool:
    """Whether responses that are all at one end leave a level without an estimate."""
    return family.separable or lowest_mean(family) > family.lowest


@dataclass(frozen=True)
class Kept:
    """The levels whose rows are kept: a row is if all of its levels are.

    Args:
        live: masks of the levels, (L_k,) each.
        rows: number of rows kept.
        weight: of these rows.
        single: number of rows left out as the only ones of a level.
        one_sided: number of rows left out with a level whose responses are at one end.
    """

    live: tuple[np.ndarray, ...]
    rows: int
    weight: float
    single: int = 0
    one_sided: int = 0

    @property
    def all(self) -> bool:
        """Whether no row is left out."""
        return not self.single and not self.one_sided

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels that are kept of each grouping."""
        return tuple(int(live.sum()) for live in self.live)

    def mask(self, codes: np.ndarray) -> np.ndarray | None:
        """Which rows are kept, (n,); None if all are."""
        if self.all:
            return None
        return _of_levels(self.live, codes)


Look = Callable[[Callable[["Tally", RowFacts], None], "Tally"], "Tally"]
"""A look at the facts of all rows: the tally, once it has taken those of each part."""


def look_at(parts: Iterable[RowFacts]) -> Look:
    """A look at facts that memory holds."""

    def look(take: Callable[["Tally", RowFacts], None], tally: "Tally") -> "Tally":
        for part in parts:
            take(tally, part)
        return tally

    return look


def kept_rows(
    look: Look,
    sizes: Sequence[int],
    frequencies: bool,
    held: Sequence[RowFacts] | None = None,
) -> Kept:
    """The rows that are kept.

    Args:
        look: at the facts of all rows.
        sizes: number of levels of each grouping.
        frequencies: whether weights are numbers of rows.
        held: the facts, if memory holds them.
    """
    tally = look(Tally.add, Tally(sizes, frequencies))
    live = tuple(counts > 0 for counts in tally.counts)
    dropped, looks = {"single": 0, "one_sided": 0}, 0
    while (found := tally.next_dead(live)) is not None:
        why, dead = found
        before, looks = tally.rows, looks + 1
        if why == "single" and held is not None and looks > FEW_LOOKS:
            live = _without_singles(tally, live, held)
        else:
            tally, live = _without(tally, live, dead, look)
        dropped[why] += before - tally.rows
    live = tuple(a & (counts > 0) for a, counts in zip(live, tally.counts, strict=True))
    return Kept(live, tally.rows, tally.weight, **dropped)


def _without(
    tally: "Tally", live: tuple[np.ndarray, ...], dead: Sequence[np.ndarray], look: Look
) -> tuple["Tally", tuple[np.ndarray, ...]]:
    """The tally and the levels that are left without the dead ones and their rows."""
    after = tuple(a & ~d for a, d in zip(live, dead, strict=True))

    def take(tally: "Tally", part: RowFacts) -> None:
        gone = _of_levels(live, part.codes) & ~_of_levels(after, part.codes)
        if gone.any():
            tally.add(part, gone)

    return look(take, tally), after


def _without_singles(
    tally: "Tally", live: tuple[np.ndarray, ...], held: Sequence[RowFacts]
) -> tuple[np.ndarray, ...]:
    """The levels that are left when no level has a single row."""
    codes = np.concatenate([part.codes for part in held])
    more = None
    if tally.frequencies and held[0].weight is not None:
        more = np.concatenate([part.weight for part in held]) > 1  # pyright: ignore
    gone = single_rows(codes, _of_levels(live, codes), tally.counts, more)
    start = 0
    for part in held:
        own = gone[start : start + len(part.codes)]
        start += len(own)
        if own.any():
            tally.add(part, own)
    return tuple(a & (counts > 0) for a, counts in zip(live, tally.counts, strict=True))


def _of_levels(live: Sequence[np.ndarray], codes: np.ndarray) -> np.ndarray:
    """The rows all of whose levels are live."""
    mask = live[0].take(codes[:, 0], mode="clip")
    for k, alive in enumerate(live[1:], 1):
        mask &= alive.take(codes[:, k], mode="clip")
    return mask


class Tally:
    """Rows by level, and how many of them have a response above or below the ends."""

    def __init__(self, sizes: Sequence[int], frequencies: bool):
        self.sizes, self.frequencies = sizes, frequencies
        self.rows, self.weight, self.has_ends = 0, 0.0, False
        self.counts, self.above, self.below = (
            [np.zeros(size, np.int64) for size in sizes] for _ in range(3)
        )

    def add(self, part: RowFacts, gone: np.ndarray | None = None) -> None:
        """Add the rows of a part, or take those away that are gone."""
        sign, (codes, ends, weight) = 1, part
        if gone is not None:
            sign, codes = -1, codes[gone]
            ends, weight = (None if a is None else a[gone] for a in (ends, weight))
        self.rows += sign * len(codes)
        self.weight += sign * float(len(codes) if weight is None else weight.sum())
        self._count(self.counts, codes, sign)
        if weight is not None and self.frequencies:
            self._count(self.counts, codes[weight > 1], sign)
        if ends is not None:
            self.has_ends = True
            self._count(self.above, codes[(ends & ABOVE) > 0], sign)
            self._count(self.below, codes[(ends & BELOW) > 0], sign)

    def _count(self, counts: list[np.ndarray], codes: np.ndarray, sign: int) -> None:
        for k, size in enumerate(self.sizes):
            counts[k] += sign * np.bincount(codes[:, k], minlength=size)

    def next_dead(self, live: Sequence[np.ndarray]) -> tuple[str, list[np.ndarray]] | None:
        """Levels that are left out next, and why; None if there are none."""
        if self.has_ends:
            ends = zip(self.above, self.below, live, strict=True)
            dead = [((above == 0) | (below == 0)) & alive for above, below, alive in ends]
            if any(d.any() for d in dead):
                return "one_sided", dead
        dead = [(counts == 1) & alive for counts, alive in zip(self.counts, live, strict=True)]
        return ("single", dead) if any(d.any() for d in dead) else None

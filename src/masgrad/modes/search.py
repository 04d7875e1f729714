"""A search for the stationary points of a surface.

- Descents from all starts end in minima; the share of starts that end in one is its basin.
- Zeros of the gradient near the starts are stationary points of any signature.
- Between two minima there is a saddle: a search begins at the highest point of the straight way
  from one to the other. An equal of a minimum, with two units exchanged, is the other end as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from masgrad.fitting.objective.objective import BadBlock
from masgrad.models.symmetry import Exchangeable
from masgrad.modes.descent import descend
from masgrad.modes.points import FEWEST_ROWS, Place, distinct, effective_rows, place_near
from masgrad.modes.surface import Surface
from masgrad.modes.symmetry import Canonical

MOST_WAYS = 30
"""Ways between minima from which saddles are searched."""

ON_THE_WAY = np.linspace(0.1, 0.9, 9)
"""Where the loss is compared on a way, as shares of it."""


@dataclass(frozen=True)
class Search:
    """What was found on one surface.

    Args:
        points: stationary points, each once.
        ends: for every descent the index of the point where it ended; -1 if it ended at none.
        near_misses: places where the gradient is within its sampling error, but not 0.
        interrupted: whether Ctrl-C ended the search.
    """

    points: list[Place]
    ends: np.ndarray
    near_misses: list[Place]
    interrupted: bool = False


def search(
    surface: Surface,
    starts: np.ndarray,
    canonical: Canonical | None,
    rng: np.random.Generator,
    tick: Callable[[], None],
    saddles: bool = True,
) -> Search:
    """Stationary points of a surface, from starts (m, p) in phi; without saddles its minima."""
    descents: list[Place | None] = []
    others: list[Place] = []
    interrupted = False
    try:
        for place in _descents(surface, starts, canonical):
            descents.append(place)
            tick()
        minima = distinct(surface, [place for place in descents if place is not None])
        if saddles:
            for place in _saddles(surface, starts, minima, canonical, rng):
                others.append(place)
                tick()
    except KeyboardInterrupt:
        interrupted = True
    points = distinct(surface, [place for place in (*descents, *others) if place is not None])
    ends = np.array([_index(place, points) for place in descents], int)
    return Search(points, ends, _near_misses(surface, others), interrupted)


def minima_of(
    surface: Surface,
    starts: np.ndarray,
    canonical: Canonical | None,
    tick: Callable[[], None],
) -> list[Place]:
    """The ends of descents alone, each once."""
    found = []
    for place in _descents(surface, starts, canonical):
        found += [] if place is None else [place]
        tick()
    return distinct(surface, found)


def _descents(
    surface: Surface, starts: np.ndarray, canonical: Canonical | None
) -> Iterator[Place | None]:
    for start in starts:
        yield _near(surface, descend(surface, start), canonical)


def _saddles(
    surface: Surface,
    starts: np.ndarray,
    minima: list[Place],
    canonical: Canonical | None,
    rng: np.random.Generator,
) -> Iterator[Place]:
    """Ends of searches for a zero of the gradient, from the starts and between minima."""
    ways = list(_ways(surface, minima, canonical))
    few = rng.permutation(len(ways))[:MOST_WAYS]
    tops = (_top(surface, *ways[k]) for k in np.sort(few))
    for phi in (*starts, *tops):
        place = _near(surface, phi, canonical)
        if place is not None:
            yield place


def _near(surface: Surface, phi: np.ndarray, canonical: Canonical | None) -> Place | None:
    """The place near phi; None where losses are not finite."""
    try:
        return place_near(surface, phi, canonical)
    except BadBlock:
        return None


def _ways(
    surface: Surface, minima: list[Place], canonical: Canonical | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of minima, and pairs of a minimum and its equals."""
    yield from ((a.phi, b.phi) for a, b in combinations(minima, 2))
    if isinstance(canonical, Exchangeable):
        for a in minima:
            yield from ((a.phi, surface.phi(b)) for b in canonical.neighbours(a.theta))


def _top(surface: Surface, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The highest point on the way from a to b."""
    points = a + ON_THE_WAY[:, None] * (b - a)
    heights = [surface.value(phi) for phi in points]
    finite = np.where(np.isfinite(heights), heights, -np.inf)
    return points[int(np.argmax(finite))]


def _index(place: Place | None, points: list[Place]) -> int:
    if place is None or not place.is_stationary:
        return -1
    return next((k for k, point in enumerate(points) if place.is_same(point)), -1)


def _near_misses(surface: Surface, places: list[Place]) -> list[Place]:
    """Near misses, each once, whose gradients are those of rows enough to have a sampling error."""
    kept: list[Place] = []
    for place in places:
        new = place.is_near_miss and not any(place.is_near(other) for other in kept)
        if new and effective_rows(surface.row_gradients(place.phi)) >= FEWEST_ROWS:
            kept.append(place)
    return kept

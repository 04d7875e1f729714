"""From starts to a landscape: search, halves of the rows, fits at the minima, record."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.errors import InputError, InterruptedWarning, say
from masgrad.fitting.results.result import Result
from masgrad.fitting.status import Status
from masgrad.modes.curvature import margin
from masgrad.modes.morse import Halves, compare_halves, halves_of
from masgrad.modes.points import Place
from masgrad.modes.records import Landscape, StationaryPoint
from masgrad.modes.search import Search, search
from masgrad.modes.surface import Surface
from masgrad.modes.symmetry import Canonical
from masgrad.progress import Progress

LARGEST_MOVE = 6.0
"""Standard errors of the rows that were searched, root mean square over contrasts, up to which the
fit of all rows is still at the point."""


@dataclass(frozen=True)
class Quest:
    """What a call asks for, checked.

    Args:
        surface: the mean loss of the rows that are searched.
        starts: (m, p) in phi.
        symmetry: maps theta to the representative of its equals; None if there is none.
        rng: for halves, and for the choice of ways.
        refit: from a theta to the fit of all rows.
        names: of the parameters; () if they have none.
        count: number of all rows; None if it is not known before they are read.
    """

    surface: Surface
    starts: np.ndarray
    symmetry: Canonical | None
    rng: np.random.Generator
    refit: Callable[[np.ndarray], Result]
    names: tuple[str, ...] = ()
    count: int | None = None


class Stages(NamedTuple):
    """What is done besides descents: saddles, halves of the rows, fits at minima."""

    saddles: bool
    halves: bool
    results: bool


def explore(quest: Quest, stages: Stages, bar: Progress) -> Landscape:
    """The landscape; after Ctrl-C, what was found until then."""
    tick = _ticker(bar)
    found = search(quest.surface, quest.starts, quest.symmetry, quest.rng, tick, stages.saddles)
    compared, stopped = Halves(found.points, [() for _ in found.points], 0), found.interrupted
    try:
        if stages.halves and not stopped:
            compared = _halves(quest, found, tick)
    except KeyboardInterrupt:
        stopped = True
    places = [
        (place, _point(quest, found, place, partners))
        for place, partners in zip(compared.points, compared.partners, strict=True)
    ]
    places.sort(key=lambda pair: pair[1].risk)
    points = [point for _, point in places]
    if stages.results and not stopped:
        points, stopped = _with_results(quest, places)
    if stopped:
        say(InterruptedWarning, "interrupted: the landscape is what was found until then")
    return _landscape(quest, found, compared, points, stopped)


def _ticker(bar: Progress) -> Callable[[], None]:
    """A function that counts searches."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        bar.update(done)

    return tick


def _halves(quest: Quest, found: Search, tick: Callable[[], None]) -> Halves:
    surface = quest.surface
    parts = [Surface(surface.objective, rows) for rows in halves_of(surface.rows, quest.rng)]
    return compare_halves(surface, found.points, parts, quest.starts, quest.symmetry, tick)


def _point(quest: Quest, found: Search, place: Place, partners: tuple) -> StationaryPoint:
    """The record of a point, without its result."""
    index = next((k for k, other in enumerate(found.points) if other is place), -2)
    return StationaryPoint(
        place.theta,
        place.risk,
        place.spectrum.signature,
        place.spectrum.values,
        float((found.ends == index).mean()) if len(found.ends) else 0.0,
        margin(quest.surface, place.local_model, place.spectrum),
        partners,
    )


def _with_results(
    quest: Quest, places: list[tuple[Place, StationaryPoint]]
) -> tuple[list[StationaryPoint], bool]:
    """The points with fits at the minima, and whether Ctrl-C ended them."""
    points, stopped = [point for _, point in places], False
    for k, (place, point) in enumerate(places):
        if point.kind != "minimum":
            continue
        try:
            points[k] = _with_result(quest, place, point)
        except KeyboardInterrupt:
            stopped = True
        result = points[k].result
        if stopped or (result is not None and result.status is Status.INTERRUPTED):
            return points, True
    return points, False


def _with_result(quest: Quest, place: Place, point: StationaryPoint) -> StationaryPoint:
    """The point with the fit from there; with a note if there is none, or it went elsewhere."""
    try:
        result = quest.refit(point.theta)
    except InputError as error:
        return replace(point, note=f"no result: {error}")
    step = quest.surface.phi(np.asarray(result.theta)) - place.phi
    moved = place.local_model.rms_wald_norm(step)
    if not moved <= LARGEST_MOVE:  # NaN included
        return replace(point, note="no result: the fit from here led to another point")
    return replace(point, result=result)


def _landscape(
    quest: Quest,
    found: Search,
    compared: Halves,
    points: list[StationaryPoint],
    stopped: bool,
) -> Landscape:
    fitted = [point.result.nobs for point in points if point.result is not None]
    return Landscape(
        tuple(points),
        quest.surface.objective.model.in_words,
        quest.names,
        count_rows(quest.surface.rows),
        fitted[0] if fitted else quest.count,
        len(found.ends),
        int((found.ends == -1).sum()),
        len(found.near_misses),
        compared.unmatched,
        stopped,
    )

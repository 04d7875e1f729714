"""`landscape`: the stationary points of the mean loss, with a fit at each minimum."""

from typing import Any

import numpy as np

from masgrad.checks import check_count
from masgrad.data.arrays import count_rows
from masgrad.data.source import Source
from masgrad.errors import InputError
from masgrad.fitting.api import fit
from masgrad.fitting.keywords import options_of, takes_keywords
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.optimise.nonconvex.start import random_start
from masgrad.fitting.optimise.start import coordinates_of
from masgrad.fitting.options import Options
from masgrad.fitting.results.result import Result
from masgrad.fitting.sources import Sample, as_source, random_rows, take_sample
from masgrad.fitting.task import refuse_effects
from masgrad.models.model import Model, check_model
from masgrad.modes.explore import Quest, Stages, explore
from masgrad.modes.records import Landscape
from masgrad.modes.surface import Surface
from masgrad.modes.symmetry import Canonical, as_symmetry
from masgrad.progress import Progress
from masgrad.types import Array, float64

KEYWORDS = (
    *("weights", "offset", "exposure", "formula", "cov_type", "memory", "block_size", "threads"),
    *("seed", "progress"),
)

OWN_KEYWORDS = ("starts", "symmetry", "saddles", "halves", "results")

MOST_ROWS = 1 << 13
"""Rows that are searched."""


@takes_keywords(*KEYWORDS)
@float64
def landscape(
    model: Model,
    data: Any,
    starts: int | Array = 20,
    symmetry: Canonical | None = None,
    *,
    saddles: bool = True,
    halves: bool = True,
    results: bool = True,
    **keywords: Any,
) -> Landscape:
    """The stationary points of the mean loss: minima with local intervals, saddles, basins.

    Descents from many starts lead to minima, and searches for a zero of the gradient, from the
    starts and between minima, to saddles. Points that are equal up to a symmetry are one. The
    search is over rows in memory, at most 8,192; the result of each minimum is about all rows.

    Args:
        model: the loss.
        data: as in `fit`, except iterators.
        starts: number of random starts, or an array of them, (m, p).
        symmetry: a function from theta to the representative of its equals, such as
            `Exchangeable(units)`; mixtures have their own. Others show by equal risks and
            eigenvalues.
        saddles: whether saddles are searched, besides minima.
        halves: whether both halves of the rows are searched as well, to see whether they have the
            same points (the strongly Morse condition).
        results: whether a fit with intervals is made at each minimum.
        keywords:

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> z = rng.choice([-2.0, 2.0], 1000) + rng.normal(size=1000)
        >>> found = mg.landscape(mg.GaussianMixture(2, 1.0), z, starts=5)
        >>> [(point.kind, point.theta.round(1).tolist()) for point in found]
        [('minimum', [-2.1, 2.0]), ('saddle', [0.1, 0.1])]
        >>> found[0].share, found[0].result.bse.round(2), found.is_morse
        (1.0, array([0.05, 0.04]), True)
    """
    check_model(model)
    _check_smooth(model)
    options = options_of("landscape", keywords, KEYWORDS, OWN_KEYWORDS)
    quest = _quest(model, data, starts, symmetry, options, keywords)
    stages = Stages(saddles, halves, results)
    total = len(quest.starts) * (1 + saddles + 2 * halves)
    with Progress(total, options.progress, "searches") as bar, np.errstate(all="ignore"):
        return explore(quest, stages, bar)


def _check_smooth(model: Model) -> None:
    """Refuse a loss that is known to have kinks."""
    if model.has_kinks:
        raise InputError(
            f"{model.in_words} has kinks: over rows its gradient jumps, and need not be 0 at a "
            "minimum, so that no stationary points can be listed; write the network with tanh or "
            "softplus as an mg.CustomLoss, or use mg.fit(..., starts=) for the lowest minimum"
        )


def _quest(
    model: Model,
    data: Any,
    starts: Any,
    symmetry: Any,
    options: Options,
    keywords: dict[str, Any],
) -> Quest:
    formula, memory, block = options.formula, options.memory, options.block_size
    source, terms = as_source(model, data, formula, memory, block, **options.roles)
    refuse_effects(terms, "a landscape")
    if not source.rereadable:
        raise InputError(
            "an iterator can be read once, and a landscape needs more; give mg.Stream(function) "
            "with a function that starts it anew"
        )
    rng = np.random.default_rng([options.seed, 1])
    sample = _searched(source, memory, rng)
    coordinates = coordinates_of(model, sample.rows, None)
    surface = Surface(Objective(model, coordinates), sample.rows)
    phi = _starts(surface, starts, rng)
    canonical = as_symmetry(symmetry, model.units(sample.rows), phi.shape[1])

    def refit(theta: np.ndarray) -> Result:
        return fit(model, data, start=theta, **keywords)  # pyright: ignore

    return Quest(surface, phi, canonical, rng, refit, source.names, source.count)


def _searched(source: Source, memory: int, rng: np.random.Generator) -> Sample:
    """At most so many pilot rows as are searched, at random."""
    sample = take_sample(source, False, memory // 8, rng)
    if count_rows(sample.rows) <= MOST_ROWS:
        return sample
    return Sample(random_rows(sample.rows, MOST_ROWS, rng), False)


def _starts(surface: Surface, starts: Any, rng: np.random.Generator) -> np.ndarray:
    """Random starts in phi, or those that were given in theta, (m, p)."""
    model, coordinates, rows = surface.objective.model, surface.objective.coordinates, surface.rows
    if np.ndim(starts) == 0:
        count = check_count("starts", starts, 1)
        return np.array([random_start(model, coordinates, rows, rng) for _ in range(count)])
    given = np.asarray(starts, dtype=np.float64)
    if given.ndim != 2 or not len(given):
        raise InputError(
            f"starts has shape {given.shape}; a number is needed, or an array of them, "
            f"(m, {model.dim(rows)})"
        )
    return np.array([coordinates.phi(model.theta(theta, rows)) for theta in given])

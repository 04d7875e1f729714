"""The strongly Morse condition, looked at by halving the rows.

A surface is strongly Morse if the eigenvalues of H are bounded away from 0 wherever the gradient is
small (Mei, Bai & Montanari, "The landscape of empirical risk for nonconvex losses", 2018). The
stationary points of the rows' mean loss are then those of the population's, one for one and with
the same signature, up to sampling error; and hence those of one half of the rows are those of the
other. So each half is searched on its own, and every point is followed from all rows to both
halves. Point and partner are compared in standard errors: the difference has the covariance of the
estimate from all rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from masgrad.data.arrays import count_rows, pick
from masgrad.modes.curvature import Signature
from masgrad.modes.points import Place, place_near
from masgrad.modes.search import minima_of
from masgrad.modes.surface import Surface
from masgrad.modes.symmetry import Canonical
from masgrad.types import Rows

FAR = 1e-6
"""Level of the test by which a point is too far to be the partner of another."""

ROUNDING = 1e-9
"""Size of the rows' gradients along a parameter, relative to the largest, that is rounding of 0."""


@dataclass(frozen=True)
class Partner:
    """The point of one half that a point of all rows becomes.

    Args:
        signature: of H of the half.
        distance: in standard errors, root mean square over contrasts; about 1 by chance.
    """

    signature: Signature
    distance: float


@dataclass(frozen=True)
class Halves:
    """Points of all rows and of their halves, compared.

    Args:
        points: of all rows, those that a half has led to included.
        partners: for each point one of each half, None where there is none.
        unmatched: number of minima of a half that are none of all rows.
    """

    points: list[Place]
    partners: list[tuple[Partner | None, ...]]
    unmatched: int


def halves_of(rows: Rows, rng: np.random.Generator) -> list[Rows]:
    """Two random halves of the rows, each in its order."""
    n = count_rows(rows)
    first = rng.permutation(n) < n // 2
    return [pick(lambda a, k=k: a[k], rows) for k in (first, ~first)]


def compare_halves(
    surface: Surface,
    points: list[Place],
    halves: list[Surface],
    starts: np.ndarray,
    canonical: Canonical | None,
    tick: Callable[[], None],
) -> Halves:
    """The partners of all points; `starts` (m, p) are those of the search on each half.

    Paper: strongly Morse - points and signatures that both halves of the rows agree on
    """
    points, unmatched = list(points), 0
    for half in halves:
        for own in minima_of(half, starts, canonical, tick):
            if any(_is_partner(point, own) for point in points):
                continue
            new = place_near(surface, own.phi, canonical)
            if new.is_stationary and _is_partner(new, own):
                points += [] if any(new.is_same(point) for point in points) else [new]
            else:
                unmatched += 1
    partners = [tuple(_partner(point, half) for half in halves) for point in points]
    return Halves(points, partners, unmatched)


def _partner(point: Place, half: Surface) -> Partner | None:
    """Where the point is for these rows alone."""
    own = place_near(half, point.phi, None)
    if not (own.is_stationary and _is_partner(point, own)):
        return None
    return Partner(own.spectrum.signature, _distance(point, own) / len(point.phi) ** 0.5)


def _is_partner(point: Place, own: Place) -> bool:
    """Whether the distance is one that sampling error makes."""
    return _distance(point, own) ** 2 <= float(chi2.isf(FAR, len(point.phi)))


def _distance(point: Place, own: Place) -> float:
    """In standard errors of the worst contrast: the root of d'H M^-1 H d.

    Where a network's unit has weight 0, the gradient of every row is 0 along with it, and the unit
    is at the same place for all rows.
    """
    local = point.local_model
    size = np.sqrt(np.diag(local.meat))
    felt = size > ROUNDING * size.max()
    turned = (local.hessian @ (own.phi - point.phi))[felt] / size[felt]
    M = local.meat[np.ix_(felt, felt)] / np.outer(size[felt], size[felt])
    return float(np.sqrt(turned @ np.linalg.lstsq(M, turned, rcond=1e-12)[0]))

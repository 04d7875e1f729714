"""Points at which a search may end, and when two of them are one.

A point is stationary if its gradient is 0 to rounding and the Newton step from it is short: where a
loss falls for ever, ever more slowly, gradients vanish as well, but Newton's steps remain long.
A gradient that is not 0 but within its sampling error is a near miss: other rows may have a
stationary point there.

Two stationary points are one if they are near each other once both are replaced by the
representatives of their equals (`symmetry.py`). Symmetries that were not declared show as equal
risks and equal eigenvalues of H in the units of theta, which permutations and changes of sign leave
as they are. Points with flat directions are not isolated: those of equal risk and signature are
taken for one set.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock
from masgrad.modes.curvature import Spectrum, spectrum_of
from masgrad.modes.descent import to_zero_gradient
from masgrad.modes.surface import Surface
from masgrad.modes.symmetry import Canonical

ZERO_GRADIENT = 1e-7
"""Gradient, in coordinates in which those of single rows at 0 have size 1, that is 0."""

SHORT_STEP = 1e-5
"""Newton step from a stationary point, relative to its size."""

SAME_PLACE = 1e-4
"""Distance of two points that are one, relative to their size."""

EQUAL_RISK = 1e-9
"""Relative difference of two risks that are equal."""

EQUAL_EIGENVALUES = 1e-5
"""Difference of two spectra that are equal, relative to the largest eigenvalue."""

FEWEST_ROWS = 30
"""Rows from which a mean of gradients has about a normal law."""

NEAR_MISS_LEVEL = 0.05
"""Level of the test by which a gradient is within its sampling error."""


@dataclass(frozen=True)
class Place:
    """Where a search has ended.

    Args:
        theta: the representative of its equals, (p,).
        local_model: of the rows there.
        spectrum: of H.
        invariants: eigenvalues of H in the units of theta, (p,).
    """

    theta: np.ndarray
    local_model: LocalModel
    spectrum: Spectrum
    invariants: np.ndarray

    @property
    def phi(self) -> np.ndarray:
        return self.local_model.point

    @property
    def risk(self) -> float:
        """The mean loss."""
        return self.local_model.loss / self.local_model.count

    @property
    def is_stationary(self) -> bool:
        """Whether the gradient is 0 there, and not only at infinity."""
        b = self.local_model.gradient / self.local_model.count
        size = np.sqrt(np.diag(self.local_model.meat).max() / self.local_model.count)
        if self.spectrum.signature.flat == len(b) or self.newton > SHORT_STEP:
            return False
        return bool(np.abs(b).max() <= ZERO_GRADIENT * max(1.0, size))

    @property
    def is_near_miss(self) -> bool:
        """Whether the gradient is not 0, but within its sampling error."""
        if self.is_stationary or self.spectrum.signature.flat or self.newton > 1:
            return False
        G, M = self.local_model.gradient, self.local_model.meat
        statistic = float(G @ np.linalg.lstsq(M, G, rcond=1e-12)[0])
        return statistic <= float(chi2.isf(NEAR_MISS_LEVEL, len(G)))

    def is_near(self, other: "Place") -> bool:
        """Whether the two are one point, to rounding."""
        return bool(np.linalg.norm(self.phi - other.phi) <= SAME_PLACE * self._size)

    def is_same(self, other: "Place") -> bool:
        """Whether the two are one point, or equal up to a symmetry."""
        if self.is_near(other):
            return True
        equal = abs(self.risk - other.risk) <= EQUAL_RISK * max(1.0, abs(self.risk))
        if not equal or self.spectrum.signature != other.spectrum.signature:
            return False
        if self.spectrum.signature.flat:
            return True
        apart = np.abs(self.invariants - other.invariants).max()
        return bool(apart <= EQUAL_EIGENVALUES * np.abs(self.invariants).max())

    @property
    def newton(self) -> float:
        """Length of the Newton step, relative to the point's size."""
        step = self.spectrum.solve(self.local_model.gradient / self.local_model.count)
        return float(np.linalg.norm(step)) / self._size

    @property
    def _size(self) -> float:
        return max(1.0, float(np.linalg.norm(self.phi)))


def place_near(surface: Surface, phi: np.ndarray, canonical: Canonical | None) -> Place:
    """Where the gradient is 0, or smallest, near phi."""
    return place_at(surface, to_zero_gradient(surface, phi), canonical)


def place_at(surface: Surface, phi: np.ndarray, canonical: Canonical | None = None) -> Place:
    """The surface at phi, or at the representative of its equals."""
    theta = surface.theta(phi)
    if canonical is not None:
        before, theta = surface.value(phi), np.asarray(canonical(theta), float)
        phi = surface.phi(theta)
        after = surface.value(phi)
        if abs(after - before) > EQUAL_RISK * max(1.0, abs(before)):
            raise InputError(
                f"symmetry changes the mean loss from {before:.6g} to {after:.6g}; it must map "
                "theta to one of its equals"
            )
    local = surface.local_model(phi)
    H = local.hessian / local.count
    units = surface.objective.coordinates.raw_moment(H)
    if not np.isfinite(units).all():
        raise BadBlock(surface.rows)
    return Place(theta, local, spectrum_of(H), np.linalg.eigvalsh((units + units.T) / 2))


def distinct(surface: Surface, places: list[Place]) -> list[Place]:
    """The stationary points among them, each once."""
    kept: list[Place] = []
    for place in places:
        if not place.is_stationary or any(place.is_same(other) for other in kept):
            continue
        if not _is_at_infinity(surface, place):
            kept.append(place)
    return kept


def _is_at_infinity(surface: Surface, place: Place) -> bool:
    """Whether a flat direction is one along which a few rows at the border still pull back.

    So it is where a component of a mixture has gone far away.
    """
    flat = place.spectrum.flat_directions
    if not flat.size:
        return False
    return effective_rows(surface.row_gradients(place.phi) @ flat) < FEWEST_ROWS


def effective_rows(G: np.ndarray) -> float:
    """The number of rows of equal size that the gradients (n, k) amount to, fewest over k."""
    squares = np.square(G).sum(0)
    sums = np.square(np.abs(G).sum(0))
    return float((sums[squares > 0] / squares[squares > 0]).min(initial=np.inf))

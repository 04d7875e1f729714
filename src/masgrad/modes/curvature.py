"""The signature of H at a stationary point, and how far its eigenvalues are from 0.

Eigenvalues are those of H = D h D, with D such that no row of h is larger than 1: they have no
units, and by Sylvester's law their signs are those of H in any coordinates. An eigenvalue up to
`FLAT` is rounding of 0.

Whether the others are away from 0 in the population as well is a question of sampling error
(`fitting/optimise/nonconvex/flatness.py:influences`).
"""

from typing import NamedTuple

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.optimise.nonconvex.flatness import influences
from masgrad.modes.surface import Surface

FLAT = 1e-6
"""Size of an eigenvalue that is still 0."""

SMALLEST_ROW = 1e-5
"""Size of a row of H, relative to the largest, below which it is not scaled up to 1."""


class Signature(NamedTuple):
    """Numbers of positive, negative and zero eigenvalues of H."""

    positive: int
    negative: int
    flat: int

    @property
    def kind(self) -> str:
        """A minimum, a saddle or a maximum; flat if some eigenvalue is 0."""
        if self.flat:
            return "flat"
        if not self.negative:
            return "minimum"
        return "saddle" if self.positive else "maximum"


class Spectrum(NamedTuple):
    """The scaled H at a point: eigenvalues (p,), eigenvectors (p, p), and D, (p,)."""

    values: np.ndarray
    vectors: np.ndarray
    size: np.ndarray

    @property
    def signature(self) -> Signature:
        """The signs of the eigenvalues."""
        positive, negative = ((s * self.values > FLAT).sum() for s in (1, -1))
        return Signature(int(positive), int(negative), len(self.values) - int(positive + negative))

    @property
    def flat_directions(self) -> np.ndarray:
        """Directions of phi along which H is 0, (p, k), without their rounding errors."""
        flat = self.vectors[:, np.abs(self.values) <= FLAT]
        return np.where(np.abs(flat) > FLAT, flat, 0.0) / self.size[:, None]

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H^-1 b, along directions that are not flat."""
        curved = np.abs(self.values) > FLAT
        inverse = np.where(curved, 1 / np.where(curved, self.values, 1.0), 0.0)
        return (self.vectors * inverse) @ (self.vectors.T @ (b / self.size)) / self.size


def spectrum_of(H: np.ndarray) -> Spectrum:
    """The spectrum of H, scaled twice by the roots of the sizes of its rows."""
    size, scaled = np.ones(len(H)), H
    for _ in range(2):
        rows = np.abs(scaled).max(1)
        rows = np.maximum(rows, max(SMALLEST_ROW * rows.max(), np.finfo(float).tiny))
        size = size * np.sqrt(rows)
        scaled = H / np.outer(size, size)
    return Spectrum(*np.linalg.eigh(scaled), size)


def margin(surface: Surface, local: LocalModel, spectrum: Spectrum) -> float:
    """The smallest distance of an eigenvalue from 0, in its standard errors; 0 if one is flat."""
    if spectrum.signature.flat:
        return 0.0
    errors = [_error(surface, local, spectrum, k) for k in range(len(spectrum.values))]
    with np.errstate(divide="ignore"):
        return float((np.abs(spectrum.values) / np.array(errors)).min())


def _error(surface: Surface, local: LocalModel, spectrum: Spectrum, k: int) -> float:
    """The standard error of an eigenvalue."""
    n, v = local.count, spectrum.vectors[:, k] / spectrum.size

    def solve(b: np.ndarray) -> np.ndarray:
        return spectrum.solve(b / n)

    found = influences(surface.row_gradients, local.point, v, solve)
    return float(np.sqrt(np.square(found - found.sum() / n).sum())) / n

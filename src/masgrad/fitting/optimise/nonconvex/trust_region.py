"""The step of a trust region: the minimum of a quadratic, convex or not, inside a ball.

The minimum of g'u + u'Hu/2 over |u| <= radius is u = -(H + mu)^-1 g with the smallest mu >= 0 that
makes H + mu positive semidefinite and u short enough (More & Sorensen 1983). Where H is positive
definite and the ball is large it is Newton's step; where H vanishes it is one along the gradient;
where H has a negative eigenvalue it leads along that eigenvector, also from a point where the
gradient vanishes (the hard case).
"""

from typing import NamedTuple

import numpy as np

NOTHING = 1e-12
"""Share of the gradient, and of the largest curvature, below which a direction has none."""

SHIFTS, ON_THE_SPHERE = 60, 1e-3
"""Steps of the search for mu, and relative difference of |u| and the radius at which it ends."""


class Quadratic(NamedTuple):
    """g'u + u'Hu/2 in the coordinates of H's eigenvectors.

    Args:
        values: eigenvalues, ascending.
        slope: the gradient along the eigenvectors.
    """

    values: np.ndarray
    slope: np.ndarray

    def __call__(self, u: np.ndarray) -> float:
        return float(self.slope @ u + self.values @ np.square(u) / 2)

    def minimum(self, radius: float) -> np.ndarray:
        """Where it is lowest within the radius."""
        lowest = float(self.values[0])
        least = max(0.0, -lowest)
        u = self._shifted(least)
        if np.linalg.norm(u) > radius:
            return self._on_sphere(least, radius)
        if lowest < 0:  # the hard case: the gradient says nothing about the lowest direction
            more = np.sqrt(max(radius**2 - u @ u, 0.0))
            u[0] += more if self.slope[0] <= 0 else -more
        return u

    def _on_sphere(self, least: float, radius: float) -> np.ndarray:
        """-(H + mu)^-1 g with |u| = radius, by Newton's method for 1/|u| between two bounds."""
        low, high = least, least + float(np.linalg.norm(self.slope)) / radius
        mu, u = high, self._shifted(high)
        for _ in range(SHIFTS):
            length = float(np.linalg.norm(u))
            if abs(length - radius) <= ON_THE_SPHERE * radius:
                break
            low, high = (mu, high) if length > radius else (low, mu)
            with np.errstate(divide="ignore", invalid="ignore"):
                change = float(np.square(u) @ (1 / (self.values + mu)))
            mu += length**2 / change * (length / radius - 1)
            mu = mu if low < mu < high else (low + high) / 2
            u = self._shifted(mu)
        return u

    def _shifted(self, mu: float) -> np.ndarray:
        """-(H + mu)^-1 g; 0 along directions with neither curvature nor gradient."""
        shifted, size = self.values + mu, np.abs(self.values).max(initial=0.0)
        none = np.abs(self.slope) <= NOTHING * np.linalg.norm(self.slope)
        none &= shifted <= NOTHING * size
        with np.errstate(divide="ignore"):
            return -np.where(none, 0.0, self.slope) / np.where(none, 1.0, shifted)

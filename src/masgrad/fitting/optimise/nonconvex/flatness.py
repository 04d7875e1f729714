"""Directions in which a loss is flat at its minimum: eigenvalues of H that are 0, or may be.

H is scaled to a unit diagonal. An eigenvalue is 0 to rounding, or it is tiny and within its
sampling error: then the loss falls on, ever more slowly, and where a descent ends is an accident of
rounding. To first order the eigenvalue of a unit vector v at the stationary point phi of the rows
is a mean over them of

    v' h_i v  -  [d (v' h v) / d phi]' H^-1 g_i

since phi itself moves by -H^-1 g_i / n for each row. Both derivatives are differences of the rows'
gradients along v.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.optimise.nonconvex.loss import Loss
from masgrad.models.gram import scaled_spectrum

FLAT, MAY_BE_FLAT = 1e-8, 1e-5
"""Eigenvalue of the scaled H that is 0 to rounding, and up to which sampling error is looked at."""

CLEAR = 3.0
"""Standard errors from 0 beyond which such an eigenvalue is none."""

WEAK = 0.1
"""Eigenvalue up to which a note says that it is within its sampling error."""

DIFFERENCE = 1e-3
"""Step of the differences along an eigenvector of the scaled H."""

Gradients = Callable[[np.ndarray], np.ndarray]
"""The gradients of rows at a point, (n, p)."""


def influences(
    gradients: Gradients, phi: np.ndarray, v: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """What each row contributes to v'Hv at the stationary point; `solve` is by the sum of H."""
    here, up, down = (gradients(phi + s * DIFFERENCE * v) for s in (0, 1, -1))
    curvature = (up - down) @ v / (2 * DIFFERENCE)
    bend = (up + down - 2 * here).sum(0) / DIFFERENCE**2
    return curvature - here @ solve(bend)


class Curvatures:
    """Eigenvalues of the scaled H, ascending, with their directions and sampling errors."""

    def __init__(self, loss: Loss, local: LocalModel):
        self.loss, self.local = loss, local
        self.size, self.values, self.Q = scaled_spectrum(local.hessian)

    @property
    def axes(self) -> np.ndarray:
        """Directions of phi along which the mean of H has the eigenvalues, (p, p)."""
        return self.Q / self.size[:, None] * np.sqrt(self.local.count)

    def error(self, k: int) -> float:
        """The sampling error of the k-th eigenvalue."""
        G, n = self.loss.row_gradients, self.loss.weight
        found = influences(G, self.local.point, self.axes[:, k], self._solve)
        spread = np.square(found - found.mean()).sum()
        return float(np.sqrt(spread / (n * self.local.count)))

    def flat(self) -> np.ndarray:
        """Which eigenvalues are 0, to rounding or within their sampling error: a mask.

        At the end of a descent the loss does not fall along a negative one, far enough to matter.
        """
        flat = (self.values <= FLAT) & (self.values >= -MAY_BE_FLAT)
        near = (self.values >= -WEAK) & (self.values <= MAY_BE_FLAT)
        for k in np.flatnonzero(near & ~flat):
            flat[k] = abs(self.values[k]) <= CLEAR * self.error(int(k))
        return flat

    def weakest(self) -> tuple[float, float] | None:
        """The smallest eigenvalue that is not flat, and its error, if it is within that."""
        seen = np.flatnonzero(self.values > MAY_BE_FLAT)
        if not len(seen) or self.values[seen[0]] > WEAK:
            return None
        value, error = float(self.values[seen[0]]), self.error(int(seen[0]))
        return (value, error) if value <= error else None

    def without(self, flat: np.ndarray) -> LocalModel:
        """The local model with no curvature along these directions."""
        h = (self.Q * np.where(flat, 0.0, self.values)) @ self.Q.T
        return replace(self.local, hessian=h * np.outer(self.size, self.size))

    def note(self) -> str:
        """What to say of an eigenvalue within its sampling error; empty if there is none."""
        weakest = self.weakest()
        if weakest is None:
            return ""
        value, error = weakest
        return (
            f"H has an eigenvalue of {value:.2g} with standard error {error:.2g} (diagonal scaled "
            "to 1): other rows may have no minimum here, and intervals are rough; use more rows or "
            "fewer parameters."
        )

    def _solve(self, b: np.ndarray) -> np.ndarray:
        """H^-1 b, along directions that are surely not flat; H is summed over the loss's rows."""
        curved = np.abs(self.values) > MAY_BE_FLAT
        inverse = np.where(curved, 1 / np.where(curved, self.values, 1.0), 0.0)
        step = (self.Q * inverse) @ (self.Q.T @ (b / self.size)) / self.size
        return step * (self.local.count / self.loss.weight)

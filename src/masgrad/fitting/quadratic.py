"""A sum over rows of local quadratic models of the loss, and what it says.

    sum_i l_i(phi)  ~  const + G'(phi - point) + (phi - point)' H (phi - point) / 2

Models taken at different points are moved to one and added, so that a single read, whose running
estimate moves, ends with one quadratic as well. The meat M = sum of g g' gives the noise. H is
taken with its diagonal scaled to 1; directions in which it vanishes are left alone by every step.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.models.model import RowSums

SINGULAR = 1e-11
"""An eigenvalue of the scaled H up to this is 0 to rounding."""


EMPTY = 1e-13
"""Share of the largest diagonal entry of H up to which another is 0 to rounding."""


NEGATIVE = 1e-8
"""A negative eigenvalue down to this is rounding of a direction in which H vanishes."""


class NotConvex(InputError):
    """H has a negative direction where a Newton-like step was asked for."""


@dataclass(frozen=True)
class Quadratic:
    """Sums over rows that stand for `count` observations; gradient, squares, loss are at `point`.

    A Hessian or a meat that was not summed is NaN.

    The constants are what y alone adds to the deviance and to the likelihood (see `Family`); the
    information is H's expectation, where non-robust errors of a link that is not canonical need it.
    """

    count: float
    point: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    meat: np.ndarray
    squares: float = 0.0
    peak: np.ndarray | float = 0.0
    loss: float = 0.0
    rows: int = 0
    constants: np.ndarray = field(default_factory=lambda: np.zeros(2))
    information: np.ndarray | None = None

    @classmethod
    def of(cls, count: float, point: np.ndarray, sums: RowSums, rows: int) -> "Quadratic":
        g, H, M, squares, peak, loss, expected = sums
        none = np.full((len(g), len(g)), np.nan) if H is None or M is None else g
        H, M = none if H is None else H, none if M is None else M
        return cls(count, point, g, H, M, squares, peak, loss, rows, information=expected)

    def at(self, point: np.ndarray) -> "Quadratic":
        """The same quadratic, expanded at another point.

        `squares` moves as twice a quadratic loss does: exact for least squares.
        """
        step = point - self.point
        turned = self.hessian @ step
        rise = float(self.gradient @ step + step @ turned / 2)
        return self.with_same_hessian(
            point=point,
            gradient=self.gradient + turned,
            squares=self.squares + 2 * rise,
            loss=self.loss + rise,
        )

    def with_same_hessian(self, **changes: Any) -> "Quadratic":
        """Another record with the same H, whose spectrum it takes along if that is known."""
        new = replace(self, **changes)
        if "spectrum" in vars(self):
            vars(new)["spectrum"] = self.spectrum
        return new

    def merge(self, other: "Quadratic") -> "Quadratic":
        """The model of both sets of rows."""
        other = other.at(self.point)
        return Quadratic(
            self.count + other.count,
            self.point,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.meat + other.meat,
            self.squares + other.squares,
            np.maximum(self.peak, other.peak),
            self.loss + other.loss,
            self.rows + other.rows,
            self.constants + other.constants,
            plus(self.information, other.information),
        )

    def felt(self, step: np.ndarray, dispersed: bool) -> float:
        """How far a step moves the residual of the row that feels it most, in units of its noise.

        Where some row's residual changes, so do M and H.
        """
        noise = np.sqrt(max(self.at(self.point + step).squares, 0.0) / self.count)
        noise = noise if dispersed else 1.0
        most = float(np.linalg.norm(self.peak * step))
        return most / noise if noise > 0 else (np.inf if most else 0.0)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Size of each column, eigenvalues and vectors of H with its diagonal scaled to 1.

        A column that is empty to rounding is left at 0: scaled up it would be noise.
        """
        diagonal = np.abs(np.diag(self.hessian))
        alive = diagonal > EMPTY * diagonal.max()
        size = np.sqrt(np.where(alive, diagonal, 1.0))
        scaled = np.where(np.outer(alive, alive), self.hessian / np.outer(size, size), 0.0)
        values, vectors = np.linalg.eigh(scaled)
        return size, values, vectors

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue of the scaled H, where it does not vanish."""
        values = self.spectrum[1]
        values = values[values > SINGULAR]
        return float(values[-1] / values[0]) if len(values) else np.inf

    @property
    def null(self) -> np.ndarray:
        """Directions of phi in which H vanishes, (p, k)."""
        size, values, Q = self.spectrum
        return Q[:, values <= SINGULAR] / size[:, None]

    def newton(self) -> np.ndarray:
        """The step to the quadratic's minimum, -H^-1 G."""
        return -self.solve(self.gradient)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H^-1 b, outside the directions in which H vanishes."""
        size, values, Q = self.spectrum
        if values[0] < -NEGATIVE:
            raise NotConvex(f"H has the negative eigenvalue {values[0]:.2g}")
        keep = values > SINGULAR
        along = (Q[:, keep].T @ (b.T / size).T).T / values[keep]
        return ((Q[:, keep] @ along.T).T / size).T

    def errors(self, step: np.ndarray) -> float:
        """A step in standard errors, in the contrast where it is largest."""
        turned = self.hessian @ step
        if not turned.any():
            return 0.0
        size = np.sqrt(np.maximum(np.diag(self.meat), 1e-200))
        values, Q = np.linalg.eigh(self.meat / np.outer(size, size))
        along = Q.T @ (turned / size)
        floor = max(1e-12 * values[-1], 1e-100)
        with np.errstate(over="ignore"):
            return float(np.sqrt((along**2 / np.maximum(values, floor)).sum()))

    def typical(self, step: np.ndarray) -> float:
        """A step in standard errors, root mean square over contrasts."""
        return self.errors(step) / np.sqrt(len(step))

    def sandwich(self) -> np.ndarray:
        """H^-1 M H^-1 over sums: the robust covariance of the estimate (HC0)."""
        return self.solve(self.solve(self.meat).T)

    def expected(self) -> "Quadratic":
        """The same with expected curvature, where that was summed."""
        return self if self.information is None else replace(self, hessian=self.information)

    def inverse(self) -> np.ndarray:
        return self.solve(np.eye(len(self.point)))


def plus(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """A sum of what both have."""
    return None if a is None or b is None else a + b

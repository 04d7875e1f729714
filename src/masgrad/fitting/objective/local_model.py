"""The local quadratic model of the loss, summed over rows, and the numbers derived from it.

    sum_i l_i(phi)  ~  const + G'(phi - point) + (phi - point)' H (phi - point) / 2

Models at different points are expanded at one point and added, so that a single read, whose running
estimate moves, ends with one model as well. The meat M = sum of g g' measures the noise. H is
scaled to a unit diagonal; no step moves along a direction in which H vanishes. The model of rows
that will not be read again has third-order terms as well (`ThirdOrder`).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.models.model import RowSums

ZERO_EIGENVALUE = 1e-11
"""Eigenvalue of the scaled H that is 0 to rounding."""

ZERO_DIAGONAL = 1e-13
"""Share of the largest diagonal entry of a moment matrix that is 0 to rounding."""

NEGATIVE_EIGENVALUE = 1e-8
"""Size of a negative eigenvalue of the scaled H that is still rounding of 0."""


LARGEST_BEND = 0.5
"""Relative change of H, in any direction, up to which a cubic model is followed."""


class NotConvex(InputError):
    """H has a negative eigenvalue where a Newton step was asked for."""


@dataclass(frozen=True)
class ThirdOrder:
    """How H, M and X^2 of rows change with phi, and what a model with these terms misses.

    A cubic polynomial that is expanded at another point is the same polynomial, so that what it
    misses depends on the way D from where its rows were summed, and not on the steps between. D is
    measured in the metric of H / N; parts of the rows may have been summed at different points.

    Args:
        hessian: dH / dphi, (p, p, p), the coordinate of phi last.
        meat: dM / dphi, likewise.
        meat_bend: d^2 M / dphi^2 / 2, (p, p, p, p), or its mean over D of length 1, (p, p).
        squares: dX^2 / dphi, (p,).
        centre: mean of the points at which rows were summed, (p,).
        noise: sum over parts of the sampling variance of `hessian` times D D, for D of length 1.
        noise_reach: root of the sum over parts of that variance times |D|^4.
        fourth: sum over parts of the size of fourth derivatives times D D D, for D of length 1.
        fourth_reach: the sum over parts of that size times |D|^3, to the power 2/3.
    """

    hessian: np.ndarray
    meat: np.ndarray
    meat_bend: np.ndarray
    squares: np.ndarray
    centre: np.ndarray
    noise: float = 0.0
    noise_reach: float = 0.0
    fourth: float = 0.0
    fourth_reach: float = 0.0

    def after(self, step: np.ndarray, total: "LocalModel") -> "ThirdOrder":
        """The terms a step away from where the model of these rows is."""
        turned = total.hessian @ step / total.count
        longer = float(step @ turned + 2 * (total.point - self.centre) @ turned)
        return replace(
            self,
            meat=self.meat + 2 * self.meat_change(step, turned),
            squares=self.squares + 2 * total.count * turned,
            noise_reach=max(self.noise_reach + np.sqrt(self.noise) * longer, 0.0),
            fourth_reach=max(self.fourth_reach + self.fourth ** (2 / 3) * longer, 0.0),
        )

    def meat_change(self, step: np.ndarray, turned: np.ndarray) -> np.ndarray:
        """`meat_bend` times a step, (p, p, p); `turned` is H / N times the step."""
        if self.meat_bend.ndim == 4:
            return self.meat_bend @ step
        return np.multiply.outer(self.meat_bend, turned)

    def gradient_error(self) -> float:
        """Size of the gradient that is missed, in the metric of the inverse of H / N.

        It has two standard deviations of the sampling error of half of T D D, and D D D / 6.
        """
        return float(np.hypot(self.noise_reach, self.fourth_reach**1.5 / 6))

    def plus(self, new: "ThirdOrder", share: float) -> "ThirdOrder":
        """The terms of these rows and of new ones, which have this share of all."""
        return ThirdOrder(
            self.hessian + new.hessian,
            self.meat + new.meat,
            self.meat_bend + new.meat_bend,
            self.squares + new.squares,
            self.centre + share * (new.centre - self.centre),
            self.noise + new.noise,
            float(np.hypot(self.noise_reach, new.noise_reach)),
            self.fourth + new.fourth,
            float(self.fourth_reach**1.5 + new.fourth_reach**1.5) ** (2 / 3),
        )


@dataclass(frozen=True)
class LocalModel:
    """Sums over `rows` rows that represent `count` observations; all but H and M are at `point`.

    Args:
        count: total weight of the rows.
        point: where the model is expanded, (p,).
        gradient: G, (p,).
        hessian: H, (p, p); NaN if it was not summed.
        meat: M, (p, p); NaN if it was not summed.
        squares: Pearson's X^2, for families with a dispersion.
        max_weighted_x: largest |x_j| sqrt(curvature) over the rows, (p,).
        loss: sum of the losses.
        rows: number of rows.
        constants: terms of the deviance and of the likelihood that depend on y alone (`Family`).
        information: the expected H, if non-robust errors of a non-canonical link need it.
        third: terms of third order, for rows that later ones may follow (`update`).
    """

    count: float
    point: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    meat: np.ndarray
    squares: float = 0.0
    max_weighted_x: np.ndarray | float = 0.0
    loss: float = 0.0
    rows: int = 0
    constants: np.ndarray = field(default_factory=lambda: np.zeros(2))
    information: np.ndarray | None = None
    third: ThirdOrder | None = None

    @classmethod
    def of(cls, count: float, point: np.ndarray, sums: RowSums, rows: int) -> "LocalModel":
        g, H, M, squares, largest, loss, expected = sums
        none = np.full((len(g), len(g)), np.nan) if H is None or M is None else g
        H, M = none if H is None else H, none if M is None else M
        return cls(count, point, g, H, M, squares, largest, loss, rows, information=expected)

    def at(self, point: np.ndarray) -> "LocalModel":
        """The same model, expanded at another point.

        `squares` moves as twice a quadratic loss does: exact for least squares.
        """
        step = point - self.point
        if self.third is not None:
            return self._along_cubic(step, self.third)
        turned = self.hessian @ step
        rise = float(self.gradient @ step + step @ turned / 2)
        return self.with_same_hessian(
            point=point,
            gradient=self.gradient + turned,
            squares=self.squares + 2 * rise,
            loss=self.loss + rise,
        )

    def _along_cubic(self, step: np.ndarray, third: ThirdOrder) -> "LocalModel":
        """The model after a step, with H and M there."""
        H = self.hessian
        turned, bend = H @ step, self.bend_share(step) * (third.hessian @ step)
        rise = float(self.gradient @ step + step @ turned / 2 + step @ bend @ step / 6)
        M = self.meat + (third.meat + third.meat_change(step, turned / self.count)) @ step
        return replace(
            self,
            point=self.point + step,
            gradient=self.gradient + turned + bend @ step / 2,
            hessian=H + bend,
            meat=M if np.linalg.eigvalsh(M)[0] >= 0 else self.meat,
            squares=self.squares + float(third.squares @ step + step @ turned),
            loss=self.loss + rise,
            third=third.after(step, self),
        )

    def bend_share(self, step: np.ndarray) -> float:
        """The share of the third-order terms that is followed: less than 1 after a long step."""
        if self.third is None:
            return 0.0
        bend = np.abs(np.linalg.eigvals(self.solve(self.third.hessian @ step))).max()
        return 1.0 if bend <= LARGEST_BEND else float(LARGEST_BEND / bend)

    def with_same_hessian(self, **changes: Any) -> "LocalModel":
        """A changed record with the same H; a spectrum that was computed is kept."""
        new = replace(self, **changes)
        if "spectrum" in vars(self):
            vars(new)["spectrum"] = self.spectrum
        return new

    def merge(self, other: "LocalModel") -> "LocalModel":
        """The model of both sets of rows."""
        other = other.at(self.point)
        return LocalModel(
            self.count + other.count,
            self.point,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.meat + other.meat,
            self.squares + other.squares,
            np.maximum(self.max_weighted_x, other.max_weighted_x),
            self.loss + other.loss,
            self.rows + other.rows,
            self.constants + other.constants,
            plus(self.information, other.information),
        )

    def max_residual_shift(self, step: np.ndarray, dispersed: bool) -> float:
        """Bound on the change of any row's residual over a step, in units of the noise.

        M and H are those of `point` only while no residual changes much, or if they move with it:
        then it is 0.
        """
        if self.third is not None and self.bend_share(step) == 1:
            return 0.0
        noise = np.sqrt(max(self.at(self.point + step).squares, 0.0) / self.count)
        noise = noise if dispersed else 1.0
        shift = float(np.linalg.norm(self.max_weighted_x * step))
        return shift / noise if noise > 0 else (np.inf if shift else 0.0)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scale of each column, and eigenvalues and eigenvectors of H scaled to a unit diagonal.

        Empty columns stay 0: scaled to 1 they would be rounding errors.
        """
        diagonal, full = np.abs(np.diag(self.hessian)), ~is_empty(self.hessian)
        size = np.sqrt(np.where(full, diagonal, 1.0))
        scaled = np.where(np.outer(full, full), self.hessian / np.outer(size, size), 0.0)
        values, vectors = np.linalg.eigh(scaled)
        return size, values, vectors

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest eigenvalue of the scaled H that is not 0."""
        values = self.spectrum[1]
        values = values[values > ZERO_EIGENVALUE]
        return float(values[-1] / values[0]) if len(values) else np.inf

    @property
    def null_directions(self) -> np.ndarray:
        """Basis of the directions of phi in which H vanishes, (p, k)."""
        size, values, Q = self.spectrum
        return Q[:, values <= ZERO_EIGENVALUE] / size[:, None]

    def newton(self) -> np.ndarray:
        """The step to the minimum of the model, -H^-1 G."""
        return -self.solve(self.gradient)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H^-1 b on the range of H: the pseudo-inverse of the scaled H is used."""
        size, values, Q = self.spectrum
        if values[0] < -NEGATIVE_EIGENVALUE:
            raise NotConvex(f"H has the negative eigenvalue {values[0]:.2g}")
        keep = values > ZERO_EIGENVALUE
        along = (Q[:, keep].T @ (b.T / size).T).T / values[keep]
        return ((Q[:, keep] @ along.T).T / size).T

    def wald_norm(self, step: np.ndarray) -> float:
        """Length of a step in standard errors of the contrast in which it is longest."""
        turned = self.hessian @ step
        if not turned.any():
            return 0.0
        size = np.sqrt(np.maximum(np.diag(self.meat), 1e-200))
        values, Q = np.linalg.eigh(self.meat / np.outer(size, size))
        along = Q.T @ (turned / size)
        floor = max(1e-12 * values[-1], 1e-100)
        with np.errstate(over="ignore"):
            return float(np.sqrt((along**2 / np.maximum(values, floor)).sum()))

    def rms_wald_norm(self, step: np.ndarray) -> float:
        """Length of a step in standard errors, root mean square over contrasts."""
        return self.wald_norm(step) / np.sqrt(len(step))

    def sandwich(self) -> np.ndarray:
        """H^-1 M H^-1: the robust covariance of the estimate (HC0)."""
        return self.solve(self.solve(self.meat).T)

    def expected(self) -> "LocalModel":
        """The same model with the expected H, if that was summed."""
        return self if self.information is None else replace(self, hessian=self.information)

    def inverse(self) -> np.ndarray:
        return self.solve(np.eye(len(self.point)))


def is_empty(moment: np.ndarray) -> np.ndarray:
    """Which columns are 0 in every row, to rounding: a mask from H or from X'X."""
    diagonal = np.abs(np.diag(moment))
    return ~(diagonal > ZERO_DIAGONAL * diagonal.max(initial=0.0))


def plus(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """The sum, or None if either is missing."""
    return None if a is None or b is None else a + b

"""The local quadratic model of the loss, summed over rows, and the numbers derived from it.

    sum_i l_i(phi)  ~  const + G'(phi - point) + (phi - point)' H (phi - point) / 2

Models at different points are expanded at one point and added, so that a single read, whose running
estimate moves, ends with one model as well. The meat M = sum of g g' measures the noise. H is
scaled to a unit diagonal; no step moves along a direction in which H vanishes. The model of rows
that will not be read again has third-order terms as well (`ThirdOrder`).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.objective.third_order import ThirdOrder, along_cubic
from masgrad.models.gram import ZERO_EIGENVALUE, Factor, factor, scaled_eigenvalues, scaled_spectrum
from masgrad.models.model import RowSums, padded_sum, plus

NEGATIVE_EIGENVALUE = 1e-8
"""Size of a negative eigenvalue of the scaled H that is still rounding of 0."""

LARGEST_BEND = 0.5
"""Relative change of H, in any direction, up to which a cubic model is followed."""

SPECTRA_OF_H = ("factor", "spectrum", "eigenvalues")
SPECTRA = (*SPECTRA_OF_H, "meat_factor", "meat_spectrum", "covariance")
"""Properties of a local model that are computed once: of H, of M, and of both."""


class NotConvex(InputError):
    """H has a negative eigenvalue where a Newton step was asked for."""


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
        constants: sums without theta: terms of the deviance and of the likelihood in y alone
            (`Family`), (2,), and marks of the rows (`totals.constants_of`), if these were summed.
        information: the expected H, if non-robust errors of a non-canonical link need it.
        third: terms of third order, for rows that later ones may follow (`update`).
        moments_at: where H and M were summed, (p,), if the gradient was summed again elsewhere.
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
    moments_at: np.ndarray | None = None

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
            return along_cubic(self, step, self.third)
        turned = self.hessian @ step
        rise = float(self.gradient @ step + step @ turned / 2)
        return self.with_same_hessian(
            point=point,
            gradient=self.gradient + turned,
            squares=self.squares + 2 * rise,
            loss=self.loss + rise,
        )

    def with_gradient(self, new: "LocalModel") -> "LocalModel":
        """The sums of a later read at another point, with H and M of this one."""
        return self.with_same_hessian(
            point=new.point,
            gradient=new.gradient,
            squares=new.squares,
            loss=new.loss,
            moments_at=self.moments_point,
        )

    @property
    def moments_point(self) -> np.ndarray:
        """Where H and M were summed."""
        return self.point if self.moments_at is None else self.moments_at

    @property
    def has_meat(self) -> bool:
        """Whether M was summed."""
        return not np.isnan(self.meat[0, 0])

    def bend_share(self, step: np.ndarray) -> float:
        """The share of the third-order terms that is followed: less than 1 after a long step."""
        if self.third is None:
            return 0.0
        bend = np.abs(np.linalg.eigvals(self.solve(self.third.hessian @ step))).max()
        return 1.0 if bend <= LARGEST_BEND else float(LARGEST_BEND / bend)

    def with_same_hessian(self, **changes: Any) -> "LocalModel":
        """A changed record with the same H; spectra that were computed are kept."""
        new, kept = replace(self, **changes), SPECTRA_OF_H if "meat" in changes else SPECTRA
        vars(new).update({k: v for k, v in vars(self).items() if k in kept})
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
            padded_sum(self.constants, other.constants),
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
    def factor(self) -> Factor | None:
        """The factor of H; None if H is nearly singular or not positive definite."""
        return factor(self.hessian)

    @cached_property
    def meat_factor(self) -> Factor | None:
        """The factor of M; None if M is nearly singular."""
        return factor(self.meat)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of H, as `scaled_spectrum`."""
        return scaled_spectrum(self.hessian)

    @cached_property
    def meat_spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scale of each column, and eigenvalues and eigenvectors of M scaled to a unit diagonal."""
        size = np.sqrt(np.maximum(np.diag(self.meat), 1e-200))
        scaled = self.meat / np.outer(size, size)
        if not np.isfinite(scaled).all():  # gradients of 1e150 and more
            raise NotConvex("the gradients' second moments are not finite")
        values, vectors = np.linalg.eigh(scaled)
        return size, values, vectors

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """Of the scaled H."""
        return scaled_eigenvalues(self.hessian) if self.factor else self.spectrum[1]

    def deficiency(self, zero: float) -> int:
        """Number of eigenvalues of the scaled H up to `zero`, which is far below 1."""
        return 0 if self.factor else int((self.spectrum[1] <= zero).sum())

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest eigenvalue of the scaled H that is not 0."""
        values = self.eigenvalues
        values = values[values > ZERO_EIGENVALUE]
        return float(values[-1] / values[0]) if len(values) else np.inf

    @property
    def null_directions(self) -> np.ndarray:
        """Basis of the directions of phi in which H vanishes, (p, k)."""
        if self.factor:
            return np.empty((len(self.point), 0))
        size, values, Q = self.spectrum
        return Q[:, values <= ZERO_EIGENVALUE] / size[:, None]

    def newton(self) -> np.ndarray:
        """The step to the minimum of the model, -H^-1 G."""
        return -self.solve(self.gradient)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H^-1 b; of a nearly singular H the pseudo-inverse of the scaled H is used."""
        if self.factor:
            return self.factor.solve(b)
        size, values, Q = self.spectrum
        if values[0] < -NEGATIVE_EIGENVALUE:
            raise NotConvex(f"H has the negative eigenvalue {values[0]:.2g}")
        keep = values > ZERO_EIGENVALUE
        if not keep.all():
            values, Q = values[keep], Q[:, keep]
        along = (Q.T @ (b.T / size).T).T / values
        return ((Q @ along.T).T / size).T

    def wald_norm(self, step: np.ndarray) -> float:
        """Length of a step in standard errors of the worst contrast; without M, those of a model
        that is true."""
        turned = self.hessian @ step
        if not turned.any():
            return 0.0
        if not self.has_meat:
            noise = (self.squares or self.count) / self.count
            return float(np.sqrt(max(step @ turned, 0.0) / noise))
        if self.meat_factor:
            return self.meat_factor.norm(turned)
        size, values, Q = self.meat_spectrum
        along = Q.T @ (turned / size)
        floor = max(1e-12 * values[-1], 1e-100)
        with np.errstate(over="ignore"):
            return float(np.sqrt((along**2 / np.maximum(values, floor)).sum()))

    def rms_wald_norm(self, step: np.ndarray) -> float:
        """Length of a step in standard errors, root mean square over contrasts."""
        return self.wald_norm(step) / np.sqrt(len(step))

    def sandwich(self) -> np.ndarray:
        """H^-1 M H^-1: the robust covariance of the estimate (HC0)."""
        return self.covariance

    @cached_property
    def covariance(self) -> np.ndarray:
        """The sandwich, computed once."""
        if not self.factor:
            return self.solve(self.solve(self.meat).T)
        inverse = self.factor.inverse()
        return inverse @ self.meat @ inverse

    def expected(self) -> "LocalModel":
        """The same model with the expected H, if that was summed."""
        return self if self.information is None else replace(self, hessian=self.information)

    def inverse(self) -> np.ndarray:
        return self.factor.inverse() if self.factor else self.solve(np.eye(len(self.point)))


def merged(parts: list[LocalModel]) -> LocalModel:
    """The local model of all parts."""
    return reduce(LocalModel.merge, parts)


def error_change(a: LocalModel, b: LocalModel) -> float:
    """The largest difference of standard errors, relative to those of b."""
    new, old = (np.diag(model.sandwich()) for model in (a, b))
    positive = old > 0
    ratios = np.sqrt(np.maximum(new[positive], 0.0) / old[positive])
    return float(np.abs(ratios - 1).max(initial=0.0))


@dataclass(frozen=True)
class Ridge:
    """The quadratic penalty phi' P phi / 2 of every row; P is None without one."""

    matrix: np.ndarray | None = None

    def value(self, phi: np.ndarray) -> float:
        """The penalty of one row at phi."""
        return 0.0 if self.matrix is None else float(phi @ self.matrix @ phi) / 2

    def slope(self, phi: np.ndarray) -> np.ndarray | float:
        """Its gradient, for one phi or for columns of them."""
        return 0.0 if self.matrix is None else self.matrix @ phi

    def add(self, s: RowSums, phi: np.ndarray, count: float) -> RowSums:
        """Sums over rows of total weight `count`, with the penalty added."""
        if self.matrix is None:
            return s
        a = self.matrix @ phi
        H = None if s.hessian is None else s.hessian + count * self.matrix
        cross = np.outer(s.gradient, a)
        M = None if s.meat is None else s.meat + cross + cross.T + count * np.outer(a, a)
        extra = count * self.value(phi)
        return s._replace(
            gradient=s.gradient + count * a,
            hessian=H,
            meat=M,
            loss=s.loss + extra,
            squares=s.squares + 2 * extra,
        )

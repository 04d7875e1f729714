"""Third-order terms of rows that are not read again, so that later ones can be added to them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # for the annotation alone
    from masgrad.fitting.objective.local_model import LocalModel

NEGATIVE = 1e-12
"""Size of a negative eigenvalue of M, in that of the largest, that is still rounding of 0."""


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

    def after(
        self, step: np.ndarray, point: np.ndarray, turned: np.ndarray, count: float
    ) -> "ThirdOrder":
        """The terms a step away from a point; `turned` is H / N times the step."""
        longer = float(step @ turned + 2 * (point - self.centre) @ turned)
        return replace(
            self,
            meat=self.meat + 2 * self.meat_change(step, turned),
            squares=self.squares + 2 * count * turned,
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


def along_cubic(local: "LocalModel", step: np.ndarray, third: ThirdOrder) -> "LocalModel":
    """The model after a step, with H and M there."""
    H = local.hessian
    turned, bend = H @ step, local.bend_share(step) * (third.hessian @ step)
    rise = float(local.gradient @ step + step @ turned / 2 + step @ bend @ step / 6)
    M = local.meat + (third.meat + third.meat_change(step, turned / local.count)) @ step
    return replace(
        local,
        point=local.point + step,
        gradient=local.gradient + turned + bend @ step / 2,
        hessian=H + bend,
        meat=M if _is_a_meat(M) else local.meat,
        squares=local.squares + float(third.squares @ step + step @ turned),
        loss=local.loss + rise,
        third=third.after(step, local.point, turned / local.count, local.count),
    )


def _is_a_meat(M: np.ndarray) -> bool:
    """Whether M has no negative eigenvalue but for rounding, as where rows determine less than p
    directions."""
    values = np.linalg.eigvalsh(M)
    return bool(values[0] >= -NEGATIVE * values[-1])

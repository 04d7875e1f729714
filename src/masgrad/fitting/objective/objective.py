"""The objective function: the mean loss of a model in the coordinates phi.

Sums over a block of rows are computed in the user's units and transformed to phi, or the rows are
transformed first if sums over raw rows would cancel (`Coordinates`). An objective is frozen: it
knows the loss and the coordinates, and nothing of where rows come from (`Reader`) or of what a fit
has found so far.

A quadratic penalty is part of every row's loss, l(phi) + phi' P phi / 2 (`Ridge`): all sums remain
sums over rows, and the meat is that of penalised gradients. At the penalised optimum, where the
mean gradient is -P phi, it is the gradients' covariance.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.arrays import blocks, count_rows, is_finite, leaves, long_blocks, powers
from masgrad.data.designs.structured import Structured
from masgrad.data.regression import (
    ColumnSizes,
    column_sizes,
    distinct,
    total_weight,
    weight_of,
    with_design,
)
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import LocalModel, Ridge
from masgrad.models.families.canonical import Gaussian
from masgrad.models.families.family import Family
from masgrad.models.glm import GLM, information_sum, linear_sums
from masgrad.models.gram import SinglePrecision
from masgrad.models.model import Model, RowSums, add
from masgrad.types import Rows

CACHED = 1 << 15
"""Entries of a block of rows that stay in a core's cache while they are raised to powers."""


class BadBlock(Exception):
    """A block (of a shard) whose sums are not finite, or whose responses the family refuses."""

    def __init__(self, rows: Rows, shard: int | None = None):
        super().__init__(rows, shard)
        self.rows, self.shard = rows, shard


class Parts(NamedTuple):
    """Which sums are computed besides the gradient: H, M, the loss, and the likelihood's constants.

    The loss, and X^2, come with H in any case.
    """

    hessian: bool = True
    meat: bool = True
    constants: bool = False
    loss: bool = True


H_AND_M = Parts()
GRADIENT = Parts(hessian=False, meat=False)
NO_RIDGE = Ridge()


@dataclass(frozen=True)
class Objective:
    """The mean loss as a function of phi.

    Args:
        model: the loss of one row.
        coordinates: theta = J phi.
        ridge: a quadratic penalty.
        prior: the local model of rows that an earlier fit has read.
        with_information: whether the expected H is summed besides the observed one.
        single: in which M is summed, and H with it; None for double precision.
        squared: whether rows count in M by the square of their weight, which is no frequency.
    """

    model: Model
    coordinates: Coordinates
    ridge: Ridge = NO_RIDGE
    prior: LocalModel | None = None
    with_information: bool = False
    single: SinglePrecision | None = None
    squared: bool = False

    @cached_property
    def family(self) -> Family | None:
        """The family of a linear predictor; None for other losses."""
        return self.model.family if isinstance(self.model, GLM) else None

    @property
    def linear(self) -> bool:
        """Whether the loss is one of a linear predictor."""
        return self.family is not None

    @property
    def dispersed(self) -> bool:
        """Whether the family has a dispersion to estimate."""
        return self.family is not None and self.family.dispersed

    @property
    def separable(self) -> bool:
        """Whether the loss can fall for ever along a direction."""
        return self.family is not None and self.family.separable

    @property
    def may_be_separated(self) -> bool:
        """Whether nothing but the rows can bound the loss, and they may not."""
        return self.separable and self.prior is None and self.ridge.matrix is None

    @property
    def bounded(self) -> bool:
        """Whether some values of the linear predictor have no mean."""
        return self.family is not None and bool(np.isfinite(self.family.domain).any())

    @property
    def exponential(self) -> bool:
        """Whether curvatures change by a factor e or so for each unit of the linear predictor."""
        return self.family is not None and not (self.bounded or isinstance(self.family, Gaussian))

    @property
    def convex(self) -> bool:
        """Whether the loss is known to be convex."""
        return self.family is not None and self.family.convex

    def scoring(self) -> "Objective":
        """The objective with expected curvatures (Fisher scoring); itself if it is convex."""
        if not isinstance(self.model, GLM) or self.model.family.convex:
            return self
        return replace(self, model=self.model.scoring())

    def initial_point(self, rows: Rows) -> np.ndarray:
        """Where a fit begins unless told otherwise."""
        return self.coordinates.phi(self.model.initial_theta(rows))

    # Values at rows in memory.

    def losses(self, phi: np.ndarray, rows: Rows) -> np.ndarray:
        """The loss of every row, times its weight."""
        at, a = self.argument(phi), weight_of(rows)
        parts = [self.model.row_losses(at, self.transformed(block)) for block in blocks(rows)]
        loss = np.concatenate(parts) + self.ridge.value(phi)
        return loss if a is None else a * loss

    def falls(self, phi: np.ndarray, points: np.ndarray, rows: Rows) -> np.ndarray:
        """By how much the loss of these rows falls from phi to each of the points, (K, p).

        Rows are compared one by one: a difference of two sums would lose what they have in common.
        Where a row has no mean the fall is -inf.
        """
        at, ends = self.argument(phi), [self.argument(point) for point in points]
        total = np.zeros(len(ends))
        for block in blocks(rows):
            a, block = weight_of(block), self.transformed(block)
            with np.errstate(all="ignore"):
                before = self.model.row_losses(at, block)
                falls = np.array([before - self.model.row_losses(end, block) for end in ends])
                total += falls.sum(1) if a is None else falls @ a
        penalty = np.array([self.ridge.value(phi) - self.ridge.value(point) for point in points])
        total += penalty * total_weight(rows)
        return np.where(np.isnan(total), -np.inf, total)

    def missed_gradient(self, phi: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum over rows of g(phi + step) - g(phi) - H step."""
        total = np.zeros_like(phi)
        for block in blocks(rows):
            total += self.model.missed_gradient(
                self.argument(phi), self.argument(step), self.transformed(block)
            )
        return total if self.coordinates.transforms_rows else total @ self.coordinates.matrix

    def features(self, rows: Rows) -> np.ndarray:
        """The design matrix in phi: x'theta is features'phi."""
        if self.coordinates.transforms_rows:
            return self.coordinates.design(rows[0])
        return self.coordinates.raw_design(rows[0])

    def spread_features(self, rows: Rows) -> Any:
        """Features, or of coded and sparse rows columns of the same size, for sums over rows."""
        X, c = rows[0], self.coordinates
        structured = isinstance(X, Structured)
        return X.standardised(c.centre, c.scale) if structured else self.features(rows)

    def weighted_squares(self, w: np.ndarray, chosen: np.ndarray, rows: Rows) -> np.ndarray:
        """Sums over rows of w u^2, for the columns of `spread_features` under a mask."""
        X, c = rows[0], self.coordinates
        if isinstance(X, Structured) or c.transforms_rows or 4 * chosen.sum() > len(chosen):
            return (w @ powers(self.spread_features(rows), 2))[chosen]
        return w @ np.square(X @ c.matrix[:, chosen])

    def standardised(self, rows: Rows) -> np.ndarray:
        """Features, or columns of the same size and place where these cost a product; a copy."""
        c = self.coordinates
        return self.features(rows) if c.transforms_rows else (rows[0] - c.centre) / c.scale

    def predictors(self, phi: np.ndarray, rows: Rows) -> np.ndarray:
        """Linear predictors without their offsets; no features are formed."""
        return self.transformed(rows)[0] @ self.argument(phi)

    def constants(self, rows: Rows) -> np.ndarray:
        """Terms of the deviance and of the likelihood that depend on y alone."""
        if self.family is None:
            return np.zeros(2)
        y, a = distinct(rows)
        with np.errstate(all="ignore"):
            parts = self.family.saturated(y), self.family.base(y)
        return np.array([part.sum() if a is None else a @ part for part in parts])

    def column_sizes(self, rows: Rows) -> ColumnSizes | None:
        """Sizes of the columns of `spread_features`; None without a linear predictor."""
        if self.family is None:
            return None
        size = None if isinstance(rows[0], Structured) else max(1, CACHED // rows[0].shape[1])
        return column_sizes(self.spread_features(block) for block in blocks(rows, size))

    # Sums over rows.

    def local_model(self, phi: np.ndarray, rows: Rows, parts: Parts = H_AND_M) -> LocalModel:
        """The local model of rows in memory."""
        at, total = self.argument(phi), None
        cut = blocks if self.coordinates.transforms_rows else long_blocks
        for block in cut(rows):
            sums = self.raw_sums(at, block, parts)
            total = sums if total is None else add(total, sums)
        assert total is not None
        return self.from_raw_sums(phi, total, total_weight(rows), count_rows(rows))

    def local_models(self, points: np.ndarray, rows: Rows) -> list[LocalModel]:
        """The local models of rows in memory at several points, (K, p), of no linear predictor."""
        at, totals = np.stack([self.argument(phi) for phi in points]), []
        for block in blocks(rows):
            sums = self.model.row_sums_at(at, block, squared=self.squared)
            for each in sums:
                self._check(block, each)
            totals = list(map(add, totals, sums)) if totals else sums
        size = total_weight(rows), count_rows(rows)
        return [self.from_raw_sums(phi, s, *size) for phi, s in zip(points, totals, strict=True)]

    def block_sums(self, phi: np.ndarray, rows: Rows, parts: Parts = H_AND_M) -> RowSums:
        """Sums over one block, in phi."""
        sums = self._in_phi(self.raw_sums(self.argument(phi), rows, parts))
        return self.ridge.add(sums, phi, total_weight(rows))

    def block_summer(self, phi: np.ndarray, parts: Parts):
        """A function that sums over blocks at phi: what a read calls, block after block."""
        at = self.argument(phi)
        return lambda rows: self.raw_sums(at, rows, parts)

    def raw_sums(self, at: np.ndarray, rows: Rows, parts: Parts) -> RowSums:
        """Sums over one block before they are transformed to phi; `at` is theta or phi."""
        rows_in_phi = self.transformed(rows)
        hessian, meat = parts[:2]
        if self.family is not None:
            single = self.single if meat else None
            more = {"with_loss": parts.loss, "single": single, "squared": self.squared}
            sums = linear_sums(self.family, rows_in_phi, at, hessian, meat, **more)
            if self.with_information and hessian:
                sums = sums._replace(information=information_sum(self.family, rows_in_phi, at))
        else:
            sums = self.model.row_sums(at, rows_in_phi, hessian, meat, squared=self.squared)
        self._check(rows, sums)
        return sums

    def from_raw_sums(self, phi: np.ndarray, sums: RowSums, count: float, rows: int) -> LocalModel:
        """The local model at phi, from raw sums over rows of total weight `count`."""
        return LocalModel.of(count, phi, self.ridge.add(self._in_phi(sums), phi, count), rows)

    def gradient_noise(self, total: LocalModel, design_effect: float) -> np.ndarray:
        """Variance of a sum of raw gradients for each unit of weight."""
        meat = design_effect * total.meat / total.count
        return meat if self.coordinates.transforms_rows else self.coordinates.raw_moment(meat)

    def argument(self, phi: np.ndarray) -> np.ndarray:
        return phi if self.coordinates.transforms_rows else self.coordinates.theta(phi)

    def transformed(self, rows: Rows) -> Rows:
        if not self.coordinates.transforms_rows:
            return rows
        return with_design(rows, self.coordinates.design(rows[0]))

    def _in_phi(self, sums: RowSums) -> RowSums:
        return sums if self.coordinates.transforms_rows else self.coordinates.sums(sums)

    def _check(self, rows: Rows, sums: RowSums) -> None:
        """Raise `BadBlock` if a sum is not finite, at the cost of adding a few numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = sums.gradient.sum() + sums.squares
            total += sum(m.sum() for m in (sums.hessian, sums.meat) if m is not None) + sums.loss
        if not (np.isfinite(total) and self._admits_responses(rows)):
            raise BadBlock(rows)

    def admits(self, rows: Rows) -> bool:
        """Whether all values are finite, and the responses such as the family has."""
        finite = all(map(is_finite, leaves(rows)))
        return finite and self._admits_responses(rows)

    def _admits_responses(self, rows: Rows) -> bool:
        if self.family is None:
            return True
        low, high = response_range(rows)
        return low >= self.family.lowest and high <= self.family.highest


def response_range(rows: Rows) -> tuple[float, float]:
    """Smallest and largest response of a regression's rows."""
    return float(rows[1].min()), float(rows[1].max())

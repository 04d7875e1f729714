"""Coefficients of a fit with very many levels: errors one by one, covariances of a few."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.levels.arrow import Sandwich
from masgrad.fitting.levels.design import LevelDesign
from masgrad.fitting.results.estimates import (
    SMALL_DEPENDENCE,
    Coefficients,
    half_widths,
)
from masgrad.fitting.results.laws import quantile


@dataclass(frozen=True, repr=False, eq=False)
class LevelCoefficients(Coefficients):
    """All coefficients; their covariance (p, p) is not formed, and `cov` is empty.

    Args:
        errors: standard errors, (p,).
        design: the columns beside the levels.
        sandwich: the covariance, from which blocks are taken.
    """

    errors: np.ndarray = field(default_factory=lambda: np.empty(0))
    design: LevelDesign | None = None
    sandwich: Sandwich | None = None

    @cached_property
    def se(self) -> np.ndarray:
        return self.errors

    def conf_int(self, alpha: float = 0.05, method: str = "pointwise") -> np.ndarray:
        if method in ("simultaneous", "scheffe"):
            raise InputError(
                f"method={method!r} needs the covariance of all {len(self.errors):,} coefficients; "
                "use 'bonferroni', or ask for a few: result.contrast([...]).conf_int(method=...)"
            )
        bonferroni = method == "bonferroni"
        half = half_widths(
            self.errors, self.cov, self.df, alpha, "pointwise" if bonferroni else method
        )
        if bonferroni:
            known = max(int((np.isfinite(self.errors) & (self.errors > 0)).sum()), 1)
            half = quantile(1 - alpha / (2 * known), self.df) * self.errors
        middle = np.where(np.isinf(half), 0.0, self.estimate)
        return np.column_stack([middle - half, middle + half])

    def combine(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.eye(len(R)), self.block(R)

    def block(self, R: np.ndarray) -> np.ndarray:
        """Covariance of R theta, (k, k), R (k, p)."""
        assert self.design is not None and self.sandwich is not None
        return self.sandwich.covariance(*self.design.combination(R))

    def depends(self, R: np.ndarray) -> np.ndarray:
        assert self.design is not None
        _, levels = self.design.combination(R)
        outside = self.design.left_out
        dead = np.abs(levels.toarray()[:, ~self.design.live])
        size = np.linalg.norm(R, axis=1)
        unknown = (np.abs(R[:, outside]) > SMALL_DEPENDENCE * size[:, None]).any(1)
        return unknown | (dead > SMALL_DEPENDENCE * size[:, None]).any(1)


def standard_errors(design: LevelDesign, sandwich: Sandwich) -> np.ndarray:
    """Standard errors of all coefficients, (p,): inf of separated levels, NaN of left-out columns.

    A level is measured from the base level, and has no error where either has none.
    """
    errors, many, base = np.full(design.width, np.nan), design.many, design.base()
    q, size = len(design.columns), many.size
    a = np.diag(1 / design.scale) @ sandwich.bread.inverse
    errors[design.columns] = np.einsum("ij,ij->i", a @ sandwich.corner, a)
    shift, zero = -design.centre / design.scale, np.zeros((1, q))
    every = np.arange(size)
    if base is None:
        errors[many.columns] = sandwich.variances(shift[None], every)
        live = design.live
    else:
        errors[many.columns] = sandwich.variances(zero, every, base)
        errors[many.intercept] = sandwich.variances(shift[None], np.array([base]))[0]
        live = design.live[:size] & design.live[base]
        if not design.live[base]:
            errors[many.intercept] = np.inf
    errors = np.sqrt(np.maximum(errors, 0.0))
    errors[many.columns] = np.where(live, errors[many.columns], np.inf)
    return errors

"""What a fit with very many levels returns, as a record: the estimate and its covariance.

It holds q^2 + L q numbers and no data. `levels.result.LevelsResult` is this record with methods.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from masgrad.data.left_out import Omitted
from masgrad.fitting.fitted import POPULATION, FitInfo
from masgrad.fitting.levels.arrow import Sandwich, Vector
from masgrad.fitting.levels.design import LevelDesign
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.status import Status
from masgrad.fitting.uncertainty.diagnostics import Diagnostics
from masgrad.models.model import Model

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms


SHOWN_LEVELS = 5
"""Levels that have a line in a summary."""


@dataclass(frozen=True, repr=False, eq=False)
class LevelsFitted:
    """An estimate of theta* in which one category has very many levels.

    Args:
        model: the loss.
        design: the columns beside the levels, and their units.
        point: the estimate in these units; 0 of levels without one.
        sides: -1 and 1 for separated levels, NaN for levels without rows, 0 for others, (L,).
        sandwich: the covariance.
        theta: the estimate, (p,); infinite if responses are separated, NaN if it has no value.
        errors: standard errors, (p,).
        nobs: number of rows.
        names: of the columns of X.
        cov_type: kind of covariance.
        fit_info: how the estimate was reached.
        local_model: sums over all rows, with the levels eliminated.
        terms: of the formula.
        memory: bytes that covariances of all parameters may take.
        has_offset: whether rows had an offset.
        status: how the fit ended.
        kind: the model in words.
        notes: for the summary.
        target: what intervals are for.
        df: degrees of freedom of chains: there are none.
        diagnostics: there are none.
        penalized: there is no penalty.
        omitted: the rows that were left out.
    """

    model: Model | None
    design: LevelDesign
    point: Vector
    sides: np.ndarray
    sandwich: Sandwich
    theta: np.ndarray
    errors: np.ndarray
    nobs: int
    names: tuple[str, ...]
    cov_type: str
    fit_info: FitInfo
    local_model: LocalModel
    terms: "Terms | None"
    memory: int
    has_offset: bool = False
    status: Status = Status.CONVERGED
    kind: str = ""
    notes: tuple[str, ...] = ()
    target: str = POPULATION
    df: int | np.ndarray | None = None
    diagnostics: Diagnostics = field(default=Diagnostics())
    penalized: np.ndarray | None = None
    omitted: Omitted = field(default=Omitted())

    @property
    def finite_theta(self) -> np.ndarray:
        """The estimate with coefficients that have none held at some value."""
        return np.nan_to_num(self.design.theta(self.point))

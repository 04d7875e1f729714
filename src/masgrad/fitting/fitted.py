"""What a fit returns, as a record: the estimate, its covariance, and how it was reached.

The record holds no data, but the local quadratic model of all rows, p^2 numbers, so that new rows
can be added to it later. `results.result.Result` is this record with its methods.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from masgrad.data.left_out import LeftOut, Omitted
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.status import Status
from masgrad.fitting.uncertainty.diagnostics import Diagnostics
from masgrad.fitting.uncertainty.serial.record import Serial
from masgrad.models.model import Model

if TYPE_CHECKING:  # for the annotations alone
    from masgrad.data.formula.terms import Terms
    from masgrad.fitting.merging.record import Merged
    from masgrad.fitting.penalised.path import PenaltyPath

POPULATION = "theta*"
PENALISED_OPTIMUM = "the penalised optimum"
NO_TARGET = "none"
AT_POINT = "none (sums at a point)"
"""The target of `fit(..., at=)`, which is no estimate."""


@dataclass(frozen=True)
class FitInfo:
    """How the estimate was reached.

    Args:
        reads: number of reads of the rows, complete or of a part of them.
        rows_per_second: rows read in all, for each second of the fit.
        correction: length of the last correction, in standard errors of the worst contrast.
        remainder: bound on the distance from the optimum of these rows, in standard errors: of
            every coefficient, and in the root mean square over contrasts.
        condition: condition number of H with its diagonal scaled to 1, columns centred against a
            constant one.
        drift: standard deviations by which gradients drift more than rows in random order would.
        path: stages of the fit, each with its distance from the estimate in standard errors.
        gradient_reads: how many of the reads summed gradients and losses alone, without H and M.
    """

    reads: int
    rows_per_second: float
    correction: float
    remainder: float
    condition: float
    drift: float = 0.0
    path: tuple[tuple[str, float], ...] = ()
    gradient_reads: int = 0


@dataclass(frozen=True, repr=False, eq=False)
class Fitted:
    """An estimate of theta*.

    Args:
        model: the loss; None if a loss of the user's own was not given to `load`.
        theta: the estimate, (p,); NaN for an empty column, infinite if responses are separated.
        cov: its covariance, (p, p), with null directions held fixed.
        nobs: number of rows of positive weight.
        names: of the parameters, or ().
        cov_type: how the covariance was estimated.
        fit_info: how the estimate was reached.
        coordinates: in which the fit was made.
        local_model: of all rows at the estimate, in those coordinates.
        null_directions: directions of theta that are not identified, (p, k).
        not_identified: mask of the parameters that move along them, (p,).
        status: how the fit ended.
        terms: of the formula, if there was one.
        df: degrees of freedom of t, for each coefficient (p,) if they differ (CR2); None for
            normal quantiles.
        kind: the model in words.
        target: what intervals are about.
        notes: for the reader of a summary.
        diagnostics: what may be wrong, in one sentence each.
        penalized: the estimate with the penalty, (p,), if there was one.
        path: of penalised estimates, if lam was chosen on one.
        has_offset: whether rows had offsets.
        cov_phi: covariance of phi, (p, p), if the coordinates have a preconditioner: the variances
            of combinations would cancel in `cov`.
        recession: directions of theta along which the likelihood rises for ever, (p, m); each
            decides the rows that those before it leave on the border.
        separated: mask of the parameters that only separated rows determine, (p,).
        clusters: sums by cluster, if errors are clustered.
        serial: the lags of HAC and DK errors, and what rows that follow need of these.
        weights_type: what weights are, if there were any.
        omitted: the rows that were left out.
        merged: the shards of which it is made, if it is a merged result.
    """

    model: Model | None
    theta: np.ndarray
    cov: np.ndarray
    nobs: int
    names: tuple[str, ...]
    cov_type: str
    fit_info: FitInfo
    coordinates: Coordinates
    local_model: LocalModel
    null_directions: np.ndarray
    not_identified: np.ndarray
    status: Status = Status.CONVERGED
    terms: "Terms | None" = None
    df: int | np.ndarray | None = None
    kind: str = ""
    target: str = POPULATION
    notes: tuple[str, ...] = ()
    diagnostics: Diagnostics = field(default=Diagnostics())
    penalized: np.ndarray | None = None
    path: "PenaltyPath | None" = None
    has_offset: bool = False
    cov_phi: np.ndarray | None = None
    recession: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    separated: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    clusters: Clustered | None = None
    serial: Serial | None = None
    weights_type: str = "frequency"
    omitted: Omitted = field(default=Omitted())
    merged: "Merged | None" = None

    @property
    def finite_theta(self) -> np.ndarray:
        """The estimate with null directions held fixed at some value."""
        theta = self.theta
        if self.recession.size:
            theta = self.coordinates.theta(self.local_model.point)
        return np.where(np.isfinite(theta), theta, 0.0)


Record = TypeVar("Record", bound=Any)


def with_omitted(fitted: Record, left_out: LeftOut | None, before: Omitted | None = None) -> Record:
    """The record with what was left out, in this fit and before it, and a note on it."""
    if left_out is None and before is None:
        return fitted
    new = Omitted() if left_out is None else left_out.omitted
    omitted = new if before is None else before.plus(new)
    return replace(fitted, omitted=omitted, notes=(*fitted.notes, *omitted.notes))

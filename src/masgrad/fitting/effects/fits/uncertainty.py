"""The covariance of slopes beside effects: that of rows less their effects.

Non-robust errors of least squares follow from the sums that gave the slopes. Robust ones take one
more read of projected rows, for H and M, and clustered ones one for the clusters' scores. Of the
effects N - K counts all that are not redundant; clustered errors leave out those that are nested in
clusters. "robust" is HC1: effects use up so many parameters that HC0 would be too small.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.effects.fits.estimate import Estimated
from masgrad.fitting.effects.fits.slope_model import SlopeModel, model_of_read, model_of_sums
from masgrad.fitting.levels.assemble import rounding_squares
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.options import CLUSTERED, SERIAL
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.fitting.uncertainty.clusters.meat import clustered_meat
from masgrad.fitting.uncertainty.covariance import without_negative
from masgrad.fitting.uncertainty.kinds import covariance, observations
from masgrad.fitting.uncertainty.meat import kind_of
from masgrad.fitting.uncertainty.serial.meat import serial_meat
from masgrad.fitting.uncertainty.serial.record import Serial
from masgrad.models.glm import GLM

FEW_DIGITS = 1e-6
"""Share of the responses' squares below which sums hold those of residuals to few digits."""


@dataclass(frozen=True)
class SlopeErrors:
    """The covariance of the slopes.

    Args:
        slopes: their loss at the estimate.
        cov: covariance of phi, of all columns.
        cov_type: its kind.
        perfect: whether residuals are rounding errors.
        reads: of the rows, made for it.
        notes: about it.
        df: degrees of freedom of t, of clusters; (p,) if coefficients have their own.
        clusters: what the meat was made of, if rows are clustered.
        serial: the same of rows in time order.
        interrupted: whether Ctrl-C stopped the read that errors need.
    """

    slopes: SlopeModel
    cov: np.ndarray
    cov_type: str
    perfect: bool
    reads: int
    notes: tuple[str, ...] = ()
    df: int | np.ndarray | None = None
    clusters: Clustered | None = None
    serial: Serial | None = None
    interrupted: bool = False


def slope_errors(task: Task, reader: Reader, sample: Sample, found: Estimated) -> SlopeErrors:
    """The covariance of the kind that was asked for; of the sums so far, if Ctrl-C stops it."""
    kind = _kind(task, reader)
    try:
        return _errors(task, reader, sample, found, kind)
    except KeyboardInterrupt:
        return _stopped(task, reader, found, kind)


def _stopped(task: Task, reader: Reader, found: Estimated, kind: str) -> SlopeErrors:
    """Errors that trust the model, by the sums that gave the slopes."""
    slopes = model_of_sums(task, reader, found)
    C = _covariance(task, slopes.local, found, "nonrobust", found.counted.parameters)
    note = f"{kind} was stopped: these errors trust the model instead (nonrobust)."
    return SlopeErrors(slopes, C, "nonrobust", False, 0, (note,), interrupted=True)


def _errors(task: Task, reader: Reader, sample: Sample, found: Estimated, kind: str) -> SlopeErrors:
    slopes, reads = _slopes(task, reader, found, kind)
    model = task.model
    assert isinstance(model, GLM)
    floor = rounding_squares(model, slopes.local.constants)
    if model.family.dispersed and slopes.local.squares <= floor:
        local = replace(slopes.local, squares=0.0)
        zero = np.zeros_like(local.hessian)
        return SlopeErrors(replace(slopes, local=local), zero, kind, True, reads)
    if kind in (*CLUSTERED, *SERIAL):
        of_kind = _clustered if kind in CLUSTERED else _serial
        done = of_kind(task, reader, sample, found, slopes, kind)
        reader.tick(done.reads * slopes.local.rows)
        return replace(done, reads=done.reads + reads)
    C = _covariance(task, slopes.local, found, kind, found.counted.parameters)
    return SlopeErrors(slopes, C, kind, False, reads)


def _kind(task: Task, reader: Reader) -> str:
    """The kind of covariance."""
    kind = kind_of(task.options.cov_type, reader.source)
    return "HC1" if kind == "robust" else kind


def _slopes(task: Task, reader: Reader, found: Estimated, kind: str) -> tuple[SlopeModel, int]:
    """The slopes' loss: from the sums, unless M is needed or X^2 is known to few digits."""
    if kind in ("HC0", "HC1") or (reader.source.rereadable and _is_inexact(found)):
        return model_of_read(task, reader, found), 1
    return model_of_sums(task, reader, found), 0


def _is_inexact(found: Estimated) -> bool:
    """Whether the sums that gave the estimate do not hold X^2 at it, or to few digits."""
    if not found.stage.effects.family.dispersed:
        return False
    few = found.squares_left <= FEW_DIGITS * found.stage.read.squares
    return not found.is_least_squares or few


def _covariance(
    task: Task, local: LocalModel, found: Estimated, kind: str, absorbed: int
) -> np.ndarray:
    dispersed = found.stage.effects.family.dispersed
    count = observations(local.count, local.rows, task.options)
    return covariance(local, kind, dispersed, _without_slope(found), count, absorbed)


def _without_slope(found: Estimated) -> np.ndarray:
    """The directions of columns that have no slope, (p, k)."""
    kept = found.stage.slopes.kept
    return np.eye(len(kept))[:, ~kept]


def _clustered(
    task: Task, reader: Reader, sample: Sample, found: Estimated, slopes: SlopeModel, kind: str
) -> SlopeErrors:
    """Clustered errors, by a read of the clusters' scores at the estimate."""
    local, stage = slopes.local, found.stage
    pairs = zip(stage.design.groupings, stage.nested, strict=True)
    outside = tuple(grouping.name for grouping, inside in pairs if not inside)
    if kind in ("CR2", "CR3") and outside:
        raise InputError(
            f"cov_type={kind!r} leaves one cluster out at a time, which moves the effects of "
            f"{outside[0]}, whose levels lie in several clusters: with fixed effects it needs them "
            "nested in clusters; use 'CR1'"
        )
    free = len(stage.design.columns) + found.counted.outside(stage.nested)
    with reader.unobserved(slopes.source) as quiet:
        meat = clustered_meat(
            slopes.objective,
            quiet,
            Sample(sample.rows, False),
            Estimate(local, stage.reads, found.correction, found.decrement),
            local=local,
            free=free,
            null=_without_slope(found),
            kind=kind,
            options=task.options,
            earlier=None,
            outside=outside,
        )
    C = _covariance(task, replace(local, meat=meat.matrix), found, "HC0", 0)
    C, repaired = without_negative(slopes.objective, C, meat.kept)
    notes = (*meat.notes, *repaired)
    return SlopeErrors(slopes, C, kind, False, meat.reads, notes, meat.df, meat.kept)


def _serial(
    task: Task, reader: Reader, sample: Sample, found: Estimated, slopes: SlopeModel, kind: str
) -> SlopeErrors:
    """Errors of rows that depend on their neighbours in time, by a read of scores."""
    local, q = slopes.local, len(found.stage.design.columns)
    with reader.unobserved(slopes.source) as quiet:
        meat = serial_meat(
            slopes.objective,
            quiet,
            Sample(sample.rows, False),
            local,
            task.options,
            parameters=q + found.counted.parameters,
        )
    C = _covariance(task, replace(local, meat=meat.meat), found, "HC0", 0)
    return SlopeErrors(slopes, C, kind, False, meat.reads, meat.notes, meat.df, serial=meat.record)

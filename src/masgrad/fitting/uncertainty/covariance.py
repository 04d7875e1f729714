"""The uncertainty of an estimate of theta*: null directions, and the covariance of the others.

    robust (HC0)   H^-1 M H^-1            M = sum of g g', uncentred; H observed
    HC1            times N / (N - p)
    HC3            residuals divided by 1 - leverage: two extra reads
    nonrobust      expected H^-1, times Pearson's X^2 / (N - p) where the family has a dispersion

All are sums over rows, so that no factor 1/N remains. Null directions are held fixed. A direction w
with w'Mw = 0 is seen by no row but those that are fitted exactly, such as the only row of a level:
HC0 and HC1 have nothing of the noise of coefficients along w, and say so in a note. If responses
are a function of the columns, residuals are rounding errors, and so would be standard errors:
squared residuals over the variance function, averaged with the weights of H, are tr M / tr H, which
has no unit except for the Gaussian family, where it has that of y^2.
"""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.errors import AccuracyWarning, InputError, say
from masgrad.fitting.identification.checks import check_kinks
from masgrad.fitting.identification.rank import NullSpace, listed, null_space
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.coordinates import moved_along
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.optimise.nonconvex.flatness import Curvatures
from masgrad.fitting.optimise.nonconvex.loss import LossOfRows
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.chains import ChainSpread, Diverged, chain_covariance
from masgrad.fitting.uncertainty.clusters.factors import positive_part
from masgrad.fitting.uncertainty.kinds import covariance, observations
from masgrad.fitting.uncertainty.likelihood import deviance_pass, needs_deviance_pass
from masgrad.fitting.uncertainty.meat import Meat, find_meat
from masgrad.fitting.uncertainty.serial.record import Serial
from masgrad.models.gram import ZERO_EIGENVALUE, is_definite

ROUNDING_RESIDUAL = 1e-28
"""Squared residuals of a few dozen units in the last place."""

FITTED_EXACTLY = 1e-10
"""w'Mw / w'Hw, in units of the dispersion, of directions that only rows without residuals see."""

NO_INFORMATION = (
    "at the estimate every mean is at a limit of its range to rounding, such as 0 or 1, so that no "
    "row has information about theta; is an offset too large, or an intercept missing?"
)

NEGATIVE = (
    "The covariance by inclusion and exclusion had a negative eigenvalue, which was set to 0: with "
    "few clusters of some grouping errors are rough."
)

SUSPECT_RESIDUAL = 1e-12
"""M may be from a point before the last step: up to this, pilot rows decide."""


@dataclass(frozen=True)
class Uncertainty:
    """What is known at the estimate.

    Args:
        local_model: without the penalty's share of the loss.
        null: directions that are not identified.
        cov: covariance of phi.
        cov_type: its kind.
        perfect: whether residuals are rounding errors.
        noise: variance of the gradient of one observation.
        drift: of the gradients over the last read, in standard deviations.
        exact: directions of phi that only rows without residuals see, (p, k).
        spread: of chains, if they were run.
        notes: on covariances that could not be had.
        extra_reads: reads besides those of the estimate.
        meat: of the covariance, with what it was made of.
    """

    local_model: LocalModel
    null: NullSpace
    cov: np.ndarray
    cov_type: str
    perfect: bool
    noise: np.ndarray
    drift: float
    exact: np.ndarray
    spread: ChainSpread | None = None
    notes: tuple[str, ...] = ()
    extra_reads: int = 0
    meat: Meat | None = None


def _on_shape(objective: Objective, local: LocalModel, sample: Sample) -> tuple[str, ...]:
    """Notes on a loss that is far from a quadratic, or hardly curved, at the estimate."""
    bent = check_kinks(objective, local, sample)
    weak = Curvatures(LossOfRows(objective, sample.rows), local).note()
    return tuple(note for note in (bent, weak) if note)


def uncertainty(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    options: Options,
    earlier: Clustered | Serial | None = None,
) -> Uncertainty:
    """What is known at the estimate; `earlier` are sums over rows that came before these."""
    found = _sandwich(objective, reader, sample, done, options, earlier)
    return _with_chains(objective, reader, sample, found, options)


def _sandwich(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    options: Options,
    earlier: Clustered | Serial | None,
) -> Uncertainty:
    """The local model at the estimate, what it does not identify, and its covariance."""
    local, reads = _without_penalty(objective, done.local_model), 0
    if needs_deviance_pass(objective, reader, sample, options.open_ended):
        with reader.interruptible():
            local, reads = deviance_pass(objective, reader, sample, local), 1
    said = () if objective.linear else _on_shape(objective, local, sample)
    null = null_space(objective, reader, sample, local, done.separation)
    if not null.size and objective.separable and not local.hessian.any():
        raise InputError(NO_INFORMATION)
    meat = find_meat(
        objective,
        reader,
        sample,
        done,
        local=local,
        null=null,
        options=options,
        earlier=earlier,
    )
    own = local if meat.matrix is local.meat else replace(local, meat=meat.matrix)
    seen = own if meat.is_dependent else local
    noise = _gradient_noise(objective, seen, local, sample.design_effect)
    count = observations(local.count, local.rows, options)
    C = covariance(own, meat.cov_type, objective.dispersed, null.directions, count)
    C, repaired = without_negative(objective, C, meat.clusters)
    perfect = not null.size and is_perfect(objective, sample, local)
    if perfect:
        C, local = np.zeros_like(C), replace(local, squares=0.0)
    exact = np.zeros((len(noise), 0)) if perfect else fitted_exactly(objective, local)
    notes = (*said, *meat.notes, *repaired)
    if meat.shown in ("robust", "HC0", "HC1"):
        notes += _on_exact(moved_along(objective.coordinates, exact), reader.source.names)
    return Uncertainty(
        local,
        null,
        C,
        meat.shown,
        perfect,
        noise,
        reader.monitor.drift(noise),
        exact,
        notes=notes,
        extra_reads=reads + meat.reads,
        meat=meat,
    )


def without_negative(
    objective: Objective, C: np.ndarray, clusters: Clustered | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The covariance of phi; that of theta has no negative eigenvalue, and a note if it had one."""
    if clusters is None or len(clusters.ways) == 1:
        return C, ()
    fixed, repaired = positive_part(objective.coordinates.cov(C))
    if not repaired:
        return C, ()
    back = np.linalg.inv(objective.coordinates.matrix)
    return back @ fixed @ back.T, (NEGATIVE,)


def fitted_exactly(objective: Objective, local: LocalModel) -> np.ndarray:
    """Directions of phi with w'Hw = 1 that no row with a residual sees, (p, k)."""
    unit = FITTED_EXACTLY * _dispersion(objective, local)
    if not objective.linear or is_definite(local.meat - unit * local.hessian):
        return np.zeros((len(local.point), 0))
    noise, W = noise_spectrum(local)
    return W[:, noise <= unit]


def _dispersion(objective: Objective, local: LocalModel) -> float:
    """M over H, about: the unit of squared residuals."""
    return local.squares / local.count if objective.dispersed else 1.0


def _gradient_noise(
    objective: Objective, seen: LocalModel, local: LocalModel, design_effect: float
) -> np.ndarray:
    """Variance of the gradients as they were seen; 0 in columns that exactly fitted rows carry.

    Gradients in these columns are rounding errors, and no segment stands out by them. Sums over few
    clusters vanish along some directions, in which rows still differ: those have both variances.
    """
    noise = objective.gradient_noise(seen, design_effect)
    if seen is not local:
        alone = objective.gradient_noise(local, design_effect)
        size = np.sqrt(np.outer(np.diag(alone), np.diag(alone)))
        least = np.linalg.eigvalsh((noise - alone / 2) / np.where(size > 0, size, 1.0))[0]
        noise = noise if least >= 0 else noise + alone
    if objective.linear:
        curvature = objective.gradient_noise(replace(seen, meat=seen.hessian), design_effect)
        unit = FITTED_EXACTLY * _dispersion(objective, seen)
        silent = np.diag(noise) <= unit * np.diag(curvature)
        noise = np.where(silent | silent[:, None], 0.0, noise)
    return noise


def noise_spectrum(local: LocalModel) -> tuple[np.ndarray, np.ndarray]:
    """Directions w of phi with w'Hw = 1 and w'Mv = 0 for any two, (p, k), and their w'Mw."""
    size, values, Q = local.spectrum
    keep = values > ZERO_EIGENVALUE
    W = Q[:, keep] / (size[:, None] * np.sqrt(values[keep]))
    noise, V = np.linalg.eigh(W.T @ local.meat @ W)
    return noise, W @ V


def _on_exact(exact: np.ndarray, names: tuple[str, ...]) -> tuple[str, ...]:
    if not exact.any():
        return ()
    return (
        f"Robust standard errors are too small for {listed(exact, names)}: only rows that are "
        "fitted exactly, such as the single row of a level, determine it, and residuals of 0 show "
        "no noise; join levels, or use cov_type='nonrobust'.",
    )


def _without_penalty(objective: Objective, local: LocalModel) -> LocalModel:
    """The local model with the loss that likelihoods and dispersions are about."""
    extra = local.count * objective.ridge.value(local.point)
    squares = max(local.squares - 2 * extra, 0.0)
    return local.with_same_hessian(loss=local.loss - extra, squares=squares)


def _with_chains(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    found: Uncertainty,
    options: Options,
) -> Uncertainty:
    """The covariance from chains, if they were asked for and can be run; a note says if not."""
    if options.method != "chains" or reader.monitor.interrupted:
        return found
    if found.null.size or found.perfect:
        why = "no row has a gradient" if found.perfect else "some directions have no estimate"
        note = f"Chains were not run, for {why}: HC0 instead."
        return replace(found, cov_type="HC0", notes=(*found.notes, note))
    note = "The chains were stopped: HC0 instead."
    with reader.interruptible():
        try:
            spread = chain_covariance(
                objective, reader, sample, found.local_model, found.cov, options
            )
        except Diverged:
            note = "The chains left the numbers for which the link has a mean: HC0 instead."
            say(AccuracyWarning, note)
        else:
            if not spread.agrees:
                times = f"{spread.ratio:.2f} times the sandwich's"
                say(AccuracyWarning, f"chains' standard errors are {times}")
            reads = found.extra_reads + 1
            notes = (spread.note,)
            return replace(
                found,
                cov=spread.cov,
                cov_type="chains",
                spread=spread,
                notes=notes,
                extra_reads=reads,
            )
    return replace(found, cov_type="HC0", notes=(*found.notes, note))


def is_perfect(objective: Objective, sample: Sample, local: LocalModel) -> bool:
    """Whether the fit leaves nothing but rounding errors."""
    if objective.family is None or objective.ridge.matrix is not None:
        return False
    gaussian = objective.family.name == "gaussian"
    unit = -2 * local.constants[0] / local.count if gaussian else 1.0
    if not _mean_residual(local) <= SUSPECT_RESIDUAL * unit:  # NaN included
        return False
    pilot = objective.local_model(local.point, sample.rows)
    return _mean_residual(pilot) <= ROUNDING_RESIDUAL * unit


def _mean_residual(local: LocalModel) -> float:
    return float(np.trace(local.meat) / np.trace(local.hessian))

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
from masgrad.fitting.uncertainty.leverage import leveraged_meat
from masgrad.fitting.uncertainty.likelihood import deviance_pass, needs_deviance_pass
from masgrad.models.gram import ZERO_EIGENVALUE, is_definite

ROUNDING_RESIDUAL = 1e-28
"""Squared residuals of a few dozen units in the last place."""

FITTED_EXACTLY = 1e-10
"""w'Mw / w'Hw, in units of the dispersion, of directions that only rows without residuals see."""

NO_INFORMATION = (
    "at the estimate every mean is at a limit of its range to rounding, such as 0 or 1, so that no "
    "row has information about theta; is an offset too large, or an intercept missing?"
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
        undefined: mask of the coefficients whose HC3 covariance is 0/0, or None.
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
    undefined: np.ndarray | None = None


def _on_shape(objective: Objective, local: LocalModel, sample: Sample) -> tuple[str, ...]:
    """Notes on a loss that is far from a quadratic, or hardly curved, at the estimate."""
    bent = check_kinks(objective, local, sample)
    weak = Curvatures(LossOfRows(objective, sample.rows), local).note()
    return tuple(note for note in (bent, weak) if note)


def uncertainty(
    objective: Objective, reader: Reader, sample: Sample, done: Estimate, options: Options
) -> Uncertainty:
    """What is known at the estimate."""
    found = _sandwich(objective, reader, sample, done, options)
    return _with_chains(objective, reader, sample, found, options)


def _sandwich(
    objective: Objective, reader: Reader, sample: Sample, done: Estimate, options: Options
) -> Uncertainty:
    """The local model at the estimate, what it does not identify, and its covariance."""
    local, reads, cov_type = _without_penalty(objective, done.local_model), 0, options.cov_type
    if needs_deviance_pass(objective, reader, sample, options.open_ended):
        with reader.interruptible():
            local, reads = deviance_pass(objective, reader, sample, local), 1
    said = () if objective.linear else _on_shape(objective, local, sample)
    null = null_space(objective, reader, sample, local, done.separation)
    if not null.size and objective.separable and not local.hessian.any():
        raise InputError(NO_INFORMATION)
    noise = _gradient_noise(objective, local, sample.design_effect)
    leveraged, notes, undefined = local, said, None
    if cov_type == "HC3":
        cov_type, notes = "HC0", (*notes, "HC3 was stopped: HC0 instead.")
        with reader.interruptible():
            if not reader.monitor.interrupted:
                B = restrict(local, null.directions)[1]
                meat, undefined = leveraged_meat(objective, reader, sample, local, B)
                leveraged, cov_type = replace(local, meat=meat), "HC3"
                notes = _on_undefined(undefined, reader.source.names)
    C = covariance(leveraged, cov_type, objective.dispersed, null.directions)
    perfect = not null.size and is_perfect(objective, sample, local)
    if perfect:
        C, local = np.zeros_like(C), replace(local, squares=0.0)
    reads, drift = reads + 2 * (cov_type == "HC3"), reader.monitor.drift(noise)
    exact = np.zeros((len(noise), 0)) if perfect else fitted_exactly(objective, local)
    if cov_type in ("robust", "HC0", "HC1"):
        notes += _on_exact(moved_along(objective.coordinates, exact), reader.source.names)
    return Uncertainty(
        local,
        null,
        C,
        cov_type,
        perfect,
        noise,
        drift,
        exact,
        notes=notes,
        extra_reads=reads,
        undefined=undefined,
    )


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


def _gradient_noise(objective: Objective, local: LocalModel, design_effect: float) -> np.ndarray:
    """Variance of the gradients as they were seen; 0 in columns that exactly fitted rows carry.

    Gradients in these columns are rounding errors, and no segment stands out by them.
    """
    noise = objective.gradient_noise(local, design_effect)
    if objective.linear:
        curvature = objective.gradient_noise(replace(local, meat=local.hessian), design_effect)
        unit = FITTED_EXACTLY * _dispersion(objective, local)
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


def _on_undefined(undefined: np.ndarray, names: tuple[str, ...]) -> tuple[str, ...]:
    if not undefined.any():
        return ()
    return (
        f"HC3 has no standard error (nan) for {listed(undefined, names)}: a single row determines "
        "it, with a residual of 0 and a leverage of 1; join levels, or use cov_type='nonrobust'.",
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


# The kinds of covariance.


def covariance(
    local: LocalModel, cov_type: str, dispersed: bool, null_basis: np.ndarray
) -> np.ndarray:
    """Covariance of phi, (p, p), with the directions of `null_basis` (p, k) held fixed."""
    part, B = restrict(local, null_basis)
    free = B.shape[1]
    if not free:
        return np.zeros_like(local.hessian)
    if local.count <= free and (cov_type == "HC1" or (cov_type == "nonrobust" and dispersed)):
        raise InputError(
            f"cov_type={cov_type!r} divides by N - p, and N = {local.count:g} (weights are "
            f"frequencies), p = {free}; use 'HC0'"
        )
    if cov_type == "nonrobust":
        scale = local.squares / (local.count - free) if dispersed else 1.0
        C = part.expected().inverse() * scale
    else:
        factor = local.count / (local.count - free) if cov_type == "HC1" else 1.0
        C = part.sandwich() * factor
    return B @ C @ B.T if null_basis.shape[1] else C


def restrict(local: LocalModel, null_basis: np.ndarray) -> tuple[LocalModel, np.ndarray]:
    """The local model on the complement of some directions, and a basis of the complement."""
    p = len(local.point)
    if not null_basis.shape[1]:
        return local, np.eye(p)
    U, _, _ = np.linalg.svd(null_basis, full_matrices=True)
    B = U[:, null_basis.shape[1] :]
    return (
        replace(
            local,
            point=local.point @ B,
            gradient=local.gradient @ B,
            hessian=B.T @ local.hessian @ B,
            meat=B.T @ local.meat @ B,
            information=None if local.information is None else B.T @ local.information @ B,
        ),
        B,
    )


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

"""From a corrected estimate to a `Result`: covariance, units of theta, notes and warnings."""

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from masgrad.data.formulas import Terms
from masgrad.errors import AccuracyWarning, OrderWarning
from masgrad.fitting.bootstrap import chain_covariance
from masgrad.fitting.correcting import Corrected
from masgrad.fitting.covariance import covariance, is_gaussian, leveraged_meat
from masgrad.fitting.estimate import TOLERANCE, Sample
from masgrad.fitting.frame import Frame
from masgrad.fitting.identify import unidentified
from masgrad.fitting.kinks import smooth_or_kernel
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.result import Reads, Result
from masgrad.fitting.watch import SURPRISE, Watch
from masgrad.models.glm import GLM
from masgrad.models.mixture import GaussianMixture
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork

if TYPE_CHECKING:
    from masgrad.fitting.door import Options


def assemble(
    problem: Problem,
    terms: Terms | None,
    options: "Options",
    sample: Sample,
    done: Corrected,
    watch: Watch,
    began: float,
) -> Result:
    """The result of a fit that began at this time."""
    local, notes = smooth_or_kernel(problem, done.local, sample.rows)
    fixed = unidentified(problem, local, sample.rows)
    drift = watch.drift(_raw_meat(problem, local))
    C, df = _covariance(problem, options, local, fixed), None
    if options.method == "chains":
        C, df, note = chain_covariance(problem, local, C, options, watch)
        notes = [*notes, note]
    theta, cov, free = _in_theta(problem.frame, local, C, fixed)
    _warn(done, options, drift, problem)
    how = Reads(
        done.reads,
        watch.rows / (time.perf_counter() - began),
        done.correction,
        done.remainder,
        local.condition,
        drift,
    )
    return Result(
        model=problem.model,
        theta=theta,
        cov=cov,
        nobs=local.count,
        names=problem.source.names,
        cov_type=options.cov_type if df is None else "chains",
        how=how,
        frame=problem.frame,
        local=local,
        free=free,
        terms=terms,
        df=df,
        kind=kind(problem.model),
        notes=tuple([*notes, *_notes(problem, options, local)]),
    )


def _covariance(problem: Problem, options: "Options", local: Quadratic, fixed) -> np.ndarray:
    if options.cov_type == "HC3":
        local = replace(local, meat=leveraged_meat(problem, local, fixed))
    return covariance(local, options.cov_type, is_gaussian(problem), fixed)


def _in_theta(
    frame: Frame, local: Quadratic, C: np.ndarray, fixed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """theta, its covariance with inf where it is not identified, and the directions that are not."""
    theta, cov, free = frame.theta(local.point), frame.cov(C), frame.matrix @ fixed
    size = np.abs(frame.matrix).max(1, keepdims=True)
    loose = (np.abs(free) > 1e-6 * size).any(1) if free.size else np.zeros(len(theta), bool)
    silent = np.diag(local.hessian) == 0
    cov[loose], cov[:, loose] = np.nan, np.nan
    cov[loose, loose] = np.inf
    cov[np.ix_(silent, silent)] = np.nan
    return np.where(silent & loose, np.nan, theta), cov, free


def _raw_meat(problem: Problem, local: Quadratic) -> np.ndarray:
    """Mean of g g' in the coordinates of the sums over blocks."""
    if problem.frame.far:
        return local.meat / local.count
    back = np.linalg.inv(problem.frame.matrix)
    return back.T @ local.meat @ back / local.count


def _warn(done: Corrected, options: "Options", drift: float, problem: Problem) -> None:
    if drift > SURPRISE:
        warnings.warn(
            f"the rows are not in a random order: the gradient drifts {drift:.0f} standard deviations "
            "more than it would. Reads that correct make up for it, a single read may not: shuffle "
            "the rows, or read twice",
            OrderWarning,
            stacklevel=5,
        )
    if options.plan.passes in ("auto", "converge") and done.remainder > 10 * options.plan.tolerance:
        if problem.source.again:
            said = "the reads ended before they converged"
        else:
            said = "rows were read once"
        if problem.source.again or done.remainder > 0.3:
            warnings.warn(
                f"{said}: the estimate may be {done.remainder:.2g} standard errors from the optimum "
                "of these rows",
                AccuracyWarning,
                stacklevel=5,
            )


def _notes(problem: Problem, options: "Options", local: Quadratic) -> list[str]:
    notes = []
    per = local.count / len(local.point)
    if per < 30 and options.cov_type in ("robust", "HC0") and options.method == "sandwich":
        notes.append(
            f"{per:.0f} rows for each parameter: HC0 errors are too small then; cov_type='HC3' helps."
        )
    if isinstance(problem.model, GaussianMixture | ReluNetwork):
        notes.append(
            "Local: about the optimum that was found, one of several; valid where the landscape is "
            "strongly Morse there (H positive definite)."
        )
    return notes


def kind(model: Model) -> str:
    if isinstance(model, GLM):
        links = {"bernoulli": "logit", "gaussian": "identity", "poisson": "log"}
        family = model.family.name
        return f"{family} regression ({links.get(family, 'canonical')} link)"
    return type(model).__name__

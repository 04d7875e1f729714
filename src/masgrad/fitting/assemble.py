"""From a corrected estimate to a `Result`: covariance, units of theta, notes and warnings."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from masgrad.data.formula.terms import Terms
from masgrad.data.regression import offset_of
from masgrad.errors import AccuracyWarning, InterruptedWarning, OrderWarning, say
from masgrad.fitting.bootstrap import Diverged, chain_covariance
from masgrad.fitting.closing import close, wanted
from masgrad.fitting.correcting import Corrected
from masgrad.fitting.covariance import covariance, leveraged_meat
from masgrad.fitting.diagnose import diagnose
from masgrad.fitting.estimate import Sample
from masgrad.fitting.frame import Frame
from masgrad.fitting.identify import touched, unidentified
from masgrad.fitting.kinks import check_kinks
from masgrad.fitting.perfect import is_perfect
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import EMPTY, Quadratic
from masgrad.fitting.reads import Reads
from masgrad.fitting.result import Result
from masgrad.fitting.watch import SURPRISE, Watch
from masgrad.models.glm import GLM
from masgrad.models.mixture import GaussianMixture
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork

FAR = 0.3
"""Standard errors from the optimum that a single read or an update may be without a warning."""

if TYPE_CHECKING:
    from masgrad.fitting.options import Options


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
    local, notes = _without_penalty(problem, done.local), list(problem.notes)
    closed = wanted(problem, sample.whole, options.plan.passes) and not problem.stop.is_set()
    local = close(problem, local, watch) if closed else local
    check_kinks(problem, local, sample.rows)
    fixed = unidentified(problem, local, sample.rows, done.flat)
    drift = watch.drift(problem.noise(local))
    C, df, draws = _covariance(problem, options, local, fixed), None, None
    if perfect := not fixed.size and is_perfect(problem, local):
        C, local = np.zeros_like(C), replace(local, squares=0.0)
    if options.method == "chains" and (fixed.size or perfect):
        why = "no row has a gradient" if perfect else "some directions have no estimate"
        notes.append(f"Chains were not run, for {why}: HC0 instead.")
    elif options.method == "chains" and not problem.stop.is_set():
        try:
            C, df, note, draws = chain_covariance(problem, local, C, options, watch)
        except KeyboardInterrupt:
            problem.stop.set()
            note = "The chains were stopped: HC0 instead."
        except Diverged:
            note = "The chains left the numbers for which the link has a mean: HC0 instead."
            say(AccuracyWarning, note)
        notes = [*notes, note]
    theta, loose = _in_theta(problem.frame, local, fixed)
    if problem.stop.is_set():
        say(
            InterruptedWarning,
            f"stopped by Ctrl-C in read {done.reads}: the result is about the {local.rows:,} rows "
            "that it had seen",
        )
    elif not fixed.size:
        _warn(problem, options, sample, done, drift)
    extra = (options.cov_type == "HC3") + (df is not None) + closed
    found = diagnose(problem, options, local, loose, sample.rows, watch, draws)
    how = Reads(
        done.reads + extra,
        watch.rows / (time.perf_counter() - began),
        done.correction,
        done.remainder,
        local.condition,
        drift,
        _path(problem, done),
    )
    return Result(
        model=problem.model,
        theta=theta,
        cov=problem.frame.cov(C),
        nobs=local.rows,
        names=problem.source.names,
        cov_type=options.cov_type if df is None else "chains",
        how=how,
        frame=problem.frame,
        local=_closed(problem, local),
        free=problem.frame.matrix @ fixed,
        loose=loose,
        terms=terms,
        df=df,
        kind=kind(problem.model),
        notes=(*notes, *_notes(problem, options, local)),
        diagnostics=found,
        shifted=offset_of(sample.rows) is not None,
    )


def _path(problem: Problem, done: Corrected) -> tuple[tuple[str, float], ...]:
    """Estimates on the way, in standard errors from the last one."""
    local = done.local
    way = [(label, local.typical(phi - local.point)) for label, phi in problem.path]
    return (*way, (f"read {done.reads}", float(done.remainder))) if way else ()


def _without_penalty(problem: Problem, local: Quadratic) -> Quadratic:
    """The loss that likelihoods and dispersions are about."""
    extra = local.count * problem.ridge.value(local.point)
    return replace(local, loss=local.loss - extra, squares=max(local.squares - 2 * extra, 0.0))


def _closed(problem: Problem, local: Quadratic) -> Quadratic:
    """Of a read that was not finished no likelihood is known."""
    return replace(local, constants=np.full(2, np.nan)) if problem.stop.is_set() else local


def _covariance(problem: Problem, options: "Options", local: Quadratic, fixed) -> np.ndarray:
    if options.cov_type == "HC3":
        local = replace(local, meat=leveraged_meat(problem, local, fixed))
    return covariance(local, options.cov_type, problem.dispersed, fixed)


def _in_theta(frame: Frame, local: Quadratic, fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """theta, NaN where a column is empty, and which of its entries are not identified."""
    theta = frame.theta(local.point)
    loose = touched(frame, fixed) if fixed.size else np.zeros(len(theta), bool)
    diagonal = np.diag(local.hessian)
    empty = loose & (diagonal <= EMPTY * diagonal.max()) & (np.abs(fixed).max(1, initial=0.0) == 1)
    return np.where(empty, np.nan, theta), loose


def _warn(
    problem: Problem, options: "Options", sample: Sample, done: Corrected, drift: float
) -> None:
    plan = options.plan
    if done.tension > SURPRISE:
        say(
            OrderWarning,
            f"the first rows pull {done.tension:.0f} standard deviations away from the estimate: "
            "the rows are not in a random order, on which a single read relies, or the responses "
            "are separated; shuffle the rows, or let them be read twice",
        )
    elif drift > SURPRISE and not sample.whole and problem.source.ordered:
        once = "a single read relies on it: let the rows be read twice"
        made_up = once if done.reads == 1 else "correcting reads make up for that"
        say(
            OrderWarning,
            f"the rows are not in a random order: gradients drift {drift:.0f} standard deviations "
            f"more than they would; {made_up}. If neighbouring rows belong together, such as "
            "repeated measurements, intervals for independent rows are too short",
        )
    open_ended = plan.passes in ("auto", "converge") and problem.source.rereadable
    sure = open_ended and problem.prior is None and not problem.one_step
    limit = 10 * plan.tolerance if sure else FAR
    if done.felt > (1 if problem.prior is None else 0.3):
        say(
            AccuracyWarning,
            f"some row's residual moved by {done.felt:.2g} times its noise since it was read: "
            "standard errors may be off; let all rows be read together, and twice",
        )
    if done.remainder > limit:
        say(
            AccuracyWarning,
            f"after {done.reads} reads the estimate may still be {done.remainder:.2g} standard "
            "errors from the optimum of these rows",
        )


def _notes(problem: Problem, options: "Options", local: Quadratic) -> list[str]:
    notes = []
    per = local.count / len(local.point)
    if per < 30 and options.cov_type in ("robust", "HC0") and options.method == "sandwich":
        notes.append(
            f"{local.count:,.0f} rows for {len(local.point)} parameters: HC0 errors are too small; "
            + ("use more rows." if options.penalty is not None else "try cov_type='HC3'.")
        )
    if problem.one_step and per < 5:
        left = local.count - len(local.point)
        notes.append(
            f"{local.count:,.0f} rows for {len(local.point)} parameters: errors rest on "
            f"{left:,.0f} degrees of freedom and are rough."
        )
    if isinstance(problem.model, GaussianMixture | ReluNetwork):
        notes.append(
            "Local: about the optimum that was found, one of several; valid where the landscape is "
            "strongly Morse there (H positive definite)."
        )
    return notes


def kind(model: Model) -> str:
    if isinstance(model, GLM):
        family = model.family
        parameter = "" if family.parameter is None else f"({family.parameter:g})"
        return f"{family.shown}{parameter} regression ({family.link} link)"
    return type(model).__name__

"""What a result says of its penalty, and what it is where there is no interval after it."""

import time
from dataclasses import replace

import numpy as np

from masgrad.data.formula.terms import Terms
from masgrad.data.regression import offset_of
from masgrad.errors import IdentificationWarning, say
from masgrad.fitting.assemble import kind
from masgrad.fitting.diagnose import Diagnostic, Diagnostics
from masgrad.fitting.estimate import Sample
from masgrad.fitting.lens import Lens
from masgrad.fitting.problem import Problem
from masgrad.fitting.proximal import Optimum
from masgrad.fitting.reads import Reads
from masgrad.fitting.result import Result
from masgrad.fitting.selection import PenaltyPath
from masgrad.fitting.watch import Watch
from masgrad.penalties.penalty import Penalty, Scaled

NO_TARGET = "none"


def point_only(
    problem: Problem, terms: Terms | None, sample: Sample, found: Optimum, watch: Watch,
    began: float, theta: np.ndarray,
) -> Result:  # fmt: skip
    """The penalised estimate alone: every error is infinite."""
    local, p = found.local, len(theta)
    say(
        IdentificationWarning,
        f"{problem.notes[-1]} params are penalized_params, and their standard errors inf",
    )
    how = Reads(
        found.reads, watch.rows / (time.perf_counter() - began), 0.0,
        float(np.sqrt(2 * found.fall / p)), np.inf,
    )  # fmt: skip
    words = "the data alone do not determine every coefficient: there are no intervals."
    return Result(
        model=problem.model,
        theta=theta,
        cov=np.zeros((p, p)),
        nobs=local.rows,
        names=problem.source.names,
        cov_type="none",
        how=how,
        frame=problem.frame,
        local=replace(local, meat=np.zeros((p, p)), constants=np.full(2, np.nan)),
        free=np.eye(p),
        loose=np.ones(p, bool),
        terms=terms,
        kind=kind(problem.model),
        target=NO_TARGET,
        notes=tuple(problem.notes),
        diagnostics=Diagnostics((Diagnostic("identification", False, words),)),
        shifted=offset_of(sample.rows) is not None,
    )


def said(penalty: Penalty, lens: Lens, found: Optimum, inferred: bool) -> str:
    """What the penalty left, for the summary."""
    words = f"Penalty {penalty!r}: result.penalized_params have "
    words += f"{penalty.left(lens.theta(found.psi))}."
    if inferred:
        words += " Estimates and intervals are without it."
    if isinstance(lens.penalty, Scaled) and lens.value(found.psi) == 0 and lens.penalty.lam > 0:
        top = lens.penalty.largest(found.local.gradient * lens.unit / found.local.count)
        words += f" lam is at or above lam_max = {top:.4g}, from which on all penalised ones are 0."
    return words


def choice(path: PenaltyPath | None) -> list[str]:
    """How lam was chosen."""
    if path is None:
        return []
    how = {"cv": "5-fold cross-validation"}.get(path.criterion, path.criterion.upper())
    words = f"lam = {path.lam:.4g} was chosen by {how} from {len(path.lams)} (result.path)"
    if path.stopped:
        words += ", when Ctrl-C cut the path short"
    elif path.chosen == len(path.lams) - 1 and len(path.lams) > 1:
        words += ", the smallest that was tried: a better one may lie below"
    return [words + "."]
